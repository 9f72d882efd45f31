//! Draws the charts over time of one memory, and its tables.

use hmtt::analysis::card_rows::CardOutcomes;
use hmtt::analysis::heat_map::MemoryHeat;
use hmtt::analysis::phases::MemoryPhases;
use hmtt::analysis::rows::{BankRows, MemoryRows, Outcomes};
use hmtt::analysis::timeline::{MemoryTime, TimeSlice};
use hmtt::analysis::{Detail, Known};

use super::card_rows;
use super::chart::{
    Axis, Chart, Content, Limit, Mark, Part, Row, Slices, Style, Table, TimeSeries, Unit,
};
use super::modes::Modes;
use super::numbers::{counted, exact, text};
use super::time::{Time, time_of};

/// The limit of the bus is drawn if it is at most this many times the highest value.
const LIMIT_SHOWN: f64 = 20.0;
const WORKING_SET: &str = "Working set over time";

/// The results of all analyses for one memory.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    pub time: &'a MemoryTime,
    pub heat: Option<&'a MemoryHeat>,
    pub rows: Option<&'a MemoryRows>,
    pub card_rows: Option<&'a CardOutcomes>,
    pub phases: Option<&'a MemoryPhases>,
    pub known: Option<&'a Known>,
}

impl Memory<'_> {
    /// Begin of the first slice and end of the last slice.
    pub fn extent(&self) -> (f64, f64) {
        let scale = Time::new(self.time).scale;
        let first = self.time.slices.first().map_or(0, |one| one.slice) as f64 * scale;
        let last = self.time.slices.last().map_or(0, |one| one.slice) as f64 * scale;
        (first, last + scale)
    }

    /// The slices with accesses or gaps.
    pub fn slices(&self) -> Slices {
        let width = Time::new(self.time).scale;
        let begins = self.time.slices.iter().map(|slice| slice.slice as f64 * width).collect();
        Slices { begins, width }
    }

    /// Counts of accesses that have no known address.
    pub fn modes(&self) -> Modes {
        Modes::of_slices(&self.time.slices)
    }

    fn marks(&self) -> Vec<Mark> {
        let scale = Time::new(self.time).scale;
        let mark = |slice: &TimeSlice| {
            let lost = counted(slice.lost_accesses as f64, "access");
            let gaps = counted(slice.gap_count as f64, "gap");
            let at = (slice.slice as f64 + 0.5) * scale;
            (slice.gap_count > 0)
                .then(|| Mark { at, text: format!("{gaps}, {lost} known to be lost") })
        };
        self.time.slices.iter().filter_map(mark).collect()
    }

    fn series(&self, name: &str, colour: usize, value: impl Fn(&TimeSlice) -> f64) -> TimeSeries {
        let values = self.time.slices.iter().map(value).collect();
        TimeSeries { name: name.to_owned(), colour, slices: 0, values }
    }

    fn chart(&self, words: [&str; 2], y: Axis, style: Style, series: Vec<TimeSeries>) -> Chart {
        let content = Content::Time {
            style,
            slices: vec![self.slices()],
            series,
            marks: self.marks(),
            borders: Vec::new(),
            limit: None,
        };
        Chart::new(words, self.extent(), Time::new(self.time).axis(), y, content)
    }

    /// Charts and tables of the memory; empty if the memory has no accesses.
    pub fn parts(&self) -> Vec<Part> {
        if self.time.slices.is_empty() {
            return Vec::new();
        }
        let gaps = if self.time.gaps.is_empty() {
            Part::absent("Gaps", "None is known.", false)
        } else {
            Part::Table(self.gap_table())
        };
        let mut parts = vec![gaps, Part::Chart(self.frequency()), self.bandwidth()];
        parts.push(match self.modes().absent(Detail::Page) {
            Some(reason) => Part::absent(WORKING_SET, reason, true),
            None => Part::Chart(self.working_set()),
        });
        parts.extend(
            self.heat
                .filter(|heat| !heat.blocks.is_empty())
                .map(|heat| Part::Chart(heat_chart(heat, self.extent(), "Addresses over time"))),
        );
        parts.extend(self.row_parts());
        parts.extend(self.card_rows.map(card_rows::part));
        parts.extend(self.phases.map(|phases| Part::Table(self.phase_table(phases))));
        parts
    }

    fn frequency(&self) -> Chart {
        let about = format!("Reads and writes in slices of {}", Time::new(self.time).slicing());
        let series = vec![
            self.series("reads", 0, |one| one.reads as f64),
            self.series("writes", 1, |one| one.writes as f64),
        ];
        let y = Axis::new("accesses", Unit::Count);
        self.chart(["Accesses over time", &about], y, Style::Stacked, series)
    }

    /// The reason why the bandwidth is not known; `None` if it is known.
    pub fn no_bandwidth(&self) -> Option<&'static str> {
        match self.time.slice_seconds {
            None => Some("Not known: accesses have no clock whose period is known."),
            _ if self.time.slices.iter().any(|slice| slice.unsized_accesses > 0) => {
                Some("Not known: some accesses have no known size.")
            }
            _ => None,
        }
    }

    fn bandwidth(&self) -> Part {
        let title = "Bandwidth over time";
        if let Some(reason) = self.no_bandwidth() {
            return Part::absent(title, reason, true);
        }
        let rate = 1.0 / Time::new(self.time).scale;
        let series = self.series("bandwidth", 0, |one| one.access_bytes as f64 * rate);
        let most = series.values.iter().copied().fold(0.0, f64::max);
        let limit = self.known.and_then(Known::bus_bytes_per_second);
        let about = bus_limit(most, limit);
        let y = Axis::new("bandwidth", Unit::BytesPerSecond);
        let mut chart = self.chart([title, &about], y, Style::Stacked, vec![series]);
        if let Content::Time { limit: drawn, .. } = &mut chart.content {
            let shown = limit.filter(|limit| most * LIMIT_SHOWN > *limit);
            *drawn = shown.map(|value| Limit { value, name: "limit of the bus".to_owned() });
        }
        Part::Chart(chart)
    }

    fn working_set(&self) -> Chart {
        let series = vec![
            self.series("pages", 2, |one| one.pages as f64),
            self.series("new pages", 1, |one| one.new_pages as f64),
        ];
        let about = format!(
            "Distinct pages in each slice, and those that no earlier slice has. Dashed lines are borders of phases.{}",
            self.modes().left_out(Detail::Page)
        );
        let y = Axis::new("pages of 4 KiB", Unit::Count);
        let mut chart = self.chart([WORKING_SET, &about], y, Style::Layered, series);
        if let Content::Time { borders, .. } = &mut chart.content {
            let scale = Time::new(self.time).scale;
            let phases = self.phases.map_or(&[][..], |of| &of.phases);
            borders.extend(phases.iter().skip(1).map(|phase| phase.first_slice as f64 * scale));
        }
        chart
    }

    fn row_parts(&self) -> Vec<Part> {
        let title = "Rows over time";
        let Some(rows) = self.rows else { return Vec::new() };
        let of_mode = self.modes().absent(Detail::Address);
        if let Some(reason) = of_mode.or_else(|| no_rows(rows).map(str::to_owned)) {
            return vec![Part::absent(title, reason, true)];
        }
        let time = time_of(rows.slice_unit, rows.slice_length, rows.slice_seconds);
        let series = |name: &str, colour: usize, count: fn(&Outcomes) -> u64| {
            let values = rows.slices.iter().map(|slice| count(&slice.outcomes) as f64).collect();
            TimeSeries { name: name.to_owned(), colour, slices: 0, values }
        };
        let begins = rows.slices.iter().map(|slice| slice.slice as f64 * time.scale).collect();
        let content = Content::Time {
            style: Style::Stacked,
            slices: vec![Slices { begins, width: time.scale }],
            series: vec![
                series("same row", 0, |of| of.same_row_accesses),
                series("another row", 1, |of| of.other_row_accesses),
                series("row before not known", 2, |of| of.first_accesses),
            ],
            marks: self.marks(),
            borders: Vec::new(),
            limit: None,
        };
        let about = format!(
            "Accesses to the row of their bank's last access, of which at most so many are row hits, and to another row. \
             Whether a row was closed in between is not in the file.{}",
            self.modes().left_out(Detail::Address)
        );
        let y = Axis::new("accesses", Unit::Count);
        let chart = Chart::new([title, &about], self.extent(), time.axis(), y, content);
        let banks = bank_chart(rows, self.extent(), "Banks over time");
        vec![Part::Chart(chart), Part::Chart(banks), Part::Table(bank_table(rows))]
    }

    fn phase_table(&self, memory: &MemoryPhases) -> Table {
        let time = Time::new(self.time);
        let row = |phase: &hmtt::analysis::phases::Phase| {
            let has_pages = phase.frequency_accesses < phase.accesses;
            let known = |value| if has_pages { value } else { "not known".to_owned() };
            vec![
                time.text(phase.first_slice as f64 * time.scale),
                time.text((phase.last_slice as f64 + 1.0) * time.scale),
                exact(phase.accesses as f64),
                known(text(Unit::Bytes, phase.slice_pages * 4096.0)),
                known(exact(phase.new_pages as f64)),
            ]
        };
        let heads = ["from", "to", "accesses", "working set", "new pages"];
        let about = "Stretches between changes of the rate or of the working set.";
        Table::new("Phases", about, &heads, memory.phases.iter().map(row).collect())
    }

    fn gap_table(&self) -> Table {
        let when = |clock: Option<u64>| match (clock, self.known.and_then(|of| of.tck_ps)) {
            (None, _) => "-".to_owned(),
            (Some(clock), Some(period)) => {
                text(Unit::Seconds, clock as f64 * f64::from(period) * 1e-12)
            }
            (Some(clock), None) => exact(clock as f64),
        };
        let row = |gap: &hmtt::analysis::Gap| {
            let lost = gap.lost_accesses.map_or("not known".to_owned(), |lost| exact(lost as f64));
            vec![when(gap.after_clock), when(gap.before_clock), lost]
        };
        let about = "Places at which accesses are missing, by the clocks before and behind them; at most the first 100.";
        let heads = ["after", "before", "lost accesses"];
        Table::new("Gaps", about, &heads, self.time.gaps.iter().map(row).collect())
    }
}

