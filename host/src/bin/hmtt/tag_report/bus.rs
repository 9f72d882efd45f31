//! A capture of a trace with tags on the bus to what `hmtt tag report` says.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt_format::tag_log::Header;
use hmtt_host::report::calls::Calls;
use hmtt_host::tags::accesses::bus::Bus;
use hmtt_host::tags::call_counts::CallCounts;
use hmtt_host::tags::call_tree::CallTree;
use hmtt_host::tags::names::Names;
use hmtt_probe::tag_map::{Exits, TagMap};

use super::super::capture_file::CaptureFile;
use super::{Arguments, Files, print, warn, write};

/// First bytes of a pcapng file, whatever its byte order.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Whether a file is a capture.
pub fn is_capture(path: &Path) -> Result<bool> {
    let mut first = Vec::new();
    let file = File::open(path).with_context(|| format!("{}: cannot open", path.display()))?;
    let read = file.take(PCAPNG.len() as u64).read_to_end(&mut first);
    read.with_context(|| format!("{}: cannot read", path.display()))?;
    Ok(first == PCAPNG)
}

/// Whether the trace lacks something.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let path = &arguments.log;
    let name = path.display().to_string();
    if arguments.perfetto.is_some() {
        bail!("{name}: a timeline is made of a log only");
    }
    let map = arguments
        .map
        .as_ref()
        .with_context(|| format!("{name} is a capture: --map names its functions"))?;
    let map = TagMap::load(map)?;
    let program = Some(map.program.display().to_string());
    let (pid, window) = (map.pid, map.window.clone());
    warn_of_exits(&name, &map);
    let names = Names::new(map);
    let files = Files::create(arguments)?;
    let tree = (files.flame.is_some() || files.folded.is_some()).then(CallTree::default);
    let listeners = (CallCounts::default(), (tree, None));
    let mut bus = Bus::new(window, names.blocks.keys().copied(), listeners);
    let mut others = 0;
    let ending = CaptureFile::open(path)?.read(
        |_| true,
        |found| {
            if found.card != 0 {
                others = others.max(found.card);
                return;
            }
            bus.accesses(&found.accesses);
            found.item.iter().for_each(|item| bus.item(item));
        },
    )?;
    if others != 0 {
        eprintln!("hmtt: warning: {name}: only the first of {} cards is looked at", others + 1);
    }
    let other_tags = bus.finish();
    let tck_ps = bus.steps.found.tck_ps;
    let tsc_hz = tck_ps.map_or(0, |tck_ps| 1_000_000_000_000 / u64::from(tck_ps.max(1)));
    let header = Header { is_timed: true, pid, tsc_hz, ..Header::default() };
    let Bus { threads, steps, .. } = bus;
    let (threads, split) = threads.take_second();
    let counts = &threads.listener.0;
    let mut calls = Calls::new(&header, program, &threads, counts, &names, None);
    calls.add_trace(&split.ledger, steps.found, other_tags, None);
    warn(&name, &calls, 0);
    print(arguments, &calls)?;
    write(arguments, files, &calls, &names, threads)?;
    Ok(calls.has_loss() || ending.has_loss())
}

fn warn_of_exits(name: &str, map: &TagMap) {
    let unseen = map.functions.iter().filter(|function| function.exits != Exits::All).count();
    if unseen != 0 {
        eprintln!(
            "hmtt: warning: {name}: functions with exits that are not tagged, which look open until their \
             callers leave: {unseen}"
        );
    }
}
