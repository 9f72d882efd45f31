//! Sends a cluster what no client sends: what would write, or read and connect elsewhere, is
//! refused.

use std::future::Future;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ballista_core::serde::protobuf::execute_query_params::Query;
use datafusion_proto::protobuf::PhysicalPlanNode;
use hmtt_dataset::{Dataset, Table};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::peer::{fetch, launch, scan, statements, submit, submit_plan, task};
use crate::queries::embedded;
use crate::samples::{dataset, tag_map};

/// A query of the data set.
const SQL: &str = "select count(*) as n from tags where clock >= 0";

/// A cluster that reads a data set, and another data set that it does not read.
struct Target {
    folder: TempDir,
    data: PathBuf,
    cluster: Cluster,
}

impl Target {
    fn start() -> Target {
        let folder = tempfile::tempdir().unwrap();
        let data = dataset(folder.path());
        // The path of the folder has no link.
        let temporary = folder.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let temporary = tempfile::tempdir_in(temporary).unwrap();
        let cluster = Cluster::with_messages(&data, temporary);
        Target { folder, data, cluster }
    }

    /// A part of the data set.
    fn part(&self) -> PathBuf {
        let parts = Dataset::new(&self.data).parts_of(Table::Tags).unwrap();
        self.data.join(&parts[0].1).canonicalize().unwrap()
    }

