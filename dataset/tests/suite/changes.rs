//! Tests what compaction, removal and following leave.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt_dataset::{AddOptions, Added, Dataset, Followed, Follower, Table};
use hmtt_format::Access;
use hmtt_test_support::card::Card;
use rustix::fs::{FlockOperation, flock};

use crate::samples::{BEFORE_THE_HOUR, everything, write};
use crate::truth::{accesses, expected};
use crate::{OPTIONS, add, staged, visible};

/// Writes a session as a series of captures of some frames each. Returns their paths and the
/// accesses.
pub fn series(folder: &Path) -> (Vec<PathBuf>, Vec<Access>) {
    let (frames, truth) = Card::new().session(40, 100);
    let path = |number: usize| folder.join(format!("trace_{number:05}_20231114220000.pcapng"));
    let chunks = frames.chunks(15).zip(1..).map(|(frames, number)| {
        let frames: Vec<_> = frames.iter().map(|frame| (0, frame.clone())).collect();
        let from = Duration::from_secs(1_700_000_000 + number as u64);
        write(&path(number), &frames, from, Duration::from_micros(5))
    });
    (chunks.collect(), truth)
}

fn count(dataset: &Dataset, table: Table) -> usize {
    dataset.parts_of(table).unwrap().len()
}

#[test]
fn compaction_keeps_every_row_in_order_and_a_repetition_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, truth) = series(folder.path());
    let dataset = Dataset::new(folder.path().join("data"));
    captures.iter().for_each(|capture| add(&dataset, capture));
    let before = (dataset.captures().unwrap(), dataset.check().unwrap());
    assert_eq!(count(&dataset, Table::Accesses), 3);
    let compacted = dataset.compact().unwrap();
    // Accesses and runs of three captures, gaps at the starts of two, and two that have no end.
    assert_eq!((compacted.merged, compacted.written), (10, 4));
    let [(_, part)] = &dataset.parts_of(Table::Accesses).unwrap()[..] else { panic!("one part") };
    assert!(accesses(&dataset.root().join(part)) == expected(&truth));
    let mut check = dataset.check().unwrap();
    assert_eq!(check.problems, [""; 0]);
    dataset.recount(&captures, &mut check).unwrap();
    assert_eq!((check.problem_count, check.recounted), (0, 3));
    assert_eq!(dataset.captures().unwrap(), before.0);
    assert_eq!((check.access_rows, check.gap_count), (before.1.access_rows, before.1.gap_count));
    let whole = visible(dataset.root());
    assert_eq!(dataset.compact().unwrap().merged, 0);
    assert!(matches!(dataset.add(&captures[1], &OPTIONS).unwrap(), Added::Present));
    assert!(visible(dataset.root()) == whole);
    assert_eq!(staged(dataset.root()), ["commit.lock"]);
}

#[test]
fn a_dropped_run_leaves_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, _) = series(folder.path());
    let other = folder.path().join("other.pcapng");
    write(&other, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &other);
    let before = visible(dataset.root());
    let options = AddOptions { run: "second", receiver: None };
    captures.iter().for_each(|capture| drop(dataset.add(capture, &options).unwrap()));
    assert_eq!(dataset.drop_run("second", Some("eth2")).unwrap(), 0);
    assert_eq!(dataset.drop_run("second", Some("eth1")).unwrap(), 10);
    assert!(visible(dataset.root()) == before);
    assert!(!dataset.root().join("kind=accesses/run=second").exists());
    // What was removed can be added again.
    add(&dataset, &captures[0]);
    assert_eq!(dataset.check().unwrap().problem_count, 0);
}

#[test]
fn a_follower_adds_files_once_they_are_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, truth) = series(folder.path());
    std::fs::write(folder.path().join("trace_1.pcapng"), "another capture").unwrap();
    let dataset = Dataset::new(folder.path().join("data"));
    let mut follower = Follower::new(dataset.clone(), &folder.path().join("trace.pcapng"));
    let mut poll = || {
        let mut added = Vec::new();
        let is_writing = follower.poll(&OPTIONS, |followed| match followed {
            Followed::Added(path, Added::New(_)) => added.push(path),
            other => panic!("{other:?}"),
        });
        (added, is_writing.unwrap())
    };
    let last = File::open(&captures[2]).unwrap();
    flock(&last, FlockOperation::LockExclusive).unwrap();
    std::fs::write(folder.path().join("trace_00004_20231114220009.pcapng"), "").unwrap();
    assert_eq!(poll(), (captures[..2].to_vec(), true));
    assert_eq!(poll(), (Vec::new(), true));
    // A process that another test is starting may still have a copy of the descriptor.
    flock(&last, FlockOperation::Unlock).unwrap();
    std::fs::remove_file(folder.path().join("trace_00004_20231114220009.pcapng")).unwrap();
    assert_eq!(poll(), (captures[2..].to_vec(), false));
    assert_eq!(poll(), (Vec::new(), false));
    let check = dataset.check().unwrap();
    assert_eq!((check.problem_count, check.access_rows), (0, truth.len() as u64));
}

#[test]
fn a_follower_reports_what_is_no_capture_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.pcapng");
    std::fs::write(&file, "no capture").unwrap();
    let mut follower = Follower::new(Dataset::new(folder.path().join("data")), &file);
    let mut failures = 0;
    // It is tried again when it has another size.
    for (content, expected) in [("no capture", 1), ("no capture", 1), ("no capture, longer", 2)] {
        std::fs::write(&file, content).unwrap();
        let mut report =
            |followed| failures += usize::from(matches!(followed, Followed::Failed(..)));
        follower.poll(&OPTIONS, &mut report).unwrap();
        assert_eq!(failures, expected);
    }
}
