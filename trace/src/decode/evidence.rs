//! Defines the result of comparing a frame with a card's trace, and decides by it whether the frame
//! is the card's.
//!
//! ```text
//! frame, trace -> compare  -> Evidence -> FIT     whether the frame continues the trace
//!                       if it does not -> REACH   whether it could continue the trace after a gap
//!                                      -> DAMAGE  what must be damaged in it if the card sent it
//! ```
//!
//! Each table is a list of rules; the first rule that applies decides. Frames carry no identifier
//! of their card: a card states its place twice, by the frame counter and by its counts of accesses
//! and losses. A frame that has the next counter and states exactly the counts after the last frame
//! is nearly certainly from the same card: two cards that agree in both by chance do not agree
//! again in the frames that follow. Any other frame fits if the card could have reached the counts
//! that the frame states, and if these counts agree with the card's last counts better than by
//! chance (`agreement`). One earlier frame may itself be damaged, so a frame that contradicts only
//! one earlier frame fits.

#[cfg(test)]
mod tests;

use super::rules::{Rule, Table};
use super::sequence::Place;

/// Defines an enum whose values can be listed.
macro_rules! listed {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $value:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum $name { $($(#[$doc])* $value,)+ }

        #[cfg(test)]
        impl $name {
            pub const ALL: &[$name] = &[$($name::$value),+];
        }
    };
}
pub(super) use listed;

listed! {
    /// The relation of the frame's counter to the counters of the card's frames.
    Counter {
        /// The card could use the counter next, and no frame with this counter has arrived.
        Free,
        /// A frame with this counter waits, but fits worse than this frame.
        Contested,
        /// A frame with this counter waits, and fits at least as well as this frame.
        Taken,
        /// A frame with this counter has arrived, and this frame is a copy of it.
        Copy,
        /// The frame with this counter has been reported missing.
        Late,
        /// The counter is ahead by [`super::sequence::WINDOW`] or more, and at most
        /// [`super::sequence::FARTHEST_GAP`] frames are missing before it.
        Ahead,
        /// The counter is ahead, and more than [`super::sequence::FARTHEST_GAP`] frames are missing
        /// before it.
        FarAhead,
        /// The card could use the counter only after a restart.
        Restart,
    }
}

listed! {
    /// The content of the frame.
    Kind {
        /// Records.
        Data,
        /// A report.
        Report,
        /// The first report after the DDR clock was lost and found: the card counts from 0 again.
        FirstReport,
        /// The transmit clock, and no counts.
        Heartbeat,
        /// Damaged content. Only the counter can be read.
        Unreadable,
    }
}

listed! {
    /// Whether the counts of the frame can follow the counts after the frames before it. For a
    /// heartbeat, which has no counts: whether a frame is missing directly before it.
    Before {
        /// Not compared: the frame has no counts, or no counter of the card.
        Unknown,
        /// No frame before it has counts.
        First,
        /// The counts are exactly those after the frame before, and no frame is missing in between.
        Exact,
        /// The counts can follow.
        Possible,
        /// The counts contradict the last frame before, which may be damaged, but can follow the
        /// frame before the last one.
        PossibleEarlier,
        /// The counts cannot follow.
        Contradict,
    }
}

listed! {
    /// Whether the frame that waits after this one can follow it.
    After {
        /// No frame with counts waits after this one.
        Unknown,
        /// The waiting frame has the next counter, and states exactly the counts after this frame.
        Exact,
        /// The waiting frame can follow, or it was sent earlier and has a wrong counter.
        Possible,
        /// The waiting frame cannot follow.
        Contradict,
    }
}

listed! {
    /// Whether the frame's clock can follow the clock of the frame before. For a heartbeat this is
    /// the transmit clock, for other frames the DDR clock.
    Clock {
        Possible,
        /// The clock is too far behind.
        Behind,
    }
}

listed! {
    /// Whether the counts of the frame could be the next that the card states, whatever the frame's
    /// counter.
    Next {
        /// The frame has no counts, or the card could not state them soon.
        No,
        /// The counts are exactly those after the card's last frame, but the clock is not near.
        ExactOnly,
        /// Counts and clock are near those after the card's last frame.
        Near,
        /// Near, and the counts are exact.
        Exact,
        /// Exact, and one flipped bit explains the counter.
        FlippedBit,
    }
}

listed! {
    /// How far the counts and the clock of the frame agree with the counts and the clock after the
    /// card's last frames.
    Likeness {
        /// The agreement is not better than by chance, or there is nothing to compare.
        Random,
        /// One of accesses, lost records and clock disagrees. The other two agree better than by
        /// chance.
        OneWrong,
        /// Accesses, lost records and clock together agree better than by chance.
        Close,
    }
}

/// The result of comparing a frame with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    pub counter: Counter,
    pub kind: Kind,
    pub before: Before,
    pub after: After,
    pub clock: Clock,
    pub next: Next,
    pub likeness: Likeness,
}

impl Evidence {
    fn has_counts(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Report)
    }

    /// Whether the frame could be made up at random, apart from its counter.
    fn is_random(&self) -> bool {
        self.has_counts() && self.likeness != Likeness::Close
    }

    /// Whether the frame could be made up at random, apart from its counter, even with one field
    /// left out. A frame with [`Likeness::OneWrong`] is not: its two other fields agree better than
    /// by chance.
    fn is_random_or_worse(&self) -> bool {
        self.has_counts() && self.likeness == Likeness::Random
    }
}

