//! Decides which superblocks are built: finds hot blocks, and the paths that threads usually take
//! from them.
//!
//! A path begins at a block that was executed often by itself, or at a block to which an indirect
//! transfer often led (CN101593125 gives 3,000 and 5,000 times). The path follows the most frequent
//! successors. It ends
//!
//! - before a successor that is already on the path. There is one exception: if the successor is
//!   the path's first block and the path is short, the loop is unrolled;
//! - after a system call, and where no successor is frequent enough (`LEAST_SHARE`);
//! - where threads rarely arrive (`LEAST_REACHED`);
//! - at its greatest length (`MOST_BLOCKS`).
//!
//! If a call is on the path, its return is expected to lead to the block after the call.
//!
//! Example: block 1 is often executed, and leads to block 2 in 90 % of the cases. Block 2 jumps
//! back to block 1 in 95 % of the cases. The path is 1, 2, 1, 2 and so on, up to `MOST_UNROLLED`
//! blocks.

use std::cmp::Reverse;
use std::collections::HashMap;

use hmtt_probe::address::RunAddr;

use super::code::{Blocks, End, Numbered};
use super::counted::{BlockTally, Sums};
use super::indirect::{Edge, Edges};
use super::table::{Table, Total};

/// Maximum number of blocks of a path, and of a path that contains its first block several times.
const MOST_BLOCKS: usize = 48;
const MOST_UNROLLED: usize = 24;
/// Least share that the most frequent successor of an indirect block must have in the executions of
/// the block.
const LEAST_SHARE: f64 = 0.6;
/// Least share of a path's executions that reach its end, estimated from the shares of successors.
const LEAST_REACHED: f64 = 0.1;
/// Estimated share of returns that lead to the block after the call.
const RETURNED: f64 = 0.98;
/// Maximum number of superblocks that are tried at one decision, and maximum number of tries with
/// the same first block.
const MOST_BUILT: usize = 128;
const MOST_REBUILT: u32 = 8;
/// Number of decisions without a new superblock of a block, after which the block is made silent.
const MOST_IN_VAIN: u32 = 3;
/// Maximum number of superblocks of a process. Their code is never freed.
const MOST_SUPERBLOCKS: usize = 8192;
/// A superblock is judged after `COLD_EXECUTIONS` executions. It is cold if less than the share
/// `COLD_SHARE` of the executions reaches its end, and they execute less than `COLD_BLOCKS` blocks
/// on average.
const COLD_EXECUTIONS: u64 = 3000;
const COLD_SHARE: f64 = 0.05;
const COLD_BLOCKS: f64 = 2.0;

/// Number of executions after which a superblock is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Executions of a block by itself, outside of superblocks.
    pub block: u64,
    /// Transfers along an indirect edge that leads to a block.
    pub edge: u64,
}

impl Thresholds {
    /// Thresholds if only some of the chunks are counted, so that fewer executions of a hot block
    /// are counted between decisions.
    pub const OF_SOME_CHUNKS: Thresholds = Thresholds { block: 500, edge: 800 };
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { block: 3000, edge: 5000 }
    }
}

/// A superblock that is in use.
#[derive(Clone, Copy, Debug)]
struct Built {
    head: u32,
    /// Number of the repeated path as a whole, which is executed directly after this one.
    repeated: Option<u32>,
    /// Counts when the superblock was judged last: executions, executions of the whole path,
    /// executed blocks.
    seen: [u64; 3],
}

/// Tries to build superblocks that begin with a block.
#[derive(Clone, Debug, Default)]
struct Tries {
    count: u32,
    /// The path that was tried last.
    path: Vec<u32>,
    /// Number of decisions at which no other path was tried.
    in_vain: u32,
}

/// A block from which a superblock may be built.
struct Candidate {
    /// Recent executions of the block by itself, or of the superblock that begins with it.
    executions: u64,
    start: RunAddr,
    head: u32,
    /// Number of the superblock in use that begins with the block. It may become longer.
    superblock: Option<u32>,
}

/// State of the decisions about superblocks.
#[derive(Clone, Debug, Default)]
pub struct Hot {
    before: Before,
    /// Superblocks in use, by the number of the whole path.
    built: HashMap<u32, Built>,
    /// Tries by first block of the path.
    tries: HashMap<u32, Tries>,
    /// Number of all tries to build a superblock.
    all_tries: usize,
    /// Highest number that was examined for new superblocks.
    known: u32,
}

/// Counts at the last decision, from which recent counts are computed.
#[derive(Clone, Debug, Default)]
struct Before {
    /// Executions of each number.
    own: Vec<u64>,
    blocks: Vec<BlockTally>,
    edges: HashMap<Edge, u64>,
    inner_edges: HashMap<Edge, u64>,
}

/// Counts since the last decision.
struct Recent<'a> {
    table: &'a Table,
    /// Executions of each number.
    own: Vec<u64>,
    /// Executions, stops and taken jumps of each block.
    blocks: Vec<BlockTally>,
    /// The most frequent successor of each indirect block, and its number of transfers.
    successors: HashMap<u32, (u32, u64)>,
    /// Transfers along the most frequent indirect edge to each block, not counting transfers within
    /// paths.
    entered: HashMap<u32, u64>,
}

