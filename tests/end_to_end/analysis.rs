//! Compares the card's analysis with counts that are computed from the truth files.

use std::collections::HashMap;

use hmtt_tests::{accesses, succeed};

use crate::captures::{path, replay};

/// Returns the only dump of a capture that is shorter than an interval.
fn dump(name: &str, options: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    replay(name, options, &file);
    let text = succeed("hmtt", &["analysis", "--json", "--top", "256", path(&file)]);
    let mut dumps = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let dump: serde_json::Value = dumps.next_back().expect("a dump at the stop");
    assert_eq!(dump["complete"], true, "{name}");
    dump
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn hot_pages_are_within_their_bounds_and_every_access_has_a_row_outcome() {
    for (name, options) in [
        ("v03_ddr1_medium_open", &["--mode", "analysis"][..]),
        ("v05_ddr1_medium_rtl", &["--analysis", "--granularity", "burst"][..]),
    ] {
        let dump = dump(name, options);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for access in accesses(name) {
            *exact.entry(access.address.0 >> 12).or_default() += 1;
        }
        let others = number(&dump["others_at_most"]);
        for page in dump["hot_pages"].as_array().unwrap() {
            let address = page["address"].as_str().unwrap().strip_prefix("0x").unwrap();
            let address = u64::from_str_radix(address, 16).unwrap();
            let count = exact.remove(&(address >> 12)).unwrap_or(0);
            let bounds = number(&page["at_least"])..=number(&page["at_most"]);
            assert!(bounds.contains(&count), "{name}: {address:x} had {count}, not {bounds:?}");
        }
        assert!(exact.values().all(|found| *found <= others), "{name}");
        let banks = dump["banks"].as_array().unwrap().iter();
        let outcomes: u64 = banks
            .map(|bank| {
                ["row_hits", "row_misses", "row_conflicts"]
                    .map(|o| number(&bank[o]))
                    .iter()
                    .sum::<u64>()
            })
            .sum();
        assert_eq!(outcomes + number(&dump["skipped_rows"]), accesses(name).len() as u64, "{name}");
    }
}

/// Whether a page is sampled: the XOR of six of its bits, for each group from bit 0, is 0.
fn is_sampled(page: u64) -> bool {
    (0..5).fold(0, |folded, piece| folded ^ page >> (6 * piece) & 63) == 0
}

#[test]
fn reuse_distances_equal_those_of_an_exact_stack() {
    let name = "v03_ddr1_medium_open";
    let dump = dump(name, &["--analysis"]);
    let (mut stack, mut exact, mut before): (Vec<u64>, HashMap<Option<u64>, u64>, _) =
        (Vec::new(), HashMap::new(), None);
    for page in accesses(name).iter().map(|access| access.address.0 >> 12) {
        if before.replace(page) == Some(page) || !is_sampled(page) {
            continue;
        }
        let position = stack.iter().position(|kept| *kept == page);
        let least = |p: usize| if p == 0 { 0 } else { 64 << p.ilog2() };
        *exact.entry(position.map(least)).or_default() += 1;
        position.map(|position| stack.remove(position));
        stack.insert(0, page);
        stack.truncate(256);
    }
    let runs: u64 = exact.values().sum();
    let reuse = dump["reuse"].as_array().unwrap().iter();
    let distances: HashMap<Option<u64>, u64> =
        reuse.map(|entry| (entry[0].as_u64(), number(&entry[1]))).collect();
    let skipped = number(&dump["skipped_runs"]);
    assert_eq!(distances.values().sum::<u64>() + skipped, runs);
    if skipped == 0 {
        assert_eq!(distances, exact);
    }
}
