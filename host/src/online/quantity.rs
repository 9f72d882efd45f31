//! Formats numbers for a display: three digits and a decimal prefix.

/// Formats `value` with three digits and a decimal prefix: `0`, `12.3 k`, `1.92 G`; numbers below
/// 1000 as integers.
pub fn scaled(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if value < 999.5 {
        return format!("{value:.0} ").trim_end().to_owned();
    }
    let mut scaled = value;
    for prefix in PREFIXES {
        scaled /= 1000.0;
        // A value that would be rounded to four digits gets the next prefix.
        if scaled < 999.5 {
            let decimals = match scaled {
                small if small < 9.995 => 2,
                small if small < 99.95 => 1,
                _ => 0,
            };
            return format!("{scaled:.decimals$} {prefix}");
        }
    }
    format!("{value:.2e}")
}

/// Formats `value` with a unit after its prefix: `1.92 GB/s`, `512 B`.
pub fn with_unit(value: f64, unit: &str) -> String {
    let text = scaled(value);
    if text.contains(' ') { text + unit } else { format!("{text} {unit}") }
}

/// Formats a share, 0 to 1, in per cent: `71 %`; `-` for `None`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// Formats seconds as `HH:MM:SS`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_always() {
        for (value, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.5, "1.00 k"),
            (9_994.0, "9.99 k"),
            (9_996.0, "10.0 k"),
            (81_274.0, "81.3 k"),
            (999_499.0, "999 k"),
            (999_500.0, "1.00 M"),
            (30_071_380.0, "30.1 M"),
            (1.92e9, "1.92 G"),
            (1e30, "1.00e30"),
        ] {
            assert_eq!(scaled(value), text, "{value}");
        }
        assert_eq!(with_unit(1.92e9, "B/s"), "1.92 GB/s");
        assert_eq!(with_unit(12.0, "B/s"), "12 B/s");
        assert_eq!(percent(Some(0.714)), "71 %");
        assert_eq!(clock(727.9), "00:12:07");
        assert_eq!(clock(360_000.0), "100:00:00");
    }
}
