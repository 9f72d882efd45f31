//! Replays recordings on which earlier versions of the card counted wrongly or lost records without
//! need.

use std::path::PathBuf;

use gateware::FifoSize;
use hmtt_format::config::Mode;
use hmtt_format::record::{CountGroup, other_count};
use hmtt_format::{Direction, Event, toml_memory};
use hmtt_sim::engine::{self, Options, Settings};
use hmtt_sim::replay::Outcome;
use hmtt_sim::{input, summary};

use crate::support;

fn replayed(name: &str, settings: Settings, small: bool) -> Outcome {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let memory = std::fs::read_to_string(folder.join("memory.toml")).unwrap();
    let memory = toml_memory::parse(&memory).unwrap();
    let recording = input::open(&folder.join(name), Some(memory.clone()), None).unwrap();
    let mut parameters = engine::default_parameters(memory);
    if small {
        parameters.fifo = FifoSize::Kb8;
    }
    support::replay_card(recording.spans, &Options::default(), &parameters, settings)
}

/// Returns the READs and WRITEs in the card's last report, and those in its slices and tags.
fn bursts(outcome: &Outcome) -> ([u64; 2], [u64; 2]) {
    let report = outcome.report.as_ref().expect("a report");
    let mut counted = [0; 2];
    for event in &outcome.events {
        match event {
            Event::Slice { reads, writes, .. } => {
                counted[0] += u64::from(*reads);
                counted[1] += u64::from(*writes);
            }
            Event::Tag { direction, .. } => {
                counted[usize::from(*direction == Direction::Write)] += 1;
            }
            _ => {}
        }
    }
    ([report.reads, report.writes], counted)
}

#[test]
fn slices_leave_out_the_tag_window() {
    for mode in [Mode::Line, Mode::Frequency] {
        let settings = Settings { mode, frequency: true, slice_code: 1, ..Settings::default() };
        let outcome = replayed("tag_slices.cmd.gz", settings, true);
        let (seen, counted) = bursts(&outcome);
        assert_eq!(seen, [195, 209]);
        assert_eq!(seen, counted, "{mode:?}: slices and tags");
        assert_eq!(outcome.summary.lost_records, 0);
        if mode == Mode::Frequency {
            assert_eq!(outcome.summary.accesses, 404, "a tag is counted once");
        }
    }
}

#[test]
fn a_setting_loses_no_record_with_analysis_on() {
    let settings = Settings { analysis: true, ..Settings::default() };
    let outcome = replayed("analysis_setting.cmd.gz", settings, false);
    assert_eq!((outcome.summary.lost_records, outcome.summary.accesses), (0, 4032));
    let interval = |event: &&Event| matches!(event, Event::Interval { .. });
    assert_eq!(outcome.events.iter().filter(interval).count(), 1, "a setting causes no dump");
    let skipped = |event: &&Event| {
        let skipped = other_count::ACCESSES_SKIPPED;
        matches!(event, Event::Count { group: CountGroup::Other, index, .. } if *index == skipped)
    };
    assert_eq!(outcome.events.iter().filter(skipped).count(), 0);
}

#[test]
fn a_command_soon_after_a_stop_is_executed_with_analysis_on() {
    let settings = Settings { analysis: true, ..Settings::default() };
    let outcome = replayed("command_after_stop.cmd.gz", settings, false);
    let summary::Summary { lost_records, accesses, .. } = outcome.summary;
    assert_eq!((lost_records, accesses), (0, 3132));
    assert_eq!(outcome.report.expect("a report").mode, Mode::Page);
    let page = |event: &&Event| matches!(event, Event::Page { .. });
    assert!(outcome.events.iter().any(|event| page(&event)), "page records after the start");
}
