//! Converts entries to JSON objects, and JSON objects to entries.

use std::time::Duration;

use hmtt_format::record::CountGroup;
use hmtt_format::{Access, Cycles, Direction, FaultKind, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::decode::{DdrClock, Gap, parse_seconds, seconds};
use crate::table::Entry;
use crate::table::context::mark_name;

/// The members of each kind of object, in the order in which they are written. The aliases are the names in tables of
/// version 1.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Object {
    Access {
        clock: u64,
        direction: char,
        address: String,
    },
    Tag {
        clock: u64,
        direction: char,
        offset: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
    },
    Mark {
        clock: u64,
        register: u32,
        #[serde(default)]
        name: String,
    },
    Fault {
        clock: u64,
        fault: String,
        bank: u8,
    },
    Page {
        clock: u64,
        address: String,
        reads: u32,
        writes: u32,
        #[serde(alias = "duration")]
        duration_clocks: u32,
    },
    Slice {
        clock: u64,
        #[serde(alias = "length")]
        duration_clocks: Option<u64>,
        partial: bool,
        reads: u32,
        writes: u32,
    },
    Interval {
        clock: u64,
        part: u8,
    },
    Count {
        dump: u8,
        group: String,
        index: u16,
        value: u32,
    },
    HotPage {
        dump: u8,
        address: String,
        count: u32,
        votes: u32,
    },
    Gap {
        #[serde(alias = "frames")]
        missing_frames: u64,
        #[serde(alias = "first_frame", default, skip_serializing_if = "Option::is_none")]
        first_counter: Option<u64>,
        #[serde(alias = "records")]
        card_lost_records: u32,
        #[serde(alias = "damaged_frames")]
        malformed_frames: u64,
        #[serde(alias = "accesses")]
        lost_accesses: Option<u64>,
        #[serde(alias = "after")]
        after_clock: Option<u64>,
        #[serde(alias = "before")]
        before_clock: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_packet: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_packet: Option<u64>,
        #[serde(alias = "after_time", default, skip_serializing_if = "Option::is_none")]
        after_time_seconds: Option<String>,
        #[serde(alias = "before_time", default, skip_serializing_if = "Option::is_none")]
        before_time_seconds: Option<String>,
    },
    DdrClock {
        running: bool,
        #[serde(alias = "lost")]
        new_losses: u16,
        losses: u16,
        #[serde(alias = "transmit_nanos")]
        transmit_ns: u64,
    },
    Restart,
    NoEnd,
    /// States the card of the objects that follow; objects before the first such object are of card 1.
    Card {
        card: u64,
        #[serde(default)]
        interface: Option<String>,
    },
}

impl From<&Entry> for Object {
    fn from(entry: &Entry) -> Self {
        let hex = |address: PhysAddr| address.to_string();
        match *entry {
            Entry::Access(Access { clock, direction, address }) => Object::Access {
                clock: clock.0,
                direction: direction.letter(),
                address: hex(address),
            },
            Entry::Tag { clock, direction, offset, address } => Object::Tag {
                clock: clock.0,
                direction: direction.letter(),
                offset,
                address: address.map(hex),
            },
            Entry::Mark { clock, register } => {
                Object::Mark { clock: clock.0, register, name: mark_name(register) }
            }
            Entry::Fault { clock, kind, bank } => {
                Object::Fault { clock: clock.0, fault: kind.name().into(), bank }
            }
            Entry::Page { clock, address, reads, writes, duration } => Object::Page {
                clock: clock.0,
                address: hex(address),
                reads,
                writes,
                duration_clocks: duration,
            },
            Entry::Slice { clock, length, partial, reads, writes } => {
                let duration_clocks = length.map(|length| length.0);
                Object::Slice { clock: clock.0, duration_clocks, partial, reads, writes }
            }
            Entry::Interval { clock, part } => Object::Interval { clock: clock.0, part },
            Entry::Count { dump, group, index, value } => {
                Object::Count { dump, group: group.name().into(), index, value }
            }
            Entry::HotPage { dump, address, count, votes } => {
                Object::HotPage { dump, address: hex(address), count, votes }
            }
            Entry::Gap(gap) => Object::Gap {
                missing_frames: gap.frames,
                first_counter: gap.first_frame,
                card_lost_records: gap.records,
                malformed_frames: gap.malformed_frames,
                lost_accesses: gap.accesses,
                after_clock: gap.after.map(|clock| clock.0),
                before_clock: gap.before.map(|clock| clock.0),
                after_packet: gap.after_packet,
                before_packet: gap.before_packet,
                after_time_seconds: gap.after_time.map(seconds),
                before_time_seconds: gap.before_time.map(seconds),
            },
            Entry::Restart => Object::Restart,
            Entry::DdrClock(DdrClock { running, lost, losses, transmit_ns }) => {
                Object::DdrClock { running, new_losses: lost, losses, transmit_ns }
            }
            Entry::NoEnd => Object::NoEnd,
        }
    }
}

