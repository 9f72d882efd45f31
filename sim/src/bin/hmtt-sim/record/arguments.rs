//! Defines the options of `hmtt-sim record`, and builds the description of a machine from them.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use hmtt_sim::machine::MachineConfiguration;
use hmtt_sim::machine::cache::places::{self, PlacedCache};
use hmtt_sim::machine::controller::PagePolicy;
use hmtt_sim::machine::pages::Allocation;

#[derive(Args)]
pub struct RecordArguments {
    /// The program to run, and its arguments; every access to memory that it makes is recorded
    #[arg(
        value_name = "PROG",
        required_unless_present = "accesses",
        conflicts_with = "accesses",
        trailing_var_arg = true
    )]
    pub program: Vec<OsString>,
    /// Accesses of a program in a file: a trace of `hmtt trace run`, lines `R|W,ADDRESS,SIZE`, or
    /// the output of valgrind's lackey; `-` is standard input
    ///
    /// In lines, addresses are virtual and hexadecimal, and sizes are bytes; plain or gzip. For
    /// lackey: valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM.
    #[arg(long, value_name = "FILE")]
    pub accesses: Option<PathBuf>,
    /// End the recording after this many accesses; the program goes on without being recorded
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "NUMBER")]
    pub limit: Option<u64>,
    /// Recording to write, NAME.cmd or NAME.cmd.gz; its list of accesses is NAME.truth or
    /// NAME.truth.gz
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// One cache, as l1=32K,8,64,lru: its place, size, ways, size of a line, replacement; once for
    /// each
    ///
    /// The place is l1 to l4 on the way of data, or i1 for instructions beside l1; without i1, l1
    /// is for both. The replacement is lru, tree-plru, random or random:SEED. `,inclusive` at the
    /// end removes what the cache evicts from those before it. [default: i1=32K,8,64,lru
    /// l1=32K,8,64,lru l2=256K,8,64,lru l3=8M,16,64,lru]
    #[arg(long, value_name = "CACHE", conflicts_with = "no_caches")]
    pub cache: Vec<PlacedCache>,
    /// Make every access to memory
    #[arg(long)]
    pub no_caches: bool,
    /// Ignore instruction fetches
    #[arg(long)]
    pub data_only: bool,
    /// When the controller closes rows
    #[arg(long, value_enum, default_value_t = PolicyArgument::Open)]
    pub page_policy: PolicyArgument,
    /// Order in which pages get frames: sequential, random or random:SEED
    #[arg(long, value_parser = parse_allocation, default_value = "sequential", value_name = "ORDER")]
    pub page_frames: Allocation,
    /// Memory description [default: one DDR-200 module of 512 MiB]
    #[arg(long, value_name = "FILE")]
    pub memory: Option<PathBuf>,
    /// Accesses of the processor in a memory clock
    #[arg(long, value_parser = parse_ratio, default_value = "4", value_name = "NUMBER")]
    pub cpu_ratio: u64,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Overwrite output files
    #[arg(short, long)]
    pub force: bool,
    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}

impl RecordArguments {
    /// Returns the machine that the options describe. `has_fetches`: whether the processor may
    /// fetch instructions.
    pub fn machine(&self, has_fetches: bool) -> Result<MachineConfiguration> {
        let MachineConfiguration { levels, instructions, .. } = MachineConfiguration::default();
        let (levels, instructions) = match (self.no_caches, &self.cache[..]) {
            (true, _) => (Vec::new(), None),
            (false, []) => (levels, instructions.filter(|_| has_fetches)),
            (false, caches) => places::in_order(caches).context("--cache")?,
        };
        ensure!(
            has_fetches || instructions.is_none(),
            "--cache i1: traces have no instruction fetches; without --accesses, or with a trace, leave it out"
        );
        Ok(MachineConfiguration {
            levels,
            instructions,
            allocation: self.page_frames,
            policy: match self.page_policy {
                PolicyArgument::Open => PagePolicy::Open,
                PolicyArgument::Closed => PagePolicy::Closed,
            },
            milli_accesses_per_clock: self.cpu_ratio,
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PolicyArgument {
    /// When another row of the bank is needed
    Open,
    /// With the last burst of each line
    Closed,
}

fn parse_allocation(text: &str) -> Result<Allocation, String> {
    let expected = "expected sequential, random or random:SEED";
    match text {
        "sequential" => Ok(Allocation::Sequential),
        "random" => Ok(Allocation::Random { seed: 1 }),
        _ => {
            let seed = text.strip_prefix("random:").and_then(|seed| seed.parse().ok());
            Ok(Allocation::Random { seed: seed.ok_or(expected)? })
        }
    }
}

/// Parses a number of accesses in a clock. Returns thousandths.
fn parse_ratio(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.001..=1_000_000.0).contains(&ratio) => Ok((ratio * 1000.0).round() as u64),
        _ => Err("expected a number from 0.001 to 1000000".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_thousandths() {
        assert_eq!(parse_ratio("4"), Ok(4000));
        assert_eq!(parse_ratio("0.25"), Ok(250));
        for wrong in ["0", "-1", "NaN", "inf", "0.0001", "x"] {
            assert!(parse_ratio(wrong).is_err(), "{wrong}");
        }
    }
}
