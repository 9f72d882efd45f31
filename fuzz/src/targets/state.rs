//! Checks that any bytes in place of an analysis' state are an error, or can be joined with the
//! states of other pieces.

use std::fs;

use hmtt::analysis::combined::combined;
use hmtt::analysis::{Analysis, Fold};
use hmtt_dataset::{AddOptions, Dataset, PieceState};

use super::part;

/// Joins a state with itself: once as the next piece of one memory, once as a piece of another
/// memory.
///
/// # Panics
/// If a state that was written cannot be read.
pub fn check(bytes: &[u8]) {
    let Ok(state) = PieceState::from_bytes(bytes, None) else { return };
    let written = state.to_bytes().expect("memory can be written to");
    let again = PieceState::from_bytes(&written, None).expect("what was written is read");
    let mut fold = Fold::new(combined(None));
    fold.append(0, state.found);
    fold.append(0, again.found.clone());
    fold.append(1, again.found);
    let _ = fold.finish().result();
}

/// Returns the states of the pieces of a data set.
///
/// # Panics
/// If a folder cannot be written to.
pub fn states(captures: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let root = part::folder("states");
    fs::create_dir_all(&root).expect("the folder is writable");
    let dataset = Dataset::new(root.join("data"));
    for capture in captures {
        let path = root.join("capture.pcapng");
        fs::write(&path, capture).expect("the folder is writable");
        // Some captures of the seeds are damaged on purpose.
        let _ = dataset.add(&path, &AddOptions { run: "a", receiver: None });
    }
    let plan = dataset.plan_pieces().expect("the folder can be read");
    let states = plan.pieces.iter().map(|piece| {
        let state = PieceState::of(piece, dataset.root(), None, &|| true);
        state.expect("the parts can be read").to_bytes().expect("memory can be written to")
    });
    let states = states.collect();
    fs::remove_dir_all(&root).expect("the folder is writable");
    states
}
