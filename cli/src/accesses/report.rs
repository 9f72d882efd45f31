//! `hmtt report`: one HTML page with charts of all analyses, from one pass over the files.

mod file;
mod page;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use hmtt::analysis::Analysis;
use hmtt::analysis::LINE_LOG2;
use hmtt::analysis::distribution::{HotShare, distribution};
use hmtt::analysis::heat_map::{HeatMap, MemoryHeat};
use hmtt::analysis::mrc::{Curve, Mrc};
use hmtt::analysis::pages::{HotPages, Pages};
use hmtt::analysis::phases::{MemoryPhases, phases};
use hmtt::analysis::reuse::{Reuse, Reuses};
use hmtt::analysis::shards::Shards;
use hmtt::analysis::summary::{Summary, Sums};
use hmtt::analysis::timeline::{MemoryTime, TimeSlice, Timeline};
use hmtt_format::escape;
use serde_json::{Value, json};

use super::figures::{percent, power_of_two, share};
use super::input::analyse;
use super::options::{Options, parse_rate};
use super::output::{Forms, line, to_json, write};
use super::stats::write_sums;
use crate::output::is_same_file;
use crate::standard_io::is_standard;

/// Pages, and lines, that are listed.
const LISTED: usize = 20;
/// The distribution has a point for each further hundredth of its pages.
const STEPS: u64 = 100;
/// Caches whose misses are printed: 32 KiB, 1 MiB and 32 MiB.
const SHOWN_CACHES: [u64; 3] = [32 << 10, 1 << 20, 32 << 20];

/// Write a page with charts of all analyses: one HTML file that needs no network
#[derive(clap::Args)]
#[command(
    after_help = "With --json or --csv, the page is written only if -o names it; CSV has the slices over time."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    /// The page [default: report.html]
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
    /// Overwrite the page
    #[arg(short, long)]
    force: bool,
    /// Find reuse distances of this part of all lines, chosen by a hash, instead of all (SHARDS); 0.01 is usual
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    sample: Option<f64>,
}

const SLICES: &str = "source,slice,reads,writes,access_bytes,unsized_accesses,pages,new_pages,\
     gap_count,lost_accesses";

/// What all analyses have found.
struct Found {
    stats: Sums,
    hot: HotPages,
    distribution: Vec<HotShare>,
    reuse: Reuses,
    mrc: Curve,
    timeline: Vec<MemoryTime>,
    heat_map: Vec<MemoryHeat>,
    phases: Vec<MemoryPhases>,
}

type Analyses = ((Summary, Pages), (Mrc, (Timeline, HeatMap)));

impl Arguments {
    /// Where the page is written to, if it is.
    fn page(&self) -> Result<Option<PathBuf>> {
        let is_usual = !self.options.json && !self.options.csv;
        let page = self.output.clone().or_else(|| is_usual.then(|| "report.html".into()));
        if let Some(page) = &page {
            ensure!(!is_standard(page), "a page is not for standard output; name a file");
            let is_read = self.options.files.iter().any(|from| is_same_file(from, page));
            ensure!(!is_read, "{} is read", page.display());
            file::check(page, self.force)?;
        }
        Ok(page)
    }

    fn analyses(&self) -> Analyses {
        let mrc = match self.sample {
            None => Mrc::Exact(Reuse::lines()),
            Some(rate) => Mrc::Sampled(Shards::lines(rate)),
        };
        let over_time = (Timeline::default(), HeatMap::default());
        ((Summary::default(), Pages::new(LISTED)), (mrc, over_time))
    }
}

impl Found {
    fn new(of: &Analyses) -> Found {
        let ((summary, pages), (mrc, (timeline, heat))) = of;
        let reuse = match mrc {
            Mrc::Exact(reuse) => reuse.result(),
            Mrc::Sampled(shards) => shards.result(),
        };
        let timeline = timeline.result();
        Found {
            stats: summary.result(),
            hot: pages.result(),
            distribution: distribution(pages, STEPS),
            mrc: Curve::new(&reuse),
            reuse,
            phases: timeline.iter().map(|of| phases(&of.working_sets())).collect(),
            timeline,
            heat_map: heat.result(),
        }
    }

    /// The results as JSON, with times of so many memories at most.
    fn json(&self, memories: usize) -> Value {
        let [timeline, heat_map] =
            [self.timeline.len(), self.heat_map.len()].map(|of| of.min(memories));
        let phases = self.phases.len().min(memories);
        json!({
            "stats": self.stats,
            "hot": self.hot,
            "distribution": self.distribution,
            "reuse": self.reuse,
            "mrc": self.mrc,
            "timeline": self.timeline[..timeline],
            "heat_map": self.heat_map[..heat_map],
            "phases": self.phases[..phases],
        })
    }

    fn write_text(&self, page: Option<&PathBuf>, output: &mut dyn Write) -> io::Result<()> {
        write_sums(&self.stats, output)?;
        for one in &self.hot.concentration[..2] {
            let name = format!("pages with {} %", one.share_percent);
            let part = share(one.pages as f64, self.hot.pages);
            line(output, &name, &format!("{} ({part} of all pages)", one.pages))?;
        }
        for bytes in SHOWN_CACHES {
            if let Some(ratio) = self.mrc.at(bytes >> LINE_LOG2) {
                let name = format!("misses, {}", power_of_two(bytes));
                line(output, &name, &percent(ratio))?;
            }
        }
        let count: usize = self.phases.iter().map(|of| of.phases.len()).sum();
        line(output, "phases", &count.to_string())?;
        let shown = |page: &PathBuf| escape::message(&page.to_string_lossy()).to_string();
        page.map_or(Ok(()), |page| line(output, "page", &shown(page)))
    }
}

/// Runs the command. Returns whether something is missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let page = arguments.page()?;
    let options = &arguments.options;
    let (found, files) = analyse(options, arguments.analyses())?;
    let found = Found::new(&found);
    let json = if options.json { found.json(usize::MAX) } else { Value::Null };
    if let Some(path) = &page {
        let name = |of: &'_ super::input::Read| of.name.rsplit('/').next().map(str::to_owned);
        let names: Vec<String> = files.iter().filter_map(name).collect();
        let data = to_json(&files, "report", found.json(page::MOST_MEMORIES));
        let left_out = found.timeline.len().saturating_sub(page::MOST_MEMORIES);
        let html = page::html(left_out, &names.join(", "), data);
        file::write(path, html.as_bytes(), arguments.force)?;
    }
    let rows = |output: &mut dyn Write| {
        found.timeline.iter().try_for_each(|of| {
            of.slices.iter().try_for_each(|slice| write_slice(of.source, slice, output))
        })
    };
    let text = |output: &mut dyn Write| found.write_text(page.as_ref(), output);
    write(options, files, Forms { name: "report", json, heading: SLICES, rows: &rows, text: &text })
}

fn write_slice(source: u64, of: &TimeSlice, output: &mut dyn Write) -> io::Result<()> {
    let TimeSlice { slice, reads, writes, access_bytes, unsized_accesses, .. } = of;
    let TimeSlice { pages, new_pages, gap_count, lost_accesses, .. } = of;
    writeln!(
        output,
        "{source},{slice},{reads},{writes},{access_bytes},{unsized_accesses},{pages},{new_pages},\
         {gap_count},{lost_accesses}"
    )
}
