//! Replays every vector through the software card and compares the result with the vector's truth.

use std::path::Path;

use hmtt_format::config::{Granularity, Mode};
use hmtt_sim::engine::Settings;
use hmtt_sim::replay::Outcome;
use hmtt_sim::{input, truth};

use crate::support;

fn names() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(support::vectors())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".cmd.gz").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn file(name: &str, suffix: &str) -> std::path::PathBuf {
    support::vectors().join(format!("{name}.{suffix}"))
}

/// Replays a vector and compares the result; panics with the first difference.
fn check(name: &str, settings: Settings) -> Outcome {
    let recording = input::open(&file(name, "cmd.gz"), None, None).unwrap();
    let memory = recording.memory;
    let accesses = truth::read(&file(name, "truth.gz")).unwrap();
    let outcome = support::replay(recording.spans, &memory, settings, vec![]).unwrap();
    assert_eq!((&outcome.violations[..], &outcome.flaws[..]), (&[][..], &[][..]), "{name}");
    assert_eq!(Some(outcome.summary.clocks), recording.clocks, "{name}");
    let clocks = outcome.summary.clocks;
    for comparison in truth::check(&accesses, &outcome.events, &memory, settings, clocks) {
        assert!(comparison.equal(), "{name}: {comparison}");
    }
    outcome
}

#[test]
fn line_and_burst_records_equal_the_truth() {
    for name in names() {
        for granularity in [Granularity::Line, Granularity::Burst] {
            check(&name, Settings { granularity, ..Settings::default() });
        }
    }
}

#[test]
fn page_records_and_slices_equal_the_truth() {
    for name in names() {
        let page = Settings { mode: Mode::Page, frequency: true, ..Settings::default() };
        check(&name, Settings { slice_code: 2, ..page });
        check(&name, Settings { mode: Mode::Frequency, slice_code: 5, ..page });
    }
}

#[test]
fn inserted_faults_equal_the_flags() {
    let mut insertions = 0;
    for name in names() {
        let flags = file(&name, "flags.txt");
        if flags.is_file() {
            let outcome = check(&name, Settings::default());
            let flags = truth::read_flags(&flags).unwrap();
            let comparison = truth::check_flags(flags, &outcome.events);
            assert!(comparison.equal(), "{comparison}");
            insertions += 1;
        }
    }
    assert_ne!(insertions, 0);
}

#[test]
fn a_wrong_truth_is_a_difference() {
    let name = "v01_ddr1_tiny_open";
    let outcome = check(name, Settings::default());
    let path = file(name, "cmd.gz");
    let memory = input::open(Path::new(&path), None, None).unwrap().memory;
    let accesses = truth::read(&file(name, "truth.gz")).unwrap();
    let verdict = |accesses: &[hmtt_format::Access]| {
        let clocks = outcome.summary.clocks;
        truth::check(accesses, &outcome.events, &memory, Settings::default(), clocks)[0].equal()
    };
    assert!(verdict(&accesses));
    assert!(!verdict(&accesses[1..]));
    assert!(!verdict(&accesses[..accesses.len() - 1]));
    let mut changed = accesses.clone();
    changed[300].address.0 ^= 1 << 20;
    assert!(!verdict(&changed));
    let mut swapped = accesses;
    swapped.swap(10, 11);
    assert!(!verdict(&swapped));
}
