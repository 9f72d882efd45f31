//! Writes rows as lines of text, in one of several notations.
//!
//! A [`Notation`] defines the lines of a row, of a change of card and of an access. All notations
//! share the rest: [`AccessLine`] formats accesses, and a card is named where its rows begin.

use std::io::Write;
use std::marker::PhantomData;

use super::access_line::AccessLine;
use super::card_changes::{CardChange, CardChanges};
use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::decode::Accesses;
use crate::identity::CardId;

/// The text form of rows.
pub trait Notation {
    /// The lines before the first row.
    const HEADING: &'static str;
    /// The line of an access, the most frequent kind of row.
    const ACCESS: AccessLine;

    /// Writes the line that names the card of the rows that follow.
    fn card_change(change: &CardChange<'_>, output: &mut impl Write) -> Result<(), TableError>;

    /// Writes the lines of an entry.
    fn entry(entry: &Entry, output: &mut impl Write) -> Result<(), TableError>;
}

/// A writer of rows in the notation `N`.
pub struct NotationWriter<W, N> {
    output: W,
    cards: CardChanges,
    notation: PhantomData<N>,
}

impl<W: Write, N: Notation> NotationWriter<W, N> {
    /// Starts a file with its heading.
    ///
    /// # Errors
    /// [`TableError::File`]: the output cannot be written.
    pub fn new(mut output: W) -> Result<Self, TableError> {
        output.write_all(N::HEADING.as_bytes())?;
        Ok(NotationWriter { output, cards: CardChanges::default(), notation: PhantomData })
    }

    /// Names a card in the file if its rows begin here.
    #[inline]
    fn change_card(&mut self, card: CardId) -> Result<(), TableError> {
        match self.cards.change_to(card) {
            Some(change) => N::card_change(&change, &mut self.output),
            None => Ok(()),
        }
    }
}

impl<W: Write, N: Notation> Writer for NotationWriter<W, N> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        self.change_card(row.card)?;
        N::entry(&row.entry, &mut self.output)
    }

    fn accesses(&mut self, card: CardId, accesses: Accesses<'_>) -> Result<(), TableError> {
        self.change_card(card)?;
        let output = &mut self.output;
        Ok(accesses.iter().try_for_each(|access| N::ACCESS.write(access, output))?)
    }

    fn interface(&mut self, card: CardId, name: &str) {
        self.cards.interface(card, name);
    }

    fn only(&mut self, card: CardId) {
        self.cards.only(card);
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        Ok(LeftOut::default())
    }
}
