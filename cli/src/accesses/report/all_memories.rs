//! Makes the charts and tables of all memories together, and decides which parts a report has.

use hmtt::analysis::Detail;
use hmtt::analysis::distribution::{AddressBlock, HotShare};
use hmtt::analysis::mrc;
use hmtt::analysis::pages::Hot;
use hmtt::analysis::reuse::Bucket;

use super::chart::{Axis, Chart, Content, Curve, Part, Parts, Table, Unit};
use super::found::Found;
use super::groups::{self, OwnGroups};
use super::modes::Modes;
use super::numbers::{counted, exact, share, text};
use super::owners;
use crate::accesses::input::{Files, Read};
use crate::accesses::resolution::Resolution;

/// Titles of charts and tables. Comparisons use them, too.
pub const BY_RANK: &str = "Distribution of touches over pages";
pub const RUN_LENGTHS: &str = "Run lengths on a page";
pub const REUSE_DISTANCES: &str = "Reuse distances";
pub const MISS_RATIOS: &str = "Miss-ratio curve";
const MISSES: &str = "Misses of caches";
pub const BY_NUMBER: &str = "Distribution of touches by page number";
/// Maximum number of memories that get charts over time on the page.
pub const MOST_MEMORIES: usize = 6;

/// Name of the axis of reuse distances.
pub const DISTANCES: &str = "distance in lines, from; set apart: first touches, which have none";
/// Label of first touches, which have no reuse distance.
pub const FIRST: &str = "first";
/// Name of first touches in words.
pub const FIRST_TOUCHES: &str = "first touches";
/// Sentence on the bar of first touches.
pub const ABOUT_FIRST: &str =
    "The bar at the right is that of first touches, which have no distance.";

/// The limits of a range of values, in words.
fn range(from: u64, to: u64) -> String {
    let [from, to] = [from, to].map(|limit| exact(limit as f64));
    if from == to { from } else { format!("{from} to {to}") }
}

/// The extent of curves on the x axis: from the first to the last x, and at least 1 wide; from 0 to
/// 1 without points.
pub fn extent_of(curves: &[Curve]) -> (f64, f64) {
    let positions = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
    let Some(first) = positions().reduce(f64::min) else { return (0.0, 1.0) };
    (first, positions().fold(first + 1.0, f64::max))
}

/// A sentence on sampling, if the results are estimated from a sample.
pub fn sampled(results: &Found) -> String {
    let rate = results.reuse.sampling_rate;
    let rate = (rate < 1.0).then(|| text(Unit::Share, rate));
    rate.map_or_else(String::new, |rate| format!(" Estimated from {rate} of all lines."))
}

/// The curve of the distribution: part of all touches over the number of hottest pages.
pub fn distribution_curve(results: &Found, name: &str) -> Curve {
    let point = |one: &HotShare| ((one.pages.max(1) as f64).log2(), one.touch_share);
    Curve { name: name.to_owned(), points: results.distribution.iter().map(point).collect() }
}

/// The miss-ratio curve: part of touches that miss over the size of the cache.
pub fn miss_curve(results: &Found, name: &str) -> Curve {
    let point = |one: &mrc::Point| ((one.cache_bytes.max(1) as f64).log2(), one.miss_ratio);
    Curve { name: name.to_owned(), points: results.mrc.points.iter().map(point).collect() }
}

/// The chart of distribution curves.
pub fn distribution_chart(curves: Vec<Curve>) -> Chart {
    let words = [BY_RANK, "Part of all touches that the hottest pages have."];
    let [x, y] =
        [Axis::new("hottest pages", Unit::Count), Axis::new("of all touches", Unit::Share)];
    Chart::new(words, extent_of(&curves), x, y, Content::Curves { curves })
}

/// The chart of touches by page number.
fn address_chart(results: &Found) -> Chart {
    let distribution = &results.address_distribution;
    let has_sources = distribution.blocks.last().is_some_and(|last| last.source > 1);
    let block = text(Unit::Bytes, distribution.block_bytes as f64);
    let words = |address_block: &AddressBlock| {
        let source =
            if has_sources { format!("source {}, ", address_block.source) } else { String::new() };
        let (pages, touches) = (address_block.pages as f64, address_block.touches as f64);
        let part = share(touches, results.hot.touches as f64);
        let address = format!("{:#x}", address_block.address);
        let (touches, pages) = (counted(touches, "touch"), counted(pages, "page"));
        let words = format!("{source}{block} from {address} on: {touches} of {pages} ({part})");
        (address, words)
    };
    let words = distribution.blocks.iter().map(words).collect();
    let values = vec![distribution.blocks.iter().map(|block| block.touches as f64).collect()];
    let about = format!(
        "Touches of the pages in the order of their numbers, in blocks of {block}; blocks without touches are left out.{}",
        Modes::of_sums(&results.stats).left_out(Detail::Page)
    );
    let content = Content::bars(words, None, vec!["touches".to_owned()], values);
    let extent = content.bars_extent();
    let [x, y] = [Axis::new("address", Unit::Count), Axis::new("touches", Unit::Count)];
    Chart::new([BY_NUMBER, &about], extent, x, y, content)
}

