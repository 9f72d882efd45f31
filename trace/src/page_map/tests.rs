//! Compares resolution with plain tables of single pages, on random maps and cut ones.

use std::collections::{BTreeMap, BTreeSet};

use hmtt_format::page_map::{
    Ending, Entry, Machine, Mapping, Place, Process, Run, Scan, Snapshot, Writer, changes,
};
use proptest::prelude::*;

use super::*;

/// The state of each process in each snapshot.
type States = Vec<Vec<Vec<Run>>>;

fn machine() -> Machine {
    Machine { page_log2: 12, ..Machine::default() }
}

/// Writes a map of two processes, of which each has two mappings.
fn written(states: &States) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &machine()).unwrap();
    let mut before = vec![Vec::new(); 2];
    for pid in [7, 8] {
        let process = writer.process(&Process { pid, ..Process::default() }).unwrap();
        let mapping = Mapping { end: 1 << 40, ..Mapping::default() };
        let heap = Mapping { name: "[heap]".into(), ..mapping.clone() };
        writer.mappings(process, &[mapping, heap]).unwrap();
    }
    for (state, at) in states.iter().zip(1..) {
        for (process, (runs, before)) in (1..).zip(state.iter().zip(&mut before)) {
            writer.pages(process, &changes(before, runs)).unwrap();
            let (begin_ns, end_ns) = (at * 100, at * 100 + 10);
            writer.scan(Scan { process, begin_ns, end_ns, ..Scan::default() }).unwrap();
            before.clone_from(runs);
        }
        writer.snapshot(Snapshot { processes: 2, ..Snapshot::default() }).unwrap();
    }
    writer.finish(Ending::Requested).unwrap()
}

fn states() -> impl Strategy<Value = States> {
    let runs = |process: u32| {
        let run = (0..3u64, 1..5u64, 0..12u64, 1..3u32);
        prop::collection::vec(run, 0..6).prop_map(move |parts| {
            let mut next = 0;
            let at = |(distance, count, frame, mapping): (u64, u64, u64, u32)| {
                let page = next + distance;
                next = page + count;
                let mapping = mapping + 2 * (process - 1);
                Run { page, count, place: Place { frame, mapping, is_file: false } }
            };
            parts.into_iter().map(at).collect::<Vec<_>>()
        })
    };
    prop::collection::vec((runs(1), runs(2)).prop_map(|(one, two)| vec![one, two]), 1..5)
}

/// Process and page of each owner of a frame in a snapshot.
fn plain(state: &[Vec<Run>], frame: u64) -> BTreeSet<(u32, u64)> {
    let mut owners = BTreeSet::new();
    for (process, runs) in (1..).zip(state) {
        for run in runs {
            for at in 0..run.count {
                if run.place.frame + at == frame {
                    owners.insert((process, run.page + at));
                }
            }
        }
    }
    owners
}

