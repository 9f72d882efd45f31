//! Checks that a profile is read as it was written, or refused, and that no name in it forges a
//! line of a report.
//!
//! An input is the text of a file, or, if it begins with 0, a script from which a profile is built.

use std::collections::BTreeSet;

use hmtt_files::profile::{
    Block, BlockEnd, IndirectEdge, KIND, Models, Native, Predictor, Profile, Recorded, Selected,
    Superblock, SystemCall, VERSION,
};
use hmtt_translator::report::{Analysis, callgrind};

use crate::script::Bytes;

/// A name with a line end, an escape sequence for terminals, and quotes.
const NAME: &str = "f\nfn=forged\u{1b}[2J\";}\\";

/// Reads a profile and reports it.
pub fn check(bytes: &[u8]) {
    let profile = match bytes {
        [0, script @ ..] => Profile::parse(build(script).to_json().as_bytes()),
        _ => Profile::parse(bytes),
    };
    let Ok(profile) = profile else { return };
    let text = profile.to_json();
    assert_eq!(Profile::parse(text.as_bytes()).ok().as_ref(), Some(&profile));
    report(&profile);
}

/// Takes a count or an address: a small number, or one near the largest.
fn number(bytes: &mut Bytes<'_>) -> Option<u64> {
    let first = bytes.byte()?;
    Some(if first & 0x80 == 0 { first.into() } else { u64::MAX - u64::from(first & 0x7f) })
}

/// Takes a name. Some inputs get the name that would forge a line.
fn name(bytes: &mut Bytes<'_>) -> Option<String> {
    Some(match bytes.byte()? {
        0 => NAME.into(),
        other => char::from(other).to_string(),
    })
}

fn build(script: &[u8]) -> Profile {
    let mut bytes = Bytes::new(script);
    let mut profile = Profile {
        version: VERSION,
        kind: KIND.into(),
        recorded: Recorded::Edges,
        unbalanced_blocks: Some(0),
        ..Profile::default()
    };
    while extend(&mut profile, &mut bytes).is_some() {}
    profile
}

/// Adds a block, an edge, a call or another item.
fn extend(profile: &mut Profile, bytes: &mut Bytes<'_>) -> Option<()> {
    let last = profile.blocks.last().map_or(0, |block| block.number);
    match bytes.byte()? {
        0 => {
            let edge = IndirectEdge {
                from: bytes.byte()?.into(),
                to: bytes.byte()?.into(),
                times: number(bytes)?,
            };
            profile.edges.push(edge);
        }
        1 => profile.system_calls.push(SystemCall {
            name: name(bytes)?,
            calls: number(bytes)?,
            timed_calls: number(bytes)?,
            total_ns: number(bytes)?,
            ..SystemCall::default()
        }),
        2 => profile.native.push(Native {
            code_address: number(bytes)?,
            reason: name(bytes)?,
            times: number(bytes)?,
            processor_ns: number(bytes)?,
        }),
        3 => profile.unbalanced_blocks = None,
        4 => {
            let predictor =
                Predictor { name: name(bytes)?, branches: number(bytes)?, ..Predictor::default() };
            profile.models.get_or_insert_with(Models::default).predictors.push(predictor);
        }
        5 => profile.superblocks.push(Superblock {
            blocks: bytes.some().iter().map(|number| u32::from(*number)).collect(),
            entries: number(bytes)?,
            completions: number(bytes)?,
            executed_blocks: number(bytes)?,
            cache_ns: number(bytes)?,
            undone: false,
        }),
        6 => {
            let include = vec![name(bytes)?];
            let omitted_instructions = number(bytes)?;
            profile.selection =
                Some(Selected { include, omitted_instructions, ..Selected::default() });
        }
        flags => {
            let code = bytes.some().to_vec();
            profile.blocks.push(Block {
                number: last.saturating_add(1 + u32::from(flags & 0x80 != 0)),
                object: name(bytes)?,
                function: if flags & 0x20 == 0 { Some(name(bytes)?) } else { None },
                offset: if flags & 0x40 == 0 { Some(number(bytes)?) } else { None },
                code_address: number(bytes)?,
                file_address: if flags & 0x10 == 0 { Some(number(bytes)?) } else { None },
                size_bytes: code.len() as u64,
                instructions: number(bytes)?,
                entries: number(bytes)?,
                unexecuted: number(bytes)?,
                end: BlockEnd::ALL[usize::from(flags & 7)],
                target_address: if flags & 8 == 0 { Some(number(bytes)?) } else { None },
                stops: number(bytes)?,
                taken: number(bytes)?,
                from_omitted: number(bytes)?,
                to_omitted: number(bytes)?,
                mispredictions: vec![number(bytes)?],
                code,
                ..Block::default()
            });
        }
    }
    Some(())
}

/// Checks that a text has no control characters besides line ends. Returns its lines.
fn lines(text: &str) -> Vec<&str> {
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()), "{text:?}");
    text.lines().collect()
}

fn report(profile: &Profile) {
    let analysis = Analysis::new(profile);
    let functions: BTreeSet<&str> =
        profile.blocks.iter().filter_map(|block| block.function.as_deref()).collect();
    let executed = profile.blocks.iter().map(|block| (&*block.object, block.function.as_deref()));
    let executed: BTreeSet<(&str, &str)> =
        executed.map(|(object, function)| (object, function.unwrap_or("???"))).collect();
    let mut text = Vec::new();
    callgrind::write(&analysis, &mut text).expect("memory takes all");
    let text = String::from_utf8(text).expect("it is text");
    let begun = lines(&text).into_iter().filter(|line| line.starts_with("fn=")).count();
    assert_eq!(begun, executed.len(), "{text:?}");
    let blocks: u64 = analysis.functions().iter().map(|one| one.blocks).sum();
    assert_eq!(blocks, profile.blocks.len() as u64);
    for function in functions {
        lines(&analysis.dot(function).expect("it was executed"));
        if let Some(text) = analysis.annotation(function) {
            lines(&text);
        }
    }
    for site in analysis.indirect_sites() {
        let most = site.targets.iter().map(|(_, times)| *times).max();
        assert!(most.unwrap_or(site.omitted) <= site.times());
    }
    assert_eq!(analysis.hottest_blocks().len(), profile.blocks.len());
    assert_eq!(analysis.superblocks().len(), profile.superblocks.len());
}
