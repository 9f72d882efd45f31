//! `hmtt report`: writes one HTML page with charts of all analyses, from one pass over the files.
//! It also writes the charts as files.
//!
//! ```text
//! files -> found (results) -> over_time, all_memories, or compare -> parts -> page, or svg -> images
//! ```

mod all_memories;
mod card_rows;
mod chart;
#[cfg(feature = "dataset")]
mod cluster;
mod compare;
mod found;
mod groups;
mod images;
mod modes;
mod numbers;
mod over_time;
mod owners;
mod page;
mod svg;
mod time;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use hmtt::analysis::timeline::TimeSlice;
use hmtt_format::escape;
use serde_json::{Value, json};

use self::all_memories::MOST_MEMORIES;
use self::chart::Parts;
#[cfg(feature = "dataset")]
use self::cluster::Cluster;
use self::compare::{Side, differences};
use self::found::Found;
use self::groups::OwnGroups;
use super::cache_sizes::CacheSizes;
use super::file;
use super::input::{Files, Read, open};
use super::options::{Options, parse_rate};
use super::output::{Forms, Printed, line, to_json, write, write_split};
use super::source::Opened;
use super::split::Grouping;
use super::split::forms::Forms as GroupForms;
use super::split::options::SplitOptions;
use super::stats::SUMS;
use crate::standard_io::is_standard;
use crate::usage::ensure_usage;

/// Write a page with charts of all analyses: one HTML file that needs no network
#[derive(clap::Args)]
#[command(
    after_help = "With --json, --csv, --svg or --png, the page is written only if -o names it. CSV has the slices over time; with --by the sums of groups, and with --compare the numbers of both files."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    /// The page [default: report.html]
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
    /// Overwrite the page, and files of charts
    #[arg(short, long)]
    force: bool,
    /// Compare two files: their numbers with differences, and their charts in the same axes
    #[arg(long, conflicts_with_all = ["pagemap", "by"])]
    compare: bool,
    /// Write each chart as an SVG file into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write each chart as a PNG file, of 288 pixels in an inch, into this directory
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Find reuse distances of this part of all lines, chosen by a hash, instead of all (SHARDS);
    /// 0.01 is usual
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    sample: Option<f64>,
    #[command(flatten)]
    sizes: CacheSizes,
    /// Have data sets analysed by the cluster whose scheduler has this address
    #[cfg(feature = "dataset")]
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["pagemap", "by", "compare"])]
    cluster: Option<String>,
    /// File with the secret of the cluster; by default the environment variable HMTT_CLUSTER_SECRET
    /// has it
    #[cfg(feature = "dataset")]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    secret_file: Option<PathBuf>,
}

const SLICES: &str = "source,slice,reads,writes,access_bytes,unsized_accesses,pages,new_pages,\
     gap_count,lost_accesses,page_run_accesses,frequency_accesses";

impl Arguments {
    /// The path of the HTML page, if one is written.
    fn page(&self) -> Result<Option<PathBuf>> {
        let has_images = self.svg.is_some() || self.png.is_some();
        let is_usual = !self.options.is_json() && !self.options.is_csv() && !has_images;
        let page = self.output.clone().or_else(|| is_usual.then(|| "report.html".into()));
        if let Some(page) = &page {
            ensure!(!is_standard(page), "a page is not for standard output; name a file");
            file::check_distinct(&[page], self.options.inputs())?;
            file::check(page, self.force)?;
        }
        for directory in self.svg.iter().chain(&self.png) {
            images::check(directory)?;
        }
        Ok(page)
    }

    /// Writes the page and the chart files. `data`: the JSON object that `--json` prints.
    fn write_files(
        &self,
        page: Option<&PathBuf>,
        files: &[Read],
        data: Value,
        parts: &Parts,
    ) -> Result<()> {
        let name = |of: &Read| of.name.rsplit('/').next().map(str::to_owned);
        let names: Vec<String> = files.iter().filter_map(name).collect();
        let names = names.join(if self.compare { " and " } else { ", " });
        let mut drawn = Vec::new();
        if let Some(directory) = &self.svg {
            drawn.push((directory, images::draw(directory, parts, &names, None, self.force)?));
        }
        if let Some(directory) = &self.png {
            let fonts = images::fonts()?;
            drawn.push((
                directory,
                images::draw(directory, parts, &names, Some(&fonts), self.force)?,
            ));
        }
        if let Some(path) = page {
            let memories: usize = files.iter().map(|file| file.ending.memories.len()).sum();
            let left_out = if self.compare { 0 } else { memories.saturating_sub(MOST_MEMORIES) };
            let html = page::html(left_out, &names, data, parts);
            file::write(path, html.as_bytes(), self.force)?;
        }
        drawn
            .iter()
            .try_for_each(|(directory, images)| images::write(directory, images, self.force))
    }

