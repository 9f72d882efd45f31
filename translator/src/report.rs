//! Analyses profiles: computes edges and functions, shows code with counts, and writes formats of
//! other programs.
//!
//! [`Analysis`] relates the blocks of a profile. [`functions`] and [`sites`] are tables of it;
//! [`annotation`], [`callgrind`] and [`dot`] are texts. [`lines`] finds source lines in the files
//! that the profile names.
//!
//! Profiles are not trusted: sums saturate, and time and memory are linear in the size of the
//! profile, besides sorting.

pub mod annotation;
pub mod callgrind;
pub mod disassembly;
pub mod dot;
pub mod functions;
pub mod lines;
pub mod sites;

use std::collections::HashMap;

use hmtt_files::profile::{Block, BlockEnd, Profile, Superblock};

/// How one block leads to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// To the next instruction.
    Next,
    /// By a jump, or by a conditional jump that was taken.
    Jump,
    /// By a call.
    Call,
    /// By a jump to an address in a register or in memory.
    IndirectJump,
    /// By a call of an address in a register or in memory.
    IndirectCall,
    /// By a return.
    Return,
}

impl EdgeKind {
    /// The kind of edges from a block that ends with an indirect transfer.
    fn of_indirect(end: BlockEnd) -> Self {
        match end {
            BlockEnd::IndirectCall => EdgeKind::IndirectCall,
            BlockEnd::Return => EdgeKind::Return,
            _ => EdgeKind::IndirectJump,
        }
    }

    /// Whether it is a call, direct or indirect.
    pub fn is_call(self) -> bool {
        matches!(self, EdgeKind::Call | EdgeKind::IndirectCall)
    }
}

/// A transfer from one block to another that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge<'p> {
    /// Block that ends with the transfer.
    pub from: &'p Block,
    /// Block at the target; `None` if no executed block begins there.
    pub to: Option<&'p Block>,
    /// How the block leads to the target.
    pub kind: EdgeKind,
    /// How often it was executed.
    pub times: u64,
}

/// A profile with its blocks by address.
#[derive(Debug)]
pub struct Analysis<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// Indexes of blocks by their address in the process. Of several blocks at an address, it has
    /// the last one.
    by_address: HashMap<u64, usize>,
}

impl<'p> Analysis<'p> {
    /// Prepares the analysis of a profile.
    pub fn new(profile: &'p Profile) -> Self {
        let blocks = profile.blocks.iter().enumerate();
        let by_address = blocks.map(|(at, block)| (block.code_address, at)).collect();
        Analysis { profile, by_address }
    }

    /// The block that begins at an address in the process.
    pub fn block_at(&self, address: u64) -> Option<&'p Block> {
        Some(&self.profile.blocks[*self.by_address.get(&address)?])
    }

    /// All superblocks, in descending order of the numbers that they have saved.
    pub fn superblocks(&self) -> Vec<&'p Superblock> {
        let mut superblocks: Vec<&Superblock> = self.profile.superblocks.iter().collect();
        superblocks.sort_by_key(|superblock| std::cmp::Reverse(superblock.saved_numbers()));
        superblocks
    }

    /// All edges that were executed. There are none if only executions were recorded.
    pub fn edges(&self) -> Vec<Edge<'p>> {
        let blocks = self.profile.blocks.iter();
        let direct = blocks.flat_map(|from| {
            self.direct(from).into_iter().map(move |(kind, address, times)| Edge {
                from,
                to: self.block_at(address),
                kind,
                times,
            })
        });
        let indirect = self.profile.edges.iter().filter_map(|edge| {
            let from = self.profile.block(edge.from)?;
            let (to, kind) = (self.profile.block(edge.to), EdgeKind::of_indirect(from.end));
            Some(Edge { from, to, kind, times: edge.times })
        });
        direct.chain(indirect).filter(|edge| edge.times > 0).collect()
    }

    /// Edges that follow from the executions of a block: kind, address of the target, and how
    /// often.
    ///
    /// A block that ends with `je`, was left 11 times and jumped once has an edge to the target
    /// with 1, and an edge to the next instruction with 10.
    fn direct(&self, from: &Block) -> [(EdgeKind, u64, u64); 2] {
        let none = (EdgeKind::Next, 0, 0);
        if self.profile.unbalanced_blocks.is_none() {
            return [none; 2];
        }
        let (left, next) = (from.left(), from.next_address());
        match (from.end, from.target_address) {
            (BlockEnd::Jump, Some(to)) => [(EdgeKind::Jump, to, left), none],
            (BlockEnd::Call, Some(to)) => [(EdgeKind::Call, to, left), none],
            (BlockEnd::Conditional, Some(to)) => {
                let rest = left.saturating_sub(from.taken);
                [(EdgeKind::Jump, to, from.taken), (EdgeKind::Next, next, rest)]
            }
            (BlockEnd::SystemCall | BlockEnd::Next, _) => [(EdgeKind::Next, next, left), none],
            _ => [none; 2],
        }
    }
}

