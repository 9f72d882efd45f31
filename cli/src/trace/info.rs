//! Describes traces of programs, for `hmtt info`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use hmtt::access_trace::{Ending, Summary, Sums};
use hmtt_files::access_trace::{Accuracy, Continuation, Function, RecordedRegion};
use serde_json::{Value, json};

use super::file::{CHOSEN, read_to_end, shown, what_is_missing};
use crate::standard_io::print;

/// Maximum number of functions that are listed.
const LISTED: usize = 10;
/// Width of the names in front of values.
const NAME_WIDTH: usize = 22;

/// Content and sums of a trace.
struct Info {
    summary: Summary,
    ending: Ending,
    file_bytes: u64,
}

/// Prints a description of a trace. Returns whether accesses are missing in it.
pub fn run(file: File, path: &Path, as_json: bool) -> Result<bool> {
    let file_bytes = file.metadata().map_or(0, |file| file.len());
    let mut summary = Summary::default();
    let ending = read_to_end(file, path, None, &mut summary)?;
    let info = Info { summary, ending, file_bytes };
    print(|output| {
        if as_json {
            hmtt_format::json::to_writer(&mut *output, &info.json())?;
            writeln!(output)
        } else {
            info.text(output)
        }
    })?;
    Ok(info.ending.has_loss())
}

fn sums(Sums { blocks, reads, writes, bytes }: Sums) -> Value {
    let accesses = reads.saturating_add(writes);
    json!({
        "executed_blocks": blocks,
        "accesses": accesses,
        "reads": reads,
        "writes": writes,
        "access_bytes": bytes,
    })
}

/// Adds the members of `more` to the object `object`.
pub fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

/// A recorded region as an object: its requested and its recorded instructions.
fn region(region: RecordedRegion) -> Value {
    let RecordedRegion { thread, skip, count, skipped, recorded, next: _ } = region;
    json!({
        "thread": thread,
        "skip": skip,
        "count": count,
        "skipped_instructions": skipped,
        "recorded_instructions": recorded,
    })
}

/// Counts of what the recorded accesses represent, as members of an object.
pub fn chosen(accuracy: Accuracy) -> Value {
    let count = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
    json!({
        "all_accesses": count(accuracy.accesses),
        "recorded_accesses": count(accuracy.traced),
        "represented_accesses": count(accuracy.equal),
        "near_accesses": count(accuracy.near),
        "minimal_accuracy": accuracy.minimal(),
        "alignment_independent_accuracy": accuracy.alignment_independent(),
        "payoff": accuracy.payoff(),
    })
}

/// A share in percent.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.1} %", 100.0 * share))
}

fn function(function: Option<&Function>, counts: Sums, accuracy: Accuracy) -> Value {
    let known = |name: fn(&Function) -> &String| {
        function.map(name).filter(|name| !name.is_empty()).cloned()
    };
    let names = json!({ "function": known(|one| &one.name), "object": known(|one| &one.path) });
    with(with(names, sums(counts)), json!({ "chosen": chosen(accuracy) }))
}

impl Info {
    /// Bytes of the file divided by accesses; `None` if there are no accesses.
    fn bytes_per_access(&self) -> Option<f64> {
        let accesses = self.ending.accesses;
        (accesses > 0).then(|| self.file_bytes as f64 / accesses as f64)
    }