    /// Prints the paths of the written files.
    fn write_paths(&self, page: Option<&PathBuf>, output: &mut dyn Write) -> io::Result<()> {
        let shown = |path: &Path| escape::message(&path.to_string_lossy()).to_string();
        let outputs =
            [("page", page), ("SVG files", self.svg.as_ref()), ("PNG files", self.png.as_ref())];
        let written = outputs.into_iter().filter_map(|(name, path)| Some((name, path?)));
        written.into_iter().try_for_each(|(name, path)| line(output, name, &shown(path)))
    }

    /// Reads the files and returns the results of all analyses.
    fn found(&self) -> Result<(Found, Files, Option<OwnGroups>)> {
        #[cfg(feature = "dataset")]
        if let Some(scheduler) = &self.cluster {
            let access = Cluster { scheduler, secret_file: self.secret_file.as_deref() };
            let (results, files) = cluster::read(access, &self.options.files, self.sample)?;
            return Ok((results, files, None));
        }
        let by = self.split.by()?;
        let (sources, pagemap) = (open(&self.options.files)?, self.options.pagemap.as_deref());
        let grouping = by.map(|by| Grouping::new(by, &self.split, None));
        Found::read(sources, pagemap, self.sample, grouping)
    }

    /// Reports all files together.
    fn report(&self, page: Option<&PathBuf>) -> Result<bool> {
        let (results, files, groups) = self.found()?;
        let results = results.with_sizes(self.sizes.bytes());
        let parts = all_memories::parts(&results, &files, groups.as_ref());
        self.write_files(page, &files, to_json(&files, "report", Value::Null), &parts)?;
        let json = if self.options.is_json() { results.json() } else { Value::Null };
        let rows = |output: &mut dyn Write| {
            results.timeline.iter().try_for_each(|memory| {
                memory.slices.iter().try_for_each(|slice| write_slice(memory.source, slice, output))
            })
        };
        let text = |output: &mut dyn Write| {
            results.write_text(output)?;
            self.write_paths(page, output)
        };
        let heading = if groups.is_some() { SUMS } else { SLICES };
        let forms = Forms { name: "report", json, heading, rows: &rows, text: &text };
        let groups = groups.as_ref().map(|groups| GroupForms { groups, view: groups::view() });
        let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
        write_split(&self.options, files, forms, groups)
    }

    /// Compares two files, and reports their differences.
    fn compare(&self, page: Option<&PathBuf>) -> Result<bool> {
        let count = self.options.files.len();
        ensure_usage(count == 2, || format!("--compare needs two files, not {count}"))?;
        // Both files are opened before the first one is read, which may take long.
        let sources = open(&self.options.files)?;
        let Ok([first, other]) = <[Opened; 2]>::try_from(sources) else {
            anyhow::bail!("--compare needs two files");
        };
        let mut files = Vec::new();
        let mut side = |opened: Opened| -> Result<Side> {
            let (results, read, _) = Found::read(vec![opened], None, self.sample, None)?;
            let results = results.with_sizes(self.sizes.bytes());
            let known = read.first().and_then(|of| of.ending.memories.first().copied());
            let name = read.first().map_or_else(String::new, |of| of.name.clone());
            files.extend(read.into_reads());
            Ok(Side { name, found: results, known })
        };
        let sides = [side(first)?, side(other)?];
        let files = Files::without_owners(files);
        let numbers = differences::differences(&sides);
        let parts = compare::parts(&sides, &numbers);
        self.write_files(page, &files, to_json(&files, "compare", Value::Null), &parts)?;
        let json = if self.options.is_json() {
            json!({
                "reports": [sides[0].found.json(), sides[1].found.json()],
                "differences": numbers,
            })
        } else {
            Value::Null
        };
        let rows = |output: &mut dyn Write| differences::write_rows(&numbers, output);
        let text = |output: &mut dyn Write| {
            differences::write_text(&sides, &numbers, output)?;
            self.write_paths(page, output)
        };
        let forms = Forms {
            name: "compare",
            json,
            heading: differences::HEADING,
            rows: &rows,
            text: &text,
        };
        write(&self.options, files, forms)
    }
}

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let page = arguments.page()?;
    if arguments.compare {
        arguments.compare(page.as_ref())
    } else {
        arguments.report(page.as_ref())
    }
}

fn write_slice(source: u64, time_slice: &TimeSlice, output: &mut dyn Write) -> io::Result<()> {
    let TimeSlice { slice, reads, writes, access_bytes, unsized_accesses, .. } = time_slice;
    let TimeSlice { pages, new_pages, gap_count, lost_accesses, .. } = time_slice;
    let TimeSlice { page_run_accesses, frequency_accesses, .. } = time_slice;
    writeln!(
        output,
        "{source},{slice},{reads},{writes},{access_bytes},{unsized_accesses},{pages},{new_pages},\
         {gap_count},{lost_accesses},{page_run_accesses},{frequency_accesses}"
    )
}
