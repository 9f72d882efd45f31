//! Sends a million random commands, legal and illegal, of every generation through the card, and
//! compares its records with a model of the pins. Both engines must send the same frames. `make
//! fuzz` runs more seeds.

use std::collections::BTreeSet;

use hmtt_format::{Event, FaultKind};
use hmtt_sim::engine::Kind;
use hmtt_sim::fuzz::case::Case;
use hmtt_sim::fuzz::memories;
use hmtt_tests::fuzz::{try_case, vector_text};

use crate::captures::{comments, decode, lines, path, replay_file};

const CASES: u64 = 26;
const COMMANDS: usize = 40_000;

#[test]
fn a_million_commands_are_recorded_as_the_model_says() {
    assert!(CASES * COMMANDS as u64 >= 1_000_000);
    let folder = tempfile::tempdir().unwrap().keep();
    for seed in 1..=CASES {
        let memory = memories::ALL[(seed % memories::ALL.len() as u64) as usize];
        try_case(memory, seed, COMMANDS, &folder).unwrap_or_else(|failure| panic!("{failure}"));
    }
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn random_commands_cause_every_event_of_the_card() {
    let (mut faults, mut accesses, mut tags, mut marks) = (BTreeSet::new(), 0, 0, 0);
    let (mut bursts, mut unreported, mut lengths) = (0, 0, BTreeSet::new());
    for seed in 1..=12 {
        let memory = memories::ALL[(seed % memories::ALL.len() as u64) as usize];
        let case = Case::new(&memories::parse(memory), seed, COMMANDS);
        bursts += case.bursts;
        unreported += u64::from(case.last.0);
        lengths.insert(case.last.1);
        for event in case.expected {
            match event {
                Event::Fault { kind, .. } => {
                    faults.insert(kind);
                }
                Event::Mark { .. } => marks += 1,
                Event::Tag { .. } => tags += 1,
                _ => accesses += 1,
            }
        }
    }
    // The clock of a simulated slot never stops, and the card keeps up with these commands.
    let unseen = [FaultKind::ClockLost, FaultKind::CommandLost];
    let missing: Vec<_> = FaultKind::ALL
        .into_iter()
        .filter(|kind| !unseen.contains(kind) && !faults.contains(kind))
        .collect();
    assert_eq!(missing, []);
    assert!(accesses > 50_000 && tags > 0 && marks > 10, "{accesses} {tags} {marks}");
    assert!(unreported > 0 && lengths.len() > 2, "{unreported} {lengths:?}");
    let merged = bursts - accesses - tags;
    assert!(merged > 2000, "{merged} bursts of {bursts} joined another one's line");
}

#[test]
fn the_files_of_a_case_reproduce_it() {
    let folder = tempfile::tempdir().unwrap();
    let (input, toml) = (folder.path().join("case.cmd"), folder.path().join("case.toml"));
    let capture = folder.path().join("case.pcapng");
    let case = Case::new(&memories::parse(memories::ALL[2]), 2, 2000);
    let text = vector_text(&case.memory, &case.commands, case.clocks);
    std::fs::write(&input, text).unwrap();
    std::fs::write(&toml, memories::ALL[2]).unwrap();
    replay_file(
        &input,
        &["--memory", path(&toml), "--granularity", case.granularity.name()],
        &capture,
    );
    let count = |wanted: fn(&Event) -> bool| case.expected.iter().filter(|e| wanted(e)).count();
    let text = decode(&capture);
    assert_eq!(lines(&text).len(), count(|event| matches!(event, Event::Access(_))));
    let faults = count(|event| matches!(event, Event::Fault { .. }));
    assert!(faults > 10 && comments(&text, "fault").len() == faults);
}

#[test]
fn a_wrong_model_is_a_difference() {
    let mut case = Case::new(&memories::parse(memories::ALL[0]), 3, 500);
    let (outcome, _) = case.run(Kind::Verilator, None, case.clocks).unwrap();
    assert_eq!(case.difference(&outcome), None);
    let last = case.expected.pop();
    assert!(last.is_some() && case.difference(&outcome).is_some());
}
