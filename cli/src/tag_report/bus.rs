//! Makes the report of `hmtt tag report` from a capture that contains tags, without a log.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Result, bail};
use hmtt::CardId;
use hmtt::report::calls::Calls;
use hmtt::tags::accesses::bus::Bus;
use hmtt::tags::accesses::regions::Regions;
use hmtt::tags::accesses::unseen::{UnseenFunctions, numbers};
use hmtt::tags::call_counts::CallCounts;
use hmtt::tags::call_tree::CallTree;
use hmtt::tags::names::Names;
use hmtt_files::tag_log::Header;
use hmtt_files::tag_map::{Exits, TagMap, TaggedFunction};

use super::super::capture_file::CaptureFile;
use super::{Arguments, Files, Listeners, print, warn, write};

/// First bytes of a pcapng file, which are the same in both byte orders.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Whether a regular file is a capture. Pipes are not checked, because they can be read only once.
pub fn is_capture(path: &Path) -> bool {
    let mut first = [0; PCAPNG.len()];
    let is_file = path.metadata().is_ok_and(|about| about.is_file());
    let mut read = || File::open(path)?.read_exact(&mut first);
    is_file && read().is_ok() && first == PCAPNG
}

/// Prints the report. Returns whether the trace has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let path = &arguments.log;
    let name = path.display().to_string();
    if arguments.trace.is_some() {
        bail!("{name}: is a capture; --trace requires a log");
    }
    if arguments.perfetto.is_some() {
        bail!("{name}: a timeline requires a log");
    }
    let Some(map) = &arguments.map else {
        bail!("{name}: is a capture; --map must name the file with its functions");
    };
    let map = TagMap::load(map)?;
    let program = Some(map.program.display().to_string());
    let (pid, window) = (map.pid, map.window.clone());
    warn_of_exits(&name, &map);
    let numbers = numbers(&map);
    let names = Names::new(map);
    let files = Files::create(arguments)?;
    let tree = (files.flame.is_some() || files.folded.is_some()).then(CallTree::default);
    let listeners = (CallCounts::default(), (tree, None));
    let mut bus = Bus::new(window.clone(), Regions::new(&names), listeners);
    let has_loss = read(path, &mut bus)?;
    let other_tags = bus.finish();
    let Bus { threads, steps, .. } = bus;
    let unseen = UnseenFunctions::find(&numbers, window.as_ref(), &steps);
    if let Some(unseen) = &unseen {
        report!("hmtt: warning: {name}: {unseen}");
    }
    let tck_ps = steps.found.tck_ps;
    let tsc_hz = tck_ps.map_or(0, |tck_ps| 1_000_000_000_000 / u64::from(tck_ps.max(1)));
    let header = Header { is_timed: true, pid, tsc_hz, ..Header::default() };
    let (threads, split) = threads.take_second();
    let mut calls = Calls::new(&header, program, &threads, &threads.listener.0, &names, None);
    calls.add_trace(&split.ledger, steps.found, other_tags, None);
    warn(&name, &calls, 0);
    print(arguments, &calls)?;
    write(arguments, files, &calls, &names, threads)?;
    Ok(calls.has_loss() || has_loss || unseen.is_some())
}

/// Reads the capture. Returns whether it has losses.
fn read(path: &Path, bus: &mut Bus<Listeners>) -> Result<bool> {
    let mut others = 0;
    let ending = CaptureFile::open(path)?.read(
        |_| true,
        |batch| {
            if batch.card != CardId(0) {
                others = others.max(batch.card.0);
                return;
            }
            bus.accesses(&batch.accesses);
            batch.item.iter().for_each(|item| bus.item(item));
        },
    )?;
    if others != 0 {
        let (path, cards) = (path.display(), others + 1);
        report!("hmtt: warning: {path}: only the first of {cards} cards is used");
    }
    Ok(ending.has_loss())
}

fn warn_of_exits(name: &str, map: &TagMap) {
    let is_unseen = |function: &&TaggedFunction| {
        function.tagged_exits != Exits::All || function.removed.is_some()
    };
    let unseen = map.functions.iter().filter(is_unseen).count();
    if unseen != 0 {
        report!(
            "hmtt: warning: {name}: functions with exits that are not tagged, which look open until their \
             callers leave: {unseen}"
        );
    }
}
