//! Attributes accesses that the simulated card has recorded to owners of pages, by the snapshots
//! whose marks it has recorded.
//!
//! What is expected is computed here from the text of `hmtt decode`: by clocks, and by plain tables
//! of owners.

use std::collections::BTreeMap;
use std::path::Path;

use hmtt::page_map::PageMap;
use hmtt_files::page_map::{
    Ending, Entry, Machine, Mapping, Place, Process, Scan, Snapshot, SnapshotMark, Writer,
};
use hmtt_format::toml_memory;
use hmtt_sim::traffic::Traffic;
use hmtt_tests::succeed;
use serde_json::Value;

use crate::captures::{comments, decode, lines, path, replay_file};
use crate::control::{MEMORY, append, control};

/// Processes, from 1 on.
const PIDS: [u32; 2] = [11, 22];
/// Frames: one that changes its owner, one that does not, one that nobody has, and one that changes
/// its owner twice.
const FRAMES: [u64; 4] = [0x4000, 0x4001, 0x4002, 0x5000];
/// The process that has each of these frames in each snapshot; 0 for none.
const OWNERS: [[u32; 4]; 4] = [[1, 1, 0, 2], [1, 1, 0, 0], [2, 1, 0, 0], [2, 1, 0, 1]];
/// Numbers of snapshots in marks exceed 32 bits.
const FIRST_NUMBER: u32 = u32::MAX - 1;

fn number(snapshot: usize) -> u32 {
    FIRST_NUMBER.wrapping_add(snapshot as u32)
}

/// Writes the map. `is_marked`: whether it has the numbers in marks.
fn write_map(file: &Path, is_marked: bool) {
    let machine = Machine { page_log2: 12, ..Machine::default() };
    let mut writer = Writer::new(Vec::new(), &machine).unwrap();
    for pid in PIDS {
        let comm = format!("process {pid}");
        let process = writer.process(&Process { pid, comm, ..Process::default() }).unwrap();
        let heap = Mapping { end: 1 << 40, name: "[heap]".into(), ..Mapping::default() };
        writer.mappings(process, &[heap]).unwrap();
    }
    for (snapshot, owners) in OWNERS.iter().enumerate() {
        for process in 1..=2 {
            let entry = |(page, (frame, owner)): (u64, (u64, u32))| {
                let place = Place { frame, mapping: process, is_file: false };
                Entry { page, count: 1, place: (owner == process).then_some(place) }
            };
            let frames = FRAMES.into_iter().zip(*owners);
            let entries: Vec<Entry> = (0x700..).step_by(2).zip(frames).map(entry).collect();
            writer.pages(process, &entries).unwrap();
            writer.scan(Scan { process, ..Scan::default() }).unwrap();
        }
        let mark = is_marked.then_some(number(snapshot));
        writer.snapshot(Snapshot { processes: 2, mark, ..Snapshot::default() }).unwrap();
    }
    std::fs::write(file, writer.finish(Ending::Requested).unwrap()).unwrap();
}

/// The words of `hmtt ctl` for the begin or end of a snapshot.
fn words(mark: SnapshotMark) -> String {
    let words: Vec<String> = mark.marks().map(|mark| format!("mark {mark}")).collect();
    words.join(" ")
}

/// Accesses by owner.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    resolved: BTreeMap<u32, u64>,
    ambiguous: u64,
    unresolved: u64,
    outside: u64,
}

impl Counts {
    fn add(&mut self, owners: &[u32], is_between: bool) {
        self.outside += u64::from(!is_between);
        match owners {
            owners if owners.iter().all(|owner| *owner == 0) => self.unresolved += 1,
            [first, rest @ ..] if is_between && rest.iter().all(|owner| owner == first) => {
                *self.resolved.entry(PIDS[*first as usize - 1]).or_default() += 1;
            }
            _ => self.ambiguous += 1,
        }
    }

    /// What an analysis has found.
    fn found(map: &Path, capture: &Path) -> (Counts, Value) {
        let text = succeed("hmtt", &["stats", "--json", "--pagemap", path(map), path(capture)]);
        let object: Value = serde_json::from_str(&text).unwrap();
        let page_map = object["page_map"].clone();
        let number = |name: &str| page_map[name].as_u64().unwrap();
        let processes = page_map["processes"].as_array().unwrap().iter();
        let count =
            |one: &Value| (one["pid"].as_u64().unwrap() as u32, one["accesses"].as_u64().unwrap());
        let counts = Counts {
            resolved: processes.map(count).collect(),
            ambiguous: number("ambiguous_accesses"),
            unresolved: number("unresolved_accesses"),
            outside: number("outside_accesses"),
        };
        assert_eq!(counts.resolved.values().sum::<u64>(), number("resolved_accesses"));
        (counts, page_map)
    }
}

/// The number before the first space.
fn clock(line: &str) -> u64 {
    line.split(' ').next().unwrap().parse().unwrap()
}

/// Clocks of the begins and of the ends of snapshots: those of the last of nine marks each.
fn times(text: &str) -> Vec<[u64; 2]> {
    let marks = comments(text, "mark");
    let clocks: Vec<u64> = marks.chunks(9).map(|nine| clock(nine[8])).collect();
    clocks.chunks(2).map(|pair| [pair[0], pair[1]]).collect()
}

