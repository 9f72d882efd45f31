//! Follows a pair of marks or tags through the trace of one card.

use hmtt_format::{Direction, Event};

use super::{Pair, Place};

/// Where a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// In a stretch.
    Inside,
    /// In none.
    Outside,
    /// It is not known: something is missing since the last mark of the pair.
    NotKnown,
}

/// The state of a pair, and what was unexpected.
#[derive(Clone, Debug)]
pub struct PairState {
    pair: Pair,
    /// Where the trace is.
    pub side: Side,
    /// Begins, and ends, that were found.
    pub found: [u64; 2],
    /// Begins within a stretch, and ends outside of one.
    pub unpaired: [u64; 2],
}

impl PairState {
    /// Begins on a side.
    pub fn new(pair: Pair, side: Side) -> PairState {
        PairState { pair, side, found: [0; 2], unpaired: [0; 2] }
    }

    /// Takes a record.
    pub fn event(&mut self, event: &Event) {
        let place = match event {
            Event::Mark { register, .. } => Place::Mark(register.0),
            Event::Tag { direction: Direction::Write, offset, .. } => Place::Tag(*offset),
            _ => return,
        };
        let (index, side) = match place {
            place if place == self.pair.begin => (0, Side::Inside),
            place if place == self.pair.end => (1, Side::Outside),
            _ => return,
        };
        self.found[index] += 1;
        self.unpaired[index] += u64::from(self.side == side);
        self.side = side;
    }

    /// Something is missing here: also marks may be.
    pub fn lose(&mut self) {
        self.side = Side::NotKnown;
    }
}