/// Whether a frame continues a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuation {
    /// The frame follows another frame exactly.
    Next,
    /// The frame is a copy of an earlier one.
    Copy,
    /// The card could have reached the counts that the frame states.
    Near,
    /// The frame arrived after it was counted as missing.
    Late,
    /// The frame does not continue the trace.
    No,
}

/// Decides whether a frame continues a trace.
pub(super) const FIT: Table<Evidence, Continuation> = Table {
    rules: &[
        Rule {
            because: "an unreadable frame that waits confirms no other one",
            when: |e| e.counter == Counter::Copy && e.kind == Kind::Unreadable,
            then: Continuation::No,
        },
        Rule {
            because: "the counter and the first bytes are those of a frame that has arrived",
            when: |e| e.counter == Counter::Copy,
            then: Continuation::Copy,
        },
        Rule {
            because: "the frame was counted as missing, and its counts are of the past",
            when: |e| {
                let is_known = e.kind != Kind::Unreadable && !e.is_random();
                e.counter == Counter::Late && e.before != Before::Contradict && is_known
            },
            then: Continuation::Late,
        },
        Rule {
            because: "the counter is none that the card uses now",
            when: |e| !matches!(e.counter, Counter::Free | Counter::Contested),
            then: Continuation::No,
        },
        Rule {
            because: "an unreadable frame states nothing that could contradict its counter",
            when: |e| e.kind == Kind::Unreadable,
            then: Continuation::Near,
        },
        Rule {
            because: "the loss of the DDR clock was reported, and explains counts of 0",
            when: |e| e.kind == Kind::FirstReport,
            then: Continuation::Next,
        },
        Rule {
            because: "the clock of a heartbeat is behind: it is damaged, or another card's that fits better",
            when: |e| e.kind == Kind::Heartbeat && e.clock == Clock::Behind,
            then: Continuation::Near,
        },
        Rule {
            because: "the counts or the clock contradict the frames before, or the frame after",
            when: |e| {
                e.before == Before::Contradict
                    || e.clock == Clock::Behind
                    || e.after == After::Contradict
            },
            then: Continuation::No,
        },
        Rule {
            because: "the counts are exactly those of the frame before, or confirmed by the frame after",
            when: |e| e.before == Before::Exact || e.after == After::Exact,
            then: Continuation::Next,
        },
        Rule {
            because: "the counts and the clock agree no better than those of a frame made up at random",
            when: Evidence::is_random,
            then: Continuation::No,
        },
    ],
    otherwise: Continuation::Near,
};

/// Whether a frame that does not continue a trace could do so after a gap. If not, it could after a
/// restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    No,
    /// After a gap of at most [`super::sequence::FARTHEST_GAP`] frames.
    Soon,
    /// After a longer gap.
    LongGap,
}

