//! Defines the hour of a partition.

use std::fmt;
use std::time::Duration;

use time::OffsetDateTime;

/// Seconds of an hour.
const SECONDS: u64 = 3600;
/// Hours from 1970 to the end of the year 9999, which is the last printed year.
const MAX_HOURS: u64 = 2_932_897 * 24;

/// An hour in UTC, counted from the Unix epoch. It is printed as `YYYYMMDDHH`, which databases can
/// compare as a number or as text. Example: `2026112208`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(u64);

impl Hour {
    /// The hour of a time since the Unix epoch. Times after the year 9999 are in its last hour.
    pub fn of(time: Duration) -> Hour {
        Hour((time.as_secs() / SECONDS).min(MAX_HOURS - 1))
    }

    /// The time at which the hour begins, since the Unix epoch.
    pub fn begin(self) -> Duration {
        Duration::from_secs(self.0 * SECONDS)
    }

    /// Parses the printed form of an [`Hour`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<Hour> {
        let digits = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = text.parse().ok().filter(|_| digits)?;
        let (date, hour) = (number / 100, number % 100);
        let month = u8::try_from(date / 100 % 100).ok()?.try_into().ok()?;
        let (year, day) = ((date / 10_000) as i32, (date % 100) as u8);
        let date = time::Date::from_calendar_date(year, month, day).ok()?;
        let time = date.with_hms(hour as u8, 0, 0).ok()?.assume_utc();
        let seconds = u64::try_from(time.unix_timestamp()).ok()?;
        Some(Hour(seconds / SECONDS))
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp((self.0 * SECONDS) as i64);
        let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        write!(f, "{year:04}{month:02}{day:02}{:02}", time.hour())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_those_of_utc() {
        // `date -u -d @1700000000`: 2023-11-14 22:13:20.
        let hour = Hour::of(Duration::from_secs(1_700_000_000));
        assert_eq!(hour.to_string(), "2023111422");
        assert_eq!(Hour::of(Duration::ZERO).to_string(), "1970010100");
        assert_eq!(Hour::of(Duration::MAX).to_string(), "9999123123");
        for hour in [hour, Hour(0), Hour(MAX_HOURS - 1)] {
            assert_eq!(Hour::parse(&hour.to_string()), Some(hour));
        }
        for text in ["", "2023111424", "2023023000", "202311142", "+202311142", "20231114220"] {
            assert_eq!(Hour::parse(text), None, "{text}");
        }
    }
}
