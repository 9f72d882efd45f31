//! Defines the parts of a report: charts, tables, and sentences in place of unknown results.
//!
//! Each part is made once. The page's script draws it with zoom and with values under the pointer.
//! [`svg`](super::svg) draws the same charts without a browser. So the page and the SVG files have
//! the same charts with the same words.

use serde::Serialize;

/// The unit of the numbers on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A count, in powers of 1000.
    Count,
    /// Bytes, in powers of 1024.
    Bytes,
    /// Bytes per second, in powers of 1000.
    BytesPerSecond,
    /// Seconds, or milliseconds, microseconds or nanoseconds.
    Seconds,
    /// A fraction from 0 to 1.
    Share,
}

/// An axis: the measured quantity, with its unit in words if it has one.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    pub name: String,
    pub unit: Unit,
}

impl Axis {
    /// Creates an axis.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Axis { name: name.into(), unit }
    }
}

/// Slices of time that values belong to. Slices without accesses are left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slices {
    /// Begin of each slice, ascending.
    pub begins: Vec<f64>,
    /// Length of each slice.
    pub width: f64,
}

/// Style in which values over time are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Areas stacked on each other; the upper edge is the sum.
    Stacked,
    /// Areas from zero, each drawn in front of the one before.
    Layered,
    /// A stepped line for each series.
    Steps,
}

/// One series of values over time.
#[derive(Clone, Debug, Serialize)]
pub struct TimeSeries {
    pub name: String,
    /// Index into the list of colours.
    pub colour: usize,
    /// Index into the chart's `slices`.
    pub slices: usize,
    pub values: Vec<f64>,
}

/// A marked point of time at which accesses are missing.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    pub at: f64,
    pub text: String,
}

/// A horizontal line at a value, such as the limit of the bus.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    pub value: f64,
    pub name: String,
}

/// A curve. Its x values are binary logarithms, ascending.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A row of a heat map.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Short name at the axis.
    pub label: String,
    /// Name in words.
    pub name: String,
    /// Counts of the slices, from the first slice on.
    pub counts: Vec<u64>,
}

/// Width of the gap before a bar that is set apart.
const APART: f64 = 0.5;

/// Data that a chart draws.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Content {
    /// Values over time.
    Time {
        style: Style,
        slices: Vec<Slices>,
        series: Vec<TimeSeries>,
        marks: Vec<Mark>,
        /// Times at which phases begin.
        borders: Vec<f64>,
        limit: Option<Limit>,
    },
    /// Curves over a logarithmic x axis.
    Curves { curves: Vec<Curve> },
    /// Groups of bars, one group for each range of values. Each group is 1 wide on the x axis.
    Bars {
        /// Left end of each group on the x axis, ascending.
        begins: Vec<f64>,
        /// Name of the last group, if that group is not a range like the others. It is set apart
        /// and always has a label. If each group has only one bar, the last one has its own colour.
        apart: Option<String>,
        labels: Vec<String>,
        /// For each range, its values in words.
        texts: Vec<String>,
        names: Vec<String>,
        /// For each name, the values of all ranges.
        values: Vec<Vec<f64>>,
    },
    /// Horizontal bars, one for each row, from the top down. Each bar consists of parts.
    Rows {
        labels: Vec<String>,
        /// For each row, its values in words.
        texts: Vec<String>,
        /// Names of the parts.
        names: Vec<String>,
        /// For each part, the values of all rows.
        values: Vec<Vec<f64>>,
    },
    /// Counts by row and time as colours on a logarithmic scale. The first row is at the bottom.
    Heat { first: f64, width: f64, rows: Vec<Row> },
}

impl Content {
    /// Makes bars of ranges. `words`: label and values of each range. `apart`: name of the last
    /// group, if that group is not a range.
    pub fn bars(
        words: Vec<(String, String)>,
        apart: Option<&str>,
        names: Vec<String>,
        values: Vec<Vec<f64>>,
    ) -> Content {
        let (labels, texts): (Vec<_>, Vec<_>) = words.into_iter().unzip();
        let mut begins: Vec<f64> = (0..labels.len()).map(|at| at as f64).collect();
        if let Some(last) = begins.last_mut().filter(|_| apart.is_some()) {
            *last += APART;
        }
        Content::Bars { begins, apart: apart.map(str::to_owned), labels, texts, names, values }
    }

    /// First and last x of bars; 0 and 1 for other contents.
    pub fn bars_extent(&self) -> (f64, f64) {
        match self {
            Content::Bars { begins, .. } => (0.0, begins.last().map_or(1.0, |last| last + 1.0)),
            _ => (0.0, 1.0),
        }
    }
}

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    pub title: String,
    /// One or two sentences that explain the chart.
    pub about: String,
    /// Whether the chart is as wide as the page.
    pub wide: bool,
    /// First and last x.
    pub extent: (f64, f64),
    /// Whether the chart is zoomed together with the other charts over the same time.
    pub is_time: bool,
    pub x: Axis,
    pub y: Axis,
    #[serde(flatten)]
    pub content: Content,
}

impl Chart {
    /// Creates a chart with a title and an explanation. Charts over time are as wide as the page,
    /// and zoomed together.
    pub fn new(
        [title, about]: [&str; 2],
        extent: (f64, f64),
        x: Axis,
        y: Axis,
        content: Content,
    ) -> Chart {
        let is_time = matches!(content, Content::Time { .. } | Content::Heat { .. });
        let (title, about) = (title.to_owned(), about.to_owned());
        Chart { title, about, wide: is_time, extent, is_time, x, y, content }
    }
}

/// A table whose cells are texts.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    pub title: String,
    pub about: String,
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Indices of the rows that differ, in comparisons.
    pub marked: Vec<usize>,
    pub wide: bool,
}

impl Table {
    /// Creates a table without marked rows.
    pub fn new(title: &str, about: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        let (title, about) = (title.to_owned(), about.to_owned());
        Table { title, about, heads, rows, marked: Vec::new(), wide: false }
    }
}

/// A part of the page.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
    Chart(Chart),
    Table(Table),
    /// The reason why a chart is absent.
    Absent {
        title: String,
        reason: String,
        wide: bool,
    },
}

impl Part {
    /// Makes a sentence that replaces a chart.
    pub fn absent(title: &str, reason: impl Into<String>, wide: bool) -> Part {
        Part::Absent { title: title.to_owned(), reason: reason.into(), wide }
    }
}

/// All parts of a page, in their order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Parts {
    /// Parts at the top of the page: the sums.
    pub first: Vec<Part>,
    /// For each memory, its name and its parts. The screen shows one memory at a time; a printed
    /// page shows all memories.
    pub memories: Vec<(String, Vec<Part>)>,
    /// Parts on all memories together.
    pub last: Vec<Part>,
}

impl Parts {
    /// All charts. Each has the number of its memory, from 1, if there are several memories.
    pub fn charts(&self) -> impl Iterator<Item = (Option<usize>, &Chart)> {
        let several = self.memories.len() > 1;
        let of_memories = self.memories.iter().zip(1..).flat_map(move |((_, parts), number)| {
            parts.iter().map(move |part| (several.then_some(number), part))
        });
        let common_parts = self.first.iter().chain(&self.last).map(|part| (None, part));
        of_memories.chain(common_parts).filter_map(|(memory, part)| match part {
            Part::Chart(chart) => Some((memory, chart)),
            _ => None,
        })
    }
}
