//! Tests the displays of a running capture: seconds as JSON lines, as a status line, as metrics.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hmtt_format::PhysAddr;
use hmtt_host::online::{AccessCounts, Activity, BankUse, Failed, HotPage, RowUse, Second, status};
use hmtt_host::receive::{Link, Snapshot};
use hmtt_test_support::names::assert_json_documented;
use proptest::prelude::*;

/// Snapshot of a capture at line rate after `seconds`.
pub fn snapshot(seconds: u64) -> Snapshot {
    let mut link =
        Link { interface: "eth1".into(), captured_frames: 81_280 * seconds, ..Link::default() };
    link.statistics.kernel_dropped_frames = Some(0);
    link.counts.frames = 81_274 * seconds;
    link.counts.frame_bytes = 1514 * 81_274 * seconds;
    link.counts.records = 30_071_000 * seconds;
    link.counts.accesses = 30_071_380 * seconds;
    link.counts.reads = 21_350_680 * seconds;
    link.counts.writes = 8_720_700 * seconds;
    link.counts.access_bytes = 30_071_380 * 64 * seconds;
    Snapshot {
        wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds),
        elapsed: Duration::from_secs(seconds),
        file: Some(PathBuf::from("/captures/cap_00003.pcapng")),
        written_bytes: 1_200_000 * seconds,
        queue: (3, 64),
        files: 1,
        unwritten_frames: 0,
        lost_files: Default::default(),
        clock_steps: Default::default(),
        skipped_frames: 0,
        links: vec![link],
    }
}

/// Activity of the statistics up to `seconds`.
pub fn activity(seconds: u64) -> Activity {
    let rows = Some(RowUse { accesses: 30_071_380, row_hits: 18_944_969 });
    let slice = AccessCounts {
        frames: 81_272,
        accesses: 30_071_380,
        reads: 21_350_680,
        writes: 8_720_700,
        bytes: 30_071_380 * 64,
        pages: 12_345,
        rows,
        ..AccessCounts::default()
    };
    let total = AccessCounts {
        accesses: slice.accesses * seconds,
        reads: slice.reads * seconds,
        writes: slice.writes * seconds,
        bytes: slice.bytes * seconds,
        pages: 54_321,
        ..slice
    };
    let hot_page =
        |page: u64| HotPage { link: 0, address: PhysAddr(page << 12), accesses: 900_000 / page };
    let banks = (0..8).map(|index| {
        let slice = RowUse { accesses: 1_000_000 * (index + 1), row_hits: 600_000 * (index + 1) };
        let total =
            RowUse { accesses: slice.accesses * seconds, row_hits: slice.row_hits * seconds };
        BankUse { link: 0, rank: index as u32 / 4, bank: index as u32 % 4, slice, total }
    });
    Activity { slice, total, hot_pages: (1..20).map(hot_page).collect(), banks: banks.collect() }
}

/// Second of the capture that ends after `seconds`.
pub fn second(seconds: u64) -> Second {
    Second::new(&snapshot(seconds - 1), &snapshot(seconds), &activity(seconds))
}

/// The same second with losses of every kind.
pub fn lossy(seconds: u64) -> Second {
    let mut now = snapshot(seconds);
    now.skipped_frames = 4096;
    let link = &mut now.links[0];
    link.wire_lost_frames = 12;
    link.statistics.kernel_dropped_frames = Some(345);
    link.statistics.interface_dropped_frames = Some(7);
    link.counts.card_lost_records = 67_890;
    link.counts.lost_accesses = 135_780;
    link.counts.malformed_frames = 2;
    link.counts.order.duplicate_frames = 3;
    link.counts.order.reordered_frames = 4;
    link.counts.order.restarts = 1;
    link.counts.foreign_frames = 5;
    Second::new(&snapshot(seconds - 1), &now, &activity(seconds))
}

/// The same second without losses, and with a failed interface.
pub fn failing(seconds: u64) -> Second {
    let mut now = snapshot(seconds);
    now.links.push(Link { interface: "eth2".into(), ..Link::default() });
    now.links[1].failed = Some("interface eth2 is down".into());
    Second::new(&snapshot(seconds - 1), &now, &activity(seconds))
}

/// Compares a text with a file of `tests/snapshots`.
pub fn golden(name: &str, printed: &str) {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_snapshot!(name, printed) });
}

#[test]
fn a_second_is_a_line_of_json() {
    let mut second = lossy(727);
    second.failed.push(Failed { link: 0, reason: "interface eth1 is down".into() });
    second.activity.hot_pages.truncate(1);
    second.activity.banks.truncate(1);
    let line = serde_json::to_string(&second).unwrap();
    assert!(!line.contains('\n'));
    golden("online-second", &serde_json::to_string_pretty(&second).unwrap());
}

