//! Converts the items of a capture to rows of tables.

use std::time::Duration;

use hmtt::decode::{Gap, Item};
use hmtt::table::{Entry, object};
use hmtt_format::{Direction, Event, PhysAddr, Report};
use parquet::data_type::ByteArray;

use crate::accesses::{PAGE_LOG2, milliseconds};
use crate::rows::{Value, signed};
use crate::schema::Table;

/// The values that the rows of an item's frame share.
pub struct Head {
    /// Hash of the capture, as text.
    pub capture: ByteArray,
    /// Number of the session.
    pub session: usize,
    /// Arrival of the item's frame.
    pub arrival: Duration,
    /// Whether the frame has no records of accesses. Then only the row of a slice counts its
    /// accesses.
    pub has_slices_only: bool,
}

impl Head {
    fn values(&self) -> [Value; 2] {
        [self.capture.clone().into(), signed(self.session as u64).into()]
    }

    fn arrival(&self) -> Value {
        milliseconds(self.arrival).into()
    }
}

/// The table and the row of an item; `None` for items that have no row. `report`: the card's last
/// report.
pub fn row(head: &Head, item: &Item, report: Option<&Report>) -> Option<(Table, Vec<Value>)> {
    let [capture, session] = head.values();
    let arrival = head.arrival();
    let clocked = |clock: Value| vec![capture, session, clock, arrival];
    let entry = match item {
        Item::Event(event) => {
            let window = report.and_then(|report| report.tag_window);
            let tck_ps = report.map(|report| report.memory.tck_ps);
            Entry::Event(event.with_settings(window, tck_ps))
        }
        Item::Gap(gap) => return Some((Table::Gaps, gap_row(head, gap))),
        Item::Restart => Entry::Restart,
        Item::DdrClock(ddr_clock) => Entry::DdrClock(*ddr_clock),
        Item::NoEnd => Entry::NoEnd,
        Item::Report { .. } | Item::Malformed { .. } => return None,
    };
    let clock = Value::from(entry.clock().map(|clock| signed(clock.0)));
    let mut row = clocked(clock);
    let table = match entry {
        Entry::Event(Event::Access(access)) => {
            row.push((access.direction == Direction::Write).into());
            row.extend(place(Some(access.address)));
            Table::Accesses
        }
        Entry::Event(Event::Page { address, reads, writes, duration, .. }) => {
            row.extend(place(Some(address)));
            row.extend([reads, writes, duration].map(|count| signed(count).into()));
            Table::Pages
        }
        Entry::Event(Event::Slice { length, reads, writes, .. }) => {
            row.push(length.clocks().map(|clocks| signed(clocks.0)).into());
            row.extend([reads, writes].map(|count| signed(count).into()));
            row.extend([length.is_partial(), !head.has_slices_only].map(Value::from));
            Table::Slices
        }
        Entry::Event(Event::Tag { direction, offset, address, .. }) => {
            row.extend([(direction == Direction::Write).into(), signed(offset).into()]);
            row.extend(place(address));
            row.push(Value::Absent);
            Table::Tags
        }
        Entry::Event(Event::Mark { register, .. }) => {
            row.extend([const { Value::Absent }; 4]);
            row.push(signed(register.0).into());
            Table::Tags
        }
        _ => {
            row.extend([entry.kind().into(), object(&entry).as_str().into()]);
            Table::Events
        }
    };
    Some((table, row))
}

/// The columns `address` and `page`.
fn place(address: Option<PhysAddr>) -> [Value; 2] {
    let address = address.map(|address| address.0 as i64);
    [address.into(), address.map(|address| address >> PAGE_LOG2).into()]
}

fn gap_row(head: &Head, gap: &Gap) -> Vec<Value> {
    let [capture, session] = head.values();
    let clock = |clock: Option<hmtt_format::Cycles>| clock.map(|clock| signed(clock.0)).into();
    let time = |time: Option<Duration>| time.map(milliseconds).into();
    vec![
        capture,
        session,
        head.arrival(),
        clock(gap.after),
        clock(gap.before),
        time(gap.after_time),
        time(gap.before_time),
        gap.is_loss().into(),
        gap.accesses.map(signed).into(),
        signed(gap.frames).into(),
        gap.first_frame.map(signed).into(),
        signed(gap.records).into(),
        signed(gap.malformed_frames).into(),
    ]
}
