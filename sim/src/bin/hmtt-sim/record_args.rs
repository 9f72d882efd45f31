//! Defines the options of `hmtt-sim record`, and builds the description of a machine from them.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use hmtt_sim::machine::MachineConfiguration;
use hmtt_sim::machine::cache::CacheConfiguration;
use hmtt_sim::machine::controller::PagePolicy;
use hmtt_sim::machine::pages::Allocation;

#[derive(Args)]
pub struct RecordArguments {
    /// Accesses of a program: lines `R|W,ADDRESS,SIZE`, or the output of valgrind's lackey; `-` is standard input
    ///
    /// Addresses are virtual and hexadecimal, sizes are bytes. For lackey: valgrind --tool=lackey --trace-mem=yes
    /// --log-file=FILE PROGRAM. Plain or gzip.
    #[arg(long, value_name = "FILE")]
    pub accesses: PathBuf,
    /// Recording to write, NAME.cmd or NAME.cmd.gz; its list of accesses is NAME.truth or NAME.truth.gz
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// One cache, as l1=32K,8,64,lru: its place, size, ways, size of a line, replacement; once for each
    ///
    /// The place is l1 to l4 on the way of data, or i1 for instructions beside l1; without i1, l1 is for both. The
    /// replacement is lru, tree-plru, random or random:SEED. `,inclusive` at the end removes what the cache evicts
    /// from those before it. [default: i1=32K,8,64,lru l1=32K,8,64,lru l2=256K,8,64,lru l3=8M,16,64,lru]
    #[arg(long, value_parser = parse_cache, value_name = "CACHE", conflicts_with = "no_caches")]
    pub cache: Vec<(Place, CacheConfiguration)>,
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
    /// Returns the machine that the options describe.
    pub fn machine(&self) -> Result<MachineConfiguration> {
        let (levels, instructions) = self.caches()?;
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

    fn caches(&self) -> Result<(Vec<CacheConfiguration>, Option<CacheConfiguration>)> {
        if self.no_caches {
            return Ok((Vec::new(), None));
        }
        if self.cache.is_empty() {
            let MachineConfiguration { levels, instructions, .. } = MachineConfiguration::default();
            return Ok((levels, instructions));
        }
        let mut all = self.cache.clone();
        all.sort_by_key(|(place, _)| *place);
        for pair in all.windows(2) {
            let name = pair[1].0.name();
            ensure!(pair[0].0 != pair[1].0, "--cache {name}: this cache is given twice");
        }
        let mut instructions = None;
        let mut levels = Vec::new();
        for (place, configuration) in all {
            match place {
                Place::Instructions => instructions = Some(configuration),
                Place::Level(level) => {
                    levels.push(configuration);
                    let expected = Place::Level(levels.len() as u8).name();
                    ensure!(
                        usize::from(level) == levels.len(),
                        "--cache {}: {expected} is missing",
                        place.name()
                    );
                }
            }
        }
        ensure!(!levels.is_empty(), "--cache i1: l1 is missing");
        Ok((levels, instructions))
    }
}

/// The place of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Beside the first level.
    Instructions,
    /// A level on the way of data, from 1.
    Level(u8),
}

impl Place {
    /// The name of the place: `i1`, `l1` and so on.
    pub fn name(self) -> String {
        match self {
            Place::Instructions => "i1".into(),
            Place::Level(level) => format!("l{level}"),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PolicyArgument {
    /// When another row of the bank is needed
    Open,
    /// With the last burst of each line
    Closed,
}

fn parse_cache(text: &str) -> Result<(Place, CacheConfiguration), String> {
    let (place, configuration) =
        text.split_once('=').ok_or("expected a place and a description: l1=32K,8,64,lru")?;
    let place = match place {
        "i1" => Place::Instructions,
        "l1" => Place::Level(1),
        "l2" => Place::Level(2),
        "l3" => Place::Level(3),
        "l4" => Place::Level(4),
        _ => return Err("expected i1 or l1 to l4 before `=`".into()),
    };
    let configuration = configuration.parse().map_err(|error| format!("{error}"))?;
    Ok((place, configuration))
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
    fn caches_have_a_place() {
        let (place, configuration) = parse_cache("l2=256K,8,64,lru").unwrap();
        assert_eq!((place, configuration.ways), (Place::Level(2), 8));
        for wrong in ["", "l2", "l5=32K,8,64,lru", "l1=32K", "=32K,8,64,lru"] {
            assert!(parse_cache(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ratios_are_thousandths() {
        assert_eq!(parse_ratio("4"), Ok(4000));
        assert_eq!(parse_ratio("0.25"), Ok(250));
        for wrong in ["0", "-1", "NaN", "inf", "0.0001", "x"] {
            assert!(parse_ratio(wrong).is_err(), "{wrong}");
        }
    }
}