/// The limit of the bus in words. `most`: the highest value of the chart.
fn bus_limit(most: f64, limit: Option<f64>) -> String {
    let Some(limit) = limit else {
        return "The limit of the bus is not known: the source has no description of its memory."
            .to_owned();
    };
    let words = format!("The bus transfers at most {}", text(Unit::BytesPerSecond, limit));
    if most * LIMIT_SHOWN <= limit {
        return format!("{words}; the line is far above the values, and not drawn.");
    }
    let short = " An access counts whole in the slice in which it begins, so that short slices can exceed it.";
    format!("{words} (dashed line).{}", if most > limit { short } else { "" })
}

/// The reason why the rows and banks of a memory are not known; `None` if they are known.
pub fn no_rows(rows: &MemoryRows) -> Option<&'static str> {
    (rows.outcomes.accesses() == 0)
        .then_some("Not known: the source has no description of its memory, which maps addresses to banks and rows.")
}

/// The heat map of accesses by address and time.
pub fn heat_chart(heat: &MemoryHeat, extent: (f64, f64), title: &str) -> Chart {
    let time = time_of(heat.slice_unit, heat.slice_length, heat.slice_seconds);
    let block = text(Unit::Bytes, heat.block_bytes as f64);
    let row = |heat_row: &hmtt::analysis::heat_map::HeatRow| {
        // The label has all digits, so that labels of different blocks differ.
        let label = format!("{:#x}", heat_row.address);
        Row { name: format!("{block} from {label} on"), label, counts: heat_row.counts.clone() }
    };
    let rows = heat.blocks.iter().map(row).collect();
    let first = heat.first_slice as f64 * time.scale;
    let about = format!(
        "Accesses by address and time, in blocks of {block}; blocks without accesses are left out. The scale is logarithmic."
    );
    let content = Content::Heat { first, width: time.scale, rows };
    Chart::new([title, &about], extent, time.axis(), Axis::new("address", Unit::Count), content)
}

