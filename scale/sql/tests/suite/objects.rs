//! Tests data sets in object stores: with a server that speaks the protocol of Amazon S3 (moto),
//! and one of WebDAV (wsgidav), which `tools/setup.sh scale` installs.

mod cut;
mod server;

use std::path::Path;
use std::process::{Command, Output};

use hmtt_test_support::files::skipped;

use crate::samples::{self, dataset};
use crate::{rows, succeed};
use cut::Cut;
use server::Server;

/// Queries of each table, with columns of each type.
const QUERIES: [&str; 5] = [
    "select * from accesses order by run, board, session, clock, address limit 3000",
    "select board, hour, count(*), sum(clock), min(arrival) from accesses group by board, hour order by 1, 2",
    "select * from runs order by run, board, session",
    "select function, count(*), sum(self_ns) from calls group by function order by 1",
    "select * from gaps order by run, board, session, arrival, after_clock",
];

/// Runs a program of this crate with the settings for a server.
fn run(program: &str, arguments: &[&str], endpoint: &str) -> Output {
    Command::new(program).args(arguments).envs(server::settings(endpoint)).output().unwrap()
}

fn sql(arguments: &[&str], endpoint: &str) -> Output {
    run(env!("CARGO_BIN_EXE_hmtt-sql"), arguments, endpoint)
}

/// What `hmtt-push` prints, and its exit status.
fn push(arguments: &[&str], endpoint: &str) -> (String, i32) {
    let Output { status, stdout, stderr } =
        run(env!("CARGO_BIN_EXE_hmtt-push"), arguments, endpoint);
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    (text, status.code().unwrap())
}

/// The CSV lines of a query of an object store, without the names.
fn remote_rows(query: &str, url: &str, endpoint: &str) -> Vec<String> {
    let output = sql(&["--format", "csv", query, url], endpoint);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{query}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

fn assert_same_rows(data: &Path, url: &str, endpoint: &str) {
    for query in QUERIES {
        let expected = rows(query, data);
        assert!(!expected.is_empty(), "{query}");
        assert!(remote_rows(query, url, endpoint) == expected, "{query}");
    }
}

fn part_count(data: &Path) -> usize {
    hmtt_dataset::Dataset::new(data).parts().unwrap().len()
}

#[test]
fn a_copied_data_set_has_the_same_rows_and_is_copied_once() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let (data, url) = (dataset(folder.path()), "s3://bucket/lab/data");
    let text = data.to_str().unwrap();
    let parts = part_count(&data);
    let (printed, status) = push(&[text, url], &server.endpoint);
    assert!(printed.starts_with(&format!("{parts} parts copied, ")) && status == 0, "{printed}");
    let again = format!("0 parts copied, 0 bytes; {parts} were there; {parts} compared\n");
    assert_eq!(push(&["--verify", text, url], &server.endpoint), (again, 0));
    assert_same_rows(&data, url, &server.endpoint);
    // A data set and its copy together have each row twice.
    let both = sql(&["--format", "csv", "select count(*) from runs", url, text], &server.endpoint);
    let count: usize = rows("select count(*) from runs", &data)[0].parse().unwrap();
    assert_eq!(
        String::from_utf8(both.stdout).unwrap().lines().nth(1),
        Some(&*(2 * count).to_string())
    );
    // Another capture.
    let more = folder.path().join("more.pcapng");
    samples::capture(&more, 1, 20, std::time::Duration::from_millis(9), 5);
    samples::add(&data, &more);
    let (printed, _) = push(&[text, url], &server.endpoint);
    assert!(printed.contains(&format!("; {parts} were there")), "{printed}");
    assert_same_rows(&data, url, &server.endpoint);
}