/// Decides whether a frame could continue a trace after a gap.
pub(super) const REACH: Table<Evidence, Reach> = Table {
    rules: &[
        Rule {
            because: "the counter is not ahead of the card's",
            when: |e| {
                let is_free = matches!(e.counter, Counter::Free | Counter::Contested);
                !is_free && !matches!(e.counter, Counter::Ahead | Counter::FarAhead)
            },
            then: Reach::No,
        },
        Rule {
            because: "the counts or the clock cannot follow those of the last frame",
            when: |e| {
                let has_counts = !matches!(e.kind, Kind::Heartbeat | Kind::Unreadable);
                let contradicts = matches!(e.before, Before::PossibleEarlier | Before::Contradict);
                has_counts && (contradicts || e.clock == Clock::Behind)
            },
            then: Reach::No,
        },
        Rule {
            because: "the counter is too far ahead to be so by chance of a few lost frames",
            when: |e| e.counter == Counter::FarAhead,
            then: Reach::LongGap,
        },
    ],
    otherwise: Reach::Soon,
};

/// What must be damaged in a frame that does not continue a card's trace, if the card sent it.
/// Unless this is [`Damage::No`], the frame is more likely a damaged frame of the card than a frame
/// of another card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// Neither the counter nor the counts are the card's, so the frame is not the card's.
    No,
    /// The counts: the counter is one that the card uses now.
    Counts,
    /// The counter: the card could state the counts next.
    Counter,
    /// A single bit of the counter.
    CounterBit,
}

/// Decides what must be damaged in a frame if a card sent it.
pub(super) const DAMAGE: Table<Evidence, Damage> = Table {
    rules: &[
        Rule {
            because: "the counts are exactly the next, and contradict the frames around the counter",
            when: |e| {
                let contradicts = e.before == Before::Contradict || e.after == After::Contradict;
                e.counter == Counter::Free && e.next == Next::Exact && contradicts
            },
            then: Damage::Counter,
        },
        Rule {
            because: "the card is about to use the counter, and not more than one other field is wrong",
            when: |e| e.counter == Counter::Free && !e.is_random_or_worse(),
            then: Damage::Counts,
        },
        Rule {
            because: "the counts are exactly the next, and one flipped bit explains the counter",
            when: |e| e.next == Next::FlippedBit,
            then: Damage::CounterBit,
        },
        Rule {
            because: "the counts are near the next, and the counter is not",
            when: |e| matches!(e.next, Next::Near | Next::Exact),
            then: Damage::Counter,
        },
        Rule {
            because: "a frame with the counter waits, and not more than one other field is wrong",
            when: |e| {
                let is_awaited = matches!(e.counter, Counter::Taken | Counter::Contested);
                is_awaited && !e.is_random_or_worse()
            },
            then: Damage::Counts,
        },
    ],
    otherwise: Damage::No,
};

/// How well a frame fits a trace; the best fit is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The frame follows another frame exactly. Holds the clocks between the two frames.
    Next(u64),
    /// The frame is a copy of an earlier one.
    Copy,
    /// The card could have reached the counts that the frame states. Holds the number of missing
    /// frames and the clocks between this frame and the frame before it.
    Near(u64, u64),
    /// The frame arrived after it was counted as missing.
    Late,
}

impl Fit {
    /// Whether the frame shows that the card still sends. Copies and late frames do not.
    pub fn continues(self) -> bool {
        matches!(self, Fit::Next(_) | Fit::Near(..))
    }
}

/// The place of a frame in a trace, by its counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub place: Place,
    pub counter: Counter,
}

/// The distance between a frame and the frame before it: the missing frames in between, and the
/// clocks from one to the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    pub frames: u64,
    pub clocks: u64,
}

impl Evidence {
    /// How well the frame fits; `None` if it does not continue the trace.
    pub fn fit(&self, Distance { frames, clocks }: Distance) -> Option<Fit> {
        match FIT.decide(self) {
            Continuation::Next => Some(Fit::Next(clocks)),
            Continuation::Copy => Some(Fit::Copy),
            Continuation::Near => Some(Fit::Near(frames, clocks)),
            Continuation::Late => Some(Fit::Late),
            Continuation::No => None,
        }
    }
}
