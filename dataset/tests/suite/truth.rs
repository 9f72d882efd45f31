//! Compares the parts of a data set with the accesses that were put into captures.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use hmtt_dataset::{AddOptions, Added, CaptureHash, Dataset, Hour, Table};
use hmtt_format::Access;
use hmtt_test_support::card::Card;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use rustix::fs::{FlockOperation, flock};

use crate::samples::{BEFORE_THE_HOUR, everything, write};
use crate::{OPTIONS, add, staged, visible};

/// Clock, whether it is a write, address and page of each access of a part, as the Parquet library
/// reads rows.
pub fn accesses(path: &Path) -> Vec<(i64, bool, i64, i64)> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = file.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| {
        let number = |at| row.get_long(at).unwrap();
        (number(2), row.get_bool(4).unwrap(), number(5), number(6))
    })
    .collect()
}

/// The same of the truth.
pub fn expected(truth: &[Access]) -> Vec<(i64, bool, i64, i64)> {
    let row = |access: &Access| {
        let address = access.address.0 as i64;
        (access.clock.0 as i64, access.direction.bit() == 1, address, address / 4096)
    };
    truth.iter().map(row).collect()
}

#[test]
fn accesses_are_those_of_the_truth_in_the_folders_of_their_hours() {
    let folder = tempfile::tempdir().unwrap();
    let (frames, truth) = Card::new().session(1000, 370);
    let (other, other_truth) = Card::new().session(3, 100);
    let mut frames: Vec<_> = frames.into_iter().map(|frame| (0, frame)).collect();
    frames.extend(other.into_iter().map(|frame| (1, frame)));
    // The hour changes after 500 frames: the report, and 499 frames of accesses.
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &frames, BEFORE_THE_HOUR, Duration::from_millis(1));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let parts = dataset.parts_of(Table::Accesses).unwrap();
    let names: Vec<String> =
        parts.iter().map(|(partition, _)| partition.folder().display().to_string()).collect();
    let path = |board, hour| format!("kind=accesses/run=example/board={board}/hour={hour}");
    assert_eq!(
        names,
        [path("eth1", 2023111422_u32), path("eth1", 2023111423), path("eth2", 2023111423)]
    );
    let read = |at: usize| accesses(&dataset.root().join(&parts[at].1));
    assert!(read(0) == expected(&truth[..499 * 370]));
    assert!(read(1) == expected(&truth[499 * 370..]));
    assert!(read(2) == expected(&other_truth));
    let check = dataset.check().unwrap();
    assert_eq!((check.problem_count, check.access_rows), (0, 370_300), "{check:?}");
}

#[test]
fn row_groups_are_full_across_frames() {
    let folder = tempfile::tempdir().unwrap();
    let (frames, truth) = Card::new().session(3000, 370);
    let frames: Vec<_> = frames.into_iter().map(|frame| (0, frame)).collect();
    let capture = write(&folder.path().join("c.pcapng"), &frames, BEFORE_THE_HOUR, Duration::ZERO);
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let [(_, part)] = &dataset.parts_of(Table::Accesses).unwrap()[..] else { panic!("one part") };
    let part = dataset.root().join(part);
    let file = SerializedFileReader::new(File::open(&part).unwrap()).unwrap();
    let groups = file.metadata().row_groups().iter();
    let rows: Vec<i64> = groups.map(|group| group.num_rows()).collect();
    assert_eq!(rows, [1 << 20, 1_110_000 - (1 << 20)]);
    assert!(accesses(&part) == expected(&truth));
    assert_eq!(dataset.check().unwrap().problem_count, 0);
}

#[test]
fn every_table_has_its_rows_and_every_count_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let rows = |table| {
        let parts = dataset.parts_of(table).unwrap();
        let file = |path: &Path| {
            SerializedFileReader::new(File::open(dataset.root().join(path)).unwrap()).unwrap()
        };
        parts.iter().map(|(_, path)| file(path).metadata().file_metadata().num_rows()).sum::<i64>()
    };
    // The gap of one frame, of five lost records; the fault, the DDR clock and the restart; a tag
    // and a mark.
    let expected = [
        (Table::Accesses, 200),
        (Table::Pages, 1),
        (Table::Slices, 1),
        (Table::Gaps, 2),
        (Table::Tags, 2),
        (Table::Events, 3),
        (Table::Runs, 2),
    ];
    for (table, expected) in expected {
        assert_eq!(rows(table), expected, "{}", table.name());
    }
    let mut check = dataset.check().unwrap();
    dataset.recount(&[&capture], &mut check).unwrap();
    assert_eq!(check.problems, [""; 0]);
    // 40 of the missing frame, 2 of the lost records.
    assert_eq!((check.lost_accesses, check.gap_count, check.recounted), (42, 2, 1));
}

#[test]
fn the_same_capture_added_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let before = visible(dataset.root());
    let copy = folder.path().join("copy.pcapng");
    std::fs::copy(&capture, &copy).unwrap();
    let other = AddOptions { run: "other", receiver: Some("rack7") };
    for (path, options) in [(&capture, &OPTIONS), (&copy, &other)] {
        assert!(matches!(dataset.add(path, options).unwrap(), Added::Present));
    }
    assert!(visible(dataset.root()) == before);
    assert_eq!(staged(dataset.root()), ["commit.lock"]);
    let hash = CaptureHash::of_file(&capture).unwrap();
    assert_eq!(dataset.captures().unwrap().into_iter().collect::<Vec<_>>(), [hash]);
}

#[test]
fn a_capture_that_is_being_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let file = File::open(&capture).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let dataset = Dataset::new(folder.path().join("data"));
    let error = dataset.add(&capture, &OPTIONS).unwrap_err().to_string();
    assert!(error.ends_with("is being written; add it when it is finished"), "{error}");
    // A process that another test is starting may still have a copy of the descriptor.
    flock(&file, FlockOperation::Unlock).unwrap();
    add(&dataset, &capture);
}

#[test]
fn a_check_finds_what_is_missing_or_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let part = |table| dataset.root().join(&dataset.parts_of(table).unwrap()[0].1);
    let problems = || dataset.check().unwrap().problems.join("\n");
    let remove = |table: Table| {
        let (path, away) = (part(table), folder.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        let problems = problems();
        std::fs::rename(&away, &path).unwrap();
        problems
    };
    assert!(remove(Table::Runs).contains("session 0: no row in runs"));
    assert!(
        remove(Table::Accesses).contains("rows of accesses: 0, not 150"),
        "{}",
        remove(Table::Accesses)
    );
    assert!(remove(Table::Gaps).contains("lost_accesses: 0, not 42"));
    let accesses = part(Table::Accesses);
    let bytes = std::fs::read(&accesses).unwrap();
    std::fs::write(&accesses, &bytes[..bytes.len() - 9]).unwrap();
    assert!(problems().contains("rows of accesses: 0, not 150"), "{}", problems());
    std::fs::write(&accesses, &bytes).unwrap();
    // A part in another hour.
    let moved = accesses.parent().unwrap().with_file_name("hour=2023111500");
    std::fs::create_dir(&moved).unwrap();
    std::fs::rename(&accesses, moved.join("part.parquet")).unwrap();
    assert!(problems().contains("a time is not in the hour of the partition"), "{}", problems());
    assert_eq!(Hour::parse("2023111500"), Some(Hour::of(Duration::from_secs(1_700_006_400))));
}
