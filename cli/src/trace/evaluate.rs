//! `hmtt trace evaluate`: states what selective traces of a program would record, from a full
//! trace.
//!
//! [`settings`] has the compared settings of selective tracing. For each block, [`plan`] finds what
//! each setting records, with the same code that chooses accesses when a program is traced.
//! [`evaluation`] reads the file once and multiplies the plans by the executions of the blocks.
//! [`caches`] gives each setting caches of its own, and makes the accesses that the setting
//! records. [`report`] prints the results.
//!
//! The use of memory depends on the number of blocks and settings, and not on the length of the
//! trace.

mod caches;
mod evaluation;
mod plan;
mod report;
mod settings;

use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hmtt::access_trace::ChunkReader;
use hmtt_format::escape;
use hmtt_translator::selection::Chunk;

use super::caches::{CacheArgument, DESKTOP, levels};
use super::file::{self, read_to_end, what_is_missing};
use super::options::{EqualityName, chunk};
use crate::standard_io::print;
use caches::Caches;
use evaluation::Evaluation;
use settings::{Settings, Share};

/// Maximum number of settings that are compared.
const MOST_SETTINGS: usize = 1000;

/// State what traces with `--omega` would record and tell, from a trace with all accesses
#[derive(clap::Args)]
pub struct Evaluate {
    /// What `hmtt trace run` or `attach` has written without options that choose accesses
    #[arg(value_name = "FULL.acc")]
    file: PathBuf,
    /// Shares of each block's accesses with different addresses, from 1% to 100%; `all` are all
    /// accesses
    #[arg(
        long,
        value_name = "PERCENT",
        value_delimiter = ',',
        default_value = "10%,25%,50%,75%,100%,all"
    )]
    omega: Vec<Share>,
    /// Sizes of pieces of memory in bytes
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        value_parser = chunk,
        default_value = "16,64,4096"
    )]
    chunk: Vec<Chunk>,
    /// Which accesses of a block have the same address for sure
    #[arg(long, value_enum, default_value_t = EqualityName::Values)]
    equality: EqualityName,
    /// Compare misses of the first cache: `desktop`, the default, or caches as `hmtt trace run` has
    /// them
    #[arg(long, value_name = "CACHE", num_args = 0..=1, default_missing_value = DESKTOP)]
    cache: Vec<CacheArgument>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Evaluates a trace. Returns whether accesses are missing in it.
pub fn run(arguments: &Evaluate) -> Result<bool> {
    let Evaluate { file: path, omega, chunk, equality, cache, json } = arguments;
    let settings = Settings::new(omega, chunk, (*equality).into());
    ensure!(settings.len() <= MOST_SETTINGS, "at most {MOST_SETTINGS} settings can be compared");
    let caches = levels(cache)?.map(|levels| Caches::new(&levels, settings.len())).transpose()?;
    let file = full(path)?;
    let mut evaluation = Evaluation::new(settings, caches);
    let ending = read_to_end(file, path, None, &mut evaluation)?;
    let results = evaluation.finish();
    print(|output| {
        if *json {
            hmtt_format::json::to_writer(&mut *output, &report::json(&results))?;
            writeln!(output)
        } else {
            report::text(&results, output)
        }
    })?;
    let mut missing = what_is_missing(&ending);
    missing.extend(results.what_is_missing());
    for what in &missing {
        report!("hmtt: warning: {}", escape::message(what));
    }
    Ok(!missing.is_empty())
}

/// Opens a trace, and refuses it if it has only some of the accesses.
fn full(path: &Path) -> Result<std::fs::File> {
    let name = path.display();
    let file = file::open(path);
    let mut file = file.with_context(|| format!("{name} is no trace of accesses"))?;
    let chunks = ChunkReader::new(BufReader::new(&file)).with_context(|| name.to_string())?;
    let is_chosen = chunks.is_chosen();
    ensure!(!is_chosen, "{name}: {}; record it without options that choose", file::CHOSEN);
    file.rewind().with_context(|| name.to_string())?;
    Ok(file)
}
