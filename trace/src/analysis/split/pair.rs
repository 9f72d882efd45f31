//! Follows a pair of marks or tags through the trace of one card.

use hmtt_format::{Direction, Event};

use super::{Pair, Place};

/// The position of a trace relative to the stretches of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// In a stretch.
    Inside,
    /// In no stretch.
    Outside,
    /// Not known, because accesses were lost since the last mark of the pair.
    NotKnown,
}

/// The state of a pair, and the number of unexpected begins and ends.
#[derive(Clone, Debug)]
pub struct PairState {
    pair: Pair,
    /// The position of the trace.
    pub side: Side,
    /// Numbers of begins and of ends in the trace, in this order.
    pub found: [u64; 2],
    /// Numbers of begins within a stretch and of ends outside of a stretch, in this order.
    pub unpaired: [u64; 2],
}

impl PairState {
    /// The state at the begin of a trace. `side`: the position before the first mark.
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

    /// Notes that records are missing here, among which may be marks.
    pub fn lose(&mut self) {
        self.side = Side::NotKnown;
    }
}
