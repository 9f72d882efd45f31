//! Compares the plugin for Wireshark with `hmtt decode`. The tests are reported as skipped if
//! tshark is not installed.

mod experts;
mod fuzz;

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_format::frame::{FrameKind, Heartbeat};
use hmtt_format::record::{CountGroup, Half, PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};

use crate::card::Card;
use crate::python::python;
use crate::{capture_file, hmtt, skipped};

/// Number of bytes of a frame before its version and kind.
const MAC_BYTES: usize = 14;

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/wireshark/hmtt.lua")
}

/// Returns standard output and error of tshark with a plugin; `None` if it is not installed.
fn tshark_with(plugin: &Path, arguments: &[&str], file: &Path) -> Option<String> {
    let script = format!("lua_script:{}", plugin.display());
    let mut tshark = Command::new("tshark");
    match tshark.args(["-n", "-X", &script]).args(arguments).arg("-r").arg(file).output() {
        Err(error) => {
            skipped(format_args!("tshark: {error}"));
            None
        }
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !errors.contains("Lua"), "tshark: {errors}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }
}

fn tshark(arguments: &[&str], file: &Path) -> Option<String> {
    tshark_with(&plugin(), arguments, file)
}

/// Returns the values of fields that occur together in each frame, one row for each record.
fn columns(fields: &[&str], file: &Path) -> Option<Vec<Vec<u64>>> {
    let mut arguments = vec!["-T", "fields", "-E", "separator=;", "-E", "aggregator=,"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    let number = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => value.parse().unwrap(),
    };
    let mut rows = Vec::new();
    for line in tshark(&arguments, file)?.lines() {
        let columns: Vec<Vec<u64>> = line
            .split(';')
            .map(|values| values.split(',').filter(|v| !v.is_empty()).map(number).collect())
            .collect();
        for row in 0..columns[0].len() {
            rows.push(columns.iter().map(|column| column[row]).collect());
        }
    }
    Some(rows)
}

/// Returns the output of `hmtt decode` as lines.
fn decoded(file: &Path) -> Vec<String> {
    let output = hmtt(&["decode", file.to_str().unwrap(), "--format", "text"]);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the accesses that the plugin shows, in the format of `hmtt decode`.
fn accesses(file: &Path) -> Option<Vec<String>> {
    let fields = ["hmtt.access.clock", "hmtt.access.direction", "hmtt.access.address"];
    let line = |row: &Vec<u64>| format!("{} {} {:x}", row[0], ["R", "W"][row[1] as usize], row[2]);
    Some(columns(&fields, file)?.iter().map(line).collect())
}

fn is_access(line: &str) -> bool {
    !line.starts_with('#') && (line.contains(" R ") || line.contains(" W "))
}

fn access(write: bool, delta: u32, number: u32) -> Half {
    Half::Access { direction: Direction::from_bit(write), delta, number }
}

/// Returns a frame with every kind of record, from a card with a tag window.
fn every_kind(card: &mut Card) -> Vec<u8> {
    let run = PageRun { number: 0x3ff_f123, reads: 3, writes: 2, duration: 700 };
    let records = [
        WordRecord::Tag { delta: 5, source: TagSource::Window(Direction::Write), value: 0x20 },
        WordRecord::Tag { delta: 60_000, source: TagSource::Mark, value: 0x107 },
        WordRecord::Fault { delta: 9, kind: FaultKind::MultiRank, bank: 17 },
        WordRecord::Page { delta: 255, run },
        WordRecord::Page { delta: 256, run: PageRun { reads: 9999, duration: 1 << 20, ..run } },
        WordRecord::Slice { code: 9, partial: None, start: 1 << 40, reads: 7, writes: 8 },
        WordRecord::Slice { code: 9, partial: Some(77), start: 3, reads: 1 << 31, writes: 0 },
        WordRecord::Interval { part: 63, clock: 0x8000_0000_0001 },
        WordRecord::Count { dump: 255, group: CountGroup::Reuse, index: 15, value: u32::MAX },
        WordRecord::HotPage { dump: 1, page: 0xfff_ffff, count: 10, votes: u32::MAX },
    ];
    let mut words: Vec<u64> = records
        .into_iter()
        .flat_map(|record| {
            let (first, rest) = record.encode();
            std::iter::once(first).chain(rest.into_iter().flatten())
        })
        .collect();
    for pair in [
        [Half::Segment { segment: 0xabc, skip: 8191 }, access(true, 30, 0x3ff_ffff)],
        [Half::Skip(0x1ff_ffff), access(false, 0, 1)],
        [access(false, 1, 2), Half::Skip(0)],
    ] {
        words.push(u64::from(pair[0].encode()) << 32 | u64::from(pair[1].encode()));
    }
    card.frame(FrameKind::Data, &words)
}

#[test]
fn the_plugin_shows_the_accesses_that_decode_prints() {
    let mut card = Card { tag_window: Some(0x1000_0000), clock: 1 << 47, ..Card::new() };
    let (mut frames, _) = card.session(4, 370);
    frames.push(every_kind(&mut card));
    let file = capture_file("dissected.pcapng", &frames);
    let Some(shown) = accesses(&file) else { return };
    let expected: Vec<String> = decoded(&file).into_iter().filter(|line| is_access(line)).collect();
    assert_eq!(expected.len(), 4 * 370 + 4);
    assert_eq!(shown, expected);
}

#[test]
fn every_kind_of_record_has_the_values_that_decode_prints() {
    let file = capture_file("dissected-kinds.pcapng", &[every_kind(&mut Card::new())]);
    let text = decoded(&file);
    let matching = |wanted: &str| {
        text.iter().filter(|line| line.contains(wanted)).map(String::as_str).collect::<Vec<_>>()
    };
    let fields = |fields: &[&str]| columns(fields, &file);
    let Some(pages) = fields(&[
        "hmtt.page.clock",
        "hmtt.page.address",
        "hmtt.page.reads",
        "hmtt.page.writes",
        "hmtt.page.duration_clocks",
    ]) else {
        return;
    };
    let line = |p: &Vec<u64>| format!("{} P {:x} {} {} {}", p[0], p[1], p[2], p[3], p[4]);
    assert_eq!(pages.iter().map(line).collect::<Vec<_>>(), matching(" P "));
    let tags = fields(&["hmtt.tag.clock", "hmtt.tag.mark", "hmtt.tag.value"]).unwrap();
    assert_eq!(format!("# tag {} W {:x}", tags[0][0], tags[0][2]), matching("# tag")[0]);
    assert_eq!(format!("# mark {} {:x} free 7", tags[1][0], tags[1][2]), matching("# mark")[0]);
    assert_eq!((tags[0][1], tags[1][1]), (0, 1));
    let faults = fields(&["hmtt.fault.clock", "hmtt.fault.bank"]).unwrap();
    let fault = format!("# fault {} multi_rank {}", faults[0][0], faults[0][1]);
    assert_eq!(fault, matching("# fault")[0]);
    let slices = fields(&["hmtt.slice.clock", "hmtt.slice.reads", "hmtt.slice.writes"]).unwrap();
    assert_eq!(slices, [vec![1 << 40, 7, 8], vec![3, 1 << 31, 0]]);
    assert_eq!(fields(&["hmtt.slice.duration_clocks"]).unwrap(), [[77]]);
    let intervals = fields(&["hmtt.interval.clock", "hmtt.interval.part"]).unwrap();
    assert_eq!(intervals, [[0x8000_0000_0001, 63]]);
    let counts = ["hmtt.count.dump", "hmtt.count.group", "hmtt.count.index", "hmtt.count.value"];
    assert_eq!(fields(&counts).unwrap(), [[255, 3, 15, u64::from(u32::MAX)]]);
    let hot = ["hmtt.hot_page.dump", "hmtt.hot_page.address", "hmtt.hot_page.count"];
    assert_eq!(fields(&hot).unwrap(), [[1, 0xff_ffff_f000, 10]]);
    let kinds: Vec<u64> = fields(&["hmtt.record.kind"]).unwrap().concat();
    assert_eq!(kinds, [1, 1, 2, 3, 4, 5, 5, 6, 7, 8, 17, 0, 16, 0, 0, 18]);
}

#[test]
fn a_tag_beyond_its_window_is_no_access_for_any_reader() {
    let mut card = Card { tag_window: Some(0x1000_0000), ..Card::new() };
    // No card sends the second.
    let tags = [0x20, 0x1000_0020].map(|value| WordRecord::Tag {
        delta: 7,
        source: TagSource::Window(Direction::Write),
        value,
    });
    let frames = [card.info(), card.records(&tags, 2, 14), card.end()];
    let file = capture_file("dissected-beyond.pcapng", &frames);
    let tags_and_accesses = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| is_access(line) || line.starts_with("# tag")).cloned().collect()
    };
    let expected = ["# tag 7 W 20", "7 W 10000020", "# tag 14 W 10000020"];
    assert_eq!(tags_and_accesses(&decoded(&file)), expected);
    if let Some(shown) = columns(&["hmtt.access.address", "hmtt.access.direction"], &file) {
        assert_eq!(shown, [[0x1000_0020, 1]]);
    }
    let Some(python) = python("") else { return skipped("python3 is not installed") };
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/hmtt_reader.py");
    let output = Command::new(python).arg(reader).arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(tags_and_accesses(&lines), expected);
}

#[test]
fn the_columns_name_kind_records_and_clocks() {
    let mut card = Card::new();
    let (mut frames, _) = card.session(1, 370);
    frames.push(card.heartbeat(Heartbeat { running: true, losses: 0, transmit_clocks: 9 }));
    let file = capture_file("columns.pcapng", &frames);
    let columns = ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"];
    let Some(printed) = tshark(&columns, &file) else { return };
    let expected = [
        "HMTT\tInfo, clock 0, mode line, reads 0, writes 0, faults 1, lost 0",
        "HMTT\tData 370 records, clock 0..1107, lost 0",
        "HMTT\tEnd, clock 1107, mode line, reads 185, writes 185, faults 1, lost 0",
        "HMTT\tHeartbeat, DDR clock runs, losses 0",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
