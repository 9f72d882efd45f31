//! Numbers the memories of a source, and keeps the known facts of each memory.

#[cfg(feature = "access-traces")]
use hmtt_files::access_trace::Function;

#[cfg(feature = "access-traces")]
use super::ElementRange;
use super::{Batch, Ending, FrequencySlice, Gap, Known, PageRun, Part, SourceError, counted};
use crate::decode::Item;
use crate::identity::CardId;

/// Maximum number of memories of a source. Each memory has an instance of the analysis.
pub const MOST_MEMORIES: usize = 1024;

/// Passes on the parts of a source with the numbers of their memories, and collects the [`Ending`].
pub struct Memories<'a> {
    add: &'a mut dyn FnMut(usize, Part<'_>),
    /// The card of each memory.
    cards: Vec<CardId>,
    /// The memory that was looked up last.
    last: usize,
    ending: Ending,
    /// Order of the clocks of each memory.
    clocks: Vec<ClockOrder>,
}

/// Order of the clocks of a memory: counts how often a clock is lower than the clock before it.
#[derive(Clone, Copy, Default)]
struct ClockOrder {
    /// Clock of the last access; `None` at the begin of a session.
    last: Option<u64>,
    /// Number of accesses whose clock is lower than the clock of the access before.
    backward: u64,
}

impl ClockOrder {
    fn add(&mut self, clocks: &[u64]) {
        let (Some(first), Some(last)) = (clocks.first(), clocks.last()) else { return };
        self.backward += u64::from(self.last.is_some_and(|before| before > *first));
        self.last = Some(*last);
        if !clocks.is_sorted() {
            let pairs = clocks.windows(2).filter(|pair| pair[0] > pair[1]);
            self.backward += pairs.count() as u64;
        }
    }
}

impl<'a> Memories<'a> {
    pub fn new(add: &'a mut dyn FnMut(usize, Part<'_>)) -> Self {
        Memories { add, cards: Vec::new(), last: 0, ending: Ending::default(), clocks: Vec::new() }
    }

    /// The memory of a card. `known`: returns the facts that are known of a new memory.
    pub fn of(
        &mut self,
        card: CardId,
        known: impl FnOnce() -> Known,
    ) -> Result<usize, SourceError> {
        if self.cards.get(self.last) != Some(&card) {
            let position = self.cards.iter().position(|known| *known == card);
            self.last = match position {
                Some(position) => position,
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

    /// The facts that are known of a memory up to here.
    pub fn now(&self, memory: usize) -> Known {
        self.ending.memories.get(memory).copied().unwrap_or_default()
    }

    /// Passes on the facts that are known of a memory.
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
            if let Some(clocks) = batch.clocks() {
                self.order_of(memory).add(clocks);
            }
            (self.add)(memory, Part::Batch(batch));
        }
    }

    /// Passes on elements of a string instruction as a whole.
    #[cfg(feature = "access-traces")]
    pub fn elements(&mut self, memory: usize, range: ElementRange) {
        self.ending.accesses = self.ending.accesses.saturating_add(range.elements);
        (self.add)(memory, Part::Elements(range));
    }

    /// Passes on accesses to one page.
    pub fn page_run(&mut self, memory: usize, run: PageRun) {
        self.ending.accesses = self.ending.accesses.saturating_add(run.accesses());
        self.ending.coarse.add_run(&run);
        self.order_of(memory).add(&[run.clock]);
        (self.add)(memory, Part::PageRun(run));
    }

    /// Passes on accesses in a slice of time.
    pub fn frequency_slice(&mut self, memory: usize, slice: FrequencySlice) {
        self.ending.accesses = self.ending.accesses.saturating_add(slice.accesses());
        self.ending.coarse.add_slice(&slice);
        (self.add)(memory, Part::FrequencySlice(slice));
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
        self.order_of(memory).last = None;
        (self.add)(memory, Part::Restart);
    }

    fn order_of(&mut self, memory: usize) -> &mut ClockOrder {
        if self.clocks.len() <= memory {
            self.clocks.resize(memory + 1, ClockOrder::default());
        }
        &mut self.clocks[memory]
    }

    /// The ending, with a note if clocks go back.
    pub fn finish(mut self) -> Ending {
        self.ending.notes.extend(self.backward_clocks());
        self.ending
    }

    /// A note for people that clocks go back; `None` if they do not.
    pub fn backward_clocks(&self) -> Option<String> {
        let backward: u64 = self.clocks.iter().map(|order| order.backward).sum();
        let times = counted(backward, "time", "times");
        (backward > 0).then(|| {
            format!(
                "the clock goes back {times}: accesses are not in the order of time, so that phases, slices and what depends \
                 on the order are those of the file's order; sort the file by clock"
            )
        })
    }
}
