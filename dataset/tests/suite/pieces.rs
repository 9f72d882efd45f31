//! Compares the pieces of data sets with the captures that were added.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use hmtt::analysis::combined::{Combined, combined};
use hmtt::analysis::source::{Ending, Part, Source};
use hmtt::analysis::{Analysis, Fold, FrequencySlice, Gap, PageRun};
use hmtt_dataset::{Dataset, PieceState, Plan, ReadRows, StateError, Table};
use hmtt_test_support::card::Card;
use proptest::prelude::*;

use crate::add;
use crate::samples::{BEFORE_THE_HOUR, everything, write};

/// Distance of frames.
const STEP: Duration = Duration::from_millis(1);

/// What a source passes on, without its items.
#[derive(Clone, Debug, PartialEq)]
enum Passed {
    Access(u64, bool, u64, Option<u32>),
    Page(PageRun),
    Slice(FrequencySlice),
    Gap(Gap),
    Restart,
}

/// Collects what is passed on, by memory.
fn collect(
    read: impl FnOnce(&mut dyn FnMut(usize, Part<'_>)) -> Ending,
) -> (Vec<Vec<Passed>>, Ending) {
    let mut memories: Vec<Vec<Passed>> = Vec::new();
    let ending = read(&mut |memory, part| {
        memories.resize_with(memories.len().max(memory + 1), Vec::new);
        let passed = &mut memories[memory];
        match part {
            Part::Batch(batch) => {
                let clocks = batch.clocks().expect("captures have clocks");
                for ((address, is_write), clock) in
                    batch.addresses().iter().zip(batch.writes()).zip(clocks)
                {
                    passed.push(Passed::Access(*address, *is_write, *clock, batch.unit_bytes()));
                }
            }
            Part::PageRun(run) => passed.push(Passed::Page(run)),
            Part::FrequencySlice(slice) => passed.push(Passed::Slice(slice)),
            Part::Gap(gap) => passed.push(Passed::Gap(gap)),
            Part::Restart => passed.push(Passed::Restart),
            _ => {}
        }
    });
    assert!(ending.failure.is_none(), "{:?}", ending.failure);
    (memories, ending)
}

fn of_capture(capture: &Path) -> (Vec<Vec<Passed>>, Ending) {
    collect(|pass_on| Source::open(capture).unwrap().read(pass_on))
}

fn of_dataset(dataset: &Dataset) -> (Vec<Vec<Passed>>, Ending) {
    collect(|pass_on| dataset.plan_pieces().unwrap().read(dataset.root(), pass_on))
}

fn dataset(folder: &Path, captures: &[PathBuf]) -> Dataset {
    let dataset = Dataset::new(folder.join("data"));
    captures.iter().for_each(|capture| add(&dataset, capture));
    dataset
}

#[test]
fn pieces_have_the_accesses_gaps_and_restarts_of_the_capture() {
    // All in one hour, and with the hour ending at any frame.
    for frames_before in [0, 1, 2, 3, 4, 7, 8, 9, 10, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("capture.pcapng");
        let whole_hour = Duration::from_secs(1_700_002_800);
        write(&capture, &everything(), whole_hour - STEP * frames_before, STEP);
        let dataset = dataset(folder.path(), std::slice::from_ref(&capture));
        let (expected, ending) = of_capture(&capture);
        let (actual, of_pieces) = of_dataset(&dataset);
        assert!(expected[0].iter().any(|passed| matches!(passed, Passed::Gap(_))));
        let differs = actual[0].iter().zip(&expected[0]).position(|(one, other)| one != other);
        let around = |passed: &[Passed]| {
            let at = differs.unwrap_or(passed.len().min(actual[0].len())).saturating_sub(2);
            passed.iter().skip(at).take(6).cloned().collect::<Vec<_>>()
        };
        assert!(
            actual == expected,
            "{frames_before}, {differs:?}: {:?}\nnot {:?}",
            around(&actual[0]),
            around(&expected[0])
        );
        assert_eq!(of_pieces.missing, ending.missing);
        assert_eq!(of_pieces.notes, ending.notes);
        assert_eq!(of_pieces.accesses, ending.accesses);
        assert_eq!(of_pieces.coarse, ending.coarse);
        assert!(ending.coarse.page_run_accesses > 0);
    }
}

/// Writes the frames of a session as two captures.
fn divided(folder: &Path, frames: &[(u32, Vec<u8>)], at: usize, lost: usize) -> [PathBuf; 2] {
    let (first, second) = (
        folder.join("t_00001_20231114225959.pcapng"),
        folder.join("t_00002_20231114225959.pcapng"),
    );
    write(&first, &frames[..at], BEFORE_THE_HOUR, STEP);
    write(&second, &frames[at + lost..], BEFORE_THE_HOUR + STEP * (at + lost) as u32, STEP);
    [first, second]
}

fn session() -> Vec<(u32, Vec<u8>)> {
    let mut card = Card::new();
    let mut frames = vec![card.info()];
    for at in 0..40 {
        frames.push(card.data(50).0);
        if at % 10 == 9 {
            frames.push(card.info());
        }
    }
    frames.push(card.end());
    frames.into_iter().map(|frame| (0, frame)).collect()
}

#[test]
fn a_session_continues_in_the_next_file_of_a_series() {
    let folder = tempfile::tempdir().unwrap();
    let frames = session();
    let whole = folder.path().join("whole.pcapng");
    write(&whole, &frames, BEFORE_THE_HOUR, STEP);
    let captures = divided(folder.path(), &frames, 12, 0);
    let (actual, ending) = of_dataset(&dataset(folder.path(), &captures));
    assert_eq!(actual, of_capture(&whole).0);
    assert_eq!((ending.missing.len(), ending.notes.len()), (0, 0), "{ending:?}");
}

#[test]
fn what_is_lost_between_two_files_of_a_series_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let frames = session();
    let captures = divided(folder.path(), &frames, 12, 3);
    let (actual, ending) = of_dataset(&dataset(folder.path(), &captures));
    let gaps: Vec<_> = actual[0]
        .iter()
        .filter_map(|passed| match passed {
            Passed::Gap(gap) => gap.lost_accesses,
            Passed::Restart => panic!("a restart"),
            _ => None,
        })
        .collect();
    assert_eq!(gaps, [150]);
    assert!(
        ending.missing.iter().any(|text| text.contains("150 accesses are missing")),
        "{ending:?}"
    );
}

#[test]
fn captures_of_different_sessions_begin_again() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = [folder.path().join("one.pcapng"), folder.path().join("other.pcapng")];
    write(&first, &session(), BEFORE_THE_HOUR, STEP);
    write(&second, &session(), BEFORE_THE_HOUR + Duration::from_secs(3), STEP);
    let (actual, _) = of_dataset(&dataset(folder.path(), &[first.clone(), second]));
    let mut expected = of_capture(&first).0.remove(0);
    expected.push(Passed::Restart);
    expected.extend(of_capture(&first).0.remove(0));
    assert!(actual == [expected]);
}

