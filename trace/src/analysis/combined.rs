//! Combines all analyses of a report into one analysis, so that other machines can compute its
//! state.

use super::LINE_LOG2;
use super::bounded::Bounded;
use super::heat_map::HeatMap;
use super::mrc::Mrc;
use super::pages::Pages;
use super::rows::Rows;
use super::shards::Shards;
use super::summary::Summary;
use super::timeline::Timeline;

/// Maximum number of hot pages that are listed, and also of hot lines.
const LISTED: usize = 20;
/// Maximum number of lines for which reuse distances are exact without a sample: the lines of 1
/// GiB. With one line more, the table of the lines would double in size.
const MOST_LINES: usize = (1 << (30 - LINE_LOG2)) - 1;

/// The analyses whose results are over time: accesses, a heat map, and rows of banks.
pub type OverTime = (Timeline, (HeatMap, Rows));
/// All analyses of a report, nested as pairs.
pub type Combined = ((Summary, Pages), (Mrc, OverTime));

/// All analyses, without accesses. `sample`: share of lines that are sampled for reuse distances;
/// `None` for all lines, as long as there are at most as many as 1 GiB has.
pub fn combined(sample: Option<f64>) -> Combined {
    let mrc = match sample {
        None => Mrc::Bounded(Bounded::lines(MOST_LINES)),
        Some(rate) => Mrc::Sampled(Shards::lines(rate)),
    };
    ((Summary::default(), Pages::new(LISTED)), (mrc, OverTime::default()))
}
