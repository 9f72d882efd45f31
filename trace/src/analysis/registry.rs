//! Lists all analyses by name, with their usual options, so that programs can choose an analysis at
//! run time.

use serde_json::Value;

use super::frames::Frames;
use super::frequency::Frequency;
use super::heat_map::HeatMap;
use super::pages::Pages;
use super::phases::Phases;
use super::reuse::Reuse;
use super::rows::Rows;
use super::shards::Shards;
use super::slices::SliceLength;
use super::streams::Streams;
use super::summary::Summary;
use super::timeline::Timeline;
use super::working_set::WorkingSet;
use super::{Analysis, Batch, ElementRange, FrequencySlice, Gap, Known, PAGE_LOG2, PageRun};
use super::{check::Check, mrc::Mrc};

/// Maximum number of entries of each list in a result.
const LISTED: usize = 20;
/// Share of lines that `shards` samples.
const RATE: f64 = 0.01;

/// An [`Analysis`] whose type is known only at run time.
pub trait AnyAnalysis {
    /// As [`Analysis::known`].
    fn known(&mut self, known: &Known);
    /// As [`Analysis::add`].
    fn add(&mut self, batch: &Batch<'_>);
    /// As [`Analysis::elements`].
    fn elements(&mut self, range: &ElementRange);
    /// As [`Analysis::page_run`].
    fn page_run(&mut self, run: &PageRun);
    /// As [`Analysis::frequency_slice`].
    fn frequency_slice(&mut self, slice: &FrequencySlice);
    /// As [`Analysis::gap`].
    fn gap(&mut self, gap: &Gap);
    /// As [`Analysis::restart`].
    fn restart(&mut self);
    /// [`Analysis::result`] as JSON.
    ///
    /// # Errors
    /// The result has something that JSON cannot have, such as a map whose keys are no text.
    fn result(&self) -> serde_json::Result<Value>;
    /// The state as JSON.
    ///
    /// # Errors
    /// As [`AnyAnalysis::result`].
    fn state(&self) -> serde_json::Result<Value>;
    /// Continues with a state of the same analysis, as [`AnyAnalysis::state`] returns it.
    ///
    /// # Errors
    /// The value is not a state of this analysis.
    fn resume(&mut self, state: Value) -> serde_json::Result<()>;
    /// As [`Analysis::append`], with the state of the later instance.
    ///
    /// # Errors
    /// As [`AnyAnalysis::resume`].
    fn append(&mut self, later: Value) -> serde_json::Result<()>;
    /// As [`Analysis::merge`], with the state of the other instance.
    ///
    /// # Errors
    /// As [`AnyAnalysis::resume`].
    fn merge(&mut self, other: Value) -> serde_json::Result<()>;
}

impl<A: Analysis> AnyAnalysis for A {
    fn known(&mut self, known: &Known) {
        Analysis::known(self, known);
    }

    fn add(&mut self, batch: &Batch<'_>) {
        Analysis::add(self, batch);
    }

    fn elements(&mut self, range: &ElementRange) {
        Analysis::elements(self, range);
    }

    fn page_run(&mut self, run: &PageRun) {
        Analysis::page_run(self, run);
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        Analysis::frequency_slice(self, slice);
    }

    fn gap(&mut self, gap: &Gap) {
        Analysis::gap(self, gap);
    }

    fn restart(&mut self) {
        Analysis::restart(self);
    }

    fn result(&self) -> serde_json::Result<Value> {
        serde_json::to_value(Analysis::result(self))
    }

    fn state(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    fn resume(&mut self, state: Value) -> serde_json::Result<()> {
        *self = serde_json::from_value(state)?;
        Ok(())
    }

    fn append(&mut self, later: Value) -> serde_json::Result<()> {
        Analysis::append(self, serde_json::from_value(later)?);
        Ok(())
    }

    fn merge(&mut self, other: Value) -> serde_json::Result<()> {
        Analysis::merge(self, serde_json::from_value(other)?);
        Ok(())
    }
}

/// A registered analysis.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name by which programs choose the analysis.
    pub name: &'static str,
    /// The result in a few words.
    pub about: &'static str,
    /// An instance without accesses.
    pub new: fn() -> Box<dyn AnyAnalysis>,
}

/// All analyses. A new one is a file with an [`Analysis`], and a line here.
#[rustfmt::skip]
pub const ALL: &[Entry] = &[
    Entry { name: "summary", about: "sums, time, distinct pages and lines", new: || Box::new(Summary::default()) },
    Entry { name: "frequency", about: "accesses in slices of 1 ms", new: || Box::new(Frequency::new(SliceLength::default())) },
    Entry { name: "frames", about: "accesses of each physical page", new: || Box::new(Frames::new(PAGE_LOG2)) },
    Entry { name: "pages", about: "hot pages and lines", new: || Box::new(Pages::new(LISTED)) },
    Entry { name: "reuse", about: "exact reuse distances of lines", new: || Box::new(Reuse::lines()) },
    Entry { name: "shards", about: "reuse distances of 1 % of the lines", new: || Box::new(Shards::lines(RATE)) },
    Entry { name: "mrc", about: "the miss-ratio curve of lines", new: || Box::new(Mrc::Exact(Reuse::lines())) },
    Entry { name: "streams", about: "strides and streams", new: || Box::new(Streams::new(LISTED)) },
    Entry { name: "working_set", about: "pages in slices of 1 ms", new: || Box::new(WorkingSet::new(SliceLength::default())) },
    Entry { name: "phases", about: "changes of rate and working set", new: || Box::new(Phases::new(SliceLength::default())) },
    Entry { name: "timeline", about: "reads, writes, pages and gaps over time", new: || Box::new(Timeline::default()) },
    Entry { name: "heat_map", about: "accesses by address and time", new: || Box::new(HeatMap::default()) },
    Entry { name: "rows", about: "rows and banks of accesses", new: || Box::new(Rows::default()) },
    Entry { name: "check", about: "clocks, addresses and sizes", new: || Box::new(Check::default()) },
];