    /// A file with the content of a part, outside the data set.
    fn outside(&self) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join("outside.parquet");
        std::fs::copy(self.part(), &path).unwrap();
        path
    }

    /// The cluster executes queries.
    fn check_queries(&self) {
        let map = tag_map(self.folder.path());
        let rows = self.cluster.succeed(&["--format", "jsonl", SQL], &self.data);
        assert_eq!(rows, embedded(SQL, &self.data, &map));
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

/// The path in a plan of a file.
fn in_plan(path: &Path) -> &str {
    path.to_str().unwrap().trim_start_matches('/')
}

/// Plans that write a file in a folder.
async fn sinks(folder: &Path) -> Vec<PhysicalPlanNode> {
    let folder = folder.to_str().unwrap();
    let mut plans = Vec::new();
    for kind in ["csv", "json", "parquet"] {
        let location = format!("'{folder}/t-{kind}/'");
        plans.push(
            statements(&[&format!("copy (select 1 as a) to {location} stored as {kind}")]).await,
        );
        plans.push(
            statements(&[
                &format!("create external table t (a bigint) stored as {kind} location {location}"),
                "insert into t values (1)",
            ])
            .await,
        );
    }
    plans
}

#[test]
fn plans_that_write_are_refused() {
    let target = Target::start();
    let folder = target.folder.path().join("written");
    std::fs::create_dir(&folder).unwrap();
    run(async {
        for plan in sinks(&folder).await {
            let reason = submit_plan(&target.cluster, &plan).await;
            assert!(reason.contains("refused") && reason.contains("DataSinkExec"), "{reason}");
        }
        let reason = submit(&target.cluster, Query::LogicalPlan(Vec::new())).await;
        assert!(reason.contains("refused: a logical plan"), "{reason}");
    });
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    target.check_queries();
}

#[test]
fn tasks_that_write_are_refused() {
    let target = Target::start();
    let folder = target.folder.path().join("written");
    std::fs::create_dir(&folder).unwrap();
    run(async {
        for (plan, number) in sinks(&folder).await.into_iter().zip(0..) {
            let job = format!("sink{number}");
            launch(&target.cluster, &job, &task(plan.clone()).await).await;
            target.cluster.wait_for_message(&format!("a task of {job:?}"));
            // Without an operator that writes results.
            let job = format!("bare{number}");
            launch(&target.cluster, &job, &plan).await;
            target.cluster.wait_for_message(&format!("a task of {job:?}"));
        }
    });
    target.cluster.wait_for_message("DataSinkExec");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    target.check_queries();
}

/// Plans that read a file outside of the data set, and what is refused.
async fn reads(target: &Target, listener: &TcpListener) -> Vec<(PhysicalPlanNode, String)> {
    let (part, outside) = (target.part(), target.outside());
    let data = target.data.canonicalize().unwrap();
    symlink(&outside, data.join("link.parquet")).unwrap();
    symlink(target.folder.path(), data.join("folder")).unwrap();
    let inside = |name: &str| format!("{}/{name}", in_plan(&data));
    let http = format!("http://{}/", listener.local_addr().unwrap());
    let mut plans = Vec::new();
    for (store, path, named) in [
        ("file:///", in_plan(&outside).to_owned(), "outside.parquet is in no location"),
        ("", in_plan(&outside).to_owned(), "outside.parquet is in no location"),
        ("file:///", inside("../outside.parquet"), ".."),
        ("file:///", inside("%2e%2e/outside.parquet"), "outside.parquet is in no location"),
        ("file:///", inside("%252E%252e/outside.parquet"), "outside.parquet is in no location"),
        ("file:///", inside("link.parquet"), "link.parquet: a symbolic link"),
        ("file:///", inside("folder/outside.parquet"), "folder/outside.parquet: a symbolic link"),
        (&http, "outside.parquet".into(), "/outside.parquet is in no location"),
        (&http, in_plan(&part).to_owned(), "is in no location"),
        ("s3://bucket/", "a.parquet".into(), "s3://bucket/a.parquet is in no location"),
    ] {
        plans.push((scan(&part, store, &path).await, named.to_owned()));
    }
    plans
}

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn assert_no_connection(listener: &TcpListener) {
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn plans_that_read_elsewhere_are_refused() {
    let (target, listener) = (Target::start(), listener());
    run(async {
        for (plan, named) in reads(&target, &listener).await {
            let reason = submit_plan(&target.cluster, &plan).await;
            assert!(reason.contains(&named), "{named}: {reason}");
        }
        let csv = target.folder.path().join("a.csv");
        std::fs::write(&csv, "a\n1\n").unwrap();
        let table = format!(
            "create external table t (a bigint) stored as csv location '{}'",
            csv.display()
        );
        let plan = statements(&[&table, "select * from t"]).await;
        let reason = submit_plan(&target.cluster, &plan).await;
        assert!(reason.contains("refused: a scan of files of type csv"), "{reason}");
    });
    assert_no_connection(&listener);
    target.check_queries();
}

#[test]
fn tasks_that_read_elsewhere_are_refused() {
    let (target, listener) = (Target::start(), listener());
    run(async {
        for (plan, named) in reads(&target, &listener).await {
            launch(&target.cluster, "task", &task(plan).await).await;
            target.cluster.wait_for_message(&named);
        }
    });
    assert_no_connection(&listener);
    target.check_queries();
}

#[test]
fn jobs_are_no_paths() {
    let target = Target::start();
    let parts = target.part();
    let folders = || {
        let entries = std::fs::read_dir(target.cluster.temporary()).unwrap().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let [work_dir] = &*folders() else { panic!("{:?}", folders()) };
    run(async {
        let plan = task(scan(&parts, "file:///", in_plan(&parts)).await).await;
        for job in ["../x", "..", "a/../../x", "/tmp/hmtt-no-job", ""] {
            launch(&target.cluster, job, &plan).await;
            target.cluster.wait_for_message(&format!("{job:?} is no name of a job"));
        }
        assert_eq!(folders().len(), 1);
        // A result outside of the folder.
        let outside = target.cluster.temporary().join("x/1/0");
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("data.arrow"), "text").unwrap();
        let absolute = target.cluster.temporary().join("x");
        for job in ["../x", absolute.to_str().unwrap()] {
            for is_stream in [true, false] {
                let reason = fetch(&target.cluster, job, is_stream).await;
                assert!(reason.contains("is no name of a job"), "{reason}");
            }
        }
    });
    // What the engine may write to disk has a folder of its own.
    let entries = std::fs::read_dir(work_dir).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let results: Vec<String> = names.filter(|name| !name.starts_with("datafusion-")).collect();
    assert!(results.is_empty(), "{results:?}");
    target.check_queries();
}
