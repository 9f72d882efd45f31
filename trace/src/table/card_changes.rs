//! Finds the places at which rows of another card begin. At these places, formats without a column
//! for the card write the card's number and interface.
//!
//! Rows before the first such place are of card 1, so a file with only one card does not name it.

use std::collections::HashMap;

use crate::identity::CardId;

/// The card of the current rows, and the interface of each card.
#[derive(Default)]
pub(super) struct CardChanges {
    last: CardId,
    interfaces: HashMap<CardId, String>,
}

/// Longest interface name that is written, in characters. The name is repeated at each change of
/// card, so the input must not choose its length. Linux allows 15 characters.
const MAX_NAME: usize = 256;

/// A change to another card: its number and, if the capture states it, the name of its interface.
pub struct CardChange<'a> {
    /// Number of the card, from 1.
    pub number: u64,
    pub interface: Option<&'a str>,
}

impl CardChanges {
    /// Stores the interface of a card.
    pub fn interface(&mut self, card: CardId, name: &str) {
        let end = name.char_indices().nth(MAX_NAME).map_or(name.len(), |(end, _)| end);
        // Callers pass the same name with every item.
        if self.interface_of(card) != Some(&name[..end]) {
            self.interfaces.insert(card, name[..end].to_owned());
        }
    }

    /// The interface of a card; `None` if none was stored.
    pub fn interface_of(&self, card: CardId) -> Option<&str> {
        self.interfaces.get(&card).map(String::as_str)
    }

    /// Makes this card the current one. The file will not name it.
    pub fn only(&mut self, card: CardId) {
        self.last = card;
    }

    /// Makes this card the current one. Returns the change that the file must state before the
    /// card's rows; `None` if it is the current card already.
    #[inline]
    pub fn change_to(&mut self, card: CardId) -> Option<CardChange<'_>> {
        if card == self.last {
            return None;
        }
        self.last = card;
        Some(CardChange { number: card.number(), interface: self.interface_of(card) })
    }

    /// The card of the current rows.
    pub fn card(&self) -> CardId {
        self.last
    }

    /// Applies a change that was read from a file: a card's number, from 1, and the name of its
    /// interface.
    pub fn apply(&mut self, number: u64, interface: Option<&str>) -> Result<(), String> {
        self.last =
            CardId::from_number(number).ok_or_else(|| format!("no card has number {number}"))?;
        if let Some(name) = interface {
            self.interface(self.last, name);
        }
        Ok(())
    }
}