#[test]
fn only_what_a_query_needs_is_read_of_objects() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = folder.path().join("long.pcapng");
    // Three hours, of which parts have several megabytes, so that they are sent in pieces.
    samples::capture(&path, 1, 24_000, std::time::Duration::from_millis(400), 3);
    samples::add(&data, &path);
    let largest = |data: &Path| {
        let parts = hmtt_dataset::Dataset::new(data).parts().unwrap();
        parts.iter().map(|(_, path)| data.join(path).metadata().unwrap().len()).max().unwrap()
    };
    assert!(largest(&data) > 5 << 20, "{} bytes", largest(&data));
    let (text, url) = (data.to_str().unwrap(), "s3://bucket/long");
    let (printed, status) = push(&["--verify", text, url], &server.endpoint);
    assert_eq!(status, 0, "{printed}");
    let second = "select count(*), sum(page) from accesses \
                  where arrival >= '2023-11-14T23:10:00Z' and arrival < '2023-11-14T23:10:02Z'";
    assert_eq!(remote_rows(second, url, &server.endpoint), rows(second, &data));
    let output = sql(&["--metrics", second, url], &server.endpoint);
    let text = String::from_utf8(output.stderr).unwrap();
    let line = text.lines().find(|line| line.starts_with("bytes read")).unwrap();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] * 20 < numbers[1], "{line}");
}

#[test]
fn errors_of_object_stores_say_what_is_wrong() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let text = data.to_str().unwrap();
    let complaint = |output: Output| {
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let query = |url: &str, endpoint: &str| complaint(sql(&["select 1", url], endpoint));
    let message = query("s3://none/data", &server.endpoint);
    assert!(
        message.starts_with("hmtt sql: s3://none/data: the object store refuses: NoSuchBucket: "),
        "{message}"
    );
    let message = query("s3://bucket/empty", &server.endpoint);
    assert_eq!(
        message,
        "hmtt sql: s3://bucket/empty is no data set: there are no parts below it\n"
    );
    let message = query("ftp://host/data", &server.endpoint);
    assert!(message.contains("no URL of an object store; use s3://"), "{message}");
    let (message, status) = push(&[text, "s3://none/data"], &server.endpoint);
    assert!(message.contains("NoSuchBucket") && status == 1, "{message}");
    let (message, status) = push(&[text, "http://127.0.0.1:9/data"], &server.endpoint);
    assert!(message.contains("HTTP servers are only read") && status == 1, "{message}");
    let nobody = "http://127.0.0.1:9";
    assert!(query("s3://bucket/data", nobody).contains("Connection refused"));
    // A server that knows the keys of users refuses those of others.
    let strict = Server::s3_with_users().unwrap();
    let message = query("s3://bucket/data", &strict.endpoint);
    assert!(message.contains("the object store refuses: InvalidAccessKeyId"), "{message}");
    let (message, status) = push(&[text, "s3://bucket/data"], &strict.endpoint);
    assert!(message.contains("InvalidAccessKeyId") && status == 1, "{message}");
}

#[test]
fn a_server_that_ends_leaves_whole_parts_and_the_next_copy_completes_them() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let (text, parts) = (data.to_str().unwrap(), part_count(&data));
    let mut copied = std::collections::BTreeSet::new();
    for (number, bytes) in [2_000, 30_000, 100_000, 200_000].into_iter().enumerate() {
        let url = format!("s3://bucket/cut{number}");
        let cut = Cut::after(&server.endpoint, bytes);
        let (printed, status) = push(&[text, &url], &cut.endpoint);
        assert_eq!(status, 1, "{printed}");
        // What is there is whole.
        let (printed, status) = push(&["--verify", text, &url], &server.endpoint);
        assert!(status == 0 && printed.ends_with(&format!("; {parts} compared\n")), "{printed}");
        copied.extend(printed.split(' ').next().and_then(|count| count.parse::<usize>().ok()));
        assert_same_rows(&data, &url, &server.endpoint);
    }
    assert!(copied.len() > 2 && copied.iter().any(|count| *count < parts), "{copied:?} of {parts}");
}

