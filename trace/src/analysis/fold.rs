//! Keeps one instance of an analysis for each memory of the sources, and merges the instances at
//! the end. A pair of analyses and an optional analysis are analyses, too.

use super::{Analysis, Batch, Detail, ElementRange, FrequencySlice, Gap, Known, PageRun};

/// The instances of an analysis, one for each memory: each card of each capture, and each program.
///
/// Memories are numbered from 0 in the order in which sources are read. Results number them from 1:
/// `source` 1 is memory 0.
#[derive(Clone, Debug)]
pub struct Fold<A> {
    new: A,
    memories: Vec<Pieces<A>>,
}

/// The states of an analysis of one memory.
#[derive(Clone, Debug)]
struct Pieces<A> {
    /// The state after the pieces before the last one; `None` within the first piece.
    before: Option<A>,
    last: A,
}

impl<A: Analysis> Pieces<A> {
    /// Ends the last piece. `new`: an analysis without accesses, for the next piece.
    fn end(&mut self, new: A) {
        let ended = std::mem::replace(&mut self.last, new);
        match &mut self.before {
            Some(before) => before.append(ended),
            None => self.before = Some(ended),
        }
    }

    fn finish(self) -> A {
        match self.before {
            Some(mut whole) => {
                whole.append(self.last);
                whole
            }
            None => self.last,
        }
    }
}

impl<A: Analysis + Clone> Fold<A> {
    /// Begins without memories. `analysis`: an analysis without accesses, with which each instance
    /// begins.
    pub fn new(analysis: A) -> Self {
        Fold { new: analysis, memories: Vec::new() }
    }

    fn pieces(&mut self, memory: usize) -> &mut Pieces<A> {
        while self.memories.len() <= memory {
            self.memories.push(Pieces { before: None, last: self.new.clone() });
        }
        &mut self.memories[memory]
    }

    /// The instance for the last piece of a memory.
    fn of(&mut self, memory: usize) -> &mut A {
        &mut self.pieces(memory).last
    }

    /// Passes on what is known of a memory.
    pub fn known(&mut self, memory: usize, known: &Known) {
        self.of(memory).known(known);
    }

    /// Passes on accesses to a memory.
    pub fn add(&mut self, memory: usize, batch: &Batch<'_>) {
        self.of(memory).add(batch);
    }

    /// Passes on elements of a string instruction as a whole.
    pub fn elements(&mut self, memory: usize, range: &ElementRange) {
        self.of(memory).elements(range);
    }

    /// Passes on accesses to one page of a memory.
    pub fn page_run(&mut self, memory: usize, run: &PageRun) {
        self.of(memory).page_run(run);
    }

    /// Passes on accesses to a memory in a slice of time.
    pub fn frequency_slice(&mut self, memory: usize, slice: &FrequencySlice) {
        self.of(memory).frequency_slice(slice);
    }

    /// Passes on a gap in the accesses to a memory.
    pub fn gap(&mut self, memory: usize, gap: &Gap) {
        self.of(memory).gap(gap);
    }

    /// Passes on a restart: the clock of a memory's accesses begins at 0 again.
    pub fn restart(&mut self, memory: usize) {
        self.of(memory).restart();
    }

    /// Ends a piece of the accesses to a memory. A new instance analyses the accesses that follow,
    /// and is appended later. So the result is the same as if the pieces were analysed separately.
    pub fn end_piece(&mut self, memory: usize) {
        let new = self.new.clone();
        self.pieces(memory).end(new);
    }

    /// Appends a state of the analysis that was computed elsewhere, for the next piece of the
    /// accesses to a memory. [`Fold::end_piece`] must have ended the piece before, whose state is
    /// otherwise lost.
    pub fn append(&mut self, memory: usize, piece: A) {
        let new = self.new.clone();
        let pieces = self.pieces(memory);
        pieces.last = piece;
        pieces.end(new);
    }

    /// Merges the instances in order.
    pub fn finish(self) -> A {
        let mut analyses = self.memories.into_iter().map(Pieces::finish);
        let first = analyses.next().unwrap_or(self.new);
        analyses.fold(first, |mut sum, analysis| {
            sum.merge(analysis);
            sum
        })
    }
}

/// Passes the same accesses to both analyses.
impl<A: Analysis, B: Analysis> Analysis for (A, B) {
    type Result = (A::Result, B::Result);

    fn known(&mut self, known: &Known) {
        self.0.known(known);
        self.1.known(known);
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.0.add(batch);
        self.1.add(batch);
    }

    fn elements(&mut self, range: &ElementRange) {
        self.0.elements(range);
        self.1.elements(range);
    }

    fn needs(&self) -> Detail {
        self.0.needs().max(self.1.needs())
    }

    fn page_run(&mut self, run: &PageRun) {
        self.0.page_run(run);
        self.1.page_run(run);
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.0.frequency_slice(slice);
        self.1.frequency_slice(slice);
    }

    fn gap(&mut self, gap: &Gap) {
        self.0.gap(gap);
        self.1.gap(gap);
    }

    fn restart(&mut self) {
        self.0.restart();
        self.1.restart();
    }

    fn append(&mut self, later: Self) {
        self.0.append(later.0);
        self.1.append(later.1);
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
        self.1.merge(other.1);
    }

    fn result(&self) -> Self::Result {
        (self.0.result(), self.1.result())
    }
}

/// An analysis that may be absent; accesses are then ignored.
impl<A: Analysis> Analysis for Option<A> {
    type Result = Option<A::Result>;

    fn known(&mut self, known: &Known) {
        self.iter_mut().for_each(|analysis| analysis.known(known));
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.iter_mut().for_each(|analysis| analysis.add(batch));
    }

    fn elements(&mut self, range: &ElementRange) {
        self.iter_mut().for_each(|analysis| analysis.elements(range));
    }

    fn needs(&self) -> Detail {
        self.as_ref().map_or(Detail::Time, A::needs)
    }

    fn page_run(&mut self, run: &PageRun) {
        self.iter_mut().for_each(|analysis| analysis.page_run(run));
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.iter_mut().for_each(|analysis| analysis.frequency_slice(slice));
    }

    fn gap(&mut self, gap: &Gap) {
        self.iter_mut().for_each(|analysis| analysis.gap(gap));
    }

    fn restart(&mut self) {
        self.iter_mut().for_each(|analysis| analysis.restart());
    }

    fn append(&mut self, later: Self) {
        if let (Some(earlier), Some(later)) = (self, later) {
            earlier.append(later);
        }
    }

    fn merge(&mut self, other: Self) {
        if let (Some(analysis), Some(other)) = (self, other) {
            analysis.merge(other);
        }
    }

    fn result(&self) -> Self::Result {
        self.as_ref().map(A::result)
    }
}
