//! What is missing from a trace, and between which clocks, frames and moments.

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
