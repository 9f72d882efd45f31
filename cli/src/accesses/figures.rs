//! Formats numbers with their units, for people.

/// Formats bytes in the largest unit that is not larger than the number.
pub fn bytes(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let largest_unit = units.into_iter().find(|(_, log2)| bytes >> log2 > 0);
    largest_unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, log2)| format!("{:.1} {unit}", bytes as f64 / (1u64 << log2) as f64),
    )
}

/// A count of units, and their bytes. A unit has 2^`log2` bytes.
pub fn with_bytes(count: u64, log2: u32) -> String {
    format!("{count} ({})", bytes(count.saturating_mul(1 << log2)))
}

/// The size of a cache, which is a power of two.
pub fn power_of_two(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let largest_unit = units.into_iter().find(|(_, log2)| bytes >> log2 > 0);
    largest_unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, log2)| format!("{} {unit}", bytes >> log2),
    )
}

/// Formats seconds in the largest unit that is not larger than the time.
pub fn seconds(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    let largest_unit = units.into_iter().find(|(least, _)| seconds >= *least);
    let (unit, name) = largest_unit.unwrap_or((1e-9, "ns"));
    format!("{:.3} {name}", seconds / unit)
}

/// Formats a rate per second in units of 10^9, 10^6 or 10^3.
pub fn per_second(number: f64, what: &str) -> String {
    let units = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let largest_unit = units.into_iter().find(|(least, _)| number >= *least);
    let (unit, name) = largest_unit.unwrap_or((1.0, " "));
    format!("{:.3}{name}{what}/s", number / unit)
}

/// A fraction from 0 to 1 as a percentage.
pub fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

/// `part` as a percentage of `whole`; `-` if `whole` is 0.
pub fn share(part: f64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { percent(part / whole as f64) }
}

/// A count with its noun, which gets an `s` or `es` in the plural.
pub fn counted(count: u64, what: &str) -> String {
    let ending = match (count, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!((bytes(1023).as_str(), bytes(10 << 10).as_str()), ("1023 bytes", "10.0 KiB"));
        assert_eq!(
            (power_of_two(64).as_str(), power_of_two(1 << 21).as_str()),
            ("64 bytes", "2 MiB")
        );
        assert_eq!((seconds(0.0125).as_str(), seconds(1e-9).as_str()), ("12.500 ms", "1.000 ns"));
        assert_eq!(per_second(2.5e9, "B"), "2.500 GB/s");
        assert_eq!(
            (counted(1, "access"), counted(0, "page")),
            ("1 access".into(), "0 pages".into())
        );
        assert_eq!((share(1.0, 0).as_str(), share(1.0, 8).as_str()), ("-", "12.50 %"));
    }
}
