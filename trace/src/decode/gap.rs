//! What is missing from a trace, and between which clocks, frames and moments; as data and in words.

use std::fmt;
use std::time::Duration;

use hmtt_format::Cycles;
use serde::{Serialize, Serializer};

/// Something is missing from the trace here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Missing frames.
    pub frames: u64,
    /// Counter of the first missing frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_frame: Option<u64>,
    /// Records lost on the card.
    pub records: u32,
    /// Frames that came but could not be read to their end.
    pub damaged_frames: u64,
    /// Lost accesses; unknown when no readable frame of the session follows.
    pub accesses: Option<u64>,
    /// Clock of the last record before; none at the start of a session.
    #[serde(serialize_with = "serialize_clock")]
    pub after: Option<Cycles>,
    /// Clock from which the trace goes on; none when no readable frame of the session follows.
    #[serde(serialize_with = "serialize_clock")]
    pub before: Option<Cycles>,
    /// Number in the capture of the last frame before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_packet: Option<u64>,
    /// Number in the capture of the frame with which the trace goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_packet: Option<u64>,
    /// Arrival of the last frame before, since the epoch.
    #[serde(serialize_with = "serialize_time", skip_serializing_if = "Option::is_none")]
    pub after_time: Option<Duration>,
    /// Arrival of the frame with which the trace goes on, since the epoch.
    #[serde(serialize_with = "serialize_time", skip_serializing_if = "Option::is_none")]
    pub before_time: Option<Duration>,
}

impl Gap {
    /// Whether something is missing between frames that came. What was before the first frame of a
    /// session is not.
    pub fn is_loss(&self) -> bool {
        self.after.is_some() || self.frames != 0 || self.damaged_frames != 0
    }
}

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

/// Where a gap is in the capture: `packet 3 (1700000000.000002000 s) to packet 4 (...)`; empty if it is
/// not known.
pub(crate) struct GapLocation<'a>(pub &'a Gap);

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
pub(crate) struct LocatedGap<'a>(pub &'a Gap);

impl fmt::Display for LocatedGap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LocatedGap(gap) = self;
        let separator = if gap.after_packet.or(gap.before_packet).is_some() { ", " } else { "" };
        write!(f, "{gap}{separator}{}", GapLocation(gap))
    }
}

impl fmt::Display for GapLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GapLocation(gap) = self;
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

fn serialize_clock<S: Serializer>(
    clock: &Option<Cycles>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    clock.map(|clock| clock.0).serialize(serializer)
}

fn serialize_time<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(seconds).serialize(serializer)
}

/// A time since the epoch in seconds, to the nanosecond: a floating-point number would have lost some.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// The time that [`seconds`] wrote.
pub(crate) fn parse_seconds(text: &str) -> Option<Duration> {
    let (seconds, nanos) = text.split_once('.').filter(|(_, nanos)| nanos.len() == 9)?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let written = digits(seconds) && digits(nanos);
    Some(Duration::new(seconds.parse().ok()?, nanos.parse().ok()?)).filter(|_| written)
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
        let place = |gap: Gap| GapLocation(&gap).to_string();
        assert_eq!(place(gap(None, None, None)), "");
        assert_eq!(
            place(gap(Some(7), Some(8), time)),
            "packet 7 (1700000000.000000042 s) to packet 8"
        );
        assert_eq!(place(gap(Some(7), None, None)), "after packet 7");
        assert_eq!(place(gap(None, Some(8), None)), "before packet 8");
    }
}
