//! Defines the arguments of `hmtt sql`: `hmtt-sql` parses them, `hmtt` completes and describes
//! them.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Query data sets and captures with SQL
#[derive(Debug, Parser)]
#[command(
    name = "hmtt sql",
    version,
    after_help = "The tables are accesses, pages, slices, gaps, tags, events, calls, runs and threads; `describe accesses` lists \
    columns. docs/sql.md describes the tables and functions, docs/queries has examples; docs/scale.md describes \
    clusters.\n\n\
    Exit codes: 0 done, 1 error, 2 wrong usage, 3 done, but a damaged part was left out or a capture is cut; \
    130 interrupted."
)]
pub struct Arguments {
    /// The query, then data sets (folders) and captures; with --file only these
    #[arg(value_name = "QUERY, SOURCE", required = true)]
    pub words: Vec<String>,
    /// Read the query from a file
    #[arg(long, value_name = "FILE.sql")]
    pub file: Option<PathBuf>,
    /// Write to a file, which appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the file
    #[arg(short, long, requires = "output")]
    pub force: bool,
    /// Format of the result; by default that of the output's extension, or a table
    #[arg(long, value_enum)]
    pub format: Option<FormatName>,
    /// Memory for sorting, grouping and joining; what needs more is written to disk
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub memory: usize,
    /// Folder of temporary files; by default that of the system
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
    /// Threads; by default as many as processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Map of the tags on the bus, for function_at
    #[arg(long, value_name = "MAP.json", conflicts_with = "log")]
    pub map: Option<PathBuf>,
    /// Log of tags that shares marks with the trace, for function_at
    #[arg(long, value_name = "LOG")]
    pub log: Option<PathBuf>,
    /// Leave out parts that are damaged, and read damaged captures as far as possible
    #[arg(long)]
    pub skip_damaged: bool,
    /// Print on standard error what was read
    #[arg(long)]
    pub metrics: bool,
    /// Have a cluster execute the query; the address is that of its scheduler
    #[arg(long, value_name = "HOST:PORT")]
    pub cluster: Option<String>,
    /// File with the secret of the cluster; by default the environment variable HMTT_CLUSTER_SECRET
    /// has it
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub secret_file: Option<PathBuf>,
    /// Tasks of the cluster into which reading and grouping are divided; at least as many as it
    /// executes at the same time
    #[arg(
        long,
        value_name = "N",
        requires = "cluster",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=4096)
    )]
    pub tasks: u16,
}

/// Names of formats.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FormatName {
    /// For people
    Table,
    /// Comma-separated values
    Csv,
    /// An array of objects
    Json,
    /// An object in each line
    Jsonl,
    /// Parquet
    Parquet,
}

/// Parses a number of bytes. K, M and G stand for powers of 1024.
///
/// # Errors
/// The text is no number of bytes, or the number is too small.
pub fn size(text: &str) -> Result<usize, String> {
    let units = [(['K', 'k'], 10), (['M', 'm'], 20), (['G', 'g'], 30)];
    let unit = units.iter().find_map(|(names, log2)| Some((text.strip_suffix(*names)?, *log2)));
    let (digits, log2) = unit.unwrap_or((text, 0));
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << log2));
    bytes
        .filter(|bytes| *bytes >= LEAST_MEMORY)
        .ok_or_else(|| format!("a size such as 512M or 4G, at least {}M", LEAST_MEMORY >> 20))
}

/// Minimum memory for queries, in bytes. Less memory does not hold the batches of even a small
/// sort.
const LEAST_MEMORY: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("32M"), Ok(32 << 20));
        assert_eq!(size("4g"), Ok(4 << 30));
        assert_eq!(size("33554432"), Ok(1 << 25));
        for text in ["", "G", "16M", "-1G", "99999999999999999999", "1T", "ü"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
