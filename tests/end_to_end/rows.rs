//! Compares rows and banks of captures with those of the truth files, by the maps in the
//! recordings' headers.

use std::collections::BTreeMap;

use hmtt_tests::{accesses, gunzip, succeed, vector};
use serde_json::Value;

use crate::captures::{path, replay};

/// The address bits of each bit of a coordinate, as a recording's header has them: `map
/// bank[0]=p13^p16`.
fn masks(header: &str, axis: &str) -> Vec<Vec<u32>> {
    let lines = header.lines().filter_map(|line| line.strip_prefix("map ")?.split_once('='));
    let of_axis = lines.filter(|(name, _)| name.split('[').next() == Some(axis));
    let bits = |text: &str| text.split('^').map(|bit| bit[1..].parse().unwrap()).collect();
    of_axis.map(|(_, text)| bits(text)).collect()
}

fn gather(masks: &[Vec<u32>], address: u64) -> u64 {
    let bit = |mask: &Vec<u32>| mask.iter().fold(0, |all, bit| all ^ (address >> bit & 1));
    masks.iter().map(bit).zip(0..).fold(0, |all, (bit, at)| all | bit << at)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn rows_and_banks_are_those_of_the_truth() {
    for name in ["v03_ddr1_medium_open", "v11_ddr3_xor_open", "v18_ddr4_open"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("capture.pcapng");
        replay(name, &["--granularity", "burst"], &file);
        let header = gunzip(&vector(name, "cmd.gz"));
        let (header, _) = header.split_once("---").unwrap();
        let [rank, bank, row] = ["rank", "bank", "row"].map(|axis| masks(header, axis));
        assert!(!bank.is_empty() && !row.is_empty(), "{name}");
        let mut last = BTreeMap::new();
        let mut expected: BTreeMap<(u64, u64), [u64; 3]> = BTreeMap::new();
        for address in accesses(name).iter().map(|access| access.address.0) {
            let place = (gather(&rank, address), gather(&bank, address));
            let row = gather(&row, address);
            let outcome = match last.insert(place, row) {
                Some(before) if before == row => 0,
                Some(_) => 1,
                None => 2,
            };
            expected.entry(place).or_default()[outcome] += 1;
        }
        let object: Value =
            serde_json::from_str(&succeed("hmtt", &["rows", "--json", path(&file)])).unwrap();
        let rows = &object["rows"][0];
        let outcomes = ["same_row_accesses", "other_row_accesses", "first_accesses"];
        let shown = rows["banks"].as_array().unwrap().iter().map(|bank| {
            let place = (number(&bank["rank"]), number(&bank["bank"]));
            (place, outcomes.map(|outcome| number(&bank[outcome])))
        });
        assert_eq!(shown.collect::<BTreeMap<_, _>>(), expected, "{name}");
        for (outcome, at) in outcomes.into_iter().zip(0..) {
            let slices = rows["slices"].as_array().unwrap().iter();
            let sum: u64 = slices.map(|slice| number(&slice[outcome])).sum();
            assert_eq!(sum, expected.values().map(|of| of[at]).sum::<u64>(), "{name} {outcome}");
        }
    }
}