proptest! {
    #[test]
    fn frames_are_resolved_as_in_a_plain_table(states in states()) {
        let map = PageMap::read(&written(&states)[..]).unwrap();
        let owners = Owners::new(&map);
        prop_assert!(map.missing.is_empty() && map.ending == Some(Ending::Requested));
        for frame in 0..20 {
            let all: Vec<_> = states.iter().map(|state| plain(state, frame)).collect();
            let is_stable = all.iter().all(|one| *one == all[0]);
            let of = |(held, page): (usize, u64)| (map.held[held].process, page);
            let found = owners.find(&map, frame);
            match found {
                Owner::Unresolved => prop_assert!(is_stable && all[0].is_empty()),
                Owner::Ambiguous => prop_assert!(!is_stable),
                Owner::Resolved { held, page } => {
                    prop_assert!(is_stable);
                    prop_assert_eq!(&BTreeSet::from([of((held, page))]), &all[0]);
                }
                Owner::Shared { owners, count } => {
                    prop_assert!(is_stable && owners.len() as u64 == count);
                    prop_assert_eq!(&owners.into_iter().map(of).collect::<BTreeSet<_>>(), &all[0]);
                }
            }
        }
    }

    #[test]
    fn cut_maps_are_those_of_fewer_snapshots(states in states(), cut: prop::sample::Index) {
        let bytes = written(&states);
        let cut = cut.index(bytes.len());
        match PageMap::read(&bytes[..cut]) {
            Ok(map) => {
                let whole = PageMap::read(&written(&states[..map.snapshots.len()].to_vec())[..]).unwrap();
                prop_assert_eq!(map.missing.len(), 1);
                let sorted = |map: &PageMap| {
                    let mut pages = BTreeMap::new();
                    for held in &map.held {
                        for at in 0..held.run.count {
                            let key = (held.process, held.run.page + at, held.first, held.last);
                            pages.insert(key, held.run.place.frame + at);
                        }
                    }
                    pages
                };
                prop_assert_eq!(sorted(&map), sorted(&whole));
            }
            Err(PageMapError::Empty(_)) => {}
            Err(PageMapError::Format(MapError::NotAMap)) => prop_assert!(cut < 16),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn damaged_maps_do_not_panic(states in states(), places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = written(&states);
        for (place, value) in places {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(map) = PageMap::read(&bytes[..]) {
            let owners = Owners::new(&map);
            (0..30).for_each(|frame| { owners.find(&map, frame); });
        }
    }
}

#[test]
fn many_runs_of_one_frame_are_counted_and_few_are_listed() {
    let mut writer = Writer::new(Vec::new(), &machine()).unwrap();
    let process = writer.process(&Process::default()).unwrap();
    let mapping = writer.mappings(process, &[Mapping::default()]).unwrap();
    let place = Some(Place { frame: 5, mapping, is_file: true });
    let entries: Vec<Entry> =
        (0..100).map(|page| Entry { page: 2 * page, count: 1, place }).collect();
    writer.pages(process, &entries).unwrap();
    writer.scan(Scan { process, ..Scan::default() }).unwrap();
    writer.snapshot(Snapshot::default()).unwrap();
    let map = PageMap::read(&writer.finish(Ending::Time).unwrap()[..]).unwrap();
    let Owner::Shared { owners, count } = Owners::new(&map).find(&map, 5) else { panic!() };
    assert_eq!((owners.len(), count), (MOST_OWNERS, 100));
    assert_eq!(Owners::new(&map).find(&map, 6), Owner::Unresolved);
}

#[test]
fn chunks_that_do_not_follow_are_missing() {
    let good = || {
        let mut writer = Writer::new(Vec::new(), &machine()).unwrap();
        writer.snapshot(Snapshot::default()).unwrap();
        writer
    };
    let mut writer = good();
    writer.scan(Scan { process: 1, ..Scan::default() }).unwrap();
    let bytes = writer.finish(Ending::Requested).unwrap();
    let missing = PageMap::read(&bytes[..]).unwrap().missing;
    assert!(missing[0].ends_with("a process is not described"), "{missing:?}");

    let mut writer = good();
    let process = writer.process(&Process::default()).unwrap();
    let place = Some(Place { frame: 1, mapping: 1, is_file: false });
    writer.pages(process, &[Entry { page: 1, count: 1, place }]).unwrap();
    let bytes = writer.finish(Ending::Requested).unwrap();
    let missing = PageMap::read(&bytes[..]).unwrap().missing;
    assert!(missing[0].ends_with("a mapping that its process does not have"), "{missing:?}");

    let empty = Writer::new(Vec::new(), &machine()).unwrap().finish(Ending::Requested).unwrap();
    let error = PageMap::read(&empty[..]).unwrap_err().to_string();
    assert_eq!(error, "has no whole snapshot of any process");
}

#[test]
fn a_card_with_more_memory_is_of_another_machine() {
    let memory = std::iter::once(0..1 << 30).collect();
    let map = PageMap { machine: Machine { memory, ..machine() }, ..PageMap::default() };
    assert!(map.check_capacity(2 << 30).is_ok());
    let error = map.check_capacity(4 << 30).unwrap_err().to_string();
    assert!(error.contains("another machine") && error.contains("4096 MiB"), "{error}");
    assert!(PageMap::default().check_capacity(u64::MAX).is_ok());
}
