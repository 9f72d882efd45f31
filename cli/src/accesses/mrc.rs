//! `hmtt mrc`: computes the miss-ratio curve, exactly or from a sample, and the misses of modelled
//! caches beside it.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::cache::{CacheCounts, Caches};
use hmtt::analysis::mrc::{Curve, Mrc, Point};
use hmtt::analysis::reuse::Reuse;
use hmtt::analysis::shards::Shards;
use hmtt::analysis::{Analysis, Detail};
use serde_json::{Value, json};

use super::cache_sizes::{self, CacheSizes};
use super::figures::{percent, power_of_two, share};
use super::need::Need;
use super::options::{Distances, Options};
use super::output::{Forms, Printed, line, write_split};
use super::reuse::write_sample;
use super::split::forms::{Forms as GroupForms, View};
use super::split::options::SplitOptions;
use super::split::{Analysed, analyse_split};

/// Print which part of accesses an LRU cache of each size misses
#[derive(clap::Args)]
#[command(
    after_help = "The curve is that of fully associative caches of 2^n lines. With several files, each has caches of its own."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    #[command(flatten)]
    distances: Distances,
    #[command(flatten)]
    sizes: CacheSizes,
    /// Model this cache, too, with its sets; after another one it is the next level: 32K,8,64,lru
    #[arg(long, value_name = "SIZE,WAYS,LINE,REPLACEMENT")]
    cache: Vec<String>,
}

/// The curve, and the counts of modelled caches if the user wants them.
type Found = (Curve, Option<CacheCounts>);

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, split, distances, cache, sizes } = arguments;
    let bytes = sizes.bytes();
    let (bytes, chosen) = (&bytes[..], sizes.is_given());
    let log2 = distances.unit_log2();
    let mrc = match distances.sample {
        None => Mrc::Exact(Reuse::new(log2)),
        Some(rate) => Mrc::Sampled(Shards::new(log2, rate)),
    };
    let caches = if cache.is_empty() { None } else { Some(Caches::new(cache)?) };
    let need = Need::of("hmtt mrc", &mrc);
    let need = need.with(caches.as_ref().map(|_| "hmtt mrc --cache"), Detail::Address);
    let Analysed { found: analysis, files, groups } =
        analyse_split(options, split, need, (mrc, caches))?;
    let results = analysis.result();
    let rows = |output: &mut dyn Write| write_rows(&shown(&results.0, bytes, chosen), output);
    let text = |output: &mut dyn Write| {
        write_curve(&results.0, &shown(&results.0, bytes, chosen), output)?;
        results.1.iter().try_for_each(|caches| write_caches(caches, cache, output))
    };
    let heading = "lines,cache_bytes,miss_ratio,misses";
    let names: Vec<String> =
        bytes.iter().map(|bytes| format!("misses {}", power_of_two(*bytes))).collect();
    let columns: Vec<&str> =
        names.iter().map(String::as_str).chain(cache.iter().map(|name| &**name)).collect();
    let view = View {
        columns: &columns,
        cells: &|results| cells(results, bytes),
        json: &|results| to_json(results, bytes),
        rows: &|group, output| write_rows(&shown(&group.result.0, bytes, chosen), output),
    };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = to_json(&results, bytes);
    let forms = Forms { name: "mrc", json, heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

/// The caches that text and CSV show: only the sizes that the user has chosen, or the whole curve.
fn shown(curve: &Curve, sizes: &[u64], chosen: bool) -> Vec<Point> {
    if chosen { cache_sizes::points(curve, sizes) } else { curve.points.clone() }
}

fn to_json((curve, caches): &Found, sizes: &[u64]) -> Value {
    let mut json = cache_sizes::to_json(curve, sizes);
    if let (Value::Object(json), Some(caches)) = (&mut json, caches) {
        json.insert("modelled".to_owned(), json!(caches));
    }
    json
}

fn write_rows(points: &[Point], output: &mut dyn Write) -> io::Result<()> {
    points.iter().try_for_each(|Point { lines, cache_bytes, miss_ratio, misses }| {
        writeln!(output, "{lines},{cache_bytes},{miss_ratio},{misses}")
    })
}

/// Misses of caches of some sizes, and of the modelled caches.
fn cells((curve, caches): &Found, sizes: &[u64]) -> Vec<String> {
    let of_size = |bytes: &u64| {
        let lines = bytes / curve.unit_bytes.max(1);
        curve.at(lines).map_or_else(|| "-".to_owned(), percent)
    };
    let modelled = caches.iter().flat_map(|counts| &counts.caches).map(|cache| {
        let wanted = cache.cache_hits.saturating_add(cache.cache_misses);
        share(cache.cache_misses as f64, wanted)
    });
    sizes.iter().map(of_size).chain(modelled).collect()
}

fn write_curve(curve: &Curve, points: &[Point], output: &mut dyn Write) -> io::Result<()> {
    write_sample(curve.sampling_rate, curve.sampled_touches, curve.touches, output)?;
    line(output, "unit", &format!("{} bytes", curve.unit_bytes))?;
    line(output, "touches of units", &curve.touches.to_string())?;
    if points.is_empty() {
        return Ok(());
    }
    let [cache, units, count, part] = ["cache", "units in it", "misses", "of all"];
    writeln!(output, "\n{cache:>12}  {units:>14}  {count:>14}  {part:>9}")?;
    for Point { lines, cache_bytes, miss_ratio, misses } in points {
        let size = power_of_two(*cache_bytes);
        let part = percent(*miss_ratio);
        writeln!(output, "{size:>12}  {lines:>14}  {misses:>14.0}  {part:>9}")?;
    }
    Ok(())
}

fn write_caches(counts: &CacheCounts, names: &[String], output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "\n{:>32}  {:>14}  {:>14}  {:>9}",
        "modelled cache", "lines wanted", "misses", "of wanted"
    )?;
    for (cache, name) in counts.caches.iter().zip(names) {
        let wanted = cache.cache_hits.saturating_add(cache.cache_misses);
        let part = share(cache.cache_misses as f64, wanted);
        writeln!(output, "{name:>32}  {wanted:>14}  {:>14}  {part:>9}", cache.cache_misses)?;
    }
    line(output, "lines from memory", &counts.line_reads.to_string())?;
    line(output, "lines to memory", &counts.line_writes.to_string())
}
