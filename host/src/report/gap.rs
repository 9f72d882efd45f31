//! Gaps and losses of the DDR clock to words: what is missing, between which clocks, and between which
//! packets of the capture.

use std::fmt;
use std::time::Duration;

use crate::decode::{DdrClock, Gap, seconds};

/// `gap FRAMES frames missing, ACCESSES accesses lost between clocks A and B`. Where missing frames were
/// lost, on the wire or in the kernel, a trace does not say; the receiver's summary does.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = [
            (self.frames, "frames missing"),
            (self.records.into(), "records lost on the card"),
            (self.damaged_frames, "damaged frames"),
        ];
        let present = causes.iter().filter(|(count, _)| *count != 0);
        let what: Vec<String> = present.map(|(count, what)| format!("{count} {what}")).collect();
        let what = what.join(" and ");
        let accesses = match self.accesses {
            Some(accesses) => format!("{accesses} accesses"),
            None => "an unknown number of accesses".to_owned(),
        };
        f.write_str(if self.after.is_none() { "gap at start: " } else { "gap " })?;
        match what.as_str() {
            "" => write!(f, "{accesses}")?,
            what => write!(f, "{what}, {accesses} lost")?,
        }
        match (self.after, self.before) {
            (Some(after), Some(before)) => write!(f, " between clocks {after} and {before}"),
            (Some(after), None) => write!(f, " after clock {after}"),
            (None, Some(before)) => write!(f, " before clock {before}"),
            (None, None) => Ok(()),
        }
    }
}

/// `DDR clock lost at 12.345 ms of the transmit clock (losses since power-on: 1)`
impl fmt::Display for DdrClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, lost, losses, transmit_nanos } = *self;
        let what = match (running, lost) {
            (false, _) => "lost",
            (true, 0) => "found again",
            (true, _) => "lost and found again",
        };
        let milliseconds = transmit_nanos as f64 / 1e6;
        write!(f, "DDR clock {what} at {milliseconds:.3} ms of the transmit clock")?;
        write!(f, " (losses since power-on: {losses})")
    }
}

/// Where a gap is in the capture: `packet 3 (1700000000.000002000 s) to packet 4 (...)`; empty if it is
/// not known.
pub(super) struct Place<'a>(pub &'a Gap);

/// A packet and its arrival in seconds since the epoch.
struct Side(Option<u64>, Option<Duration>);

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side(Some(packet), time) = *self else { return Ok(()) };
        write!(f, "packet {packet}")?;
        match time {
            Some(time) => write!(f, " ({} s)", seconds(time)),
            None => Ok(()),
        }
    }
}

/// A gap and its place, if that is known: what reading needs to make it again.
pub(crate) struct Placed<'a>(pub &'a Gap);

impl fmt::Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placed(gap) = self;
        let separator = if gap.after_packet.or(gap.before_packet).is_some() { ", " } else { "" };
        write!(f, "{gap}{separator}{}", Place(gap))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place(gap) = self;
        let after = Side(gap.after_packet, gap.after_time);
        let before = Side(gap.before_packet, gap.before_time);
        match (gap.after_packet, gap.before_packet) {
            (Some(_), Some(_)) => write!(f, "{after} to {before}"),
            (Some(_), None) => write!(f, "after {after}"),
            (None, Some(_)) => write!(f, "before {before}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_no_more_than_is_known() {
        let gap = |after_packet, before_packet, after_time| Gap {
            after_packet,
            before_packet,
            after_time,
            ..Gap::default()
        };
        let time = Some(Duration::new(1_700_000_000, 42));
        let place = |gap: Gap| Place(&gap).to_string();
        assert_eq!(place(gap(None, None, None)), "");
        assert_eq!(
            place(gap(Some(7), Some(8), time)),
            "packet 7 (1700000000.000000042 s) to packet 8"
        );
        assert_eq!(place(gap(Some(7), None, None)), "after packet 7");
        assert_eq!(place(gap(None, Some(8), None)), "before packet 8");
    }
}
