//! Runs two hundred seeds of hostile commands, settings and switches, and compares what the card
//! sends with a model of the whole card that was written from the documents. `make fuzz` runs more
//! seeds.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use hmtt_format::record::{CountGroup, other_count};
use hmtt_format::{Direction, Event};
use hmtt_sim::fuzz::memories;
use hmtt_sim::oracle::capture::{Capture, Element, Loss};
use hmtt_sim::oracle::case::{Case, Setup};
use hmtt_tests::oracle::{Failure, capture, try_seed};

const SEEDS: u64 = 200;
const COMMANDS: usize = 1_500;

/// Sums over the cases of all seeds.
#[derive(Default)]
struct Met {
    records: u64,
    losing: u64,
    lost_commands: u64,
    dumps: usize,
    switched: u64,
    epochs: u64,
}

/// Runs seeds until none is left. Two threads share them, as many as the test machine has cores.
fn try_seeds(next: &AtomicU64, folder: &Path, met: &Mutex<Met>) -> Result<(), Failure> {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed > SEEDS {
            return Ok(());
        }
        let (case, verdict) = try_seed(seed, COMMANDS, folder)?;
        let mut met = met.lock().unwrap();
        met.records += case.due.records.len() as u64;
        met.losing += u64::from(verdict.lost > 0);
        met.lost_commands += u64::from(verdict.lost_command);
        met.dumps += verdict.dumps;
        met.switched += case.off.len() as u64;
        met.epochs += case.due.epochs.len() as u64;
    }
}

#[test]
fn two_hundred_seeds_agree_with_the_model_of_the_whole_card() {
    let folder = tempfile::tempdir().unwrap().keep();
    let (next, met) = (AtomicU64::new(1), Mutex::new(Met::default()));
    let outcomes = thread::scope(|scope| {
        let run = || try_seeds(&next, &folder, &met);
        let threads = [scope.spawn(run), scope.spawn(run)];
        threads.map(|thread| thread.join().expect("a thread"))
    });
    for outcome in outcomes {
        match outcome {
            Ok(()) => {}
            Err(Failure::Missing(what)) => {
                return eprintln!("skipped: the model of the card: {what}");
            }
            Err(Failure::Wrong(what)) => panic!("{what}"),
        }
    }
    std::fs::remove_dir(&folder).unwrap();
    let Met { records, losing, lost_commands, dumps, switched, epochs } = met.into_inner().unwrap();
    println!("{records} records, {losing} cases with losses, {lost_commands} of them of commands");
    println!("{dumps} dumps, {switched} times switched off, {epochs} settings");
}

/// Returns the cases of the first seeds without losses, with the card's captures.
fn cases(wanted: impl Fn(&Case) -> bool) -> impl Iterator<Item = (Case, Capture)> {
    let cases = (1..=SEEDS).filter_map(move |seed| {
        let (memory, setup) = Setup::of(seed);
        let case = Case::new(&memories::parse(memory), setup, seed, COMMANDS);
        (setup.takes_all() && wanted(&case)).then_some(case)
    });
    cases
        .map_while(|case| match capture(&case) {
            Ok(capture) => Some((case, capture)),
            Err(Failure::Missing(what)) => {
                eprintln!("skipped: what earlier cards did: {what}");
                None
            }
            Err(Failure::Wrong(what)) => panic!("{what}"),
        })
        .filter(|(_, capture)| capture.lost == 0)
}

/// Requires that the model rejects a capture after `spoil` has made an error of an earlier card in
/// it. `spoil` returns whether there was anything to change.
fn is_rejected(wanted: impl Fn(&Case) -> bool, spoil: impl Fn(&Case, &mut Capture) -> bool) {
    if cases(|_| true).next().is_none() {
        return;
    }
    for (case, capture) in cases(wanted).take(20) {
        let mut spoilt = capture.clone();
        if spoil(&case, &mut spoilt) {
            assert!(case.check(&capture).is_ok());
            assert!(case.check(&spoilt).is_err(), "the model accepts it");
            return;
        }
    }
    panic!("no case in which the error can be made");
}

