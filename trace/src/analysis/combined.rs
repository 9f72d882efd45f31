//! All analyses of a report as one analysis, whose state another machine can have made.

use super::LINE_LOG2;
use super::bounded::Bounded;
use super::heat_map::HeatMap;
use super::mrc::Mrc;
use super::pages::Pages;
use super::rows::Rows;
use super::shards::Shards;
use super::summary::Summary;
use super::timeline::Timeline;

/// Pages, and lines, that are listed.
const LISTED: usize = 20;
/// Lines up to which reuse distances are exact without a sample: those of 1 GiB. With one more
/// their table would double.
const MOST_LINES: usize = (1 << (30 - LINE_LOG2)) - 1;

/// What changes over time.
pub type OverTime = (Timeline, (HeatMap, Rows));
/// All analyses.
pub type Combined = ((Summary, Pages), (Mrc, OverTime));

/// All analyses, without accesses. `sample`: the part of lines of which reuse distances are found.
pub fn combined(sample: Option<f64>) -> Combined {
    let mrc = match sample {
        None => Mrc::Bounded(Bounded::lines(MOST_LINES)),
        Some(rate) => Mrc::Sampled(Shards::lines(rate)),
    };
    ((Summary::default(), Pages::new(LISTED)), (mrc, OverTime::default()))
}
