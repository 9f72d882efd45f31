//! The cards of rows to the places where rows of another card begin, which formats without a column
//! for it state there.
//!
//! Before the first such place all rows are of card 1, so that one card alone is never named.

use std::collections::HashMap;

/// Whose rows come, and where each card is.
#[derive(Default)]
pub(super) struct Turns {
    last: u32,
    interfaces: HashMap<u32, String>,
}

/// Longest name of an interface that is stated, in characters. It is stated again with each turn, so it may
/// not be as long as a file likes. Linux has 15.
const MAX_NAME: usize = 256;

/// A card as people count them, and its interface if the capture names it.
pub struct Turn<'a> {
    /// From 1.
    pub number: u64,
    pub interface: Option<&'a str>,
}

impl Turns {
    /// Takes note of the interface that a card is on.
    pub fn interface(&mut self, card: u32, name: &str) {
        let end = name.char_indices().nth(MAX_NAME).map_or(name.len(), |(end, _)| end);
        // The same name comes with every item.
        if self.interface_of(card) != Some(&name[..end]) {
            self.interfaces.insert(card, name[..end].to_owned());
        }
    }

    /// The interface that a card is on.
    pub fn interface_of(&self, card: u32) -> Option<&str> {
        self.interfaces.get(&card).map(String::as_str)
    }

    /// Rows of this card may come without its being named.
    pub fn only(&mut self, card: u32) {
        self.last = card;
    }

    /// What is to be stated before rows of a card.
    #[inline]
    pub fn turn(&mut self, card: u32) -> Option<Turn<'_>> {
        if card == self.last {
            return None;
        }
        self.last = card;
        Some(Turn { number: u64::from(card) + 1, interface: self.interface_of(card) })
    }

    /// Whose rows come.
    pub fn card(&self) -> u32 {
        self.last
    }

    /// Reads what was stated: a card's number from 1, and its interface.
    pub fn go_on(&mut self, number: u64, interface: Option<&str>) -> Result<(), String> {
        let card = number.checked_sub(1).and_then(|card| u32::try_from(card).ok());
        self.last = card.ok_or_else(|| format!("no card has number {number}"))?;
        if let Some(name) = interface {
            self.interface(self.last, name);
        }
        Ok(())
    }
}
