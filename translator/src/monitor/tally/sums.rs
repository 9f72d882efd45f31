//! Converts the counts of numbers to counts of blocks, edges and superblocks.

use super::super::balance;
use super::super::code::{Blocks, End, Numbered};
use super::super::counted::{BlockTally, Counted, Sums, Superblock};
use super::super::indirect::Edge;
use super::super::table::Total;
use super::Tally;

impl Tally {
    /// Counts of blocks so far.
    pub fn sums(&mut self) -> Sums {
        let totals = self.table.totals().to_vec();
        let mut blocks = vec![BlockTally::default(); totals.len()];
        let (mut edges, mut inner_edges) = (Vec::new(), Vec::new());
        self.executions(&totals, &mut blocks, &mut inner_edges);
        for number in 1..=self.table.known() {
            let (total, rare) = (totals[number as usize], self.rare[number as usize]);
            blocks[number as usize].other_edges += rare.others;
            if total.executions == 0 && rare.starts == 0 {
                continue;
            }
            let parts = self.table.blocks_of(&number);
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else { continue };
            blocks[*first as usize].starts += rare.starts;
            blocks[*last as usize].stops += rare.stops;
            let Some(code) = self.table.block(*last) else { continue };
            let left = self.table.left_before(number).and_then(|next| self.table.block(next));
            match (code.end, left) {
                (End::Conditional { .. }, Some(next)) => {
                    if next.start == code.next {
                        let branches = total.executions.saturating_sub(rare.stops);
                        blocks[*last as usize].taken += branches;
                    }
                }
                (End::Conditional { .. }, None) => {
                    blocks[*last as usize].taken += rare.taken + total.expected;
                }
                _ => {
                    if let Some(to) = self.table.expected(number) {
                        self.transfer(*last, to, total.expected, &mut blocks, &mut edges);
                    }
                }
            }
        }
        Sums { blocks, edges, inner_edges }
    }

    /// Adds the executions of blocks, and the transfers within paths. The numbers of a path's parts
    /// are lower than the number of the whole path.
    fn executions(
        &self,
        totals: &[Total],
        blocks: &mut [BlockTally],
        edges: &mut Vec<(Edge, u64)>,
    ) {
        for number in 1..=self.table.known() {
            let at = number as usize;
            match self.table.numbered(number) {
                Some(Numbered::Block(_)) => blocks[at].executions += totals[at].executions,
                Some(Numbered::Path { blocks: path, length }) if *length == path.len() => {
                    let mut executions = 0;
                    for place in (0..*length).rev() {
                        let (block, next) = (path[place], path.get(place + 1));
                        if let Some(next) = next.filter(|_| executions > 0) {
                            self.transfer(block, *next, executions, blocks, edges);
                        }
                        executions += totals[at - (*length - 1 - place)].executions;
                        blocks[block as usize].executions += executions;
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds transfers from a block to the next one.
    fn transfer(
        &self,
        from: u32,
        to: u32,
        times: u64,
        blocks: &mut [BlockTally],
        edges: &mut Vec<(Edge, u64)>,
    ) {
        let (Some(code), Some(next)) = (self.table.block(from), self.table.block(to)) else {
            return;
        };
        match code.end {
            End::Conditional { to } if next.start == to => blocks[from as usize].taken += times,
            end if end.is_indirect() && times > 0 => edges.push((Edge { from, to }, times)),
            _ => {}
        }
    }

    /// The superblocks that were executed, with their counts.
    fn superblocks(&mut self, numbered: &dyn Blocks) -> Vec<Superblock> {
        let totals = self.table.totals().to_vec();
        let mut superblocks = Vec::new();
        let mut executions = 0;
        let mut blocks_executed = 0;
        let mut ticks = 0;
        for number in 1..=self.table.known() {
            let Some(Numbered::Path { blocks, length }) = self.table.numbered(number) else {
                continue;
            };
            let count = totals[number as usize].executions;
            executions += count;
            blocks_executed += count * *length as u64;
            ticks += self.times.of(number);
            // A superblock may never have been executed.
            if *length == blocks.len() && executions > 0 {
                superblocks.push(Superblock {
                    blocks: blocks.to_vec(),
                    executions: std::mem::take(&mut executions),
                    completed: count,
                    blocks_executed: std::mem::take(&mut blocks_executed),
                    ticks: std::mem::take(&mut ticks),
                    is_undone: !numbered.is_in_use(number),
                });
            }
        }
        superblocks
    }

    /// All results of counting.
    pub fn result(mut self, numbered: &dyn Blocks) -> Counted {
        let Sums { mut blocks, edges: more, inner_edges } = self.sums();
        let superblocks = self.superblocks(numbered);
        let mut edges = self.edges;
        for (edge, times) in more.into_iter().chain(inner_edges) {
            if !edges.add(edge, times) {
                blocks[edge.to as usize].other_edges += times;
            }
        }
        let mut counted = Counted {
            blocks,
            edges: edges.sorted(),
            calls: self.calls,
            numbers: self.numbers,
            invalid: self.invalid,
            unbalanced: None,
            ticks: self.times.total,
            models: self.models,
            superblocks,
            intervals: self.intervals.map(|(_, mut intervals)| {
                intervals.end();
                intervals
            }),
        };
        if self.recording.edges {
            counted.unbalanced = Some(balance::unbalanced(&counted, &self.table));
        }
        counted
    }
}