/// Attributes the accesses of a decoded text.
fn expected(text: &str) -> Counts {
    let times = times(text);
    assert_eq!(times.len(), OWNERS.len());
    let mut counts = Counts::default();
    for line in lines(text) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, "R" | "W", address] = fields[..] else { continue };
        let frame = u64::from_str_radix(address, 16).unwrap() >> 12;
        let after = times.iter().rposition(|[_, end]| *end <= clock(line));
        let before = times.iter().position(|[begin, _]| *begin > clock(line));
        let snapshots = after.unwrap_or(0)..=before.unwrap_or(times.len() - 1);
        let at = FRAMES.iter().position(|one| *one == frame);
        let owners: Vec<u32> = snapshots.map(|one| at.map_or(0, |at| OWNERS[one][at])).collect();
        counts.add(&owners, after.is_some() && before.is_some());
    }
    counts
}

#[test]
fn pages_that_change_their_owner_are_resolved_by_the_snapshots_around_each_access() {
    let memory = toml_memory::parse(&std::fs::read_to_string(MEMORY).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (input, capture) = (at("pages.cmd"), at("pages.pcapng"));
    let mut step = 0;
    let mut accesses = |input: &Path| {
        let mut traffic = Traffic::new(memory.clone());
        step += 1;
        for (frame, count) in FRAMES.into_iter().zip([3 + step, 5, 2, 1 + 2 * step]) {
            (0..count).for_each(|line| {
                traffic.read(frame << 12 | line << 6);
            });
        }
        append(input, &memory, &traffic);
    };
    control(&input, "reset granularity burst mode line start mark 5");
    control(&input, &words(SnapshotMark::end(number(0) - 1)));
    accesses(&input);
    for snapshot in 0..OWNERS.len() {
        control(&input, &words(SnapshotMark::begin(number(snapshot))));
        accesses(&input);
        control(&input, &words(SnapshotMark::end(number(snapshot))));
        accesses(&input);
    }
    replay_file(&input, &[], &capture);
    let text = decode(&capture);
    assert_eq!(comments(&text, "fault"), Vec::<&str>::new());
    // Those behind the free mark and the end of a snapshot that is in no map.
    let (_, of_map) = text.split_once("free 241\n").unwrap();
    let expected = expected(of_map);
    let before = lines(text.split_once("free 241\n").unwrap().0).len() as u64;

    let (marked, plain) = (at("marked.map"), at("plain.map"));
    write_map(&marked, true);
    let (counts, page_map) = Counts::found(&marked, &capture);
    assert_eq!(
        (&page_map["owner_rule"], &page_map["marked_snapshots"]),
        (&"time".into(), &4.into())
    );
    // Accesses to registers are of a page that nobody has.
    let unresolved = expected.unresolved + before;
    let outside = expected.outside + before;
    assert_eq!(counts, Counts { unresolved, outside, ..expected });
    assert!(counts.resolved.len() == 2 && counts.ambiguous > 0 && counts.outside > 0, "{counts:?}");

    // Without numbers of marks, only the frame that never changes is resolved.
    write_map(&plain, false);
    let (of_all, page_map) = Counts::found(&plain, &capture);
    assert_eq!(page_map["owner_rule"], "all_snapshots");
    let stable = lines(&text).iter().filter(|line| line.contains(" 4001")).count() as u64;
    assert_eq!(of_all.resolved, BTreeMap::from([(11, stable)]));
    assert!(of_all.ambiguous > counts.ambiguous && of_all.outside == 0, "{of_all:?} {counts:?}");
}

#[test]
fn marks_of_real_snapshots_are_those_in_the_map() {
    if !hmtt_probe::pages::shows_frames().unwrap_or(false) {
        println!("skipped: the kernel does not show frames to this process");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (map, input, capture) = (at("real.map"), at("real.cmd"), at("real.pcapng"));
    let pid = std::process::id().to_string();
    let record = ["pagemap", "record", "--pid", &pid, "-o", path(&map)];
    control(&input, "reset granularity burst mode line start");
    let of_card = ["--memory", MEMORY, "--record", path(&input)];
    succeed("hmtt", &[&record[..], &of_card].concat());
    replay_file(&input, &[], &capture);
    let text = decode(&capture);
    let marks: Vec<u8> = comments(&text, "mark")
        .iter()
        .map(|mark| mark.rsplit_once("free ").unwrap().1.parse().unwrap())
        .collect();
    let number = PageMap::open(&map).unwrap().snapshots[0].mark.unwrap();
    let begin = SnapshotMark::begin(number).marks();
    assert_eq!(marks, begin.chain(SnapshotMark::end(number).marks()).collect::<Vec<_>>());

    let device = at("registers");
    std::fs::write(&device, [0; 4096]).unwrap();
    succeed("hmtt", &[&record[..], &["--overwrite", "--device", path(&device)]].concat());
    let info = succeed("hmtt", &["pagemap", "info", "--json", path(&map)]);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["marked_snapshots"], &info["snapshot_count"]), (&1.into(), &1.into()));
    assert_ne!(PageMap::open(&map).unwrap().snapshots[0].mark, Some(number));
}
