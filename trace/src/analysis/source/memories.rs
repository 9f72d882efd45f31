//! Numbers the memories of a source, and keeps what is known of each.

#[cfg(feature = "access-traces")]
use hmtt_format::access_trace::Function;

#[cfg(feature = "access-traces")]
use super::ElementRange;
use super::{Batch, Ending, Gap, Known, Part, SourceError};
use crate::decode::Item;
use crate::identity::CardId;

/// Most memories of a source. Each has an instance of the analysis.
pub const MOST_MEMORIES: usize = 1024;

/// Passes on what a source has, with the numbers of memories.
pub struct Memories<'a> {
    add: &'a mut dyn FnMut(usize, Part<'_>),
    /// The card of each memory, and the last one that was looked up.
    cards: Vec<CardId>,
    last: usize,
    ending: Ending,
}

impl<'a> Memories<'a> {
    pub fn new(add: &'a mut dyn FnMut(usize, Part<'_>)) -> Self {
        Memories { add, cards: Vec::new(), last: 0, ending: Ending::default() }
    }

    /// The memory of a card. A new one has what `known` says.
    pub fn of(
        &mut self,
        card: CardId,
        known: impl FnOnce() -> Known,
    ) -> Result<usize, SourceError> {
        if self.cards.get(self.last) != Some(&card) {
            let found = self.cards.iter().position(|one| *one == card);
            self.last = match found {
                Some(found) => found,
                None if self.cards.len() == MOST_MEMORIES => return Err(SourceError::Memories),
                None => {
                    self.cards.push(card);
                    self.ending.memories.push(Known::default());
                    let memory = self.cards.len() - 1;
                    self.known(memory, known());
                    memory
                }
            };
        }
        Ok(self.last)
    }

    /// What is known of a memory up to here.
    pub fn now(&self, memory: usize) -> Known {
        self.ending.memories.get(memory).copied().unwrap_or_default()
    }

    /// Passes on what is known.
    pub fn known(&mut self, memory: usize, known: Known) {
        if let Some(before) = self.ending.memories.get_mut(memory) {
            *before = known;
        }
        (self.add)(memory, Part::Known(&known));
    }

    /// Passes on accesses.
    pub fn batch(&mut self, memory: usize, batch: Batch<'_>) {
        if !batch.is_empty() {
            self.ending.accesses += batch.len() as u64;
            (self.add)(memory, Part::Batch(batch));
        }
    }

    /// Passes on elements of a string instruction as a whole.
    #[cfg(feature = "access-traces")]
    pub fn elements(&mut self, memory: usize, range: ElementRange) {
        self.ending.accesses = self.ending.accesses.saturating_add(range.elements);
        (self.add)(memory, Part::Elements(range));
    }

    /// Passes on a gap.
    pub fn gap(&mut self, memory: usize, gap: Gap) {
        (self.add)(memory, Part::Gap(gap));
    }

    /// Passes on an item between accesses, which is neither a gap nor a restart.
    pub fn item(&mut self, memory: usize, item: &Item) {
        (self.add)(memory, Part::Item(item));
    }

    /// Passes on the next functions.
    #[cfg(feature = "access-traces")]
    pub fn functions(&mut self, memory: usize, functions: &[Function]) {
        (self.add)(memory, Part::Functions(functions));
    }

    /// Passes on a restart of the clock.
    pub fn restart(&mut self, memory: usize) {
        (self.add)(memory, Part::Restart);
    }

    /// What is known in the end.
    pub fn finish(self) -> Ending {
        self.ending
    }
}