#[test]
fn captures_that_are_not_in_runs_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &session(), BEFORE_THE_HOUR, STEP);
    let dataset = dataset(folder.path(), &[capture]);
    for (_, path) in dataset.parts_of(Table::Runs).unwrap() {
        std::fs::remove_file(dataset.root().join(path)).unwrap();
    }
    let (actual, ending) = of_dataset(&dataset);
    assert_eq!((actual, ending.accesses), (vec![Vec::new()], 0));
    assert!(
        ending.notes.iter().any(|note| note.contains("2000 accesses of captures")),
        "{ending:?}"
    );
}

#[test]
fn an_hour_that_is_not_in_runs_is_no_restart() {
    let folder = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let captures = [0, 1, 2].map(|number: u32| {
        let capture = folder.path().join(format!("{number}.pcapng"));
        // The bytes of the captures differ in their times.
        write(&capture, &session(), BEFORE_THE_HOUR + hour * number - STEP * 1000, STEP)
    });
    let mut expected = of_capture(&captures[0]).0.remove(0);
    expected.push(Passed::Restart);
    expected.extend(of_capture(&captures[2]).0.remove(0));
    let dataset = dataset(folder.path(), &captures);
    let (_, second) = dataset.parts_of(Table::Runs).unwrap().remove(1);
    std::fs::remove_file(dataset.root().join(second)).unwrap();
    let (actual, ending) = of_dataset(&dataset);
    assert!(actual == [expected]);
    assert_eq!(ending.accesses, 4000);
}