/// Adds the tags within a slice to the slice.
fn add_tags(case: &Case, slice: &mut Event, end: u64) -> bool {
    let Event::Slice { clock, reads, writes, .. } = slice else { return false };
    let within = |clock: &u64, at: u64| (*clock..end).contains(&at);
    let mut has_tags = false;
    for event in &case.due.records {
        if let Event::Tag { clock: at, direction, .. } = event
            && within(&clock.0, at.0)
        {
            *(if *direction == Direction::Read { &mut *reads } else { &mut *writes }) += 1;
            has_tags = true;
        }
    }
    has_tags
}

/// Slices that count the tags within them are rejected, in frames with or without frame numbers.
fn slices_with_tags(unnumbered: bool) {
    let spoil = |case: &Case, capture: &mut Capture| {
        let mut has_tags = false;
        for element in &mut capture.elements {
            if let Element::Slice(slice, none) = element
                && *none == unnumbered
                && let Event::Slice { clock, code: Some(code), length, .. } = *slice
            {
                let whole = hmtt_format::config::slice_clocks(code, case.memory.tck_ps);
                let clocks = length.clocks().map_or(whole.into(), |clocks| clocks.0);
                has_tags |= add_tags(case, slice, clock.0 + clocks);
            }
        }
        has_tags
    };
    let has_tags = |case: &Case| {
        case.due.bursts.iter().any(|burst| burst.window)
            && case.due.epochs.iter().any(|epoch| epoch.chosen.sliced())
    };
    is_rejected(has_tags, spoil);
}

#[test]
fn slices_that_count_accesses_to_the_tag_window_are_rejected() {
    slices_with_tags(false);
}

#[test]
fn frequency_mode_that_counts_tags_twice_is_rejected() {
    slices_with_tags(true);
}

#[test]
fn records_lost_to_a_lone_setting_are_rejected() {
    let spoil = |case: &Case, capture: &mut Capture| {
        let commands = &case.due.commands;
        let near =
            |clock: u64| commands.iter().filter(|(at, _)| at.abs_diff(clock) < 8_000).count();
        let after = |element: &Element| matches!(element, Element::Record(Event::Access(access)) if near(access.clock.0) < 2);
        let Some(at) = capture.elements.iter().position(after) else { return false };
        capture.elements[at] = Element::Lost(Loss { records: 1, accesses: 1 });
        capture.lost = 1;
        capture.elements[at..].iter().any(|element| matches!(element, Element::Record(_)))
    };
    is_rejected(|_| true, spoil);
}

#[test]
fn a_command_that_has_no_effect_after_a_stop_is_rejected() {
    let spoil = |_: &Case, capture: &mut Capture| {
        let mut before = None;
        for element in &mut capture.elements {
            let Element::Report(report, _, end) = element else { continue };
            if *end {
                before = Some(report.mode);
            } else if let Some(mode) = before.take().filter(|mode| *mode != report.mode) {
                report.mode = mode;
                return true;
            }
        }
        false
    };
    is_rejected(|case| case.due.reports.iter().filter(|report| report.end).count() > 1, spoil);
}

#[test]
fn a_wrong_base_of_the_tag_window_is_rejected() {
    let spoil = |case: &Case, capture: &mut Capture| {
        let reports = capture.elements.iter_mut().filter_map(|element| match element {
            Element::Report(report, ..) => report.tag_window.as_mut(),
            _ => None,
        });
        reports.map(|base| *base ^= 1 << case.memory.tag_window_log2).count() > 0
    };
    is_rejected(|case| case.due.epochs.iter().any(|epoch| epoch.chosen.window), spoil);
}

#[test]
fn hot_pages_that_are_missing_from_whole_dumps_are_rejected() {
    let spoil = |_: &Case, capture: &mut Capture| {
        let mut dropped = 0;
        capture.elements.retain_mut(|element| match element {
            Element::Analysis(Event::HotPage { .. }) => {
                dropped += 1;
                false
            }
            Element::Analysis(Event::Count {
                group: CountGroup::Other,
                index: other_count::CLOSING,
                value,
                ..
            }) => {
                *value -= std::mem::take(&mut dropped);
                true
            }
            _ => true,
        });
        capture.elements.iter().any(|element| matches!(element, Element::Analysis(_)))
    };
    is_rejected(|case| case.due.bursts.iter().any(|burst| burst.analysed), spoil);
}
