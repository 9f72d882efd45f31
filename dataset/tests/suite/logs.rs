//! Compares the tables of logs of tags with the calls that were put into the logs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt_dataset::{Added, Dataset, DatasetError, Followed, Follower, Table};
use hmtt_files::tag_log::{Content, FunctionId, Header, TagEvent};
use hmtt_test_support::call_log::{self, TrueCall};
use hmtt_test_support::tag_log::Log;
use parquet::file::reader::SerializedFileReader;
use parquet::record::{Row, RowAccessor};
use rustix::fs::{FlockOperation, flock};

use crate::samples::BEFORE_THE_HOUR;
use crate::{OPTIONS, add, staged, visible};

/// A log of some threads, over the end of an hour, with its calls.
pub fn log(folder: &Path) -> (PathBuf, Vec<TrueCall>) {
    let path = folder.join("prog.tags");
    let begin_ns = BEFORE_THE_HOUR.as_nanos() as u64;
    let calls = call_log::write(&path, 3, 40, begin_ns, 11);
    (path, calls)
}

/// All rows of a table, as the Parquet library reads them.
fn rows(dataset: &Dataset, table: Table) -> Vec<Row> {
    let parts = dataset.parts_of(table).unwrap().into_iter();
    let rows = parts.flat_map(|(_, path)| {
        let file = File::open(dataset.root().join(path)).unwrap();
        SerializedFileReader::new(file).unwrap().into_iter()
    });
    rows.map(Result::unwrap).collect()
}

fn calls(dataset: &Dataset) -> Vec<TrueCall> {
    let call = |row: &Row| {
        let number = |at| row.get_long(at).unwrap();
        assert_eq!(number(10), number(9) - number(8), "inclusive_ns");
        TrueCall {
            session: number(1),
            thread: number(3),
            start_time_ns: number(8),
            end_time_ns: number(9),
            function: row.get_string(5).unwrap().clone(),
            caller: row.get_string(6).ok().cloned(),
            depth: number(7),
            self_ns: number(11),
            exit: ["returned", "ended"][usize::from(row.get_string(12).unwrap() == "ended")],
        }
    };
    let mut calls: Vec<TrueCall> = rows(dataset, Table::Calls).iter().map(call).collect();
    calls.sort();
    calls
}

#[test]
fn calls_are_those_of_the_log_in_the_hours_of_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (path, truth) = log(folder.path());
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &path);
    assert!(truth.len() > 1000, "{}", truth.len());
    assert!(truth.iter().filter(|call| call.exit == "ended").count() >= 9);
    assert!(calls(&dataset) == truth);
    let folders: Vec<String> = dataset
        .parts_of(Table::Calls)
        .unwrap()
        .iter()
        .map(|(partition, _)| partition.folder().display().to_string())
        .collect();
    let path = |hour| format!("kind=calls/run=example/board=pid4711/hour={hour}");
    assert_eq!(folders, [path(2023111422_u32), path(2023111423)], "one part in each hour");
}

#[test]
fn the_check_proves_the_rows_of_a_log_and_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, truth) = log(folder.path());
    let dataset = Dataset::new(folder.path().join("data"));
    let Added::New(summary) = dataset.add(&path, &OPTIONS).unwrap() else { panic!("new") };
    assert!(summary.has_loss());
    let log = summary.log.unwrap();
    assert_eq!((log.threads, log.calls, log.lost_events), (3, truth.len() as u64, 3));
    let mut check = dataset.check().unwrap();
    dataset.recount(&[&path], &mut check).unwrap();
    assert_eq!(check.problems, [""; 0]);
    assert_eq!((check.call_rows, check.lost_events), (truth.len() as u64, 3));
    assert_eq!((check.sessions, check.recounted, check.lost_accesses), (3, 1, 0));
    let threads = rows(&dataset, Table::Threads);
    let lost = threads.iter().map(|row| row.get_long(16).unwrap()).collect::<Vec<_>>();
    assert_eq!(lost, [3, 0, 0], "buffer_full");
    assert_eq!(threads[0].get_string(22).unwrap(), "exited");
    // A part that is missing, and a log that is not there.
    let (_, part) = &dataset.parts_of(Table::Calls).unwrap()[0];
    std::fs::remove_file(dataset.root().join(part)).unwrap();
    let problems = dataset.check().unwrap().problems.join("\n");
    assert!(problems.contains("session 0: rows of calls: "), "{problems}");
    assert!(problems.contains("session 0: returned: "), "{problems}");
    let other = folder.path().join("other.tags");
    call_log::write(&other, 1, 2, 0, 5);
    let mut check = dataset.check().unwrap();
    dataset.recount(&[&other], &mut check).unwrap();
    assert!(check.problems.last().unwrap().ends_with("other.tags: not in the data set"));
}

#[test]
fn a_check_finds_rows_that_the_log_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = log(folder.path());
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &path);
    // The same calls in a second part.
    let (_, part) = &dataset.parts_of(Table::Calls).unwrap()[0];
    let part = dataset.root().join(part);
    std::fs::copy(&part, part.with_file_name("copy.parquet")).unwrap();
    let problems = dataset.check().unwrap().problems.join("\n");
    assert!(problems.contains("rows of calls"), "{problems}");
}

