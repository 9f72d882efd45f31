//! The result of `hmtt monitor run`: executed blocks with their counts, as JSON (docs/monitor.md).

use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt_probe::control::Ending;
use hmtt_translator::profile;
use serde_json::{Value, json};

use super::names::Names;

/// Version of the format.
const VERSION: u64 = 1;
/// Value of `kind`.
const KIND: &str = "hmtt-monitor";

/// An executed block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// File that contains it, or the kernel's name of the memory.
    pub object: String,
    /// Name of its function, and its offset in it.
    pub function: Option<(String, u64)>,
    /// Address in the process.
    pub code_address: u64,
    /// Address in the file.
    pub file_address: Option<u64>,
    pub size_bytes: u64,
    pub instructions: u64,
    /// How often it was executed.
    pub entries: u64,
    /// Instructions of these executions that a signal prevented.
    pub unexecuted: u64,
}

impl Block {
    /// Instructions that were executed in it.
    pub fn executed(&self) -> u64 {
        self.instructions.saturating_mul(self.entries).saturating_sub(self.unexecuted)
    }
}

/// Code that ran natively: its address, why, and how often threads came there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    pub code_address: u64,
    pub reason: String,
    pub times: u64,
}

/// What a program has executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub blocks: Vec<Block>,
    pub native: Vec<Native>,
    pub ending: Value,
    /// Why the program was not followed to its end.
    pub left: Option<String>,
    /// Counts by name.
    pub counts: Vec<(String, u64)>,
}

/// Counts of a profile that are not 0 if something is missing, with their meaning.
const LOSSES: [(&str, &str); 3] = [
    ("dropped_numbers", "block numbers were dropped, because rings were full"),
    ("invalid_numbers", "block numbers were overwritten by the program"),
    ("cut_threads", "threads ended, and the last part of their rings is missing"),
];

impl Profile {
    /// The profile of a program that is no longer followed.
    pub fn new(of: profile::Profile, ending: Ending, left: Option<&str>) -> Self {
        let mut names = Names::default();
        let block = |one: &profile::BlockCount| {
            let place = one.mapping.as_ref().map(|mapping| names.find(mapping, one.start));
            let place = place.unwrap_or_default();
            let path = one.mapping.as_ref().map(|mapping| mapping.original_path());
            Block {
                object: path.map(|path| path.display().to_string()).unwrap_or_default(),
                function: place.function,
                code_address: one.start.0,
                file_address: place.address,
                size_bytes: one.bytes,
                instructions: one.instructions,
                entries: one.executions,
                unexecuted: one.unexecuted,
            }
        };
        let native = |one: &profile::NativeCode| Native {
            code_address: one.at.0,
            reason: one.why.clone(),
            times: one.times,
        };
        let counts = [
            ("monitored_threads", of.threads),
            ("native_threads", of.native_threads),
            ("native_children", of.children),
            ("handled_signals", of.signals),
            ("dropped_numbers", of.dropped),
            ("invalid_numbers", of.invalid),
            ("cut_threads", of.cut_threads),
        ];
        Profile {
            blocks: of.blocks.iter().map(block).collect(),
            native: of.native.iter().map(native).collect(),
            ending: match ending {
                Ending::Exited(code) => json!({ "exited": code }),
                Ending::Signaled(signal) => json!({ "signaled": signal.0 }),
                Ending::Replaced => json!("replaced"),
                Ending::Detached => json!("detached"),
            },
            left: left.map(str::to_owned),
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
        }
    }