impl Before {
    /// The counts since the last call.
    fn recent<'t>(
        &mut self,
        table: &'t Table,
        totals: &[Total],
        sums: Sums,
        edges: &mut Edges,
    ) -> Recent<'t> {
        let mut counts: HashMap<Edge, u64> = edges.take_recent().collect();
        add_recent(sums.edges, &mut self.edges, &mut counts);
        let mut entered: HashMap<u32, u64> = HashMap::new();
        for (edge, times) in &counts {
            let most = entered.entry(edge.to).or_default();
            *most = (*most).max(*times);
        }
        add_recent(sums.inner_edges, &mut self.inner_edges, &mut counts);
        let mut successors: HashMap<u32, (u32, u64)> = HashMap::new();
        for (edge, times) in counts {
            let most = successors.entry(edge.from).or_insert((edge.to, times));
            if (times, edge.to) > (most.1, most.0) {
                *most = (edge.to, times);
            }
        }
        let own: Vec<u64> = totals.iter().map(|total| total.executions).collect();
        let before = std::mem::replace(&mut self.own, own);
        let own = self.own.iter().zip(padded(&before)).map(|(now, seen)| since(*now, seen));
        let own = own.collect();
        let before = std::mem::replace(&mut self.blocks, sums.blocks);
        let blocks = self.blocks.iter().zip(padded(&before)).map(|(now, seen)| {
            let seen = seen.unwrap_or_default();
            BlockTally {
                executions: now.executions.saturating_sub(seen.executions),
                stops: now.stops.saturating_sub(seen.stops),
                taken: now.taken.saturating_sub(seen.taken),
                ..BlockTally::default()
            }
        });
        let blocks = blocks.collect();
        Recent { table, own, blocks, successors, entered }
    }
}

/// Adds the increase of counts of edges to `recent`. `before`: the counts at the last call, which
/// are replaced by `now`.
fn add_recent(
    now: Vec<(Edge, u64)>,
    before: &mut HashMap<Edge, u64>,
    recent: &mut HashMap<Edge, u64>,
) {
    let mut sums: HashMap<Edge, u64> = HashMap::with_capacity(now.len());
    for (edge, times) in now {
        *sums.entry(edge).or_default() += times;
    }
    for (edge, times) in &sums {
        *recent.entry(*edge).or_default() += since(*times, before.get(edge).copied());
    }
    *before = sums;
}

/// The increase of a count.
fn since(now: u64, seen: Option<u64>) -> u64 {
    now.saturating_sub(seen.unwrap_or(0))
}

/// The elements, and then `None` without end.
fn padded<T: Copy>(elements: &[T]) -> impl Iterator<Item = Option<T>> {
    elements.iter().copied().map(Some).chain(std::iter::repeat(None))
}

impl Hot {
    /// Builds superblocks of hot paths, and stops using superblocks that have become cold.
    pub fn decide(
        &mut self,
        thresholds: Thresholds,
        table: &Table,
        totals: &[Total],
        sums: Sums,
        edges: &mut Edges,
        blocks: &dyn Blocks,
    ) {
        self.note_built(table, blocks);
        self.undo_cold(table, totals, blocks);
        let recent = self.before.recent(table, totals, sums, edges);
        let mut is_covered = vec![false; totals.len()];
        let mut new_tries = 0;
        for Candidate { head, superblock, .. } in self.candidates(thresholds, &recent) {
            let tries = self.tries.entry(head).or_default();
            if is_covered[head as usize] {
                continue;
            }
            let path = recent.path(head);
            let has_none = path.len() < 2 || tries.count >= MOST_REBUILT || tries.path == path;
            if has_none && superblock.is_none() {
                tries.in_vain += 1;
                // If superblocks with this block are built at all, some of them are in use by now.
                if tries.in_vain == MOST_IN_VAIN {
                    blocks.silence(head);
                }
            }
            if tries.count >= MOST_REBUILT {
                continue;
            }
            // A path that has become cold is not built again. A superblock is replaced only by one
            // that is at least twice as long.
            let is_extended = path.len() >= 2 * tries.path.len() && path.starts_with(&tries.path);
            if path.len() < 2 || tries.path == path || superblock.is_some() && !is_extended {
                continue;
            }
            if new_tries == MOST_BUILT || self.all_tries == MOST_SUPERBLOCKS {
                break;
            }
            (new_tries, self.all_tries) = (new_tries + 1, self.all_tries + 1);
            if blocks.build(&path) {
                path.iter().for_each(|block| is_covered[*block as usize] = true);
            }
            (tries.count, tries.path) = (tries.count + 1, path);
        }
    }

