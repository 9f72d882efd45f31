//! Tests that a capture file that continues others contains the report that the card sent before
//! it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt::decode::earlier_report;
use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_format::Direction;
use hmtt_format::record::{TagSource, WordRecord};

use crate::card::Card;
use crate::{hmtt, scratch};

const TAG_WINDOW: u64 = 0x1000_0000;

fn write(name: &str, comments: Vec<String>, frames: &[Vec<u8>]) -> PathBuf {
    let description = Description { name: "veth1".into(), comments };
    let mut writer = PcapngWriter::new(Vec::new(), &[description]).unwrap();
    for frame in frames {
        writer.write_frame(0, Duration::from_secs(5), frame.len() as u32, frame).unwrap();
    }
    let path = scratch(name);
    std::fs::write(&path, writer.into_output()).unwrap();
    path
}

/// Writes two files of a ring. The second one starts in the middle of a session, with an access to
/// the tag window and a slice.
fn ring(name: &str) -> [PathBuf; 2] {
    let mut card = Card::new();
    card.tag_window = Some(TAG_WINDOW);
    let report = card.info();
    let first = [report.clone(), card.data(6).0];
    let read = TagSource::Window(Direction::Read);
    let records = [
        WordRecord::Tag { delta: 3, source: read, value: 0x20 },
        WordRecord::Slice { code: 0, partial: None, start: 500, reads: 3, writes: 4 },
    ];
    let second = [card.records(&records, 1, 3), card.data(5).0];
    let comments = vec!["of a hot day".into(), earlier_report::comment_from_frame(&report)];
    [
        write(&format!("{name}-1.pcapng"), Vec::new(), &first),
        write(&format!("{name}-2.pcapng"), comments, &second),
    ]
}

fn printed(arguments: &[&str], file: &Path) -> String {
    let output = hmtt(&[arguments, &[file.to_str().unwrap()]].concat());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tags_and_slices_are_decoded_with_the_report_before_the_file() {
    let [_, second] = ring("ring-tags");
    let csv = printed(&["decode", "--format", "csv"], &second);
    let rows: Vec<&str> = csv.lines().skip(2).take(3).collect();
    assert_eq!(rows[..2], ["tag,18,R,,,,,0x20", "access,18,R,0x10000020,,,,"], "{csv}");
    assert_eq!(rows[2], "slice,500,,,3,4,100,", "{csv}");
    let table = scratch("ring.csv");
    let converted = hmtt(&["convert", second.to_str().unwrap(), table.to_str().unwrap()]);
    assert_eq!(converted.status.code(), Some(0), "what was before is in the file before");
    assert_eq!(std::fs::read_to_string(table).unwrap(), csv);
    let merged = printed(&["merge", "--format", "csv"], &second);
    assert!(merged.contains("access,18,R,0x10000020,,,,\n"), "{merged}");
}

#[test]
fn info_shows_the_memory_but_not_the_counts_of_the_report_before_the_file() {
    let [first, second] = ring("ring-info");
    let info = |file| -> serde_json::Value {
        serde_json::from_str(&printed(&["info", "--json"], file)).unwrap()
    };
    let (first, second) = (info(&first), info(&second));
    assert_eq!(first["memory"], second["memory"]);
    assert_eq!(first["settings"], second["settings"]);
    assert_eq!(second["settings"]["tag_window_address"], "0x10000000");
    let counts = &second["counts"];
    assert_eq!((&counts["frames"], &counts["records"]), (&2.into(), &7.into()));
    assert_eq!(
        (&counts["missing_frames"], &counts["accesses_before_start"]),
        (&0.into(), &6.into())
    );
    assert_eq!(counts["access_bytes"], 5 * 64 + 32, "lines, and a burst of 4 words");
}

#[test]
fn a_comment_that_is_no_report_is_printed_as_a_comment() {
    let mut card = Card::new();
    let (report, data) = (earlier_report::comment_from_frame(&card.info()), card.data(3).0);
    let whole = earlier_report::from_comment(&report);
    assert!(whole.is_some());
    for cut in (0..report.len()).step_by(7) {
        assert_eq!(earlier_report::from_comment(&report[..cut]), None, "{cut}");
    }
    assert_eq!(earlier_report::from_comment(&report.replace("hmtt", "tmth")), None);
    assert_eq!(earlier_report::from_comment(&earlier_report::comment_from_frame(&data)), None);
    let signs = report.replacen("00", "+0", 1);
    assert_eq!(earlier_report::from_comment(&signs), None);
    assert_eq!(earlier_report::from_comment(&report.replacen("00", "é", 1)), None);
}
