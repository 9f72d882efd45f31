//! Binary, compressed and piped files of other programs are recognised by their first bytes, and
//! state what they do not know.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flate2::{Compression, write::GzEncoder};
use hmtt_test_support::programs::transcript;

use crate::command_line::check;
use crate::{capture, hmtt, scratch, skipped};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = scratch(name);
    fs::write(&path, content).unwrap();
    path
}

/// Bytes of numbers, little-endian.
fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Three instructions for ChampSim: one that reads and writes, a branch that is taken, and one that
/// writes twice.
fn champsim() -> Vec<u8> {
    numbers(
        &[
            [0x1000, 0, 0x80, 0, 0x7fff_0040, 0, 0, 0x48],
            [0x1004, 0x0101, 0, 0, 0, 0, 0, 0],
            [0x1000, 0, 0x2040, 0x2080, 0, 0, 0, 0],
        ]
        .concat(),
    )
}

/// Three requests of libCacheSim, for two objects.
fn oracle() -> Vec<u8> {
    let request = |time: u32, object: u64, next: i64| {
        [
            &time.to_le_bytes()[..],
            &object.to_le_bytes(),
            &4096u32.to_le_bytes(),
            &next.to_le_bytes(),
        ]
        .concat()
    };
    [request(5, 3, 3), request(5, 9, -1), request(6, 3, -1)].concat()
}

/// Three packets of gem5, in ticks of a picosecond: a read, a clean eviction and a write-back. The
/// bytes are those that Python's `google.protobuf` writes.
const GEM5: &[u8] = b"gem5,\x0a\x0esystem.monitor\x18\x80\xa0\x94\xa5\x8d\x1d\x22\x13\x08\x01\x12\x0fsystem.cpu.data\
    \x12\x08\xdc\x0b\x10\x01\x18\xc0\x80\x80\x80\x08 @(\x80\x020\x07\
    \x0e\x08\xd0\x0f\x10\x0a\x18@ @(\x80\x020\x07\x12\x08\xc4\x13\x10\x07\x18\x80\x81\x80\x80\x08 @(\x80\x020\x07";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn lz4(content: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(content, 1).unwrap()
}

/// Runs `hmtt` with a file as standard input.
fn redirected(path: &Path, arguments: &[&str]) -> Output {
    let input = File::open(path).unwrap();
    Command::new(env!("CARGO_BIN_EXE_hmtt")).args(arguments).stdin(input).output().unwrap()
}

#[test]
fn binary_files_of_other_programs_are_analysed() {
    let champsim = file("imported.champsimtrace", &champsim());
    check("imported-champsim", &transcript(&hmtt(&["stats", text(&champsim)])));
    let oracle = file("imported.oracleGeneral", &oracle());
    check("imported-oracle", &transcript(&hmtt(&["stats", text(&oracle)])));
    let gem5 = file("imported-packets.ptrc.gz", &gzip(GEM5));
    check("imported-gem5", &transcript(&hmtt(&["stats", text(&gem5)])));
    let instructions = file("imported-ramulator.txt", b"3 20734016\n1 20734080 128\n");
    check("imported-ramulator", &transcript(&hmtt(&["stats", text(&instructions)])));
}

#[test]
fn binary_files_of_other_programs_are_converted() {
    let champsim = file("imported-convert.champsimtrace", &champsim());
    let run = hmtt(&["convert", text(&champsim), "--to", "csv", "-"]);
    check("imported-champsim-csv", &transcript(&run));
    let oracle = file("imported-convert.oracleGeneral", &oracle());
    let run = hmtt(&["convert", text(&oracle), "--to", "csv", "-"]);
    check("imported-oracle-csv", &transcript(&run));
    let gem5 = file("imported-convert.ptrc", GEM5);
    check("imported-gem5-csv", &transcript(&hmtt(&["convert", text(&gem5), "--to", "csv", "-"])));
    // A name that CSV has in common with it.
    let named = hmtt(&["convert", "--from", "libcachesim", text(&oracle), "--to", "csv", "-"]);
    assert_eq!(named.stdout, run.stdout);
    // A file of numbers is certain to be one of instructions only if it is said to be one.
    let numbers = file("imported-numbers.txt", b"3 20734016\n");
    let arguments = ["convert", text(&numbers), "--to", "ramulator", "-"];
    let run = hmtt(&arguments);
    assert_eq!(run.status.code(), Some(1), "{}", transcript(&run));
    let run = hmtt(&[&arguments[..], &["--from", "ramulator"]].concat());
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"LD 0x13c6040\n"[..]));
}

#[test]
fn compressed_files_are_recognised_by_what_they_decompress_to() {
    let plain = file("imported-plain.champsimtrace", &champsim());
    let stats = hmtt(&["stats", "--json", text(&plain)]).stdout;
    let csv = hmtt(&["convert", text(&plain), "--to", "csv", "-"]).stdout;
    assert!(!stats.is_empty() && !csv.is_empty());
    let compressed =
        [("gz", gzip(&champsim())), ("zst", zstd(&champsim())), ("lz4", lz4(&champsim()))];
    for (extension, bytes) in compressed {
        let path = file(&format!("imported-plain.{extension}"), &bytes);
        let same = |output: &Output, expected: &[u8]| {
            let output = String::from_utf8_lossy(&output.stdout).replace(text(&path), text(&plain));
            assert_eq!(output, String::from_utf8_lossy(expected), "{extension}");
        };
        same(&hmtt(&["stats", "--json", text(&path)]), &stats);
        same(&hmtt(&["convert", text(&path), "--to", "csv", "-"]), &csv);
        assert_eq!(redirected(&path, &["convert", "-", "--to", "csv", "-"]).stdout, csv);
    }
}