/// Sum of counts, at most the largest number.
pub fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// The address that a user knows: the address in the file, or else in the process.
pub fn shown_address(block: &Block) -> u64 {
    block.file_address.unwrap_or(block.code_address)
}

/// A block as `FUNCTION+OFFSET`, such as `f+0x4`, or as its address if its function is not known.
pub fn place(block: &Block) -> String {
    match (&block.function, block.offset) {
        (Some(name), Some(offset)) => {
            format!("{}+{offset:#x}", hmtt_format::escape::name(name))
        }
        _ => format!("{:#x}", shown_address(block)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hmtt_files::profile::{IndirectEdge, Recorded};

    /// A block of function `f` with the end `end`.
    pub fn block(number: u32, at: u64, code: &[u8], end: BlockEnd, entries: u64) -> Block {
        Block {
            number,
            object: "/bin/p".into(),
            function: Some("f".into()),
            offset: Some(at),
            code_address: 0x5000 + at,
            file_address: Some(0x1000 + at),
            size_bytes: code.len() as u64,
            instructions: if code.len() > 2 { 2 } else { 1 },
            entries,
            code: code.into(),
            end,
            ..Block::default()
        }
    }

    /// A profile of a loop in `f`, which calls `g` indirectly ten times. `g` returns at once.
    pub fn profile() -> Profile {
        // dec ecx; je +4 | call rax | jmp -8 | ret
        let head = block(1, 0, &[0xff, 0xc9, 0x74, 4], BlockEnd::Conditional, 11);
        let head = Block { starts: 1, taken: 1, target_address: Some(0x5008), ..head };
        let call = block(2, 4, &[0xff, 0xd0], BlockEnd::IndirectCall, 10);
        let back = block(3, 6, &[0xeb, 0xf8], BlockEnd::Jump, 10);
        let back = Block { target_address: Some(0x5000), ..back };
        let end = Block { stops: 1, ..block(4, 8, &[0xc3], BlockEnd::Return, 1) };
        let callee = block(7, 0x20, &[0x90, 0x90, 0xc3], BlockEnd::Return, 10);
        let callee = Block { function: Some("g".into()), offset: Some(0), ..callee };
        Profile {
            recorded: Recorded::Edges,
            unbalanced_blocks: Some(0),
            blocks: vec![head, call, back, end, callee],
            edges: vec![
                IndirectEdge { from: 2, to: 7, times: 10 },
                IndirectEdge { from: 7, to: 3, times: 10 },
            ],
            ..Profile::default()
        }
    }

    #[test]
    fn edges_add_up_to_executions() {
        let profile = profile();
        let edges = Analysis::new(&profile).edges();
        for block in &profile.blocks {
            let into = edges.iter().filter(|edge| edge.to == Some(block)).map(|edge| edge.times);
            assert_eq!(sum(into) + block.starts, block.entries, "{}", block.number);
        }
        assert_eq!(edges.len(), 5);
        assert_eq!(place(&profile.blocks[1]), "f+0x4");
        let counts = Profile { unbalanced_blocks: None, edges: Vec::new(), ..profile };
        assert_eq!(Analysis::new(&counts).edges(), []);
    }
}
