//! Tests what is not sent to a cluster, and errors that name their cause.

use std::path::Path;
use std::process::{Command, Stdio};

use hmtt_dataset::{Dataset, Table};
use hmtt_test_support::files::skipped;

use crate::cluster::{Client, Cluster, Program, failed, start_scheduler, succeeded};
use crate::samples::{captures, dataset};

/// A command for a scheduler that is not there: what is sent ends with another error than what is
/// rejected.
fn without_scheduler(arguments: &[&str], source: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-cluster"));
    command.args(["--cluster", "127.0.0.1:9"]).args(arguments).arg(source);
    command
}

fn complaint(arguments: &[&str], source: &Path) -> String {
    failed(&Client::start(without_scheduler(arguments, source)).output())
}

#[test]
fn leaves_that_are_no_parts_are_rejected_before_they_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    for (sql, reason) in [
        ("select clock from tags union all values (1), (2)", "VALUES"),
        ("select clock from tags, (values (1), (2)) as v(x)", "VALUES"),
        ("select clock from tags union all select value from generate_series(1, 3)", "LazyMemory"),
        (
            "with recursive r as (select min(clock) as n from tags union all select n + 1 from r where n < 3) \
             select n from r",
            "WorkTable",
        ),
        (
            "select t.clock from tags t join information_schema.tables i on i.table_name <> t.board",
            "a cluster cannot read",
        ),
    ] {
        let complaint = complaint(&[sql], &data);
        assert!(
            complaint.contains("--cluster") && complaint.contains(reason),
            "{sql}: {complaint}"
        );
        assert!(!complaint.contains("no scheduler"), "{sql}: {complaint}");
    }
}

#[test]
fn captures_are_rejected_before_they_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let [capture, _] = captures(folder.path());
    let text = capture.to_str().unwrap();
    let complaint = complaint(&["select count(*) from accesses", text], &data);
    assert!(complaint.contains(text) && complaint.contains("data sets only"), "{complaint}");
}

#[test]
fn arguments_name_a_scheduler() {
    for (arguments, reason) in [
        (&["select 1", "data"][..], "--cluster HOST:PORT is missing"),
        (&["--cluster", "a b", "select 1", "data"], "expected an address such as"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sql-cluster"));
        command.args(arguments);
        let output = Client::start(command).output();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(reason), "{complaint}");
    }
}

#[test]
fn what_reads_no_part_needs_no_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let describe = without_scheduler(&["--format", "csv", "describe tags"], &data);
    assert!(succeeded(&Client::start(describe).output()).contains("clock,Int64"));
    let values = without_scheduler(&["--format", "csv", "values (1), (2)"], &data);
    assert_eq!(succeeded(&Client::start(values).output()).lines().count(), 3);
}

#[test]
fn an_error_of_a_task_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let cluster = Cluster::start(1, &data);
    let complaint = failed(&cluster.run(&["select 1 / (clock - clock) from tags"], &data));
    assert!(complaint.contains("DivideByZero"), "{complaint}");
}

#[test]
fn a_scheduler_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let complaint = complaint(&["select clock from tags"], &data);
    assert!(complaint.contains("127.0.0.1:9: no scheduler answers"), "{complaint}");
}

#[test]
fn a_damaged_part_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let parts = Dataset::new(&data).parts_of(Table::Accesses).unwrap();
    let path = data.join(&parts[1].1);
    let mut bytes = std::fs::read(&path).unwrap();
    // All columns, but not the footer, which the client reads.
    let end = bytes.len() * 2 / 3;
    bytes[1000..end].fill(0x55);
    std::fs::write(&path, bytes).unwrap();
    let cluster = Cluster::start(1, &data);
    let sql = "select sum(address), max(clock) from accesses";
    let complaint = failed(&cluster.run(&[sql], &data));
    assert!(complaint.contains(path.to_str().unwrap()), "{complaint}");
    assert!(complaint.contains("damaged"), "{complaint}");
    assert!(complaint.contains("with --skip-damaged and without --cluster"), "{complaint}");
}

#[test]
fn an_executor_that_does_not_see_the_data_set_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.arg("sh").arg(&data);
        command
    };
    let probe = isolated("mount -t tmpfs none \"$1\"").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skipped("no mount namespaces");
    }
    let scheduler = start_scheduler("127.0.0.1:0");
    let mut command = isolated("mount -t tmpfs none \"$1\" && shift && exec \"$@\"");
    command.arg(env!("CARGO_BIN_EXE_hmtt-sql-executor"));
    command.args(["--scheduler", &scheduler.address, "--listen", "127.0.0.1:0", "--temp-dir"]);
    command.arg(folder.path()).arg("--data").arg(&data);
    let mut cluster = Cluster::of(scheduler);
    cluster.executors.push(Program::of_command(command));
    let complaint = failed(&cluster.run(&["select sum(clock) from tags"], &data));
    assert!(complaint.contains("the same path on all machines"), "{complaint}");
}
