//! Analyses a piece separately, and writes the results as bytes that another machine can read.

use std::path::Path;

use hmtt::analysis::Fold;
use hmtt::analysis::combined::{Combined, combined};
use serde::{Deserialize, Serialize};

use super::{Piece, ReadRows};
use crate::error::DatasetError;

/// Text before each state. Only programs of the same version exchange states.
const VERSION: &str = concat!("hmtt ", env!("CARGO_PKG_VERSION"), " analyses 5\n");

/// The results of analysing one piece.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PieceState {
    /// Counts of the rows that were read.
    pub rows: ReadRows,
    /// Results of all analyses.
    pub found: Combined,
}

/// Errors of reading a state from bytes.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The bytes were written by another version of the program.
    #[error(
        "the state of the analyses is of another version of HMTT; all programs of a cluster are of one version"
    )]
    Version,
    /// The state's reuse distances do not have the requested sampling rate, or one is exact and the
    /// other is sampled.
    #[error(
        "the state of the analyses has other reuse distances than were asked for: exact ones, or of another sample"
    )]
    OtherDistances,
    /// The bytes are damaged.
    #[error("the state of the analyses is damaged")]
    Damaged(#[from] postcard::Error),
}

impl PieceState {
    /// Analyses a piece. `root`: folder of the data set. `sample`: fraction of lines for which
    /// reuse distances are computed; `None` for all lines. `is_wanted`: called from time to time;
    /// if it returns false, the result has only the rows that were read before.
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
    /// Never returned: only memory limits the size of a state.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        Ok(postcard::to_extend(self, VERSION.as_bytes().to_vec())?)
    }

    /// Reads a state from bytes. `sample`: as in [`PieceState::of`].
    ///
    /// # Errors
    /// The bytes come from another version, or are damaged. Or the reuse distances have another
    /// sampling, so that they cannot be joined with others.
    pub fn from_bytes(bytes: &[u8], sample: Option<f64>) -> Result<PieceState, StateError> {
        let bytes = bytes.strip_prefix(VERSION.as_bytes()).ok_or(StateError::Version)?;
        let state: PieceState = postcard::from_bytes(bytes)?;
        let is_joinable = state.found.1.0.is_of_kind(&combined(sample).1.0);
        if is_joinable { Ok(state) } else { Err(StateError::OtherDistances) }
    }
}
