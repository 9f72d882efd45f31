//! Tests the limit of memory, and that a query which is interrupted leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::samples::{add, capture};
use crate::{hmtt_sql, rows, succeed};

/// A data set of 1.5 million accesses.
fn large(folder: &Path) -> String {
    let (path, data) = (folder.join("large.pcapng"), folder.join("data"));
    capture(&path, 2, 5000, Duration::from_millis(1), 5);
    add(&data, &path);
    data.to_str().unwrap().to_owned()
}

/// The number that the metrics state.
fn metric(stderr: &[u8], name: &str) -> u64 {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    line[name.len()..].split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_sort_that_exceeds_the_memory_is_continued_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let data = large(folder.path());
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let sql = "select capture, session, clock, address, is_write from accesses order by address, clock, board";
    // Threads whose sorts end at different times share the memory.
    let limits = [("32M", "1"), ("32M", "2"), ("96M", "4"), ("4G", "2")];
    let mut expected = Vec::new();
    for (memory, threads) in limits {
        let output = folder.path().join(format!("{memory}-{threads}.csv"));
        let arguments = [
            "--metrics",
            "--threads",
            threads,
            "--memory",
            memory,
            "--temp-dir",
            temporary.to_str().unwrap(),
            "-o",
            output.to_str().unwrap(),
            sql,
            &data,
        ];
        let run = hmtt_sql(&arguments);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(metric(&run.stderr, "bytes on disk") > 0, memory != "4G");
        let rows = fs::read(&output).unwrap();
        fs::remove_file(output).unwrap();
        if expected.is_empty() {
            expected = rows;
        } else {
            assert!(rows == expected, "{memory}, {threads} threads");
        }
    }
    assert!(expected.len() > 50_000_000);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "temporary files are removed");
}

#[test]
fn groups_that_exceed_the_memory_are_continued_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let data = large(folder.path());
    let sql = "select address, clock % 97 as part, count(*) as accesses from accesses group by 1, 2 \
               order by 1, 2";
    let run = |memory: &str| succeed(&["--format", "csv", "--memory", memory, sql, &data]);
    assert!(run("32M") == run("1G"));
}

#[test]
fn stack_distances_count_against_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let data = large(folder.path());
    // Touches of all groups take 24 MB, and as much while they are merged.
    let sql = "select board, clock % 8 as part, approx_stack_distance(page, clock) as distances from accesses \
               group by 1, 2 order by 1, 2";
    let run = |memory: &str| hmtt_sql(&["--format", "json", "--memory", memory, sql, &data]);
    let (small, large) = (run("32M"), run("1G"));
    let errors = String::from_utf8_lossy(&small.stderr);
    assert_eq!((small.status.code(), &*small.stdout), (Some(1), &b""[..]), "{errors}");
    assert!(errors.contains("give more memory (--memory)"), "{errors}");
    assert!(large.status.success(), "{}", String::from_utf8_lossy(&large.stderr));
    let groups: serde_json::Value = serde_json::from_slice(&large.stdout).unwrap();
    let groups = groups.as_array().unwrap().iter();
    let touches: u64 = groups.map(|group| group["distances"]["touches"].as_u64().unwrap()).sum();
    let count = rows("select count(*) from accesses", data.as_ref());
    assert_eq!(count, [touches.to_string()]);
}

#[test]
fn an_interrupted_query_leaves_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let data = large(folder.path());
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let output = folder.path().join("output.csv");
        let sql =
            "select a.clock, b.clock from accesses a, accesses b where a.address <> b.address";
        let mut child = Command::new(env!("CARGO_BIN_EXE_hmtt-sql"))
            .args(["-o", output.to_str().unwrap(), sql, &data])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun when its output has rows.
        let is_begun = || {
            let files = fs::read_dir(folder.path()).unwrap().flatten();
            let staged =
                files.filter(|file| file.file_name().to_string_lossy().starts_with(".hmtt-"));
            staged.into_iter().any(|file| file.metadata().is_ok_and(|about| about.len() > 0))
        };
        let begin = Instant::now();
        while !is_begun() {
            assert!(
                begin.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(status), "{}", String::from_utf8_lossy(&ended.stderr));
        let left = fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["data", "large.pcapng"]);
    }
}