/// The heat map of accesses by bank and time.
pub fn bank_chart(rows: &MemoryRows, extent: (f64, f64), title: &str) -> Chart {
    let time = time_of(rows.slice_unit, rows.slice_length, rows.slice_seconds);
    let has_ranks = rows.banks.iter().any(|bank| bank.rank > 0);
    let row = |bank_rows: &BankRows| {
        let BankRows { rank, bank, .. } = bank_rows;
        let label = if has_ranks { format!("{rank}/{bank}") } else { bank.to_string() };
        Row { label, name: format!("rank {rank}, bank {bank}"), counts: bank_rows.counts.clone() }
    };
    let content = Content::Heat {
        first: rows.first_slice as f64 * time.scale,
        width: time.scale,
        rows: rows.banks.iter().map(row).collect(),
    };
    let y = Axis::new(if has_ranks { "rank/bank" } else { "bank" }, Unit::Count);
    let about =
        "Accesses to each bank. The scale is logarithmic; banks without accesses are left out.";
    Chart::new([title, about], extent, time.axis(), y, content)
}

fn bank_table(rows: &MemoryRows) -> Table {
    let total = rows.outcomes.accesses() as f64;
    let row = |bank_rows: &BankRows| {
        let accesses = bank_rows.accesses as f64;
        let share = |part: u64| text(Unit::Share, part as f64 / accesses);
        let Outcomes { same_row_accesses, other_row_accesses, first_accesses } = bank_rows.outcomes;
        vec![
            format!("{}/{}", bank_rows.rank, bank_rows.bank),
            exact(accesses),
            text(Unit::Share, accesses / total),
            share(same_row_accesses),
            share(other_row_accesses),
            exact(first_accesses as f64),
        ]
    };
    let heads = ["rank/bank", "accesses", "of all", "same row", "another row", "not known"];
    let about = "The row of each access is compared with that of its bank's last access.";
    Table::new("Banks", about, &heads, rows.banks.iter().map(row).collect())
}
