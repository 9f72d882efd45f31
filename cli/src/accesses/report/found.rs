//! Runs all analyses in one pass over the files, and prints their results as JSON and as text.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use hmtt::analysis::card_rows::CardOutcomes;
use hmtt::analysis::combined::{Combined, combined};
use hmtt::analysis::distribution::{AddressDistribution, HotShare, by_address, distribution};
use hmtt::analysis::heat_map::MemoryHeat;
use hmtt::analysis::mrc::{Curve, Point};
use hmtt::analysis::pages::HotPages;
use hmtt::analysis::phases::{MemoryPhases, phases};
use hmtt::analysis::reuse::Reuses;
use hmtt::analysis::rows::MemoryRows;
use hmtt::analysis::summary::{Summary, Sums};
use hmtt::analysis::timeline::MemoryTime;
use hmtt::analysis::{Analysis, Detail, Known};
use serde_json::{Value, json};

use super::card_rows::Cards;
use super::groups::OwnGroups;
use super::over_time::Memory;
use crate::accesses::cache_sizes::{self, USUAL};
use crate::accesses::figures::{percent, share};
use crate::accesses::input::Files;
use crate::accesses::need::Need;
use crate::accesses::output::line;
use crate::accesses::rows::write_sums as write_rows;
use crate::accesses::source::Opened;
use crate::accesses::split::{Analysed, Grouping, analyse_groups};
use crate::accesses::stats::{slice_length, write_sums};

/// The distribution has a point for each further hundredth of the pages.
const STEPS: u64 = 100;
/// Maximum number of blocks of addresses in the distribution by page number.
pub const MOST_BLOCKS: usize = 128;
/// A report can use every access with a known time. Parts of the page that need more state that
/// they are absent.
pub const NEED: Need =
    Need { analysis: "hmtt report", detail: Detail::Time, shows_card_results: true };

/// Results of all analyses.
pub struct Found {
    pub stats: Sums,
    pub hot: HotPages,
    pub distribution: Vec<HotShare>,
    pub address_distribution: AddressDistribution,
    pub reuse: Reuses,
    pub mrc: Curve,
    /// Sizes in bytes of the caches whose misses are stated.
    pub cache_sizes: Vec<u64>,
    pub timeline: Vec<MemoryTime>,
    pub heat_map: Vec<MemoryHeat>,
    pub rows: Vec<MemoryRows>,
    /// Row outcomes that cards in analysis mode have counted.
    pub card_rows: Vec<CardOutcomes>,
    pub phases: Vec<MemoryPhases>,
}

impl Found {
    /// Reads open files into all analyses.
    ///
    /// # Errors
    /// The map of pages cannot be read, or does not fit the files.
    pub fn read(
        sources: Vec<Opened>,
        pagemap: Option<&Path>,
        sample: Option<f64>,
        grouping: Option<Grouping<Option<Summary>>>,
    ) -> Result<(Found, Files, Option<OwnGroups>)> {
        let mut cards = Cards::default();
        let Analysed { found: analysis, files, groups } = analyse_groups(
            sources,
            NEED,
            pagemap,
            combined(sample),
            grouping,
            &mut |memory, part| {
                cards.part(memory, part);
            },
        )?;
        Ok((Found::new(analysis, cards.result()), files, groups))
    }

    /// Takes the results out of the analyses. `card_rows`: results of the cards themselves.
    pub fn new(
        ((summary, pages), (mrc, (timeline, (heat, rows)))): Combined,
        card_rows: Vec<CardOutcomes>,
    ) -> Found {
        let reuse = mrc.distances();
        let timeline = timeline.result();
        Found {
            stats: summary.result(),
            hot: pages.result(),
            distribution: distribution(&pages, STEPS),
            address_distribution: by_address(&pages, MOST_BLOCKS),
            mrc: Curve::new(&reuse),
            cache_sizes: USUAL.to_vec(),
            reuse,
            phases: timeline.iter().map(|of| phases(&of.working_sets())).collect(),
            timeline,
            heat_map: heat.result(),
            rows: rows.result(),
            card_rows,
        }
    }

    /// Replaces the sizes of caches whose misses are stated.
    #[must_use]
    pub fn with_sizes(self, cache_sizes: Vec<u64>) -> Found {
        Found { cache_sizes, ..self }
    }

    /// Misses of the caches in `cache_sizes`.
    pub fn misses(&self) -> Vec<Point> {
        cache_sizes::points(&self.mrc, &self.cache_sizes)
    }

    /// All results as JSON.
    pub fn json(&self) -> Value {
        json!({
            "stats": self.stats,
            "hot": self.hot,
            "distribution": self.distribution,
            "address_distribution": self.address_distribution,
            "reuse": self.reuse,
            "mrc": cache_sizes::to_json(&self.mrc, &self.cache_sizes),
            "timeline": self.timeline,
            "heat_map": self.heat_map,
            "rows": self.rows,
            "card_rows": self.card_rows,
            "phases": self.phases,
        })
    }

    /// The results of one memory.
    pub fn memory<'a>(&'a self, number: usize, known: Option<&'a Known>) -> Option<Memory<'a>> {
        Some(Memory {
            time: self.timeline.get(number)?,
            heat: self.heat_map.get(number),
            rows: self.rows.get(number),
            card_rows: self.card_rows.iter().find(|outcomes| outcomes.source == number as u64 + 1),
            phases: self.phases.get(number),
            known,
        })
    }

    /// Writes the sums as text.
    pub fn write_text(&self, output: &mut dyn Write) -> io::Result<()> {
        write_sums(&self.stats, output)?;
        for quantile in self.hot.concentration.iter().take(2).filter(|_| self.hot.touches > 0) {
            let name = format!("pages with {} %", quantile.share_percent);
            let part = share(quantile.pages as f64, self.hot.pages);
            line(output, &name, &format!("{} ({part} of all pages)", quantile.pages))?;
        }
        for point in self.misses() {
            let (name, misses) = cache_sizes::line(&point);
            line(output, &name, &misses)?;
        }
        if self.reuse.sampling_rate < 1.0 {
            let name = "lines looked at";
            line(
                output,
                name,
                &format!("{} of all, for misses", percent(self.reuse.sampling_rate)),
            )?;
        }
        if let [rows] = &self.rows[..] {
            write_rows(rows, output)?;
        }
        self.phases.iter().try_for_each(|memory| {
            let length = slice_length(memory.slice_unit, memory.slice_length, memory.slice_seconds);
            let source = match self.phases.len() {
                1 => String::new(),
                _ => format!("source {}: ", memory.source),
            };
            let text = format!("{source}{}, of slices of {length}", memory.phases.len());
            line(output, "phases", &text)
        })
    }
}
