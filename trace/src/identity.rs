//! Identifies the cards of a trace and the links of a capture.

use std::fmt;

/// Identifies a card of a capture, or of a merged trace. Cards are numbered from 0 in the order in
/// which they appear. Text and tables for people number them from 1, as [`Display`](fmt::Display)
/// does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(pub usize);

impl CardId {
    /// The number of the card in text and in tables, from 1.
    pub fn number(self) -> u64 {
        self.0 as u64 + 1
    }

    /// Converts the number of a card in a table. Returns `None` for 0 and for numbers above 2^32,
    /// which no table has.
    pub fn from_number(number: u64) -> Option<Self> {
        let index = number.checked_sub(1).and_then(|index| u32::try_from(index).ok())?;
        Some(CardId(index as usize))
    }
}

impl fmt::Display for CardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

/// Identifies a link, on which frames of cards arrive. The number is the index of the link's
/// interface in the capture, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u16);

impl LinkId {
    /// The link's index in a list of the interfaces.
    pub fn index(self) -> usize {
        self.0.into()
    }
}
