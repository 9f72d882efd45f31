//! Defines gaps: the missing frames, records and accesses, the clocks, packets and arrival times
//! around them, and the printed form.

use std::fmt;
use std::time::Duration;

use hmtt_format::Cycles;
use serde::{Deserialize, Serialize};

/// A place in a trace at which frames, records or accesses are missing. The serde aliases are the
/// names of the fields in tables of version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Frames that did not arrive.
    #[serde(rename = "missing_frames", alias = "frames")]
    pub frames: u64,
    /// Counter of the first missing frame.
    #[serde(
        rename = "first_counter",
        alias = "first_frame",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub first_frame: Option<u64>,
    /// Records that the card lost.
    #[serde(rename = "card_lost_records", alias = "records")]
    pub records: u32,
    /// Frames that arrived but could not be read to their end.
    #[serde(alias = "damaged_frames")]
    pub malformed_frames: u64,
    /// Lost accesses; `None` if no readable frame of the session follows, so that their number is
    /// not known.
    #[serde(rename = "lost_accesses", alias = "accesses")]
    pub accesses: Option<u64>,
    /// Clock of the last record before the gap, in clock cycles; `None` at the start of a session.
    #[serde(rename = "after_clock", alias = "after")]
    pub after: Option<Cycles>,
    /// Clock at which the trace continues, in clock cycles; `None` if no readable frame of the
    /// session follows.
    #[serde(rename = "before_clock", alias = "before")]
    pub before: Option<Cycles>,
    /// Number in the capture of the last frame before the gap, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_packet: Option<u64>,
    /// Number in the capture of the frame with which the trace continues, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_packet: Option<u64>,
    /// Arrival time of the last frame before the gap, since the Unix epoch.
    #[serde(
        rename = "after_time_seconds",
        alias = "after_time",
        with = "as_seconds",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub after_time: Option<Duration>,
    /// Arrival time of the frame with which the trace continues, since the Unix epoch.
    #[serde(
        rename = "before_time_seconds",
        alias = "before_time",
        with = "as_seconds",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub before_time: Option<Duration>,
}

impl Gap {
    /// Whether frames or records are missing. Accesses before the first frame of a session are no
    /// loss.
    pub fn is_loss(&self) -> bool {
        self.after.is_some() || self.frames != 0 || self.malformed_frames != 0
    }
}

/// `gap FRAMES frames missing, ACCESSES accesses lost between clocks A and B`. A trace does not
/// show whether frames were lost on the wire or in the kernel; the receiver's summary does.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = [
            (self.frames, "frames missing"),
            (self.records.into(), "records lost on the card"),
            (self.malformed_frames, "malformed frames"),
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

/// The location of a gap in its capture, printed as `packet 3 (1700000000.000002000 s) to packet 4
/// (...)`; empty if it is not known.
pub(crate) struct GapLocation<'a>(pub &'a Gap);

/// The packet on one side of a gap, and its arrival time since the Unix epoch.
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

/// A gap, printed with its location if the location is known, so that a parser of the text can
/// restore the gap.
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

/// The serialised form of an arrival time: text, as [`seconds`] prints it.
mod as_seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{parse_seconds, seconds};

    pub fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(seconds).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let time = parse_seconds(&text);
        let problem = || D::Error::custom(format_args!("time {text:?} is not SECONDS.NANOSECONDS"));
        time.map(Some).ok_or_else(problem)
    }
}

/// A time since the Unix epoch in seconds, to the nanosecond. A 64-bit floating-point number could
/// not hold it.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// Parses a time that [`seconds`] has printed; `None` for any other text.
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
    fn a_location_states_only_what_is_known() {
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