#[test]
fn a_log_added_again_changes_nothing_and_merging_keeps_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut truth) = log(folder.path());
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &path);
    let before = visible(dataset.root());
    assert!(matches!(dataset.add(&path, &OPTIONS).unwrap(), Added::Present));
    assert!(visible(dataset.root()) == before);
    let second = folder.path().join("second.tags");
    truth.extend(call_log::write(&second, 2, 20, BEFORE_THE_HOUR.as_nanos() as u64, 77));
    truth.sort();
    add(&dataset, &second);
    let compacted = dataset.compact().unwrap();
    // Calls of two hours, and threads.
    assert_eq!((compacted.merged, compacted.written), (6, 3));
    assert!(calls(&dataset) == truth);
    let mut check = dataset.check().unwrap();
    dataset.recount(&[&path, &second], &mut check).unwrap();
    assert_eq!((check.problems, check.captures), (Vec::new(), 2));
    for path in [&path, &second] {
        assert!(matches!(dataset.add(path, &OPTIONS).unwrap(), Added::Present));
    }
    assert_eq!(dataset.drop_run("example", Some("pid4711")).unwrap(), 3);
    assert!(visible(dataset.root()).is_empty());
    assert_eq!(staged(dataset.root()), ["commit.lock"]);
}

#[test]
fn a_follower_adds_the_logs_of_a_program_once_they_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (path, truth) = log(folder.path());
    let child = folder.path().join("prog.tags.4712");
    call_log::write(&child, 1, 3, BEFORE_THE_HOUR.as_nanos() as u64, 5);
    call_log::write(&folder.path().join("other.tags"), 1, 3, 0, 6);
    let dataset = Dataset::new(folder.path().join("data"));
    let mut follower = Follower::new(dataset.clone(), &path);
    let mut poll = || {
        let mut added = Vec::new();
        let is_writing = follower.poll(&OPTIONS, |followed| match followed {
            Followed::Added(path, Added::New(_)) => added.push(path),
            other => panic!("{other:?}"),
        });
        (added, is_writing.unwrap())
    };
    let writer = File::open(&path).unwrap();
    flock(&writer, FlockOperation::LockExclusive).unwrap();
    assert_eq!(poll(), (vec![child], true));
    // A process that another test is starting may still have a copy of the descriptor.
    flock(&writer, FlockOperation::Unlock).unwrap();
    assert_eq!(poll(), (vec![path], false));
    assert_eq!(poll(), (Vec::new(), false));
    assert!(calls(&dataset).len() > truth.len());
    assert_eq!(dataset.check().unwrap().problems, [""; 0]);
}

#[test]
fn logs_that_cannot_be_read_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = log(folder.path());
    let map = folder.path().join("prog.tags.json");
    let dataset = Dataset::new(folder.path().join("data"));
    let error = || dataset.add(&path, &OPTIONS).unwrap_err().in_full();
    let text = std::fs::read_to_string(&map).unwrap();
    std::fs::remove_file(&map).unwrap();
    assert!(error().contains("LOG.json"), "{}", error());
    std::fs::write(&map, text.replace("0707070707070707", "0707070707070708")).unwrap();
    assert!(error().contains("is the map of another log"), "{}", error());
    std::fs::write(&map, text).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    assert!(error().contains("prog.tags: offset "), "{}", error());
    assert!(visible(dataset.root()).is_empty());
    assert_eq!(staged(dataset.root()), ["commit.lock"]);
    // A log that is cut is read to its last whole chunk.
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let Added::New(summary) = dataset.add(&path, &OPTIONS).unwrap() else { panic!("new") };
    assert!(summary.is_cut && summary.has_loss());
    let threads = rows(&dataset, Table::Threads);
    assert!(threads[0].get_bool(23).unwrap() && threads[0].get_string(22).is_err());
    let mut check = dataset.check().unwrap();
    dataset.recount(&[&path], &mut check).unwrap();
    assert_eq!(check.problems, [""; 0]);
}

#[test]
fn calls_of_a_log_without_times_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = log(folder.path());
    let start_ns = BEFORE_THE_HOUR.as_nanos() as u64;
    let mut log = Log::new(&Header { start_ns, pid: 1, map_id: [7; 8], ..Header::default() });
    let event = |number, sp, is_exit| TagEvent { tsc: 0, sp, number: FunctionId(number), is_exit };
    let events = [event(1, 800, false), event(2, 700, false), event(2, 700, true)];
    log.events(9, &events, false);
    log.chunk(9, Content::ThreadEnd);
    std::fs::write(&path, log.0).unwrap();
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &path);
    let rows = rows(&dataset, Table::Calls);
    let shown = |row: &Row| {
        let ms = Duration::from_millis(row.get_timestamp_millis(2).unwrap() as u64);
        assert_eq!(ms.as_nanos() as u64, start_ns);
        assert!((8..12).all(|column| row.get_long(column).is_err()));
        (
            row.get_string(5).unwrap().clone(),
            row.get_long(7).unwrap(),
            row.get_string(12).unwrap().clone(),
        )
    };
    let text = |function: &str, depth, exit: &str| (function.to_owned(), depth, exit.to_owned());
    let calls: Vec<_> = rows.iter().map(shown).collect();
    assert_eq!(calls, [text("c", 1, "returned"), text("b", 0, "ended")]);
    assert_eq!(dataset.check().unwrap().problems, [""; 0]);
}

#[test]
fn a_log_that_is_being_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = log(folder.path());
    let file = File::open(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let dataset = Dataset::new(folder.path().join("data"));
    let error = dataset.add(&path, &OPTIONS).unwrap_err();
    assert!(matches!(error, DatasetError::Unfinished(_)), "{error}");
}