#[test]
fn standard_input_needs_no_format_where_its_first_bytes_say_it() {
    let lackey = file("imported-pipe.lackey", b"I  00401000,3\n S 1ffefffe50,8\n");
    let converted = redirected(&lackey, &["convert", "-", "--to", "csv", "-"]);
    assert_eq!(converted.stdout, hmtt(&["convert", text(&lackey), "--to", "csv", "-"]).stdout);
    let stats = redirected(&lackey, &["stats", "-"]);
    assert_eq!(
        (stats.status.code(), &stats.stdout),
        (Some(0), &hmtt(&["stats", text(&lackey)]).stdout)
    );
    // A pipe by its path.
    let mut child = Command::new(env!("CARGO_BIN_EXE_hmtt"))
        .args(["stats", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip(b"LD 0x40\nST 0x80\n")).unwrap();
    let piped = child.wait_with_output().unwrap();
    assert!(
        String::from_utf8_lossy(&piped.stdout).starts_with("complete: 2 accesses"),
        "{piped:?}"
    );
    // A capture, as it is and compressed.
    let mut card = crate::card::Card::new();
    let capture = file("imported-pipe.pcapng", &capture(&card.session(5, 100).0));
    let expected = hmtt(&["convert", text(&capture), "--to", "csv", "-"]).stdout;
    assert_eq!(redirected(&capture, &["convert", "-", "--to", "csv", "-"]).stdout, expected);
    let compressed = file("imported-pipe.pcapng.gz", &gzip(&fs::read(&capture).unwrap()));
    assert_eq!(redirected(&compressed, &["convert", "-", "--to", "csv", "-"]).stdout, expected);
    let unknown = file("imported-pipe.txt", b"what is this");
    let refused = redirected(&unknown, &["convert", "-", "--to", "csv", "-"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && error.contains("give --from"), "{error}");
}

#[test]
fn compressed_files_that_are_not_read_are_refused() {
    for (name, content, why) in [
        (
            "imported-table.csv.gz",
            gzip(b"clock,direction,address\n1,R,0x40\n"),
            "compressed with gzip",
        ),
        ("imported-nothing.zst", zstd(b"what is this"), "compressed with zstd"),
        ("imported.champsim.xz", b"\xfd7zXZ\0\0\x04".to_vec(), "xz -dc"),
    ] {
        let path = file(name, &content);
        let run = hmtt(&["stats", text(&path)]);
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{error}");
        assert!(error.contains(why), "{error}");
    }
    let path = file("imported-refused.champsim.xz", b"\xfd7zXZ\0\0\x04");
    let run = hmtt(&["convert", text(&path), "--to", "csv", "-"]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("xz -dc"));
    // What was cut is read up to there.
    let whole = gzip(&champsim().repeat(3000));
    let path = file("imported-cut.gz", &whole[..whole.len() - 20]);
    let run = hmtt(&["stats", text(&path)]);
    assert_eq!(run.status.code(), Some(1), "{}", transcript(&run));
    assert!(String::from_utf8_lossy(&run.stdout).starts_with("INCOMPLETE"), "{run:?}");
}

#[test]
fn records_of_damon_are_refused_by_name() {
    let record = b"[\n {\n  \"kdamond_idx\": 0,\n  \"target_id\": 0,\n  \"snapshots\": []\n }\n]\n";
    let damon = file("imported-damon.json", record);
    for arguments in [&["stats", text(&damon)][..], &["convert", text(&damon), "--to", "csv", "-"]]
    {
        let run = hmtt(arguments);
        let error = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{error}");
        assert!(error.contains("is a record of DAMON"), "{error}");
    }
}

/// Source of data of a sample that is no memory access, as perf writes it, and bits that make it a
/// load or a store.
const NO_SOURCE: [u8; 8] = [0x21, 0, 8, 5, 0x1e, 0, 0, 0];
const OPERATIONS: [u8; 2] = [0x22, 0x24];

#[test]
fn a_recording_of_perf_is_read_as_its_text() {
    let recording = scratch("imported-recorded.data");
    let options =
        ["record", "-q", "-e", "page-faults", "-e", "minor-faults", "-c", "1", "-d", "-W"];
    let path = text(&recording);
    let run = Command::new("perf").args(options).args(["-o", path, "--", "true"]).output();
    if !run.is_ok_and(|run| run.status.success()) {
        return skipped("perf record does not work");
    }
    // Page faults have addresses, and are no loads or stores. Some are made ones.
    let mut bytes = fs::read(&recording).unwrap();
    let places = (0..bytes.len() - 8).filter(|place| bytes[*place..][..8] == NO_SOURCE);
    let places: Vec<usize> = places.collect();
    for (place, operation) in places.iter().skip(1).zip(OPERATIONS.iter().cycle()) {
        bytes[*place] = *operation;
    }
    fs::write(&recording, bytes).unwrap();
    let fields = "comm,tid,time,event,addr,data_src,weight,ip";
    let script = Command::new("perf").args(["script", "--ns", "-F", fields, "-i", path]).output();
    let script = script.unwrap().stdout;
    if places.len() < 3 || script.is_empty() {
        return skipped("perf has no sources of data");
    }
    let script = file("imported-recorded.txt", &script);
    let convert = |path: &Path| hmtt(&["convert", text(path), "--to", "csv", "-"]);
    let (own, expected) = (convert(&recording), convert(&script));
    assert_eq!((own.status.code(), expected.status.code()), (Some(3), Some(3)), "{own:?}");
    let lines = |output: &Output| {
        let mut lines: Vec<_> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert!(lines(&expected).len() >= places.len());
    assert_eq!(lines(&own), lines(&expected));
}