#[test]
fn every_field_of_the_json_line_is_documented() {
    let page = include_str!("../../../docs/recv.md");
    let json = serde_json::to_value(failing(9)).unwrap();
    assert_json_documented("a second", &json);
    let mut names = Vec::new();
    fields(&json, "", &mut names);
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/recv.md does not describe {name}");
    }
}

/// Collects names as the documentation writes them: `activity.banks[].interface_index`.
fn fields(json: &serde_json::Value, prefix: &str, names: &mut Vec<String>) {
    match json {
        serde_json::Value::Object(object) => object.iter().for_each(|(name, value)| {
            let separator = if prefix.is_empty() { "" } else { "." };
            fields(value, &format!("{prefix}{separator}{name}"), names);
        }),
        serde_json::Value::Array(array) => fields(&array[0], &format!("{prefix}[]"), names),
        _ => names.push(prefix.to_owned()),
    }
}

#[test]
fn rates_are_those_of_the_interval_which_may_be_empty() {
    let mut now = snapshot(9);
    now.elapsed = Duration::from_millis(8_500);
    let second = Second::new(&snapshot(8), &now, &activity(9));
    assert_eq!(second.rates.frames, 2.0 * 81_274.0);
    assert_eq!(second.rates.wire_bytes, 2.0 * 81_274.0 * 1538.0);
    assert_eq!(second.rates.access_bytes, 2.0 * 30_071_380.0 * 64.0);
    let none = Second::new(&now, &now, &Activity::default());
    assert_eq!((none.rates.frames, none.read_share()), (0.0, None));
}

#[test]
fn losses_of_all_interfaces_are_added_and_unknown_is_not_zero() {
    let (before, mut now) = (snapshot(1), snapshot(2));
    now.links.extend([Link::default(), now.links[0].clone()]);
    now.links[1].statistics.kernel_dropped_frames = None;
    now.links[2].statistics.kernel_dropped_frames = Some(5);
    now.links[1].wire_lost_frames = 3;
    let second = Second::new(&before, &now, &Activity::default());
    assert_eq!(second.losses.kernel_dropped_frames, Some(5));
    assert_eq!(second.losses.interface_dropped_frames, None);
    assert_eq!(second.losses.places(), [("wire", 3), ("kernel", 5)]);
    assert_eq!(second.interfaces, ["eth1", "", "eth1"]);
}

#[test]
fn the_status_line_reports_rates_and_losses() {
    assert_eq!(
        status::line(&second(727), 200, true),
        "00:12:07  81274 fps  30.1 Macc/s  1.92 GB/s  R 71 %  pages 12.3 k  row hits 63 %  lost 0  \
         queue 3/64  cap_00003.pcapng 872 MB"
    );
    assert_eq!(
        status::line(&lossy(727), 250, true),
        "00:12:07  81274 fps  30.1 Macc/s  1.92 GB/s  R 71 %  pages 12.3 k  row hits 63 %\x1b[1;31m  \
         LOST card 67.9 k wire 12 kernel 345 interface 7 malformed 2 accesses 136 k\x1b[0m  queue 3/64  \
         statistics skipped 4.10 k  cap_00003.pcapng 872 MB"
    );
    assert_eq!(
        status::line(&second(727), 80, false),
        "00:12:07  81274 fps  30.1 Macc/s  1.92 GB/s  R 71 %  pages 12.3 k  lost 0"
    );
    assert_eq!(
        status::line(&failing(727), 200, true),
        "00:12:07  81274 fps  30.1 Macc/s  1.92 GB/s  R 71 %  pages 12.3 k  row hits 63 %  lost 0\
         \x1b[1;31m  FAILED eth2\x1b[0m  queue 3/64  cap_00003.pcapng 872 MB"
    );
    assert_eq!(status::line(&failing(727), 30, false), "00:12:07  lost 0  FAILED eth2");
    assert_eq!(status::line(&failing(727), 20, false), "lost 0  FAILED eth2");
    assert_eq!(status::line(&second(727), 20, false), "00:12:07  lost 0");
    assert_eq!(status::line(&lossy(727), 20, false), "LOST card 67.9 k wir");
}

proptest! {
    #[test]
    fn the_status_line_fits_any_terminal(columns in 0usize..300, lost: bool) {
        let second = if lost { lossy(360_000) } else { second(360_000) };
        let line = status::line(&second, columns, false);
        prop_assert!(line.chars().count() <= columns);
        prop_assert_eq!(line.contains("LOST"), lost && columns >= 4);
    }
}

#[test]
fn a_file_name_cannot_move_the_cursor() {
    let mut second = second(1);
    second.file = Some("a\x1b[2J.pcapng".into());
    assert!(!status::line(&second, 300, false).contains('\x1b'));
}

#[test]
fn an_interfaces_name_cannot_move_the_cursor() {
    let mut second = failing(1);
    second.interfaces[1] = "e\x1b[2J".into();
    assert!(status::line(&second, 300, false).contains(r"FAILED e\u{1b}[2J"));
}
