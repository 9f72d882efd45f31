//! Compares the resolution of frames with plain tables of single pages, for random maps and cut
//! maps.

use std::collections::{BTreeMap, BTreeSet};

use hmtt_files::page_map::SnapshotMark;
use hmtt_files::page_map::{
    Ending, Entry, Machine, Mapping, Place, Process, Run, Scan, Snapshot, Writer, changes,
};
use hmtt_format::config::MARK_FREE_FIRST;
use hmtt_format::event::MarkRegister;
use hmtt_format::{Cycles, Event};
use proptest::prelude::*;

use super::*;
use crate::analysis::Batch;
use crate::analysis::source::Part;
use crate::decode::Item;

/// The state of each process in each snapshot.
type States = Vec<Vec<Vec<Run>>>;

fn machine() -> Machine {
    Machine { page_log2: 12, ..Machine::default() }
}

/// Writes a map of two processes. Each process has two mappings.
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
        let mark = Some(number(at as usize - 1));
        writer.snapshot(Snapshot { processes: 2, mark, ..Snapshot::default() }).unwrap();
    }
    writer.finish(Ending::Requested).unwrap()
}

/// The number of a snapshot in marks. The numbers wrap around behind the second snapshot.
fn number(snapshot: usize) -> u32 {
    (snapshot as u32).wrapping_sub(2)
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
    prop::collection::vec((runs(1), runs(2)).prop_map(|(first, second)| vec![first, second]), 1..5)
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

/// Whether all snapshots have the same owners of a frame.
fn owners_agree(states: &States, frame: u64) -> bool {
    let owner_sets: Vec<_> = states.iter().map(|state| plain(state, frame)).collect();
    !owner_sets[0].is_empty() && owner_sets.iter().all(|set| *set == owner_sets[0])
}

/// The time of an access: 0 is before the first snapshot, 1 during the first snapshot, 2 between
/// the first and the second snapshot, and so on.
type Position = usize;

/// Attributes an access to a frame, in a trace with the marks of all snapshots. `lost`: for each
/// begin and end of a snapshot, the index of the mark that is missing, if one is missing.
fn attributed(map: &PageMap, at: Position, frame: u64, lost: &[Option<usize>]) -> Attribution {
    let owners = Owners::new(map);
    let mut attributor = Attributor::new(map);
    for position in 0..=2 * map.snapshots.len() {
        if position == at {
            let addresses = [frame << 12 | 8];
            let part = Part::Batch(Batch::new(&addresses, &[false]));
            attributor.part(map, &owners, 0, &part);
        }
        let (snapshot, is_end) = (position / 2, position % 2 == 1);
        if snapshot == map.snapshots.len() {
            continue;
        }
        let missing = lost.get(position).copied().flatten();
        let marks = SnapshotMark { number: number(snapshot), is_end }.marks().enumerate();
        for (_, mark) in marks.filter(|(place, _)| missing != Some(*place)) {
            let register = MarkRegister(u32::from(MARK_FREE_FIRST) + u32::from(mark));
            let item = Item::Event(Event::Mark { clock: Cycles(0), register });
            attributor.part(map, &owners, 0, &Part::Item(&item));
        }
    }
    attributor.finish(map, &owners)
}

/// Snapshots that decide on an access, and whether it is between two of them.
fn deciding(at: Position, snapshots: usize) -> (std::ops::Range<usize>, bool) {
    // During a snapshot, this snapshot and the snapshots before and behind it decide. Otherwise,
    // the snapshots before and behind the access decide.
    let (first, last) = ((at / 2).checked_sub(1), at.div_ceil(2));
    let is_between = first.is_some() && last < snapshots;
    (first.unwrap_or(0)..snapshots.min(last + 1), is_between)
}

proptest! {
    #[test]
    fn accesses_are_resolved_by_the_snapshots_around_them(
        states in states(),
        lost in prop::collection::vec(prop_oneof![3 => Just(None), 1 => (0..9usize).prop_map(Some)], 10),
    ) {
        let map = PageMap::read(&written(&states)[..]).unwrap();
        for (at, frame) in (0..=2 * states.len()).flat_map(|at| (0..12).map(move |frame| (at, frame))) {
            let (range, is_between) = deciding(at, states.len());
            let owner_sets: Vec<_> =
                states[range].iter().map(|state| plain(state, frame)).collect();
            let is_stable = is_between && owner_sets.iter().all(|set| *set == owner_sets[0]);
            let check = |attribution: &Attribution, must: bool| -> Result<(), TestCaseError> {
                let pids: BTreeSet<_> = owner_sets[0].iter().map(|(process, _)| Some(process + 6)).collect();
                let pid = attribution.processes.first().map(|process| process.pid);
                match (attribution.resolved_accesses, attribution.shared_accesses) {
                    (1, 0) => prop_assert!(is_stable && owner_sets[0].len() == 1 && pids.contains(&pid.unwrap())),
                    (0, 1) => {
                        prop_assert!(is_stable && owner_sets[0].len() > 1);
                        let expected = if pids.len() == 1 { pids.into_iter().next().unwrap() } else { None };
                        prop_assert_eq!(pid, Some(expected));
                    }
                    // If marks are missing, more snapshots decide, so fewer accesses are resolved.
                    _ if attribution.unresolved_accesses == 1 => prop_assert!(owner_sets.iter().all(BTreeSet::is_empty)),
                    _ => prop_assert!(!must || (!is_stable && !owner_sets.iter().all(BTreeSet::is_empty))),
                }
                Ok(())
            };
            if states.len() > 1 {
                let attribution = attributed(&map, at, frame, &[None; 10]);
                prop_assert_eq!((attribution.owner_rule, attribution.marked_snapshots), (Rule::Time, states.len() as u64));
                prop_assert_eq!(attribution.outside_accesses, u64::from(!is_between));
                check(&attribution, true)?;
            }
            let attribution = attributed(&map, at, frame, &lost);
            match attribution.owner_rule {
                Rule::Time => check(&attribution, false)?,
                // Fewer than two snapshots have ended in the trace.
                rule => {
                    prop_assert_eq!(rule, Rule::AllSnapshots);
                    // Without the last mark of a begin, the digits of the begin and of the end
                    // together are too many.
                    let is_found = |at: &usize| lost[2 * at] != Some(8) && lost[2 * at + 1].is_none();
                    let ends = (0..states.len()).filter(is_found);
                    prop_assert!(ends.count() < 2);
                    let is_known = owners_agree(&states, frame);
                    let owned = attribution.resolved_accesses + attribution.shared_accesses;
                    prop_assert_eq!(owned == 1, is_known);
                }
            }
        }
    }

    #[test]
    fn frames_are_resolved_as_in_a_plain_table(states in states()) {
        let map = PageMap::read(&written(&states)[..]).unwrap();
        let owners = Owners::new(&map);
        prop_assert!(map.missing.is_empty() && map.ending == Some(Ending::Requested));
        for frame in 0..20 {
            let owner_sets: Vec<_> = states.iter().map(|state| plain(state, frame)).collect();
            let is_stable = owner_sets.iter().all(|set| *set == owner_sets[0]);
            let owner = |(held, page): (usize, u64)| (map.held[held].process, page);
            let result = owners.find(&map, frame);
            match result {
                Owner::Unresolved => prop_assert!(is_stable && owner_sets[0].is_empty()),
                Owner::Ambiguous => prop_assert!(!is_stable),
                Owner::Resolved { held, page } => {
                    prop_assert!(is_stable);
                    prop_assert_eq!(&BTreeSet::from([owner((held, page))]), &owner_sets[0]);
                }
                Owner::Shared { owners, count } => {
                    prop_assert!(is_stable && owners.len() as u64 == count);
                    let owners: BTreeSet<_> = owners.into_iter().map(owner).collect();
                    prop_assert_eq!(&owners, &owner_sets[0]);
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

#[test]
fn a_frame_may_have_many_owners_one_after_the_other() {
    let states: States = (0..300)
        .map(|at| {
            let place = Place { frame: 5, mapping: 1, is_file: false };
            vec![vec![Run { page: at / 3, count: 1, place }], Vec::new()]
        })
        .collect();
    let map = PageMap::read(&written(&states)[..]).unwrap();
    let owners = Owners::new(&map);
    for at in 1..300 {
        let between = Between { after: Some(at - 1), before: Some(at) };
        match owners.find_between(&map, 5, between) {
            Owner::Resolved { page, .. } => assert!(page == u64::from(at) / 3 && at % 3 != 0),
            other => assert!(other == Owner::Ambiguous && at % 3 == 0, "{at}: {other:?}"),
        }
    }
    assert_eq!(owners.find(&map, 5), Owner::Ambiguous);
}
