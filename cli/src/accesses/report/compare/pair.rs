//! Draws the charts over time of two files in the same axes.

use hmtt::analysis::Detail;
use hmtt::analysis::rows::RowSlice;
use hmtt::analysis::timeline::TimeSlice;

use super::SIDES;
use crate::accesses::report::chart::{Axis, Chart, Content, Part, Slices, Style, TimeSeries, Unit};
use crate::accesses::report::over_time::{Memory, bank_chart, heat_chart, no_rows};
use crate::accesses::report::time::Time;

/// Results of the first memory of each file. Both are drawn from time 0 on.
pub struct Pair<'a> {
    pub memories: [Memory<'a>; 2],
    time: Time,
    extent: (f64, f64),
}

impl<'a> Pair<'a> {
    pub fn new(memories: [Memory<'a>; 2]) -> Self {
        let lengths = memories.map(|memory| memory.extent().1 - memory.extent().0);
        let extent = (0.0, lengths[0].max(lengths[1]));
        Pair { time: Time::new(memories[0].time), memories, extent }
    }

    /// Draws values over time as one line for each file. A file without the values has no line.
    fn lines(
        &self,
        words: [&str; 2],
        y: Axis,
        values: impl Fn(&Memory<'_>) -> Option<Vec<(u64, f64)>>,
    ) -> Part {
        let (mut slices, mut series) = (Vec::new(), Vec::new());
        for (colour, memory) in self.memories.iter().enumerate() {
            let Some(values) = values(memory) else { continue };
            let width = Time::new(memory.time).scale;
            let begins =
                values.iter().map(|(slice, _)| *slice as f64 * width - memory.extent().0).collect();
            let values = values.into_iter().map(|(_, value)| value).collect();
            series.push(TimeSeries {
                name: SIDES[colour].to_owned(),
                colour,
                slices: slices.len(),
                values,
            });
            slices.push(Slices { begins, width });
        }
        if series.is_empty() {
            return Part::absent(words[0], "Not known of either file.", true);
        }
        let (marks, borders) = Default::default();
        let content =
            Content::Time { style: Style::Steps, slices, series, marks, borders, limit: None };
        Part::Chart(Chart::new(words, self.extent, self.time.axis(), y, content))
    }

    /// A value of each slice, with the slice's number.
    fn of_slices(memory: &Memory<'_>, value: impl Fn(&TimeSlice) -> f64) -> Vec<(u64, f64)> {
        memory.time.slices.iter().map(|slice| (slice.slice, value(slice))).collect()
    }

    /// The charts over time that have one line for each file.
    pub fn over_time(&self) -> Vec<Part> {
        let scales = self.memories.map(|memory| Time::new(memory.time).scale);
        let lengths = format!(
            "Slices are of {} and {}.",
            self.time.text(scales[0]),
            self.time.text(scales[1])
        );
        let unit = if self.time.is_seconds() { "second" } else { "unit of time" };
        let rate = format!("Accesses in a {unit}. {lengths}");
        let accesses = self.lines(
            ["Accesses over time", &rate],
            Axis::new(format!("accesses in a {unit}"), Unit::Count),
            |memory| {
                let scale = Time::new(memory.time).scale;
                Some(Self::of_slices(memory, |slice| {
                    slice.reads.saturating_add(slice.writes) as f64 / scale
                }))
            },
        );
        let bytes = format!(
            "Bytes in a second. {lengths}{}",
            self.unknown(|of| of.no_bandwidth().is_some())
        );
        let bandwidth = self.lines(
            ["Bandwidth over time", &bytes],
            Axis::new("bandwidth", Unit::BytesPerSecond),
            |memory| {
                let scale = Time::new(memory.time).scale;
                memory
                    .no_bandwidth()
                    .is_none()
                    .then(|| Self::of_slices(memory, |one| one.access_bytes as f64 / scale))
            },
        );
        let has_pages = |of: &Memory<'_>| of.modes().absent(Detail::Page).is_none();
        let pages = format!(
            "Distinct pages in each slice. {lengths} Longer slices have more pages.{}",
            self.unknown(|of| !has_pages(of))
        );
        let working = self.lines(
            ["Working set over time", &pages],
            Axis::new("pages of 4 KiB", Unit::Count),
            |of| has_pages(of).then(|| Self::of_slices(of, |one| one.pages as f64)),
        );
        let same = format!(
            "Part of accesses to the row of their bank's last access.{}",
            self.unknown(|of| of.rows.is_none_or(|rows| no_rows(rows).is_some()))
        );
        let rows = self.lines(
            ["Rows over time", &same],
            Axis::new("to the same row", Unit::Share),
            |memory| {
                let rows = memory.rows.filter(|rows| no_rows(rows).is_none())?;
                let share = |slice: &RowSlice| {
                    let outcomes = slice.outcomes;
                    (
                        slice.slice,
                        outcomes.same_row_accesses as f64 / outcomes.accesses().max(1) as f64,
                    )
                };
                Some(rows.slices.iter().map(share).collect())
            },
        );
        vec![accesses, bandwidth, working, rows]
    }

    /// Names the files in which something is not known, in words.
    fn unknown(&self, is_unknown: impl Fn(&Memory<'_>) -> bool) -> String {
        let absent = SIDES.into_iter().zip(&self.memories).filter(|(_, of)| is_unknown(of));
        absent.map(|(side, _)| format!(" Not known of {side}.")).collect()
    }

    /// The heat maps of both files, side by side and with the same length of the time axis.
    pub fn heat_maps(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (side, memory) in SIDES.into_iter().zip(&self.memories) {
            let title = format!("Addresses over time, {side}");
            parts.push(match memory.heat.filter(|heat| !heat.blocks.is_empty()) {
                Some(heat) => {
                    Part::Chart(self.moved(heat_chart(heat, memory.extent(), &title), memory))
                }
                None => Part::absent(&title, "There are no accesses.", false),
            });
        }
        for (side, memory) in SIDES.into_iter().zip(&self.memories) {
            let title = format!("Banks over time, {side}");
            let rows = memory.rows.filter(|rows| no_rows(rows).is_none());
            parts.push(match rows {
                Some(rows) => {
                    Part::Chart(self.moved(bank_chart(rows, memory.extent(), &title), memory))
                }
                None => Part::absent(
                    &title,
                    memory.rows.and_then(no_rows).unwrap_or("Not known."),
                    false,
                ),
            });
        }
        parts
    }

    /// Moves a heat map so that it begins at time 0.
    fn moved(&self, chart: Chart, memory: &Memory<'_>) -> Chart {
        let mut chart = Chart { extent: self.extent, wide: false, ..chart };
        if let Content::Heat { first, .. } = &mut chart.content {
            *first -= memory.extent().0;
        }
        chart
    }
}