/// What analyses of all pieces have found, as JSON.
fn results(combined: &Combined) -> serde_json::Value {
    serde_json::to_value(combined.result()).unwrap()
}

/// A data set with two boards and two hours, and its plan.
fn planned(folder: &Path) -> (Dataset, Plan) {
    let capture = folder.join("capture.pcapng");
    let mut frames = everything();
    frames.extend(session().into_iter().map(|(_, frame)| (1, frame)));
    write(&capture, &frames, BEFORE_THE_HOUR, Duration::from_millis(30));
    let dataset = dataset(folder, &[capture]);
    let plan = dataset.plan_pieces().unwrap();
    assert!(plan.memories.len() == 2 && plan.pieces.len() == 3, "{plan:?}");
    (dataset, plan)
}

#[test]
fn states_of_pieces_that_were_written_and_read_give_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, plan) = planned(folder.path());
    for sample in [None, Some(0.5)] {
        let mut fold = Fold::new(combined(sample));
        let ending = plan.read(dataset.root(), &mut |memory, part| fold.part(memory, part));
        assert!(ending.failure.is_none() && ending.accesses > 2000);
        let expected = results(&fold.finish());
        let mut fold = Fold::new(combined(sample));
        for (memory, number) in plan.memories.iter().zip(0..) {
            fold.known(number, &memory.known);
            fold.end_piece(number);
        }
        let mut accesses = 0;
        for piece in &plan.pieces {
            let text = serde_json::to_string(piece).unwrap();
            let piece = serde_json::from_str(&text).unwrap();
            let state = PieceState::of(&piece, dataset.root(), sample, &|| true).unwrap();
            let state = PieceState::from_bytes(&state.to_bytes().unwrap(), sample).unwrap();
            accesses += state.rows.accesses;
            fold.append(piece.memory, state.found);
        }
        assert_eq!(accesses, ending.accesses);
        assert!(results(&fold.finish()) == expected);
    }
}

#[test]
fn states_of_other_versions_are_errors() {
    for bytes in [&b""[..], b"hmtt 0.0.0 analyses 0\n"] {
        assert!(matches!(PieceState::from_bytes(bytes, None), Err(StateError::Version)));
    }
}

#[test]
fn states_of_other_distances_are_errors() {
    let bytes = &STATES.0;
    assert!(PieceState::from_bytes(bytes, None).is_ok());
    let error = PieceState::from_bytes(bytes, Some(0.5));
    assert!(matches!(error, Err(StateError::OtherDistances)));
    let sampled = PieceState { rows: ReadRows::default(), found: combined(Some(0.5)) };
    let bytes = sampled.to_bytes().unwrap();
    assert!(PieceState::from_bytes(&bytes, Some(0.5)).is_ok());
    for sample in [None, Some(0.25)] {
        let error = PieceState::from_bytes(&bytes, sample);
        assert!(matches!(error, Err(StateError::OtherDistances)));
    }
}

/// Bytes of the state of a piece, and the state of the next one.
static STATES: LazyLock<(Vec<u8>, PieceState)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, plan) = planned(folder.path());
    let state =
        |at: usize| PieceState::of(&plan.pieces[at], dataset.root(), None, &|| true).unwrap();
    (state(0).to_bytes().unwrap(), state(1))
});

proptest! {
    #[test]
    fn damaged_states_are_errors_or_states(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let (bytes, next) = &*STATES;
        prop_assert!(PieceState::from_bytes(&bytes[..cut.index(bytes.len())], None).is_err());
        let mut bytes = bytes.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(state) = PieceState::from_bytes(&bytes, None) {
            let mut fold = Fold::new(combined(None));
            fold.append(0, state.found);
            fold.append(0, next.found.clone());
            results(&fold.finish());
        }
    }
}
