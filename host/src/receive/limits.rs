//! Parses the conditions (`name:value`) under which a capture or a file ends.

use std::str::FromStr;
use std::time::Duration;

/// Limits of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Time after which the capture stops.
    pub duration: Option<Duration>,
    /// Number of captured frames after which the capture stops.
    pub frames: Option<u64>,
    /// Number of bytes in files after which the capture stops.
    pub bytes: Option<u64>,
    /// Number of files after which the capture stops.
    pub files: Option<u64>,
    /// Whether the capture stops when every card has sent its end frames.
    pub until_end: bool,
}

/// A condition, such as `duration:60` or `filesize:100M`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// Time that has passed.
    Duration(Duration),
    /// Number of bytes. A number without a unit counts 1000 bytes, as in other capture tools.
    FileSize(u64),
    /// Number of files.
    Files(u64),
    /// Number of captured frames.
    Packets(u64),
}

/// Why a condition is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseConditionError {
    /// The name is not known.
    #[error("expected duration:SECONDS, filesize:SIZE, files:N or packets:N")]
    Name,
    /// The value is not a number above 0.
    #[error("expected a {0} above 0")]
    Value(&'static str),
    /// The value is 0, so the condition is met before the first frame.
    #[error("{0}:0 is met before the first frame, so that nothing is kept; it must be above 0")]
    Zero(&'static str),
}

impl FromStr for Condition {
    type Err = ParseConditionError;

    fn from_str(text: &str) -> Result<Self, ParseConditionError> {
        let (name, value) = text.split_once(':').ok_or(ParseConditionError::Name)?;
        let count = |name| {
            let count = value.parse().map_err(|_| ParseConditionError::Value("number"))?;
            above_zero(name, count)
        };
        match name {
            "duration" => {
                let seconds: Option<f64> = value.parse().ok().filter(|seconds| *seconds >= 0.0);
                let duration = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
                let wrong = ParseConditionError::Value("time in seconds");
                above_zero("duration", duration.ok_or(wrong)?).map(Condition::Duration)
            }
            "filesize" => {
                let wrong = ParseConditionError::Value("size, such as 100000, 500M or 2G,");
                above_zero("filesize", size(value).ok_or(wrong)?).map(Condition::FileSize)
            }
            "files" => count("files").map(Condition::Files),
            "packets" => count("packets").map(Condition::Packets),
            _ => Err(ParseConditionError::Name),
        }
    }
}

fn above_zero<T: Default + PartialEq>(
    name: &'static str,
    value: T,
) -> Result<T, ParseConditionError> {
    if value == T::default() { Err(ParseConditionError::Zero(name)) } else { Ok(value) }
}

/// Parses a size: a number of thousands of bytes, or a number with a unit. k, M, G, T are powers of
/// 1000; Ki, Mi, Gi, Ti are powers of 1024; a B may follow.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = &text[digits..];
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let (unit, base) = match unit.strip_suffix('i') {
        Some(unit) => (unit, 1024_u64),
        None => (unit, 1000),
    };
    let power = match unit {
        "" if base == 1000 && text.len() == digits => 1,
        "" if base == 1000 => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    number.checked_mul(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_units() {
        let parse = |text: &str| text.parse::<Condition>();
        assert_eq!(parse("duration:1.5"), Ok(Condition::Duration(Duration::from_millis(1500))));
        assert_eq!(parse("filesize:3"), Ok(Condition::FileSize(3000)));
        assert_eq!(parse("filesize:3B"), Ok(Condition::FileSize(3)));
        assert_eq!(parse("filesize:3MiB"), Ok(Condition::FileSize(3 << 20)));
        assert_eq!(parse("filesize:3G"), Ok(Condition::FileSize(3_000_000_000)));
        assert_eq!(parse("files:3"), Ok(Condition::Files(3)));
        assert_eq!(parse("packets:3"), Ok(Condition::Packets(3)));
        for wrong in [
            "duration",
            "duration:",
            "duration:0",
            "duration:-1",
            "duration:NaN",
            "duration:inf",
            "filesize:0",
            "filesize:3X",
            "filesize:M",
            "filesize:99999999999999999999",
            "files:0",
            "filesize:18446744073709551615T",
            "filesize:3i",
            "packets:x",
            "interval:3",
            ":3",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_condition_of_zero_is_rejected_with_the_reason() {
        for name in ["duration", "filesize", "files", "packets"] {
            let refused = format!("{name}:0").parse::<Condition>();
            assert_eq!(refused, Err(ParseConditionError::Zero(name)));
        }
        // Less than the resolution of `Duration`.
        let refused = "duration:1e-300".parse::<Condition>();
        assert_eq!(refused, Err(ParseConditionError::Zero("duration")));
    }
}