/// The chart of miss-ratio curves, or a sentence if there is nothing to draw.
pub fn miss_part(curves: Vec<Curve>, sampled: &str) -> Part {
    let title = MISS_RATIOS;
    if curves.iter().all(|curve| curve.points.is_empty()) {
        let reason = "The sample resolves no cache of the sizes that the lines would fill.";
        return Part::absent(title, reason, false);
    }
    let about = format!(
        "Part of touches that an LRU cache of each size misses, if any line can be anywhere in it.{sampled}"
    );
    let [x, y] = [Axis::new("cache", Unit::Bytes), Axis::new("misses", Unit::Share)];
    Part::Chart(Chart::new([title, &about], extent_of(&curves), x, y, Content::Curves { curves }))
}

/// The table of misses of caches of the chosen sizes.
fn miss_table(results: &Found, limits: &str) -> Part {
    let row = |point: &mrc::Point| {
        let bytes = text(Unit::Bytes, point.cache_bytes as f64);
        let ratio = text(Unit::Share, point.miss_ratio);
        vec![bytes, exact(point.lines as f64), exact(point.misses), ratio]
    };
    let about = format!(
        "Touches that LRU caches of these sizes miss, if any line can be anywhere in them.{limits}"
    );
    let heads = ["cache", "lines in it", "misses", "of all touches"];
    let rows = results.misses().iter().map(row).collect();
    Part::Table(Table::new(MISSES, &about, &heads, rows))
}

fn run_chart(results: &Found) -> Chart {
    let runs = &results.hot.page_runs;
    let words = |bucket: &hmtt::analysis::pages::Runs| {
        let length = range(bucket.at_least, bucket.at_most);
        let words = format!("{length} touches in a row: {}", counted(bucket.runs as f64, "run"));
        (length, words)
    };
    let words = runs.iter().map(words).collect();
    let values = vec![runs.iter().map(|bucket| bucket.runs as f64).collect()];
    let about = "Touches in a row of one page, by a thread or card.";
    let content = Content::bars(words, None, vec!["runs".to_owned()], values);
    let extent = content.bars_extent();
    let [x, y] = [Axis::new("touches in a row", Unit::Count), Axis::new("runs", Unit::Count)];
    Chart::new([RUN_LENGTHS, about], extent, x, y, content)
}

fn reuse_chart(results: &Found, limits: &str) -> Chart {
    let total = results.reuse.touches as f64;
    let of_all =
        |touches: f64| format!("{} ({})", counted(touches, "touch"), share(touches, total));
    let (mut words, mut values) = (Vec::new(), Vec::new());
    for Bucket { distance_at_least, distance_at_most, touches } in &results.reuse.distances {
        let distance = range(*distance_at_least, *distance_at_most);
        let label = text(Unit::Count, *distance_at_least as f64);
        words.push((label, format!("distance {distance}: {}", of_all(*touches))));
        values.push(*touches);
    }
    let first = results.reuse.first_touches;
    let text = format!("{FIRST_TOUCHES}: {} ({})", exact(first), share(first, total));
    words.push((FIRST.to_owned(), text));
    values.push(first);
    let about =
        format!("Distinct lines touched between two touches of a line. {ABOUT_FIRST}{limits}");
    let names = vec!["touches with a distance".to_owned()];
    let content = Content::bars(words, Some(FIRST_TOUCHES), names, vec![values]);
    let extent = content.bars_extent();
    let [x, y] = [Axis::new(DISTANCES, Unit::Count), Axis::new("touches", Unit::Count)];
    Chart::new([REUSE_DISTANCES, &about], extent, x, y, content)
}

/// A table of the pages or lines with most touches, with their owners if there is a map of pages.
fn hottest(title: &str, list: &[Hot], touches: u64, owners: Option<&Resolution>) -> Part {
    let row = |place: &Hot| {
        let part = share(place.touches as f64, touches as f64);
        let address = format!("{:#x}", place.address);
        let mut row = vec![address, place.source.to_string(), exact(place.touches as f64), part];
        row.extend(owners.iter().flat_map(|owners| owners.describe(place.address).names()));
        row
    };
    let about = "An access touches each line that it has bytes of.";
    let mut heads = vec!["address", "source", "touches", "of all"];
    if owners.is_some() {
        heads.extend(["process", "mapping", "virtual address"]);
    }
    let table = Table::new(title, about, &heads, list.iter().map(row).collect());
    Part::Table(Table { wide: owners.is_some(), ..table })
}

