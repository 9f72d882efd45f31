//! Formats numbers with their units and computes the ticks of axes, exactly as `numbers.js` does.

use super::chart::Unit;

/// Maximum number of significant digits of values.
const DIGITS: usize = 4;
/// Maximum number of significant digits of times. Times have more digits, because they may begin
/// far from 0.
const TIME_DIGITS: usize = 9;

/// A number with at most `digits` significant digits, without trailing zeros. Example: 2.50 is
/// `2.5`.
fn plain(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i64 + 1;
    let after = (digits as i64 - before).clamp(0, 12) as usize;
    let text = format!("{value:.after$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn scaled(value: f64, units: &[(f64, &str)], digits: usize) -> String {
    let unit = units.iter().find(|(size, _)| value.abs() >= *size);
    let (size, name) = unit.or(units.last()).copied().unwrap_or((1.0, ""));
    let name = if value == 0.0 {
        units.iter().find(|(size, _)| *size == 1.0).map_or(name, |of| of.1)
    } else {
        name
    };
    plain(value / size, digits) + name
}

/// A number with its unit. Example: 2560 bytes are `2.5 KiB`.
pub fn text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Count => {
            scaled(value, &[(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")], DIGITS)
        }
        Unit::Bytes => {
            let units = [40, 30, 20, 10, 0].map(|log2| f64::from(log2).exp2());
            let names = [" TiB", " GiB", " MiB", " KiB", " B"];
            let units: Vec<(f64, &str)> = units.into_iter().zip(names).collect();
            scaled(value, &units, DIGITS)
        }
        Unit::BytesPerSecond => {
            let units = [(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")];
            scaled(value, &units, DIGITS)
        }
        Unit::Seconds => {
            let units = [(1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns")];
            scaled(value, &units, TIME_DIGITS)
        }
        Unit::Share => {
            let text = format!("{:.2}", 100.0 * value);
            text.trim_end_matches('0').trim_end_matches('.').to_owned() + " %"
        }
    }
}

/// A whole number with commas. Example: `1,234,567`.
pub fn exact(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < -0.5 { format!("-{text}") } else { text }
}

/// `part` / `whole` as a percentage; `-` if `whole` is 0.
pub fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { text(Unit::Share, part / whole) } else { "-".to_owned() }
}

/// A count with its noun, in the plural unless the count is 1. Example: `2 touches`.
pub fn counted(value: f64, noun: &str) -> String {
    let ending = if value == 1.0 {
        ""
    } else if noun.ends_with('s') || noun.ends_with("ch") {
        "es"
    } else {
        "s"
    };
    format!("{} {noun}{ending}", exact(value))
}

/// Round numbers from `from` to `to`, at most `most` + 2. Example: from 0 to 10 with `most` 5 they
/// are 0, 2, 4, 6, 8, 10.
pub fn ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let span = to - from;
    if !span.is_finite() || span <= 0.0 {
        return vec![from];
    }
    let rough = span / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|of| *of >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step).ceil() * step;
    let ticks = (0..most + 2).map(|index| first + index as f64 * step);
    ticks
        .take_while(|at| *at <= to + step * 1e-6)
        .map(|at| if at.abs() < step * 1e-6 { 0.0 } else { at })
        .collect()
}

/// Whole binary logarithms from `from` to `to`, at most `most` + 1. Example: from 0.5 to 8 with
/// `most` 4 they are 2, 4, 6, 8.
pub fn powers(from: f64, to: f64, most: usize) -> Vec<f64> {
    let step = ((to - from) / most.max(1) as f64).ceil().max(1.0);
    let first = (from / step).ceil() * step;
    (0..=most).map(|index| first + index as f64 * step).take_while(|at| *at <= to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_few_digits() {
        assert_eq!(text(Unit::Count, 123_456.0), "123.5 k");
        assert_eq!(text(Unit::Bytes, 2560.0), "2.5 KiB");
        assert_eq!(text(Unit::Seconds, 0.0005), "500 us");
        assert_eq!(text(Unit::Seconds, 0.0), "0 s");
        assert_eq!(text(Unit::Share, 0.5), "50 %");
        assert_eq!(
            (text(Unit::Share, 0.00001), text(Unit::Share, 1.0)),
            ("0 %".into(), "100 %".into())
        );
        assert_eq!(
            (exact(1_234_567.0), counted(1.0, "access")),
            ("1,234,567".into(), "1 access".into())
        );
        assert_eq!((counted(2.0, "touch"), exact(-1234.0)), ("2 touches".into(), "-1,234".into()));
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(3.0, 3.0, 5), [3.0]);
        assert!(ticks(0.0, f64::MAX, 5).len() <= 7 && ticks(0.0, f64::NAN, 5).len() == 1);
        assert_eq!(powers(0.5, 8.0, 4), [2.0, 4.0, 6.0, 8.0]);
    }
}
