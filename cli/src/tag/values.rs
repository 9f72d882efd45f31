//! Parses the values of options of `hmtt tag`.

use std::time::Duration;

use hmtt_probe::control::CardWindow;
use hmtt_probe::stubs::layout::LogShape;

/// Parses a decimal number, or a hexadecimal number that begins with `0x`.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is not a number"))
}

/// Parses a time between marks. The time must be longer than a mark takes.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    let range = Duration::from_micros(100)..=Duration::from_secs(1);
    range
        .contains(&time)
        .then_some(time)
        .ok_or_else(|| format!("{text} is not between 100us and 1s"))
}

/// Parses a number followed by `us`, `ms` or `s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(format!("{text}: a time is a number followed by us, ms or s")),
    };
    let micros = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    micros.map(Duration::from_micros).ok_or_else(|| format!("{text} is not a valid time"))
}

/// Parses a power of two that must be in `range`.
fn power(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let value = number(text)?;
    let fits = value.is_power_of_two() && range.contains(&value);
    let (first, last) = (range.start(), range.end());
    if fits { Ok(value) } else { Err(format!("not a power of two from {first} to {last}")) }
}

/// Parses the size of a buffer in KiB.
pub fn buffer_kb(text: &str) -> Result<u64, String> {
    let bytes = LogShape::CHUNK_BYTES;
    power(text, bytes.start() >> 10..=bytes.end() >> 10)
}

/// Parses a number of buffers.
pub fn buffers(text: &str) -> Result<u64, String> {
    power(text, 2..=1 << 10)
}

/// Parses a window of physical memory: `PATH[:OFFSET[:BYTES]]`. A path may contain colons, because
/// only numbers after the last colons are split off.
pub fn window(text: &str) -> Result<CardWindow, String> {
    let split = |text: &str| {
        let (path, last) = text.rsplit_once(':')?;
        Some((path.to_owned(), number(last).ok()?))
    };
    let (path, offset, bytes) = match split(text) {
        None => (text.to_owned(), 0, None),
        Some((rest, last)) => match split(&rest) {
            None => (rest, last, None),
            Some((path, offset)) => (path, offset, Some(last)),
        },
    };
    Ok(CardWindow { path: path.into(), offset, bytes })
}
