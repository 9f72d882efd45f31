//! Kills parts of a cluster in the middle of a query: the result is right, or there is an error.

use std::path::Path;

use crate::cluster::{Client, Cluster, failed, start_scheduler, succeeded};
use crate::queries::embedded;
use crate::samples::{dataset, tag_map};

/// A query that joins for some seconds after it has read.
const SLOW: &str = "select count(*) as n, sum(a.clock + b.clock) as clocks from accesses a join accesses b \
                    on a.page = b.page where a.clock % 5 = 0 and b.clock % 5 = 1";

/// A query whose join takes longer than it takes to notice the loss of an executor.
const SLOWER: &str = "select count(*) as n, sum(a.clock + b.clock) as clocks from accesses a join accesses b \
                      on a.page = b.page where a.clock % 2 = 0 and b.clock % 2 = 1";
/// The same result in less time.
const SAME: &str = "with a as (select page, count(*) as n, sum(clock) as clocks from accesses where clock % 2 = 0 \
                    group by page), b as (select page, count(*) as n, sum(clock) as clocks from accesses \
                    where clock % 2 = 1 group by page) \
                    select sum(a.n * b.n) as n, sum(a.clocks * b.n + b.clocks * a.n) as clocks \
                    from a join b on a.page = b.page";
/// Stage of the join, which is one task. The two before it read the accesses.
const JOIN_STAGE: usize = 3;

/// Starts the slow query, and waits until it has intermediate results. Other tasks of the first
/// stage may be running.
fn start(cluster: &Cluster, data: &Path) -> Client {
    let mut client = Client::start(cluster.command(&["--format", "jsonl", SLOW], data));
    cluster.wait_for_results(true);
    assert!(client.is_running(), "the query ends before something is killed");
    client
}

#[test]
fn after_the_loss_of_an_executor_the_result_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    let expected = embedded(SLOW, &data, &map);
    let mut cluster = Cluster::start(2, &data);
    let client = start(&cluster, &data);
    cluster.executors[0].kill();
    let output = client.output();
    if output.status.success() {
        assert_eq!(succeeded(&output), expected);
    } else {
        assert!(!failed(&output).is_empty());
    }
    // The cluster goes on with what is left.
    let sql = "select count(*) as n from tags where clock >= 0";
    assert_eq!(cluster.succeed(&["--format", "jsonl", sql], &data), embedded(sql, &data, &map));
}

#[test]
fn after_a_loss_in_a_later_stage_the_result_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    let expected = embedded(SAME, &data, &map);
    let mut cluster = Cluster::of_single_tasks(&data);
    let mut client = Client::start(cluster.command(&["--format", "jsonl", SLOWER], &data));
    let survivor = cluster.wait_for_task(JOIN_STAGE);
    assert!(client.is_running(), "the query ends before something is killed");
    // It has results that the join reads.
    cluster.executors[1 - survivor].kill();
    let output = client.output();
    assert_eq!(succeeded(&output), expected);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("the query is sent again (1 of at most 3 times)"), "{messages}");
    // The only thread of the other executor is free.
    let sql = "select count(*) as n from tags where clock >= 0";
    assert_eq!(cluster.succeed(&["--format", "jsonl", sql], &data), embedded(sql, &data, &map));
}

#[test]
fn the_loss_of_all_executors_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let mut cluster = Cluster::start(1, &data);
    let client = start(&cluster, &data);
    cluster.executors[0].kill();
    assert!(failed(&client.output()).contains("hmtt sql: "));
}

#[test]
fn a_query_is_sent_again_to_a_scheduler_that_was_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    let expected = embedded(SLOW, &data, &map);
    let mut cluster = Cluster::start(2, &data);
    let client = start(&cluster, &data);
    cluster.scheduler.kill();
    let address = cluster.scheduler.address.clone();
    cluster.scheduler = start_scheduler(&address);
    let output = client.output();
    assert_eq!(succeeded(&output), expected);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("the query is sent again (1 of at most 3 times)"), "{messages}");
}

#[test]
fn an_interrupted_query_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    let cluster = Cluster::start(1, &data);
    let client = start(&cluster, &data);
    client.interrupt();
    assert_eq!(client.output().status.code(), Some(130));
    let sql = "select count(*) as n from tags where clock >= 0";
    assert_eq!(cluster.succeed(&["--format", "jsonl", sql], &data), embedded(sql, &data, &map));
}

#[test]
fn an_executor_whose_signs_of_life_were_late_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    let cluster = Cluster::of_single_tasks(&data);
    let sql = "select count(*) as n from tags where clock >= 0";
    let expected = embedded(sql, &data, &map);
    // The scheduler then has a connection to each executor, by which it could end them.
    assert_eq!(cluster.succeed(&["--format", "jsonl", sql], &data), expected);
    for executor in &cluster.executors {
        executor.signal("-STOP");
    }
    cluster.wait_for_messages("heartbeat timed out", cluster.executors.len());
    for executor in &cluster.executors {
        executor.signal("-CONT");
    }
    assert_eq!(cluster.succeed(&["--format", "jsonl", sql], &data), expected);
}
