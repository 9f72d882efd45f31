//! Defines the option for cache sizes whose misses are stated, and prints the results as JSON and
//! text.

use anyhow::{Context, Result, ensure};
use hmtt::analysis::LINE_LOG2;
use hmtt::analysis::mrc::{Curve, Point};
use serde_json::{Value, json};

use super::figures::{percent, power_of_two};

/// Sizes that are stated by default: 32 KiB, 1 MiB and 32 MiB.
pub const USUAL: [u64; 3] = [32 << 10, 1 << 20, 32 << 20];

/// The option.
#[derive(clap::Args)]
pub struct CacheSizes {
    /// State the misses of LRU caches of these sizes: powers of two [default: 32K,1M,32M]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<u64>,
}

impl CacheSizes {
    /// Whether the user has given sizes.
    pub fn is_given(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// The given sizes in bytes, or [`USUAL`].
    pub fn bytes(&self) -> Vec<u64> {
        if self.is_given() { self.sizes.clone() } else { USUAL.to_vec() }
    }
}

/// Parses the size of a cache in bytes: a number, with K, M, G or no suffix.
fn parse_size(text: &str) -> Result<u64> {
    let text = text.trim();
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let with_unit = units.iter().find_map(|(unit, log2)| Some((text.strip_suffix(unit)?, *log2)));
    let (number, log2) = with_unit.unwrap_or((text, 0));
    let number: u64 = number.parse().context("expected a number of bytes, or with K, M or G")?;
    let bytes = number.checked_mul(1 << log2).context("a cache is smaller")?;
    let is_size = bytes.is_power_of_two() && bytes >= 1 << LINE_LOG2;
    ensure!(is_size, "a curve has caches of 64 bytes and more, in powers of two");
    Ok(bytes)
}

/// The points of a curve at some cache sizes. Sizes that the curve does not resolve are left out.
pub fn points(curve: &Curve, sizes: &[u64]) -> Vec<Point> {
    let lines = |bytes: &u64| bytes / curve.unit_bytes.max(1);
    sizes.iter().filter_map(|bytes| curve.point(lines(bytes))).collect()
}

/// A curve as JSON, with its points at `sizes` under the key `sizes`.
pub fn to_json(curve: &Curve, sizes: &[u64]) -> Value {
    let mut json = json!(curve);
    json["sizes"] = json!(points(curve, sizes));
    json
}

/// The name of a cache, and its misses in words.
pub fn line(point: &Point) -> (String, String) {
    let name = format!("misses, {}", power_of_two(point.cache_bytes));
    (name, format!("{:.0} ({})", point.misses, percent(point.miss_ratio)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two() {
        let read = |text| parse_size(text).ok();
        assert_eq!(
            [read("64"), read("32K"), read("1M"), read("4G")],
            [Some(64), Some(32 << 10), Some(1 << 20), Some(4 << 30)]
        );
        for wrong in ["", "K", "48K", "32", "-1", "0", "1T", "99999999999999999999", "9999999999G"]
        {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
