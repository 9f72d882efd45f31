//! What is shown of results: charts, tables, and sentences in place of what is not known.
//!
//! These parts are made once. The page's script draws them with zoom and values under the pointer,
//! and [`svg`](super::svg) draws the same charts without a browser. So no chart exists in one of
//! the two only, and both have the same words.

use serde::Serialize;

/// What numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes, in powers of 1024.
    Bytes,
    /// Bytes in a second, in powers of 1000.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// A part of a whole, from 0 to 1.
    Share,
}

/// An axis: what it measures, with the unit in words if it has one.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    pub name: String,
    pub unit: Unit,
}

impl Axis {
    /// An axis.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Axis { name: name.into(), unit }
    }
}

/// Slices of time with values. Slices without accesses are not in it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slices {
    /// Where each slice begins, ascending.
    pub begins: Vec<f64>,
    /// The length of a slice.
    pub width: f64,
}

/// How values over time are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Areas above each other, whose sum is shown.
    Stacked,
    /// Areas before each other.
    Layered,
    /// Lines.
    Steps,
}

/// Values over time. Its colour is that of its place.
#[derive(Clone, Debug, Serialize)]
pub struct TimeSeries {
    pub name: String,
    /// Number of the colour.
    pub colour: usize,
    /// Which of the chart's slices its values are of.
    pub slices: usize,
    pub values: Vec<f64>,
}

/// A place that is marked, as accesses are missing there.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    pub at: f64,
    pub text: String,
}

/// A horizontal line at a value.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    pub value: f64,
    pub name: String,
}

/// A curve: its points, of which x is a binary logarithm, ascending.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A row of a heat map.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its short name at the axis.
    pub label: String,
    /// Its name in words.
    pub name: String,
    /// Values of the slices from the first one on.
    pub counts: Vec<u64>,
}

/// Width of the gap before bars that are set apart.
const APART: f64 = 0.5;

/// What is drawn in a chart.
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
    /// Curves over a logarithmic axis.
    Curves { curves: Vec<Curve> },
    /// Groups of bars, one for each range, each in a range of x of length 1.
    Bars {
        /// Where the range of x of each group begins, ascending.
        begins: Vec<f64>,
        /// What the last group is, if it is no range as the others are. It has a label at any
        /// width, and, where there are no groups, a colour of its own.
        apart: Option<String>,
        labels: Vec<String>,
        /// The values of each range in words.
        texts: Vec<String>,
        names: Vec<String>,
        /// For each name the values of all ranges.
        values: Vec<Vec<f64>>,
    },
    /// Bars beside each other, one for each row, from the top on. Each consists of parts.
    Rows {
        labels: Vec<String>,
        /// The values of each row in words.
        texts: Vec<String>,
        /// The names of the parts.
        names: Vec<String>,
        /// For each part the values of all rows.
        values: Vec<Vec<f64>>,
    },
    /// Counts by row and time, in colours on a logarithmic scale. The first row is at the bottom.
    Heat { first: f64, width: f64, rows: Vec<Row> },
}

impl Content {
    /// Bars of ranges. `words`: label and values of each range. `apart`: what the last one is, if
    /// it is none.
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

    /// First and last x of bars.
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
    /// One or two sentences on what is shown.
    pub about: String,
    /// Whether it takes the whole width of the page.
    pub wide: bool,
    /// First and last x.
    pub extent: (f64, f64),
    /// Whether it is zoomed together with the other charts of the same time.
    pub is_time: bool,
    pub x: Axis,
    pub y: Axis,
    #[serde(flatten)]
    pub content: Content,
}

impl Chart {
    /// A chart with a title and what it shows. Charts over time are as wide as the page, and zoomed
    /// together.
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

/// A table of texts.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    pub title: String,
    pub about: String,
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The rows that differ, in comparisons.
    pub marked: Vec<usize>,
    pub wide: bool,
}

impl Table {
    /// A table without marks.
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
    /// Why there is no chart.
    Absent {
        title: String,
        reason: String,
        wide: bool,
    },
}

impl Part {
    /// A sentence in place of a chart.
    pub fn absent(title: &str, reason: impl Into<String>, wide: bool) -> Part {
        Part::Absent { title: title.to_owned(), reason: reason.into(), wide }
    }
}

/// The parts of a page, in their order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Parts {
    /// What is first: the sums.
    pub first: Vec<Part>,
    /// The name of each memory, and its parts. The screen shows one of them at a time, and paper
    /// all.
    pub memories: Vec<(String, Vec<Part>)>,
    /// What is of all memories.
    pub last: Vec<Part>,
}

impl Parts {
    /// All charts, with the number of the memory that each is of if there are several, from 1.
    pub fn charts(&self) -> impl Iterator<Item = (Option<usize>, &Chart)> {
        let several = self.memories.len() > 1;
        let of_memories = self.memories.iter().zip(1..).flat_map(move |((_, parts), number)| {
            parts.iter().map(move |part| (several.then_some(number), part))
        });
        let all = self.first.iter().chain(&self.last).map(|part| (None, part));
        of_memories.chain(all).filter_map(|(memory, part)| match part {
            Part::Chart(chart) => Some((memory, chart)),
            _ => None,
        })
    }
}