    fn json(&self) -> Value {
        let Info { summary, ending, file_bytes } = self;
        let threads = summary.threads().iter();
        let threads = threads.map(|(thread, of)| with(json!({ "thread": thread }), sums(*of)));
        let functions = summary
            .hottest(LISTED)
            .into_iter()
            .map(|(one, of, accuracy)| function(one, of, accuracy));
        let [blocks, executions] = summary.accuracy().map(chosen);
        let hexadecimal = |address: u64| format!("{address:#x}");
        let (lowest, highest) = summary.span().unzip();
        let more = json!({
            "unknown_addresses": summary.unknown(),
            "pages": summary.pages(),
            "lines": summary.lines(),
            "more_pages": summary.has_more_pages(),
            "lowest_address": lowest.map(hexadecimal),
            "highest_address": highest.map(hexadecimal),
            "chosen_in_blocks": blocks,
            "chosen": executions,
            "file_bytes": file_bytes,
            "bytes_per_access": self.bytes_per_access(),
            "threads": threads.collect::<Vec<_>>(),
            "functions": functions.collect::<Vec<_>>(),
            "dropped_words": ending.dropped,
            "cut_threads": ending.cut_threads,
            "native_ns": ending.native_ns,
            "native_code": ending.unrecorded.native_code,
            "native_threads": ending.unrecorded.native_threads,
            "native_children": ending.unrecorded.children,
            "continuation": match ending.unrecorded.continuation {
                Continuation::None => "none",
                Continuation::Natively => "natively",
                Continuation::Replaced => "replaced",
            },
            "invalid_chunks": ending.invalid_chunks,
            "cut": ending.is_cut,
            "only_some": ending.is_chosen,
            "region": ending.region.map(region),
        });
        with(sums(summary.sums()), more)
    }

    fn text(&self, output: &mut dyn Write) -> io::Result<()> {
        let Info { summary, ending, file_bytes } = self;
        let sums = summary.sums();
        let at_least = if summary.has_more_pages() { "at least " } else { "" };
        let mut line = |name: &str, value: String| writeln!(output, "{name:<NAME_WIDTH$}  {value}");
        line("threads", summary.threads().len().to_string())?;
        line("executed blocks", sums.blocks.to_string())?;
        line("accesses", sums.accesses().to_string())?;
        line("reads", sums.reads.to_string())?;
        line("writes", sums.writes.to_string())?;
        line("bytes accessed", sums.bytes.to_string())?;
        line("addresses not known", summary.unknown().to_string())?;
        line("pages of 4 KiB", format!("{at_least}{}", summary.pages()))?;
        line("lines of 64 bytes", format!("{at_least}{}", summary.lines()))?;
        if let Some((lowest, highest)) = summary.span() {
            line("span of addresses", format!("{lowest:#x} to {highest:#x}"))?;
        }
        line("bytes of the file", file_bytes.to_string())?;
        if let Some(bytes) = self.bytes_per_access() {
            line("bytes an access", format!("{bytes:.3}"))?;
        }
        let [blocks, executions] = summary.accuracy();
        if blocks.traced < blocks.accesses {
            for (name, counts) in
                [("chosen in blocks", blocks), ("chosen when executed", executions)]
            {
                let value = format!(
                    "{} of {}, minimal accuracy {}, alignment-independent {}, payoff {:.2}",
                    counts.traced,
                    counts.accesses,
                    percent(counts.minimal()),
                    percent(counts.alignment_independent()),
                    counts.payoff().unwrap_or(0.0),
                );
                line(name, value)?;
            }
        }
        if ending.is_chosen {
            line("note", CHOSEN.into())?;
        }
        if let Some(region) = ending.region {
            line("note", region.request_text())?;
            line("instructions skipped", region.skipped.to_string())?;
            line("instructions recorded", region.recorded.to_string())?;
        }
        if ending.native_ns > 0 {
            let seconds = ending.native_ns as f64 / 1e9;
            line("note", format!("the program ran natively for {seconds:.3} s, as was asked for"))?;
        }
        for (thread, counts) in summary.threads() {
            line(&format!("thread {thread}"), format!("{} accesses", counts.accesses()))?;
        }
        for (function, counts, _) in summary.hottest(LISTED) {
            let name = shown(function).unwrap_or_else(|| "?".into());
            let part = 100.0 * counts.accesses() as f64 / sums.accesses() as f64;
            line(
                "function",
                format!("{:>5.1} % {:>12} accesses  {name}", part, counts.accesses()),
            )?;
        }
        what_is_missing(ending).iter().try_for_each(|what| line("missing", what.clone()))
    }
}