impl TryFrom<Object> for Entry {
    type Error = String;

    fn try_from(object: Object) -> Result<Self, String> {
        Ok(match object {
            Object::Access { clock, direction: way, address } => Entry::Access(Access {
                clock: Cycles(clock),
                direction: direction(way)?,
                address: hex(&address)?,
            }),
            Object::Tag { clock, direction: way, offset, address } => Entry::Tag {
                clock: Cycles(clock),
                direction: direction(way)?,
                offset,
                address: address.as_deref().map(hex).transpose()?,
            },
            Object::Mark { clock, register, .. } => Entry::Mark { clock: Cycles(clock), register },
            Object::Fault { clock, fault, bank } => Entry::Fault {
                clock: Cycles(clock),
                kind: FaultKind::from_name(&fault)
                    .ok_or_else(|| format!("no fault is called {fault}"))?,
                bank,
            },
            Object::Page { clock, address, reads, writes, duration_clocks } => Entry::Page {
                clock: Cycles(clock),
                address: hex(&address)?,
                reads,
                writes,
                duration: duration_clocks,
            },
            Object::Slice { clock, duration_clocks, partial, reads, writes } => {
                let length = duration_clocks.map(Cycles);
                Entry::Slice { clock: Cycles(clock), length, partial, reads, writes }
            }
            Object::Interval { clock, part } => Entry::Interval { clock: Cycles(clock), part },
            Object::Count { dump, group, index, value } => Entry::Count {
                dump,
                group: CountGroup::from_name(&group)
                    .ok_or_else(|| format!("no group of counts is called {group}"))?,
                index,
                value,
            },
            Object::HotPage { dump, address, count, votes } => {
                Entry::HotPage { dump, address: hex(&address)?, count, votes }
            }
            Object::Gap {
                missing_frames,
                first_counter,
                card_lost_records,
                malformed_frames,
                lost_accesses,
                after_clock,
                before_clock,
                after_packet,
                before_packet,
                after_time_seconds,
                before_time_seconds,
            } => Entry::Gap(Gap {
                frames: missing_frames,
                first_frame: first_counter,
                records: card_lost_records,
                malformed_frames,
                accesses: lost_accesses,
                after: after_clock.map(Cycles),
                before: before_clock.map(Cycles),
                after_packet,
                before_packet,
                after_time: time(after_time_seconds)?,
                before_time: time(before_time_seconds)?,
            }),
            Object::DdrClock { running, new_losses, losses, transmit_ns } => {
                Entry::DdrClock(DdrClock { running, lost: new_losses, losses, transmit_ns })
            }
            Object::Restart => Entry::Restart,
            Object::NoEnd => Entry::NoEnd,
            Object::Card { .. } => return Err("a card is not a row".into()),
        })
    }
}

/// Parses a direction, `R` or `W`.
pub(super) fn direction(letter: char) -> Result<Direction, String> {
    match letter {
        'R' => Ok(Direction::Read),
        'W' => Ok(Direction::Write),
        _ => Err(format!("direction {letter:?} is neither R nor W")),
    }
}

/// Parses a hexadecimal address.
pub(super) fn hex(text: &str) -> Result<PhysAddr, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let address = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
    address.map(PhysAddr).ok_or_else(|| format!("address {text:?} is not hexadecimal"))
}

/// Parses a time since the epoch, `SECONDS.NANOSECONDS`.
fn time(text: Option<String>) -> Result<Option<Duration>, String> {
    let parsed = |text: String| {
        parse_seconds(&text).ok_or_else(|| format!("time {text:?} is not SECONDS.NANOSECONDS"))
    };
    text.map(parsed).transpose()
}

/// Formats an entry as a JSON object on one line.
pub(super) fn object(entry: &Entry) -> String {
    // Objects of strings and numbers always serialise.
    serde_json::to_string(&Object::from(entry)).unwrap_or_default()
}

/// Parses the JSON object of an entry.
pub(super) fn parse_object(object: &[u8]) -> Result<Entry, String> {
    serde_json::from_slice::<Object>(object).map_err(|error| error.to_string())?.try_into()
}
