//! Defines the options that several commands share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hmtt::analysis::slices::SliceLength;
use hmtt::analysis::source::Part;
use hmtt::analysis::{Known, LINE_LOG2, PAGE_LOG2};

use super::figures::seconds;

/// What is read, and how results are printed.
#[derive(clap::Args)]
pub struct Options {
    /// Captures, traces of programs, tables of captures, or data sets; - is a capture on standard
    /// input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Resolve physical pages to processes, mappings and virtual addresses by this map, which `hmtt
    /// pagemap record` has made of the traced machine
    #[arg(long, value_name = "MAP")]
    pub pagemap: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values; the verdict is then on standard error
    #[arg(long)]
    csv: bool,
    /// The same as --json or --csv
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "csv"])]
    format: Option<Format>,
}

/// What can be printed in place of text.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
    Csv,
}

impl Options {
    /// All paths that are read: the files, and the map of pages.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> + Clone {
        self.files.iter().chain(&self.pagemap).map(PathBuf::as_path)
    }

    /// Whether one JSON object is printed.
    pub fn is_json(&self) -> bool {
        self.json || self.format == Some(Format::Json)
    }

    /// Whether comma-separated values are printed.
    pub fn is_csv(&self) -> bool {
        self.csv || self.format == Some(Format::Csv)
    }
}

/// How long slices are.
#[derive(clap::Args)]
pub struct Slicing {
    /// Length of slices where the time of accesses is known, from 1us to 1s
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    slice: Option<u64>,
    /// Length of slices in accesses, where their time is not known
    #[arg(long, value_name = "ACCESSES", value_parser = clap::value_parser!(u64).range(1..))]
    slice_accesses: Option<u64>,
}

impl Slicing {
    /// Whether the user has given a length.
    pub fn is_given(&self) -> bool {
        self.slice.is_some() || self.slice_accesses.is_some()
    }

    /// The given lengths. The defaults are 1 ms and 2^20 accesses.
    pub fn length(&self) -> SliceLength {
        let usual = SliceLength::default();
        SliceLength {
            ns: self.slice.unwrap_or(usual.ns),
            accesses: self.slice_accesses.unwrap_or(usual.accesses),
        }
    }
}

/// Finds the longest slice of cards in frequency mode. Their accesses have no finer time.
#[derive(Clone, Debug, Default)]
pub struct CardSlices {
    /// Clock period of each memory, by the memory's number.
    tck_ps: BTreeMap<usize, u32>,
    longest_ns: u64,
}

impl CardSlices {
    /// Reads the clock period or the slice length from a part of a source.
    pub fn part(&mut self, memory: usize, part: &Part<'_>) {
        match part {
            Part::Known(Known { tck_ps: Some(period), .. }) => {
                self.tck_ps.insert(memory, *period);
            }
            // The length of a partial slice depends on when commands came.
            Part::FrequencySlice(slice) if !slice.is_partial => {
                let clocks = slice.length_clocks.unwrap_or(0);
                let period = self.tck_ps.get(&memory).copied().unwrap_or(0).into();
                self.longest_ns = self.longest_ns.max(clocks.saturating_mul(period) / 1000);
            }
            _ => {}
        }
    }

    /// Refuses slices that are shorter than the card's slices. Both lengths may be wrong by one
    /// clock.
    pub fn check(&self, analysis: &str, slicing: &Slicing) -> Result<()> {
        let clock_ns = self.tck_ps.values().copied().max().map_or(0, u64::from).div_ceil(1000);
        let wanted = slicing.length().ns.saturating_add(clock_ns);
        if slicing.is_given() && self.longest_ns > wanted {
            bail!(
                "{analysis} --slice: slices of {} are shorter than those of the capture in frequency mode, which has slices \
                 of up to {}; give a length of at least that",
                seconds(slicing.length().ns as f64 * 1e-9),
                seconds(self.longest_ns as f64 * 1e-9)
            );
        }
        Ok(())
    }
}

/// Which distances are found, and how exactly.
#[derive(clap::Args)]
pub struct Distances {
    /// Use this part of all lines, chosen by a hash, instead of all (SHARDS); 0.01 is usual
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub sample: Option<f64>,
    /// Use pages of 4 KiB instead of lines of 64 bytes
    #[arg(long)]
    pub pages: bool,
}

impl Distances {
    /// Binary logarithm of the bytes of a line or page.
    pub fn unit_log2(&self) -> u32 {
        if self.pages { PAGE_LOG2 } else { LINE_LOG2 }
    }
}

fn parse_ns(text: &str) -> Result<u64> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let parts = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (number, ns) = parts.context("expected a number with us, ms or s")?;
    let number: u64 = number.trim().parse().context("expected a whole number of us, ms or s")?;
    let length = number.saturating_mul(*ns);
    ensure!((1_000..=1_000_000_000).contains(&length), "slices are of 1us to 1s");
    Ok(length)
}

/// Parses a sampling rate: the part of all lines that is used.
pub fn parse_rate(text: &str) -> Result<f64> {
    let rate: f64 = text.parse().context("expected a number")?;
    ensure!((1e-6..=1.0).contains(&rate), "a rate is from 0.000001 to 1");
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units_and_limits() {
        assert_eq!(parse_ns("1us").unwrap(), 1_000);
        assert_eq!(parse_ns("250 ms").unwrap(), 250_000_000);
        assert_eq!(parse_ns("1s").unwrap(), 1_000_000_000);
        for wrong in ["", "5", "1.5ms", "0us", "2s", "1001ms", "-1us", "99999999999999999999s"] {
            assert!(parse_ns(wrong).is_err(), "{wrong}");
        }
        assert!(parse_rate("0").is_err() && parse_rate("nan").is_err() && parse_rate("1").is_ok());
    }
}