/// The table of sums.
fn sums(results: &Found) -> Part {
    let stats = &results.stats;
    let total = stats.accesses as f64;
    let of_all = |part: u64| format!("{} ({})", exact(part as f64), share(part as f64, total));
    let modes = Modes::of_sums(stats);
    let with_bytes = |count: u64, unit: f64, needed: Detail| match modes.absent(needed) {
        Some(_) => "not known".to_owned(),
        None => format!("{} ({})", exact(count as f64), text(Unit::Bytes, count as f64 * unit)),
    };
    let accessed = match stats.unsized_accesses {
        0 => text(Unit::Bytes, stats.access_bytes as f64),
        more => format!("not known of {}", counted(more as f64, "access")),
    };
    let time = match (stats.duration_seconds, stats.duration_clocks) {
        (Some(time), _) => text(Unit::Seconds, time),
        (None, Some(clocks)) => counted(clocks as f64, "clock"),
        _ => "not known".to_owned(),
    };
    let bandwidth = stats.bytes_per_second.map(|rate| text(Unit::BytesPerSecond, rate));
    let mut rows = vec![
        ("accesses", exact(total)),
        ("reads", of_all(stats.reads)),
        ("writes", of_all(stats.writes)),
        ("pages of 4 KiB", with_bytes(stats.pages, 4096.0, Detail::Page)),
        ("lines of 64 bytes", with_bytes(stats.lines, 64.0, Detail::Address)),
        ("bytes accessed", accessed),
        ("time", time),
        ("mean bandwidth", bandwidth.unwrap_or("not known".to_owned())),
    ];
    rows.extend(stats.thread_count.map(|threads| ("threads", exact(threads as f64))));
    let of_modes = [
        ("accesses of page mode, without lines", stats.page_run_accesses),
        ("accesses of frequency mode, without pages", stats.frequency_accesses),
    ];
    rows.extend(
        of_modes
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, part)| (name, of_all(part))),
    );
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    Part::Table(Table::new("Sums", "", &["", "all memories"], rows))
}

/// Charts that need the page of each access.
fn of_pages(results: &Found, modes: &Modes) -> Vec<Part> {
    if let Some(reason) = modes.absent(Detail::Page) {
        let titles = [BY_RANK, BY_NUMBER, RUN_LENGTHS, "Hottest pages"];
        return titles.map(|title| Part::absent(title, reason.clone(), false)).into();
    }
    vec![
        Part::Chart(distribution_chart(vec![distribution_curve(results, "have")])),
        Part::Chart(address_chart(results)),
        Part::Chart(run_chart(results)),
    ]
}

/// Charts that need the address of each access.
fn of_lines(results: &Found, modes: &Modes) -> Vec<Part> {
    if let Some(reason) = modes.absent(Detail::Address) {
        let titles = [REUSE_DISTANCES, MISS_RATIOS, MISSES, "Hottest lines"];
        return titles.map(|title| Part::absent(title, reason.clone(), false)).into();
    }
    let limits = format!("{}{}", sampled(results), modes.left_out(Detail::Address));
    let curves = vec![miss_curve(results, "misses")];
    vec![
        Part::Chart(reuse_chart(results, &limits)),
        miss_part(curves, &limits),
        miss_table(results, &limits),
    ]
}

/// Charts and tables of all memories.
fn together(results: &Found, owners: Option<&Resolution>) -> Vec<Part> {
    if results.stats.accesses == 0 {
        return vec![Part::absent("Charts", "There are no accesses.", true)];
    }
    let modes = Modes::of_sums(&results.stats);
    let mut parts = of_pages(results, &modes);
    parts.extend(of_lines(results, &modes));
    parts.extend(owners.into_iter().flat_map(owners::lists));
    if modes.absent(Detail::Page).is_none() {
        parts.push(hottest("Hottest pages", &results.hot.hot_pages, results.hot.touches, owners));
    }
    if modes.absent(Detail::Address).is_none() {
        let touches = results.hot.touches.saturating_sub(results.hot.page_run_accesses);
        parts.push(hottest("Hottest lines", &results.hot.hot_lines, touches, owners));
    }
    parts
}

/// All parts of a report. `files`: names of the memories, what is known of them, and the owners of
/// their pages. `split`: groups of accesses, if the user wants them.
pub fn parts(results: &Found, files: &Files, split: Option<&OwnGroups>) -> Parts {
    let memories = |file: &Read| {
        file.ending.memories.iter().map(|known| (file.name.clone(), *known)).collect::<Vec<_>>()
    };
    let owners = files.resolution.as_deref();
    let known: Vec<_> = files.iter().flat_map(memories).collect();
    let memory = |number: usize| {
        let source = known.get(number);
        let name = source.map_or("", |(name, _)| name);
        let memory = results.memory(number, source.map(|(_, known)| known))?;
        Some((format!("source {}: {name}", number + 1), memory.parts()))
    };
    let mut first = vec![sums(results)];
    first.extend(owners.map(owners::shares));
    first.extend(split.into_iter().flat_map(groups::parts));
    let shown = results.timeline.len().min(MOST_MEMORIES);
    Parts {
        first,
        memories: (0..shown).filter_map(memory).collect(),
        last: together(results, owners),
    }
}
