//! Checks that any map is read or refused, and that it resolves frames as a plain table of the
//! changes does.
//!
//! A fuzzer does not find valid checksums, so an input that begins with 0 is a script of chunks. An
//! input that begins with 1 has records of page tables. Any other input is the content of a file.

use std::collections::{BTreeMap, BTreeSet};

use hmtt::analysis::Batch;
use hmtt::analysis::source::Part;
use hmtt::page_map::table_records::{from_map, to_map};
use hmtt::page_map::{Attributor, Owner, Owners, PageMap};
use hmtt_files::page_map::{
    Ending, Entry, Machine, Mapping, Place, Process, Scan, Snapshot, Writer,
};
use hmtt_files::page_table_record::Layout;

use crate::script::Bytes;

/// Number of frames in the maps of scripts. All these frames are resolved.
const PAGES: u64 = 64;

/// Reads a map and resolves its frames.
pub fn check(bytes: &[u8]) {
    match bytes {
        [0, script @ ..] => {
            let (map, plain) = build(script);
            if let Ok(map) = PageMap::read(&map[..]) {
                compare(&map, &plain);
            }
        }
        [1, records @ ..] => {
            for layout in [Layout::Program, Layout::Text] {
                let mut map = Vec::new();
                let counts = to_map(records, layout, &mut map).expect("memory takes all");
                assert!(counts.records <= records.len() as u64 / 13);
                let Ok(map) = PageMap::read(&map[..]) else { continue };
                assert!(map.missing.is_empty(), "{:?}", map.missing);
                let written = from_map(&map, layout, &mut Vec::new());
                let written = written.expect("memory takes all, of records that were few");
                assert_eq!(written.left_out, 0);
            }
        }
        file => {
            if let Ok(map) = PageMap::read(file) {
                Owners::new(&map).find(&map, 1);
            }
        }
    }
}

/// Pages of processes. Key: process and page; value: frame.
type Pages = BTreeMap<(u32, u64), u64>;

/// Builds the map that a script describes, and the pages of each snapshot.
fn build(script: &[u8]) -> (Vec<u8>, Vec<Pages>) {
    let machine = Machine { page_log2: 12, ..Machine::default() };
    let mut writer = Writer::new(Vec::new(), &machine).expect("memory takes all");
    let mut state = State::default();
    let mut bytes = Bytes::new(script);
    while state.extend(&mut writer, &mut bytes).is_some() {}
    (writer.finish(Ending::Requested).expect("memory takes all"), state.snapshots)
}

/// The state that the chunks so far describe.
#[derive(Default)]
struct State {
    /// The process of each mapping.
    mappings: Vec<u32>,
    processes: u32,
    now: Pages,
    /// Processes that were changed since the last snapshot. As in recorded maps, a process is
    /// changed at most once in a snapshot.
    changed: BTreeSet<u32>,
    snapshots: Vec<Pages>,
}

impl State {
    fn snapshot(&mut self, writer: &mut Writer<Vec<u8>>) {
        writer.snapshot(Snapshot::default()).expect("memory takes all");
        self.snapshots.push(self.now.clone());
        self.changed.clear();
    }

    /// Ends the snapshot if the process was already changed in it.
    fn change(&mut self, process: u32, writer: &mut Writer<Vec<u8>>) {
        if self.changed.contains(&process) {
            self.snapshot(writer);
        }
        self.changed.insert(process);
    }

    /// Adds the next chunk of the script. A chunk that cannot follow the earlier ones is left out.
    fn extend(&mut self, writer: &mut Writer<Vec<u8>>, bytes: &mut Bytes<'_>) -> Option<()> {
        const WRITTEN: &str = "memory takes all";
        match bytes.byte()? % 5 {
            0 => {
                self.processes = writer
                    .process(&Process { pid: bytes.byte()?.into(), ..Process::default() })
                    .expect(WRITTEN);
                writer.mappings(self.processes, &[Mapping::default()]).expect(WRITTEN);
                self.mappings.push(self.processes);
            }
            1 if self.processes > 0 => {
                let process = u32::from(bytes.byte()?) % self.processes + 1;
                writer
                    .mappings(process, &[Mapping { name: "m".into(), ..Mapping::default() }])
                    .expect(WRITTEN);
                self.mappings.push(process);
            }
            2 if self.processes > 0 => {
                let (page, count) = (u64::from(bytes.byte()?), u64::from(bytes.byte()?) % 16 + 1);
                let choice = usize::from(bytes.byte()?) % (self.mappings.len() + 1);
                let process = choice.checked_sub(1).map_or(1, |at| self.mappings[at]);
                let frame = u64::from(bytes.byte()?) % (PAGES - 16);
                let place =
                    (choice > 0).then_some(Place { frame, mapping: choice as u32, is_file: false });
                self.change(process, writer);
                writer.pages(process, &[Entry { page, count, place }]).expect(WRITTEN);
                writer.scan(Scan { process, ..Scan::default() }).expect(WRITTEN);
                for at in 0..count {
                    self.now.remove(&(process, page + at));
                    if place.is_some() {
                        self.now.insert((process, page + at), frame + at);
                    }
                }
            }
            3 => self.snapshot(writer),
            4 if self.processes > 0 => {
                let process = u32::from(bytes.byte()?) % self.processes + 1;
                self.change(process, writer);
                writer.gone(process, 0).expect(WRITTEN);
                self.now.retain(|(of, _), _| *of != process);
            }
            _ => {}
        }
        Some(())
    }
}

/// Compares the owners of all frames with the owners in the plain tables.
fn compare(map: &PageMap, snapshots: &[Pages]) {
    let owners = Owners::new(map);
    assert_eq!(map.snapshots.len(), snapshots.len());
    for frame in 0..PAGES {
        let frame_keys = |pages: &Pages| {
            let owners = pages.iter().filter(|(_, one)| **one == frame).map(|(key, _)| *key);
            owners.collect::<BTreeSet<_>>()
        };
        let key_sets: Vec<_> = snapshots.iter().map(frame_keys).collect();
        let is_stable = key_sets.iter().all(|one| *one == key_sets[0]);
        match owners.find(map, frame) {
            Owner::Unresolved => assert!(is_stable && key_sets[0].is_empty()),
            Owner::Resolved { held, page } => {
                assert!(is_stable);
                assert_eq!(key_sets[0], BTreeSet::from([(map.held[held].process, page)]));
            }
            Owner::Shared { count, .. } => assert!(is_stable && key_sets[0].len() as u64 == count),
            Owner::Ambiguous => assert!(!is_stable),
        }
    }
    let page_log2 = u32::from(map.machine.page_log2).clamp(1, 63);
    let addresses: Vec<u64> = (0..PAGES).map(|frame| frame << page_log2).collect();
    let directions = vec![false; addresses.len()];
    let mut attributor = Attributor::new(map);
    attributor.part(map, &owners, 0, &Part::Batch(Batch::new(&addresses, &directions)));
    let sums = attributor.finish(map, &owners);
    let counts = [
        sums.resolved_accesses,
        sums.shared_accesses,
        sums.ambiguous_accesses,
        sums.unresolved_accesses,
    ];
    assert_eq!(counts.iter().sum::<u64>(), PAGES);
}