    /// Blocks with which superblocks may begin, the hottest first.
    fn candidates(&self, thresholds: Thresholds, recent: &Recent<'_>) -> Vec<Candidate> {
        let in_use: HashMap<u32, u32> =
            self.built.iter().map(|(number, built)| (built.head, *number)).collect();
        let mut candidates = Vec::new();
        for head in 1..=recent.table.known() {
            let Some(code) = recent.table.block(head) else { continue };
            let superblock = in_use.get(&head).copied();
            let repeated = superblock.and_then(|number| self.built.get(&number)?.repeated);
            let own = |number: u32| recent.own[number as usize];
            let executions = own(superblock.unwrap_or(head)) + repeated.map_or(0, own);
            let entered = recent.entered.get(&head).copied().unwrap_or(0);
            if executions >= thresholds.block || executions > 0 && entered >= thresholds.edge {
                candidates.push(Candidate { executions, start: code.start, head, superblock });
            }
        }
        candidates.sort_unstable_by_key(|candidate| {
            (Reverse(candidate.executions), candidate.start, candidate.head)
        });
        candidates
    }

    /// Adds the superblocks that were built since the last call.
    fn note_built(&mut self, table: &Table, of_program: &dyn Blocks) {
        for number in self.known + 1..=table.known() {
            let Some(Numbered::Path { blocks, length }) = table.numbered(number) else { continue };
            if *length < blocks.len() {
                continue;
            }
            // A repeated path has the numbers after the first path, and no other code leads to it.
            let (head, first) = (blocks[0], number - *length as u32);
            let has_first = self.built.get(&first).is_some_and(|first| first.head == head);
            if has_first && !of_program.is_in_use(number) {
                self.built.entry(first).and_modify(|first| first.repeated = Some(number));
            } else {
                self.built.insert(number, Built { head, repeated: None, seen: [0; 3] });
            }
        }
        self.known = table.known();
    }

    /// Stops using superblocks that threads usually leave at once.
    fn undo_cold(&mut self, table: &Table, totals: &[Total], blocks: &dyn Blocks) {
        self.built.retain(|number, built| {
            let Some(Numbered::Path { length, .. }) = table.numbered(*number) else {
                return false;
            };
            if !blocks.is_in_use(*number) {
                return false;
            }
            let mut now = [0; 3];
            for whole in [Some(*number), built.repeated].into_iter().flatten() {
                for (executed, number) in (1..=*length as u64).zip(whole + 1 - *length as u32..) {
                    let count = totals[number as usize].executions;
                    now[0] += count;
                    now[1] += if number == whole { count } else { 0 };
                    now[2] += count * executed;
                }
            }
            let [executions, completed, executed] =
                std::array::from_fn(|at| (now[at] - built.seen[at]) as f64);
            if executions < COLD_EXECUTIONS as f64 {
                return true;
            }
            built.seen = now;
            let is_cold =
                completed < COLD_SHARE * executions && executed < COLD_BLOCKS * executions;
            if is_cold {
                blocks.undo(*number);
            }
            !is_cold
        });
    }
}

impl Recent<'_> {
    /// The path that threads usually take from a block. It has only this block if there is no
    /// better one.
    fn path(&self, head: u32) -> Vec<u32> {
        let mut path = vec![head];
        let mut returns: Vec<RunAddr> = Vec::new();
        let mut reached = 1.0;
        // Number of blocks of the loop back to the first block, once it is found.
        let mut round = None;
        while path.len() < MOST_BLOCKS {
            let last = path[path.len() - 1];
            let Some((next, share)) = self.next(last, &mut returns) else { break };
            reached *= share;
            if reached < LEAST_REACHED {
                break;
            }
            if next == head {
                let blocks = *round.get_or_insert(path.len());
                if path.len() + blocks > MOST_UNROLLED {
                    break;
                }
            } else if path.contains(&next)
                && round.is_none_or(|blocks| path[path.len() - blocks] != next)
            {
                break;
            }
            path.push(next);
        }
        path
    }

    /// The most frequent successor of a block, and its share of the executions. `returns`: return
    /// addresses of the calls on the path.
    fn next(&self, number: u32, returns: &mut Vec<RunAddr>) -> Option<(u32, f64)> {
        let block = self.table.block(number)?;
        let tally = &self.blocks[number as usize];
        let left = tally.executions.saturating_sub(tally.stops).max(1) as f64;
        let most = || {
            let (to, times) = self.successors.get(&number)?;
            let share = *times as f64 / left;
            (share >= LEAST_SHARE).then_some((*to, share.min(1.0)))
        };
        let next = match block.end {
            End::Jump { to } => Some((self.table.at(to)?, 1.0)),
            End::Call { to } => {
                returns.push(block.next);
                Some((self.table.at(to)?, 1.0))
            }
            End::Conditional { to } => {
                let branch_share = tally.taken as f64 / left;
                let (to, share) = if branch_share > 0.5 {
                    (to, branch_share)
                } else {
                    (block.next, 1.0 - branch_share)
                };
                Some((self.table.at(to)?, share.min(1.0)))
            }
            End::FallThrough => Some((self.table.at(block.next)?, 1.0)),
            End::IndirectCall => {
                returns.push(block.next);
                most()
            }
            End::IndirectJump => most(),
            End::Return => match returns.pop() {
                Some(to) => Some((self.table.at(to)?, RETURNED)),
                None => most(),
            },
            End::SystemCall => None,
        };
        next.filter(|(next, _)| self.blocks[*next as usize].executions > 0)
    }
}
