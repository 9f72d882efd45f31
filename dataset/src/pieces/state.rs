//! Analyses a piece apart, and writes what was found as bytes that another machine reads.

use std::path::Path;

use hmtt::analysis::Fold;
use hmtt::analysis::combined::{Combined, combined};
use serde::{Deserialize, Serialize};

use super::{Piece, ReadRows};
use crate::error::DatasetError;

/// Stated before a state: only programs of one version exchange states.
const VERSION: &str = concat!("hmtt ", env!("CARGO_PKG_VERSION"), " analyses 5\n");

/// What was found in a piece.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PieceState {
    /// What was read.
    pub rows: ReadRows,
    /// What all analyses have found.
    pub found: Combined,
}

/// Why bytes are no state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another program has written them.
    #[error(
        "the state of the analyses is of another version of HMTT; all programs of a cluster are of one version"
    )]
    Version,
    /// The state has reuse distances of another kind than was asked for, or sampled at another
    /// rate.
    #[error(
        "the state of the analyses has other reuse distances than were asked for: exact ones, or of another sample"
    )]
    OtherDistances,
    /// They are damaged.
    #[error("the state of the analyses is damaged")]
    Damaged(#[from] postcard::Error),
}

impl PieceState {
    /// Analyses a piece. `root`: the folder of the data set. `sample`: the part of lines of which
    /// reuse distances are found. `is_wanted`: asked from time to time; if it is not any more, the
    /// result has only what was read before.
    ///
    /// # Errors
    /// A part cannot be read.
    pub fn of(
        piece: &Piece,
        root: &Path,
        sample: Option<f64>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<PieceState, DatasetError> {
        let mut fold = Fold::new(combined(sample));
        let mut rows = ReadRows::default();
        piece.read(root, &mut rows, is_wanted, &mut |part| fold.part(0, part))?;
        Ok(PieceState { rows, found: fold.finish() })
    }

    /// The state as bytes.
    ///
    /// # Errors
    /// Never: memory is the only limit.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(postcard::to_extend(self, VERSION.as_bytes().to_vec())?)
    }

    /// Reads a state. `sample`: as in [`PieceState::of`].
    ///
    /// # Errors
    /// The bytes are of another version, of another kind of reuse distances, which could not be
    /// joined, or damaged.
    pub fn from_bytes(bytes: &[u8], sample: Option<f64>) -> Result<PieceState, StateError> {
        let bytes = bytes.strip_prefix(VERSION.as_bytes()).ok_or(StateError::Version)?;
        let state: PieceState = postcard::from_bytes(bytes)?;
        let is_joinable = state.found.1.0.is_of_kind(&combined(sample).1.0);
        if is_joinable { Ok(state) } else { Err(StateError::OtherDistances) }
    }
}
