//! What other programs have recorded is read as what `hmtt trace` has written for them, and states
//! what it does not know.

use serde_json::Value;

use super::*;

/// As many instructions as the tests need.
const COUNT: [&str; 2] = ["--count", "20000"];

/// Sums of a file by `hmtt stats`, and the exit status.
fn stats(path: &Path) -> (Value, Option<i32>) {
    let run = hmtt(&["stats", "--json", path.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&run.stderr).into_owned();
    let value = serde_json::from_slice(&run.stdout);
    (value.unwrap_or_else(|_| panic!("{error}")), run.status.code())
}

/// Finds a number in an object or those within it.
fn number_of(value: &Value, name: &str) -> Option<u64> {
    match value {
        Value::Object(object) => object
            .get(name)
            .and_then(Value::as_u64)
            .or_else(|| object.values().find_map(|inner| number_of(inner, name))),
        Value::Array(elements) => elements.iter().find_map(|inner| number_of(inner, name)),
        _ => None,
    }
}

#[test]
fn exported_files_are_read_back() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    for to in ["lackey", "drmemtrace", "champsim", "dramsim3", "dramsys", "ramulator"] {
        let (output, error) = converted(file, to, &COUNT);
        let line = error.lines().last().unwrap();
        let counts = if line.contains("requests: ") { "requests: " } else { "instructions with " };
        let (_, counts) = line.split_once(counts).unwrap();
        let (reads, rest) = counts.split_once(" reads and ").unwrap();
        let (writes, _) = rest.split_once(" writes").unwrap();
        let (sums, status) = stats(&output);
        assert_eq!(status, Some(0), "{to}: {sums}");
        assert_eq!(number_of(&sums, "reads"), reads.parse().ok(), "{to}: {sums}");
        assert_eq!(number_of(&sums, "writes"), writes.parse().ok(), "{to}");
        let expected = ["reads", "writes"].map(|name| number_of(&sums, name));
        // Through a table the sums are the same.
        let table = scratch(&format!("imported-{to}.parquet"));
        let paths = [&output, table.as_path()].map(|path| path.to_str().unwrap());
        let run = hmtt(&[&["convert", "-f"], &paths[..]].concat());
        assert_eq!(run.status.code(), Some(0), "{to}: {run:?}");
        let (table, _) = stats(&table);
        assert_eq!(["reads", "writes"].map(|name| number_of(&table, name)), expected, "{to}");
    }
}

#[test]
fn requests_of_a_simulator_are_those_of_another() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let (requests, _) = converted(file, "dramsim3", &COUNT);
    let expected = requests.text();
    let (dramsys, _) = converted(&requests, "dramsys", &[]);
    drop(requests);
    let (again, error) = converted(&dramsys, "dramsim3", &[]);
    assert!(again.text() == expected, "{error}");
    let (lackey, _) = converted(file, "lackey", &COUNT);
    let cache = ["--cache", "l1=4K,1,64,lru"];
    let (misses, _) = converted(&lackey, "ramulator", &cache);
    let (expected, _) = converted(file, "ramulator", &[&COUNT[..], &cache].concat());
    assert!(misses.text() == expected.text());
}

#[test]
fn samples_are_never_complete() {
    let file = scratch("imported-samples.txt");
    let text = " ls 12/12 3678.072400: 1 cpu/mem-loads/P: 7ffe0 5080 |OP LOAD|LVL L1 hit|LCK No 9 401136 main\n";
    std::fs::write(&file, text).unwrap();
    let table = scratch("imported-samples.csv");
    let paths = [&file, &table].map(|path| path.to_str().unwrap());
    let run = hmtt(&["convert", "-f", paths[0], paths[1]]);
    let error = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(3), "{error}");
    assert!(error.contains("accesses were sampled") && error.contains("9.0 on average"), "{error}");
    for path in paths {
        let run = hmtt(&["stats", path]);
        let output = String::from_utf8(run.stdout).unwrap();
        assert_eq!(run.status.code(), Some(3), "{output}");
        assert!(output.starts_with("INCOMPLETE: 1 access"), "{output}");
        assert!(output.contains("accesses were sampled"), "{output}");
    }
}

#[test]
fn what_is_not_read_is_refused() {
    let output = scratch("imported-refused.csv");
    let refused = |name: &str, content: &str, options: &[&str], why: &str| {
        let file = scratch(name);
        std::fs::write(&file, content).unwrap();
        let paths = [&file, &output].map(|path| path.to_str().unwrap());
        let run = hmtt(&[&["convert", "-f"], options, &paths].concat());
        let error = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{error}");
        assert!(error.contains(why), "{error}");
    };
    refused(
        "imported-perf.data",
        "PERFILE2",
        &[],
        "make text of it, which is read: perf script -F",
    );
    let requests = "0x40 READ 1\n0x80 READ 2\n";
    let to_champsim = ["--to", "champsim"];
    refused("imported.ds3", requests, &to_champsim, "has not all that champsim holds");
    refused("imported.ds3", requests, &["--thread", "1"], "regions and threads are not cut out");
    refused("imported.ds3", requests, &["--cache", "desktop"], "--cache is for requests");
    let damaged = format!("{requests}0x40 LOAD 3\n");
    refused(
        "imported.ds3",
        &damaged,
        &["--from", "dramsim3"],
        "line 3: expected `0xADDRESS READ|WRITE",
    );
    let recording = scratch("imported-recording.data");
    std::fs::write(&recording, "PERFILE2").unwrap();
    let run = hmtt(&["stats", recording.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8(run.stderr).unwrap().contains("perf script -F"));
}
