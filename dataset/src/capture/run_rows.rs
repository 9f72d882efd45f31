//! Builds the rows of the table `runs`. Each session of a card in a capture has one row.

use std::path::Path;

use hmtt::decode::LinkCounts;
use hmtt::pcapng::Interface;
use hmtt::report::info::Settings;
use hmtt::report::memory::Memory;
use hmtt::table::Card;

use super::boards::Boards;
use super::sink::{CaptureSink, Session};
use crate::accesses::milliseconds;
use crate::hour::Hour;
use crate::partition::Partition;
use crate::rows::{Value, signed};
use crate::schema::Table;

/// Facts about a capture that are known at its end.
pub struct Ending<'a> {
    /// Path of the capture.
    pub path: &'a Path,
    /// Hash of the capture, as text.
    pub capture: &'a str,
    /// Name of the run.
    pub run: &'a str,
    /// Counts of the capture's cards.
    pub counts: &'a LinkCounts,
    /// Interfaces of the capture.
    pub interfaces: &'a [Interface],
    /// Whether the capture ends within a block.
    pub is_cut: bool,
}

/// The rows of a capture's sessions, each with its partition.
pub fn rows(
    sink: &CaptureSink,
    boards: &Boards,
    ending: &Ending<'_>,
) -> Vec<(Partition, Vec<Value>)> {
    let dated = sink.sessions.iter().zip(0..).filter_map(|(session, number)| {
        let (first, _) = session.arrivals?;
        let (run, board) = (ending.run.to_owned(), boards.name(session.card).to_owned());
        let partition = Partition { table: Table::Runs, run, board, hour: Hour::of(first) };
        Some((partition, row(number, session, ending)))
    });
    dated.collect()
}

fn row(number: i64, session: &Session, ending: &Ending<'_>) -> Vec<Value> {
    let counted = ending.counts.cards.get(session.card.0);
    let interface = counted.and_then(|card| ending.interfaces.get(card.link.index()));
    let file = ending.path.file_name().unwrap_or_default().to_string_lossy();
    let (first_clock, last_clock) = session.clock.clocks().unzip();
    let (first, last) = session.arrivals.unwrap_or_default();
    let mut row: Vec<Value> = vec![
        ending.capture.into(),
        number.into(),
        (&*file).into(),
        signed(session.card.number()).into(),
        interface.and_then(|interface| interface.name.as_deref()).into(),
        first_clock.map(signed).into(),
        last_clock.map(signed).into(),
        milliseconds(first).into(),
        milliseconds(last).into(),
    ];
    row.extend(description(session));
    let tables =
        [Table::Accesses, Table::Pages, Table::Slices, Table::Gaps, Table::Tags, Table::Events];
    row.extend(tables.map(|table| signed(session.rows[table as usize]).into()));
    let counts = counted.map(|card| card.counts.clone()).unwrap_or_default();
    row.extend(
        [
            counts.accesses,
            counts.lost_accesses,
            counts.accesses_before_start,
            counts.card_lost_records,
            counts.order.missing_frames,
            counts.malformed_frames,
            counts.gap_count,
        ]
        .map(|count| signed(count).into()),
    );
    row.extend([counts.complete_tail.into(), ending.is_cut.into()]);
    row
}

/// The columns that describe the memory, the settings and the clock.
fn description(session: &Session) -> [Value; 8] {
    let report = session.report.as_deref();
    let card = report.map(Card::from);
    let json = |text: serde_json::Result<String>| text.unwrap_or_default();
    let memory = report.map(|report| Memory::new(&report.memory, report.digest));
    let memory = memory.map(|memory| json(serde_json::to_string(&memory)));
    let settings = report.map(|report| json(serde_json::to_string(&Settings::new(report))));
    let relation = session.clock.relation();
    [
        card.as_ref().map(|card| signed(card.tck_ps)).into(),
        card.as_ref().map(|card| signed(card.unit_bytes)).into(),
        card.as_ref().map(|card| signed(card.format_version)).into(),
        memory.as_deref().into(),
        settings.as_deref().into(),
        relation.map(|relation| relation.zero_time_ns).into(),
        relation.map(|relation| relation.clock_ns).into(),
        relation.map(|relation| relation.error_ns).into(),
    ]
}
