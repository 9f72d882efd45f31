//! Compares queries of data sets in object stores with those of the same data sets on disks. The
//! servers are those of the tests of the embedded engine.

#[allow(dead_code, reason = "other tests use the others")]
#[path = "../../../sql/tests/suite/objects/server.rs"]
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;

use hmtt_dataset::Dataset;
use hmtt_test_support::files::skipped;

use crate::cluster::{Client, Cluster, failed, start_scheduler, succeeded};
use crate::queries::embedded;
use crate::report::{hmtt, report};
use crate::samples::{dataset, tag_map};
use server::{Server, settings};

const QUERIES: [&str; 4] = [
    "select board, hour, count(*) as n, sum(clock) as clocks, min(arrival) as first from accesses \
     group by board, hour order by 1, 2",
    "select function, count(*) as n, sum(self_ns) as ns from calls group by function order by 1",
    "select board, function_at(clock, capture, session) as f, count(*) as n from accesses group by 1, 2 order by 1, 2",
    "select r.board, r.session, count(a.page) as n from runs r left join accesses a \
     on a.capture = r.capture and a.session = r.session group by 1, 2 order by 1, 2",
];

/// Stores an object in a bucket. The name has no character that a URL escapes, but for `%`.
fn put(server: &Server, name: &str, content: &[u8]) {
    let host = server.endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let (name, length) = (name.replace('%', "%25"), content.len());
    let head = format!(
        "PUT /bucket/{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(content).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{name}: {answer}");
}

/// Copies a data set to a folder of a bucket.
fn copy(server: &Server, data: &Path, folder: &str) {
    for (_, path) in Dataset::new(data).parts().unwrap() {
        let content = std::fs::read(data.join(&path)).unwrap();
        put(server, &format!("{folder}/{}", path.display()), &content);
    }
}

/// A cluster whose executor has the settings for a server. The scheduler reads nothing, and has
/// none.
fn cluster(endpoint: &str, data: &str) -> Cluster {
    let mut cluster = Cluster::of(start_scheduler("127.0.0.1:0"));
    cluster.add_executor("2", Path::new(data), &settings(endpoint));
    cluster
}

/// Runs a query of a URL. The client has the settings for a server.
fn run(cluster: &Cluster, arguments: &[&str], url: &str, endpoint: &str) -> Output {
    let mut command = cluster.command(arguments, Path::new(url));
    command.envs(settings(endpoint));
    Client::start(command).output()
}

fn assert_same_rows(data: &Path, map: &Path, url: &str, endpoint: &str) {
    let cluster = cluster(endpoint, url);
    for sql in QUERIES {
        let expected = embedded(sql, data, map);
        assert!(!expected.is_empty(), "{sql}");
        let arguments = ["--format", "jsonl", "--map", map.to_str().unwrap(), sql];
        assert_eq!(succeeded(&run(&cluster, &arguments, url, endpoint)), expected, "{sql}");
    }
}

#[test]
fn a_data_set_in_an_object_store_has_the_rows_of_the_one_on_a_disk() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    copy(&server, &data, "lab/data");
    assert_same_rows(&data, &map, "s3://bucket/lab/data", &server.endpoint);
}

#[test]
fn a_data_set_of_a_web_server_has_the_rows_of_the_one_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (data, map) = (dataset(folder.path()), tag_map(folder.path()));
    let Some(server) = Server::webdav(folder.path()) else {
        return skipped("no wsgidav; run `sh tools/setup.sh scale`");
    };
    assert_same_rows(&data, &map, &format!("{}/data", server.endpoint), &server.endpoint);
}

#[test]
fn a_data_set_in_an_object_store_has_the_report_of_the_one_on_a_disk() {
    let Some(hmtt) = hmtt() else {
        return skipped("target/debug/hmtt is not built; `make test` builds it");
    };
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    copy(&server, &data, "data");
    let cluster = cluster(&server.endpoint, "s3://bucket");
    let (expected, _) = report(&hmtt, &[], &data, &[]);
    let arguments = ["--cluster", &cluster.scheduler.address];
    let url = Path::new("s3://bucket/data");
    let (remote_report, _) = report(&hmtt, &arguments, url, &settings(&server.endpoint));
    for name in ["report", "complete", "missing", "notes"] {
        assert_eq!(remote_report[name], expected[name], "{name}");
    }
}

#[test]
fn an_executor_that_does_not_reach_the_object_store_is_an_error() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    copy(&server, &data, "data");
    // Nothing listens there.
    let cluster = cluster("http://127.0.0.1:9", "s3://bucket/data");
    let sql = "select sum(clock) from tags";
    let complaint = failed(&run(&cluster, &[sql], "s3://bucket/data", &server.endpoint));
    assert!(complaint.contains("127.0.0.1:9"), "{complaint}");
}
