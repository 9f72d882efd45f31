//! Marks that a log and a trace have to a map from the log's clock to the card's, with its error bound.

use hmtt_format::tag_log::Mark;

use crate::merge::{Strand, TimeBase, pair_marks};

/// Marks that took longer than this times the median were interrupted: they say little.
const INTERRUPTED: u64 = 4;

/// Where a log's times are in a trace.
#[derive(Clone, Debug)]
pub struct LogSync {
    base: TimeBase,
    /// Ticks that the map counts from.
    origin: u64,
    /// Clocks that a time may be wrong by.
    pub error: f64,
    /// Marks that both have.
    pub shared: usize,
    /// Marks of the log that the trace does not have, or that were interrupted.
    pub only_log: u64,
    /// Marks of the trace that the log does not have.
    pub only_trace: u64,
    /// Clocks of the first mark and of the last.
    pub marks: (f64, f64),
    /// Number of the card in the capture.
    pub card: usize,
    /// Restarts of the card before.
    pub session: usize,
}

impl LogSync {
    /// Relates a log to the strand of a capture that has most of its marks; `None` if none has any that
    /// fits one place only. `span`: ticks of its first event and of its last.
    pub fn find(strands: &[Strand], marks: &[Mark], tsc_hz: u64, span: (u64, u64)) -> Option<Self> {
        let of_strand = |strand| LogSync::of(strand, marks, tsc_hz, span);
        strands.iter().filter_map(of_strand).max_by_key(|sync| sync.shared)
    }

    fn of(strand: &Strand, marks: &[Mark], tsc_hz: u64, span: (u64, u64)) -> Option<Self> {
        let width = |mark: &Mark| mark.tsc_after.saturating_sub(mark.tsc_before);
        let mut widths: Vec<u64> = marks.iter().map(width).collect();
        widths.sort_unstable();
        let widest = widths.get(widths.len() / 2)?.saturating_mul(INTERRUPTED);
        let clear: Vec<&Mark> = marks.iter().filter(|mark| width(mark) <= widest).collect();
        let origin = clear.first()?.tsc_before.min(span.0);
        let (period, tick) = (strand.period(), 1e9 / tsc_hz as f64);
        let ticks = |mark: &Mark| {
            (mark.tsc_before - origin.min(mark.tsc_before)) as f64 + width(mark) as f64 / 2.0
        };
        let of_log: Vec<(u32, f64)> =
            clear.iter().map(|mark| (mark.register, ticks(mark) * tick)).collect();
        let pairs = pair_marks(&strand.timed_marks(), &of_log);
        let knots: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (b / tick, a / period)).collect();
        let marks_of_trace = (knots.first()?.1, knots.last()?.1);
        let widest = clear.iter().map(|mark| width(mark)).max().unwrap_or_default();
        let nominal = tick / period;
        // Half the widest mark, and one clock, which is what the card tells apart.
        let seen_within = widest as f64 / 2.0 * nominal + 1.0;
        let last = span.1.saturating_sub(origin);
        let first = span.0.saturating_sub(origin);
        let base = TimeBase::through(knots, nominal, (first, last), seen_within)?;
        Some(LogSync {
            error: base.error.unwrap_or(f64::MAX),
            base,
            origin,
            shared: pairs.len(),
            only_log: (marks.len() - pairs.len()) as u64,
            only_trace: (strand.marks() - pairs.len()) as u64,
            marks: marks_of_trace,
            card: strand.card,
            session: strand.session,
        })
    }

    /// The card's clock at a time of the log.
    pub fn clock(&self, tsc: u64) -> f64 {
        self.base.map(tsc.saturating_sub(self.origin))
    }
}
