//! Converts entries to JSON objects, and JSON objects to entries.
//!
//! `hmtt_format` defines the objects of events. The other objects are defined here.

use std::fmt;

use hmtt_format::Event;
use hmtt_format::event::is_at_tag_offset;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::decode::{DdrClock, Gap};
use crate::table::Entry;

/// The objects that are no events. Members are written in the order of the fields.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Other {
    Gap(Gap),
    DdrClock(DdrClock),
    Restart,
    NoEnd,
    Card(CardObject),
}

/// An object that names the card of the objects behind it. Objects before the first such object are
/// of card 1.
#[derive(Serialize, Deserialize)]
pub(super) struct CardObject {
    /// Number of the card, from 1.
    pub card: u64,
    #[serde(default)]
    pub interface: Option<String>,
}

/// The kinds of [`Other`].
const OTHERS: [&str; 5] = ["gap", "ddr_clock", "restart", "no_end", "card"];

/// The kinds of all objects, in the order in which an error lists them.
const KINDS: [&str; Event::KINDS.len() + OTHERS.len()] = {
    let mut kinds = [""; Event::KINDS.len() + OTHERS.len()];
    let mut at = 0;
    while at < kinds.len() {
        kinds[at] = match at.checked_sub(Event::KINDS.len()) {
            Some(at) => OTHERS[at],
            None => Event::KINDS[at],
        };
        at += 1;
    }
    kinds
};

/// The only member that is needed to determine the type of an object.
#[derive(Deserialize)]
struct Head {
    kind: Kind,
}

/// Whether an object is an event.
enum Kind {
    Event,
    Other,
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KindVisitor)
    }
}

struct KindVisitor;

impl Visitor<'_> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kind of an object")
    }

    fn visit_str<E: Error>(self, kind: &str) -> Result<Kind, E> {
        match kind {
            _ if Event::KINDS.contains(&kind) => Ok(Kind::Event),
            _ if OTHERS.contains(&kind) => Ok(Kind::Other),
            _ => Err(E::unknown_variant(kind, &KINDS)),
        }
    }
}

/// An object that was read.
pub(super) enum Object {
    /// A row.
    Entry(Entry),
    /// The name of the card of the rows that follow.
    Card(CardObject),
}

/// Formats an entry as a JSON object on one line.
pub fn object(entry: &Entry) -> String {
    let other = |other| serde_json::to_string(&other);
    let object = match *entry {
        Entry::Event(event) => serde_json::to_string(&event),
        Entry::Gap(gap) => other(Other::Gap(gap)),
        Entry::Restart => other(Other::Restart),
        Entry::DdrClock(ddr_clock) => other(Other::DdrClock(ddr_clock)),
        Entry::NoEnd => other(Other::NoEnd),
    };
    // Objects of strings and numbers can always be serialised.
    object.unwrap_or_default()
}

/// Formats the name of a card as a JSON object on one line.
pub(super) fn card_object(card: CardObject) -> String {
    serde_json::to_string(&Other::Card(card)).unwrap_or_default()
}

/// Parses a JSON object.
pub(super) fn parse_object(object: &[u8]) -> Result<Object, String> {
    let object = parse(object).map_err(|error| error.to_string())?;
    if let Object::Entry(Entry::Event(Event::Tag { offset, address: Some(address), .. })) = object
        && !is_at_tag_offset(address, offset)
    {
        return Err(format!(
            "the address {:x} of a tag is not at its offset {offset}, the low bits of the address",
            address.0
        ));
    }
    Ok(object)
}

fn parse(object: &[u8]) -> serde_json::Result<Object> {
    let kind = match first_kind(object) {
        Some(kind) if Event::KINDS.iter().any(|event| event.as_bytes() == kind) => Kind::Event,
        _ => serde_json::from_slice::<Head>(object)?.kind,
    };
    Ok(Object::Entry(match kind {
        Kind::Event => Entry::Event(serde_json::from_slice(object)?),
        Kind::Other => match serde_json::from_slice(object)? {
            Other::Gap(gap) => Entry::Gap(gap),
            Other::DdrClock(ddr_clock) => Entry::DdrClock(ddr_clock),
            Other::Restart => Entry::Restart,
            Other::NoEnd => Entry::NoEnd,
            Other::Card(card) => return Ok(Object::Card(card)),
        },
    }))
}

/// The kind of an object whose first member is `kind`, as in all written objects. This saves a pass
/// over the object. `None` for other objects.
fn first_kind(object: &[u8]) -> Option<&[u8]> {
    object.strip_prefix(br#"{"kind":""#)?.split(|byte| *byte == b'"').next()
}