    /// A count by its name.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(one, _)| one == name).map_or(0, |(_, count)| *count)
    }

    /// What is missing, as messages.
    pub fn losses(&self) -> Vec<String> {
        let lost = LOSSES.iter().map(|(name, what)| (self.count(name), what));
        lost.filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }

    /// The file's content.
    pub fn to_json(&self) -> String {
        let block = |one: &Block| {
            let mut block = json!({
                "object": one.object,
                "code_address": hexadecimal(one.code_address),
                "size_bytes": one.size_bytes,
                "instructions": one.instructions,
                "entries": one.entries,
            });
            if let Some((name, offset)) = &one.function {
                block["function"] = json!(name);
                block["offset"] = json!(offset);
            }
            if let Some(address) = one.file_address {
                block["file_address"] = json!(hexadecimal(address));
            }
            if one.unexecuted > 0 {
                block["unexecuted"] = json!(one.unexecuted);
            }
            block
        };
        let native = |one: &Native| json!({ "code_address": hexadecimal(one.code_address), "reason": one.reason, "times": one.times });
        let mut all = json!({
            "version": VERSION,
            "kind": KIND,
            "ending": self.ending,
            "native": self.native.iter().map(native).collect::<Vec<_>>(),
            "blocks": self.blocks.iter().map(block).collect::<Vec<_>>(),
        });
        if let Some(left) = &self.left {
            all["left"] = json!(left);
        }
        for (name, count) in &self.counts {
            all[name] = json!(count);
        }
        format!("{all}\n")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not such a file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = crate::tag::warnings::shown(path);
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let value: Value =
            serde_json::from_slice(&text).with_context(|| format!("{shown} is not JSON"))?;
        Profile::parse(&value).with_context(|| format!("{shown} is not a file of hmtt monitor run"))
    }

    fn parse(value: &Value) -> Result<Self> {
        if value["kind"] != KIND {
            bail!("its kind is not {KIND}");
        }
        if value["version"] != VERSION {
            bail!("its version is {}, and this hmtt reads version {VERSION}", value["version"]);
        }
        let list =
            |name: &str| value[name].as_array().with_context(|| format!("it has no list {name}"));
        let blocks = list("blocks")?.iter().map(parse_block).collect::<Result<_>>()?;
        let native = list("native")?.iter().map(parse_native).collect::<Result<_>>()?;
        let names = ["monitored_threads", "native_threads", "native_children", "handled_signals"];
        let names = names.into_iter().chain(LOSSES.map(|(name, _)| name));
        let counts = names.map(|name| Ok((name.to_owned(), number(value, name)?)));
        Ok(Profile {
            blocks,
            native,
            ending: value["ending"].clone(),
            left: value["left"].as_str().map(str::to_owned),
            counts: counts.collect::<Result<_>>()?,
        })
    }
}

fn hexadecimal(address: u64) -> String {
    format!("{address:#x}")
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value[name].as_u64().with_context(|| format!("it has no number {name}"))
}

fn address(value: &Value, name: &str) -> Result<u64> {
    let text = value[name].as_str().and_then(|text| text.strip_prefix("0x"));
    let address = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    address.with_context(|| format!("it has no address {name}"))
}

fn text(value: &Value, name: &str) -> Result<String> {
    Ok(value[name].as_str().with_context(|| format!("it has no text {name}"))?.to_owned())
}

fn parse_block(value: &Value) -> Result<Block> {
    let has = |name: &str| value.get(name).is_some();
    let function =
        has("function").then(|| anyhow::Ok((text(value, "function")?, number(value, "offset")?)));
    Ok(Block {
        object: text(value, "object")?,
        function: function.transpose()?,
        code_address: address(value, "code_address")?,
        file_address: has("file_address").then(|| address(value, "file_address")).transpose()?,
        size_bytes: number(value, "size_bytes")?,
        instructions: number(value, "instructions")?,
        entries: number(value, "entries")?,
        unexecuted: has("unexecuted")
            .then(|| number(value, "unexecuted"))
            .transpose()?
            .unwrap_or(0),
    })
}

fn parse_native(value: &Value) -> Result<Native> {
    Ok(Native {
        code_address: address(value, "code_address")?,
        reason: text(value, "reason")?,
        times: number(value, "times")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let block = Block {
            object: "/bin/p".into(),
            function: Some(("f".into(), 4)),
            code_address: 0x1004,
            file_address: Some(4),
            size_bytes: 7,
            instructions: 3,
            entries: 5,
            unexecuted: 2,
        };
        assert_eq!(block.executed(), 13);
        let other = Block { object: "[vdso]".into(), ..Block::default() };
        let names = ["monitored_threads", "native_threads", "native_children", "handled_signals"];
        let names = names.into_iter().chain(LOSSES.map(|(name, _)| name));
        let written = Profile {
            blocks: vec![block, other],
            native: vec![Native { code_address: 9, reason: "it uses gs".into(), times: 1 }],
            ending: json!({ "exited": 3 }),
            left: Some("it uses gs".into()),
            counts: names
                .enumerate()
                .map(|(count, name)| (name.to_owned(), count as u64))
                .collect(),
        };
        let value: Value = serde_json::from_str(&written.to_json()).unwrap();
        assert_eq!(Profile::parse(&value).unwrap(), written);
        assert_eq!(written.losses().len(), 3);
    }

    #[test]
    fn other_files_are_refused() {
        for (value, why) in [
            (json!([]), "its kind"),
            (json!({ "kind": KIND, "version": 2 }), "its version is 2"),
            (json!({ "kind": KIND, "version": VERSION }), "no list blocks"),
            (
                json!({ "kind": KIND, "version": VERSION, "blocks": [1], "native": [] }),
                "no text object",
            ),
        ] {
            let refused = format!("{:#}", Profile::parse(&value).unwrap_err());
            assert!(refused.contains(why), "{refused}");
        }
    }
}
