//! Intervals of basic-block vectors are regions of exported instructions: both count the same
//! instructions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

const PROGRAM: &str = include_str!("phases.c");
/// Instructions of an interval.
const LENGTH: usize = 1000;
const RECORD_BYTES: usize = 64;

/// The instructions of each block in each interval.
type Vectors = Vec<BTreeMap<u64, u64>>;

fn vectors(text: &str) -> Vectors {
    let entry = |entry: &str| {
        let (block, count) = entry.strip_prefix(':').unwrap().split_once(':').unwrap();
        (block.parse().unwrap(), count.parse().unwrap())
    };
    let line = |line: &str| line.strip_prefix('T').unwrap().split_whitespace().map(entry).collect();
    text.lines().map(line).collect()
}

/// Converts the trace, and returns the records and the status.
fn records(file: &Path, name: &str, options: &[&str]) -> (Vec<u8>, Option<i32>, String) {
    let output = scratch(name);
    let paths = [file, &output].map(|path| path.to_str().unwrap());
    let run = hmtt(&[&["convert", "-f", "--to", "champsim"], options, &paths].concat());
    let error = String::from_utf8(run.stderr).unwrap();
    (std::fs::read(&output).unwrap_or_default(), run.status.code(), error)
}

#[test]
fn intervals_of_vectors_are_regions_of_records() {
    let flags = ["-nostdlib", "-static", "-no-pie"];
    let Some(program) = build("trace-phases", PROGRAM, &flags) else { return };
    let program = program.to_str().unwrap();
    let [profile, file] = ["trace-phases.json", "trace-phases.acc"].map(scratch);
    let run = |words: &[&str]| {
        let output = hmtt(&[words, &["--", program]].concat());
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    };
    let length = LENGTH.to_string();
    let lines = scratch("trace-phases.json.bb");
    run(&["monitor", "run", "--bbv", &length, "-o", profile.to_str().unwrap()]);
    run(&["trace", "run", "-o", file.to_str().unwrap()]);
    let vectors = std::fs::read_to_string(lines).unwrap();
    let vectors = self::vectors(&vectors);
    let profile: Value = serde_json::from_slice(&std::fs::read(&profile).unwrap()).unwrap();
    // The blocks of the program do not overlap.
    let blocks = profile["blocks"].as_array().unwrap().iter().map(|block| {
        let address = block["code_address"].as_str().unwrap().strip_prefix("0x").unwrap();
        (u64::from_str_radix(address, 16).unwrap(), block["number"].as_u64().unwrap())
    });
    let blocks: BTreeMap<u64, u64> = blocks.collect();
    let (whole, status, _) = records(&file, "trace-phases.cs", &[]);
    assert_eq!(status, Some(0));
    let executed: u64 = vectors.iter().flat_map(BTreeMap::values).sum();
    assert_eq!(whole.len(), executed as usize * RECORD_BYTES);
    assert!(vectors.len() > 10);
    for (number, vector) in vectors.iter().enumerate() {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let first = number * LENGTH * RECORD_BYTES;
        let end = whole.len().min(first + LENGTH * RECORD_BYTES);
        let region = &whole[first..end];
        for record in region.as_chunks::<RECORD_BYTES>().0 {
            let pc = u64::from_le_bytes(*record.first_chunk().unwrap());
            let (_, block) = blocks.range(..=pc).next_back().unwrap();
            *counts.entry(*block).or_default() += 1;
        }
        assert_eq!(&counts, vector, "interval {number}");
        if ![0, 3, vectors.len() - 2].contains(&number) {
            continue;
        }
        let skip = (number * LENGTH).to_string();
        let options = ["--skip", &skip, "--count", &length];
        let (cut, status, error) = records(&file, "trace-phases-cut.cs", &options);
        assert_eq!((status, cut == region), (Some(0), true), "interval {number}: {error}");
    }
    // The intervals that SimPoint chooses.
    let [list, weights] = ["phases.simpoints", "phases.weights"].map(scratch);
    std::fs::write(&list, "5 0\n1 1\n").unwrap();
    std::fs::write(&weights, "0.25 0\n0.75 1\n").unwrap();
    let options = ["--simpoints", list.to_str().unwrap(), "--interval", &length];
    let (_, status, error) = records(&file, "trace-phases-points.cs", &options);
    assert_eq!(status, Some(0), "{error}");
    for (name, interval) in [("5-0.25", 5), ("1-0.75", 1)] {
        let cut = list.with_file_name(format!("trace-phases-points.{name}.cs"));
        let cut = std::fs::read(cut).unwrap();
        let first = interval * LENGTH * RECORD_BYTES;
        assert!(cut == whole[first..first + LENGTH * RECORD_BYTES], "{name}");
    }
    // Not all of a region is there.
    let skip = (executed - 10).to_string();
    let (cut, status, error) =
        records(&file, "trace-phases-cut.cs", &["--skip", &skip, "--count", "11"]);
    assert_eq!((cut.len(), status), (10 * RECORD_BYTES, Some(3)), "{error}");
    assert!(error.contains("1 instructions of regions behind the end of the trace"), "{error}");
    // A record for each element, as Pin writes them: six fills of 5000 bytes and six copies of 200
    // words.
    let (elements, status, _) = records(&file, "trace-phases-elements.cs", &["--elements"]);
    let more = 6 * (4999 + 199) * RECORD_BYTES;
    assert_eq!((elements.len(), status), (whole.len() + more, Some(0)));
}

#[test]
fn regions_are_for_exports_of_instructions() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    for (options, why) in [
        (&["--to", "csv", "--skip", "5"][..], "csv has no instructions"),
        (&["--to", "lackey", "--elements"], "--elements is for champsim"),
        (&["--to", "champsim", "--simpoints", "x", "--interval", "10"], "give the file of weights"),
    ] {
        let output = scratch("trace-regions-refused");
        let paths = [file, &output].map(|path| path.to_str().unwrap());
        let run = hmtt(&[&["convert"], options, &paths].concat());
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!((run.status.code(), output.exists()), (Some(1), false), "{error}");
        assert!(error.contains(why), "{error}");
    }
}