#[test]
fn a_server_that_ends_in_a_query_is_an_error() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let (data, url) = (dataset(folder.path()), "s3://bucket/data");
    assert_eq!(push(&[data.to_str().unwrap(), url], &server.endpoint).1, 0);
    let query = "select sum(clock), sum(page) from accesses";
    let expected = rows(query, &data);
    let (mut failures, mut results) = (0, 0);
    for bytes in [500, 20_000, 60_000, 200_000, 500_000, 100_000_000] {
        let cut = Cut::after(&server.endpoint, bytes);
        let output = sql(&["--format", "csv", query, url], &cut.endpoint);
        let (text, errors) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        if output.status.success() {
            assert_eq!(text.lines().nth(1), Some(&*expected[0]));
            results += 1;
        } else {
            assert_eq!((&*text, output.status.code()), ("", Some(1)), "no rows: {errors}");
            assert!(errors.starts_with("hmtt sql: ") && errors.lines().count() == 1, "{errors}");
            assert!(!errors.contains("damaged"), "{errors}");
            failures += 1;
        }
    }
    assert!(failures >= 3 && results >= 1, "{failures} failures, {results} results");
}

#[test]
fn parts_that_were_merged_later_replace_those_they_were_merged_from() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (number, seed) in [(1, 3), (2, 8)] {
        let path = folder.path().join(format!("trace_0000{number}_20231114220000.pcapng"));
        samples::capture(&path, 1, 50, std::time::Duration::from_millis(2), seed);
        samples::add(&data, &path);
    }
    let (text, url) = (data.to_str().unwrap(), "s3://bucket/merged");
    assert_eq!(push(&[text, url], &server.endpoint).1, 0);
    let compacted = hmtt_dataset::Dataset::open(&data).unwrap().compact().unwrap();
    assert!(compacted.merged > 0);
    let (printed, status) = push(&[text, url], &server.endpoint);
    assert!(status == 1 && printed.contains("--replace"), "{printed}");
    let (printed, status) = push(&["--replace", text, url], &server.endpoint);
    let expected = format!("{} merged ones removed", compacted.merged);
    assert!(status == 0 && printed.contains(&expected), "{printed}");
    let query = "select run, board, count(*), sum(clock) from accesses group by run, board";
    assert_eq!(remote_rows(query, url, &server.endpoint), rows(query, &data));
    let (printed, _) = push(&["--verify", text, url], &server.endpoint);
    assert!(printed.starts_with("0 parts copied, "), "{printed}");
}

#[test]
fn damaged_objects_are_left_out_on_request() {
    let Some(server) = Server::s3() else {
        return skipped("no moto; run `sh tools/setup.sh scale`");
    };
    let folder = tempfile::tempdir().unwrap();
    let (data, url) = (dataset(folder.path()), "s3://bucket/damaged");
    let dataset = hmtt_dataset::Dataset::new(&data);
    let parts = dataset.parts_of(hmtt_dataset::Table::Accesses).unwrap();
    let path = data.join(&parts[0].1);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&bytes[..bytes.len() - 4], b"XXXX"].concat()).unwrap();
    assert_eq!(push(&[data.to_str().unwrap(), url], &server.endpoint).1, 0);
    let query = "select count(*) from accesses";
    let output = sql(&[query, url], &server.endpoint);
    let errors = String::from_utf8(output.stderr).unwrap();
    let name = format!("{url}/{}", parts[0].1.display());
    assert!(errors.contains(&format!("{name}: damaged: ")), "{errors}");
    let output = sql(&["--skip-damaged", query, url], &server.endpoint);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains(&name));
}

#[test]
fn a_web_server_that_lists_folders_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let Some(server) = Server::webdav(folder.path()) else {
        return skipped("no wsgidav; run `sh tools/setup.sh scale`");
    };
    let url = format!("{}/data", server.endpoint);
    assert_same_rows(&data, &url, &server.endpoint);
    let text = succeed(&["describe calls", data.to_str().unwrap()]);
    assert!(text.contains("self_ns"), "{text}");
}
