//! Rows to lines that people and scripts read, in one of several notations.
//!
//! A notation says how a row, a change of card and an access look; what they share is here: accesses go
//! the fast way, and a card is named where its rows begin.

use std::io::Write;
use std::marker::PhantomData;

use super::digits::AccessLine;
use super::turns::{Turn, Turns};
use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::decode::Accesses;

/// How rows look.
pub trait Notation {
    /// The lines before the first row.
    const HEADING: &'static str;
    /// An access, of which there are most.
    const ACCESS: AccessLine;

    /// Writes whose rows follow.
    fn turn(turn: &Turn<'_>, output: &mut impl Write) -> Result<(), TableError>;

    /// Writes what happened.
    fn entry(entry: &Entry, output: &mut impl Write) -> Result<(), TableError>;
}

/// Writes rows in a notation.
pub struct Printed<W, N> {
    output: W,
    turns: Turns,
    notation: PhantomData<N>,
}

impl<W: Write, N: Notation> Printed<W, N> {
    /// Starts a file.
    pub fn new(mut output: W) -> Result<Self, TableError> {
        output.write_all(N::HEADING.as_bytes())?;
        Ok(Printed { output, turns: Turns::default(), notation: PhantomData })
    }

    #[inline]
    fn turn(&mut self, card: u32) -> Result<(), TableError> {
        match self.turns.turn(card) {
            Some(turn) => N::turn(&turn, &mut self.output),
            None => Ok(()),
        }
    }
}

impl<W: Write, N: Notation> Writer for Printed<W, N> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        self.turn(row.capture)?;
        N::entry(&row.entry, &mut self.output)
    }

    fn accesses(&mut self, capture: u32, accesses: Accesses<'_>) -> Result<(), TableError> {
        self.turn(capture)?;
        let output = &mut self.output;
        Ok(accesses.iter().try_for_each(|access| N::ACCESS.write(access, output))?)
    }

    fn interface(&mut self, capture: u32, name: &str) {
        self.turns.interface(capture, name);
    }

    fn only(&mut self, capture: u32) {
        self.turns.only(capture);
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        Ok(LeftOut::default())
    }
}
