//! Splits a function into basic blocks and finds its loops.
//!
//! A block begins at the function's first instruction, at the target of a branch, of a jump table
//! or of the unwinder, and behind a branch or a return. A call does not end a block, because it
//! returns to the middle of the block.
//!
//! ```text
//!         xor eax, eax        block 1: first instruction
//! again:  add eax, [rdi]      block 2: target of a branch, head of a loop
//!         add rdi, 4
//!         dec esi
//!         jne again
//!         ret                 block 3: behind a branch
//! ```

use std::collections::HashMap;

use iced_x86::{FlowControl, Instruction, Mnemonic, RflagsBits};

use super::body::Body;
use super::code_index::CodeIndex;
use super::exit_site::{self, ExitKind};
use super::loops::{self, Loops, Nest, NestedLoop};
use super::region::RegionFinder;
use super::{Refusal, branch_target, falls_through, is_call};
use crate::elf::{Function, Image};

/// Maximum number of instructions that are searched for the next use of flags.
const AHEAD: usize = 32;
const FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// Granularity of tags in a function, in addition to tags of its entry and exits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// No block is tagged.
    #[default]
    Function,
    /// The beginning of each iteration of a loop is tagged.
    Loops,
    /// The beginning of each basic block is tagged.
    Blocks,
}

/// A basic block that is to be tagged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the block's first instruction, its head.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the block is the head of a natural loop.
    pub is_loop: bool,
    /// Index of the innermost natural loop that contains the block.
    pub innermost_loop: Option<usize>,
    /// Whether flags may be live at the head.
    pub flags: bool,
    /// Reason why the block cannot be tagged; `None` if it can.
    pub refusal: Option<Refusal>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaturalLoop {
    /// Address of the loop's head.
    pub head: u64,
    /// Index of the loop that directly contains this loop. It is lower than this loop's index.
    pub outer: Option<usize>,
    /// Addresses of the blocks outside of the loop that control reaches when it leaves the loop,
    /// ascending.
    pub exits: Vec<u64>,
}

impl Block {
    /// Name for output: the function's name and the distance from its start, in hexadecimal, such
    /// as `sum+1a`.
    pub fn name(&self, function: &Function) -> String {
        match self.start.checked_sub(function.start) {
            Some(offset) => format!("{}+{offset:x}", function.name),
            None => format!("{}-{:x}", function.name, function.start - self.start),
        }
    }
}

/// Position of a block: index of its body, and indexes of its instructions in the body.
#[derive(Clone, Copy, Debug)]
struct Place {
    body: usize,
    first: usize,
    /// Index of the instruction behind the last one.
    end: usize,
}

/// Finds the requested blocks of a function, by address within each body, and its natural loops.
/// `bodies`: the body of the function and the bodies of its separate parts. `exits`: whether exits
/// are tagged; with [`Granularity::Loops`], blocks to which a loop exits are requested then.
pub(super) fn find(
    image: &Image,
    code_index: &CodeIndex,
    bodies: &[Body],
    granularity: Granularity,
    exits: bool,
) -> (Vec<Block>, Vec<NaturalLoop>) {
    let mut places = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        let finder = RegionFinder { image, code_index, body };
        let heads = leaders(&finder);
        let ends = heads.iter().skip(1).copied().chain([body.instructions.len()]);
        let place = |(first, end): (&usize, usize)| Place { body: number, first: *first, end };
        places.extend(heads.iter().zip(ends).map(place));
    }
    let graph = graph(image, code_index, bodies, &places);
    let graph_loops = graph.loops();
    let address = |number: usize| bodies[places[number].body].address(places[number].first);
    let (loops, is_exit) = natural_loops(&graph_loops.nest, &graph.successors, address);
    let hidden = hidden_targets(image, code_index, bodies);
    let block = |(number, place): (usize, &Place)| {
        let body = &bodies[place.body];
        let is_loop = graph_loops.heads.contains(&number);
        let is_bound = is_loop || exits && is_exit[number];
        let is_irregular = !is_bound && graph_loops.irregular.contains(&number);
        let wanted = match granularity {
            Granularity::Function => false,
            Granularity::Loops => is_bound || is_irregular,
            Granularity::Blocks => true,
        };
        let irregular =
            (granularity == Granularity::Loops && is_irregular).then_some(Refusal::Irregular);
        let start = body.address(place.first);
        wanted.then(|| Block {
            start,
            size: last(body, place).next_ip() - start,
            is_loop,
            innermost_loop: graph_loops.nest.innermost[number],
            flags: are_flags_alive(body, place.first),
            refusal: hidden.or(irregular),
        })
    };
    (places.iter().enumerate().filter_map(block).collect(), loops)
}

/// Returns the natural loops with addresses, and for each block whether a loop exits to the block.
fn natural_loops(
    nest: &Nest,
    successors: &[Vec<usize>],
    address: impl Fn(usize) -> u64,
) -> (Vec<NaturalLoop>, Vec<bool>) {
    let natural = |nested: &NestedLoop| NaturalLoop {
        head: address(nested.head),
        outer: nested.outer,
        exits: Vec::new(),
    };
    let mut loops: Vec<NaturalLoop> = nest.loops.iter().map(natural).collect();
    let mut is_exit = vec![false; successors.len()];
    for (from, targets) in successors.iter().enumerate() {
        for to in targets {
            for left in nest.left_by(from, *to) {
                loops[left].exits.push(address(*to));
                is_exit[*to] = true;
            }
        }
    }
    for natural_loop in &mut loops {
        natural_loop.exits.sort_unstable();
        natural_loop.exits.dedup();
    }
    (loops, is_exit)
}

/// Indexes of the instructions that begin a block.
fn leaders(finder: &RegionFinder) -> Vec<usize> {
    let body = finder.body;
    let instructions = &body.instructions;
    let mut begins = vec![false; instructions.len()];
    for (index, instruction) in instructions.iter().enumerate() {
        let ip = instruction.ip();
        let is_target = !body.branches_to(ip).is_empty() || finder.code_index.is_block_start(ip);
        begins[index] |= index == 0 || is_target;
        let next = match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => Some(index + 1),
            FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return => (index + 1..instructions.len())
                .find(|next| !finder.is_padding(&instructions[*next])),
            _ => None,
        };
        if let Some(begin) = next.and_then(|next| begins.get_mut(next)) {
            *begin = true;
        }
    }
    begins.iter().enumerate().filter_map(|(index, begin)| begin.then_some(index)).collect()
}

/// The instruction that ends a block. Padding behind a jump that leaves the block is ignored.
fn last<'a>(body: &'a Body, place: &Place) -> &'a Instruction {
    let instructions = &body.instructions[place.first..place.end];
    let exit = instructions.iter().find(|instruction| !falls_through(instruction));
    exit.unwrap_or(&instructions[instructions.len() - 1])
}

/// Control flow between the blocks of a function. Blocks are given by their numbers.
struct Graph {
    successors: Vec<Vec<usize>>,
    /// Blocks that control enters from an unknown source.
    roots: Vec<usize>,
    /// Blocks that end with a call and continue with the next block if it returns.
    calling: Vec<usize>,
}

impl Graph {
    /// Finds the loops. Error paths end with calls that do not return, and the code behind such a
    /// call is unrelated. Therefore, where a loop has a second entry, the search is repeated
    /// without the edges behind calls. Of loops that only the second search finds, the heads are
    /// returned, but not the blocks.
    fn loops(&self) -> Loops {
        let mut graph_loops = loops::find(&self.successors, &self.roots);
        if graph_loops.irregular.is_empty() {
            return graph_loops;
        }
        let mut successors = self.successors.clone();
        for block in &self.calling {
            successors[*block].retain(|next| *next != block + 1);
        }
        let Loops { heads, irregular, .. } = loops::find(&successors, &self.roots);
        graph_loops.heads.extend(heads);
        graph_loops.irregular = irregular.difference(&graph_loops.heads).copied().collect();
        graph_loops
    }
}

fn graph(image: &Image, code_index: &CodeIndex, bodies: &[Body], places: &[Place]) -> Graph {
    let address = |place: &Place| bodies[place.body].address(place.first);
    let numbers: HashMap<u64, usize> =
        places.iter().enumerate().map(|(number, place)| (address(place), number)).collect();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
    let (mut computed, mut calling) = (Vec::new(), Vec::new());
    // Blocks that a direct branch or the unwinder of the function leads to. This explains why the
    // index lists the block as a target, so it need not be a root.
    let mut explained = vec![false; places.len()];
    for (number, place) in places.iter().enumerate() {
        let body = &bodies[place.body];
        let last = last(body, place);
        if let Some(to) = branch_target(last).and_then(|target| numbers.get(&target)) {
            successors[number].push(*to);
            explained[*to] = true;
        }
        if last.flow_control() == FlowControl::IndirectBranch {
            computed.push(number);
        }
        if falls_through(last) && place.end < body.instructions.len() {
            successors[number].push(number + 1);
            calling.extend(is_call(last).then_some(number));
        }
        let (start, end) = (address(place), last.next_ip());
        for (site, pad) in &image.call_sites[image.call_sites_from(start)..] {
            if site.start >= end {
                break;
            }
            if let Some(pad) = numbers.get(pad) {
                successors[number].push(*pad);
                explained[*pad] = true;
            }
        }
    }
    let mut roots = vec![0];
    for (number, place) in
        places.iter().enumerate().filter(|(_, it)| code_index.is_block_start(address(it)))
    {
        let is_pad = image.landing_pads.binary_search(&address(place)).is_ok();
        if is_pad && explained[number] {
            continue;
        }
        if !code_index.is_computed(address(place)) {
            // Control arrives here by a branch from another function.
            roots.extend((!explained[number]).then_some(number));
        } else if computed.is_empty() {
            roots.push(number);
        } else {
            computed.iter().for_each(|from| successors[*from].push(number));
        }
    }
    Graph { successors, roots, calling }
}

/// Reason why the starts of some blocks may be unknown; `None` if all are known. They are known if
/// control does not arrive at computed addresses in the function, and if each computed jump within
/// the function uses a table that could be read. A function with a table of distances from a label
/// names that label, so its blocks are not all known.
fn hidden_targets(image: &Image, code_index: &CodeIndex, bodies: &[Body]) -> Option<Refusal> {
    let entered = bodies.iter().find_map(|body| code_index.computes_entry(body.range.start));
    if let Some(place) = entered {
        return Some(Refusal::EnteredWithin(place));
    }
    let jumps = bodies.iter().flat_map(|body| {
        let computed = |index: &usize| {
            body.instructions[*index].flow_control() == FlowControl::IndirectBranch
                && exit_site::find(image, body, *index) != Some(ExitKind::Computed)
        };
        (0..body.instructions.len()).filter(computed).map(|index| body.address(index))
    });
    let jump = jumps.into_iter().next()?;
    let starts = || bodies.iter().map(|body| body.range.start);
    let is_known = bodies.iter().any(|body| body.has_inner_pointers(image))
        || starts().any(|start| code_index.has_table(start));
    let names_itself = starts().any(|start| code_index.names_itself(start));
    (!is_known || names_itself).then_some(Refusal::Computed(jump))
}

/// Whether an instruction, or a later one, may read flags that were written before it.
pub(super) fn are_flags_alive(body: &Body, index: usize) -> bool {
    let mut alive = FLAGS;
    let mut index = index;
    for _ in 0..AHEAD {
        let Some(instruction) = body.instructions.get(index) else { return true };
        if instruction.rflags_read() & alive != 0 {
            return true;
        }
        if writes_always(instruction) {
            alive &= !instruction.rflags_modified();
        }
        // The calling convention preserves no flags across calls and returns (psABI, 3.2.1).
        let ends = is_call(instruction) || instruction.flow_control() == FlowControl::Return;
        if alive == 0 || ends {
            return false;
        }
        index = match instruction.flow_control() {
            FlowControl::Next => index + 1,
            FlowControl::UnconditionalBranch => {
                match body.index_of(instruction.near_branch_target()) {
                    Some(index) => index,
                    None => return true,
                }
            }
            _ => return true,
        };
    }
    true
}

/// Whether an instruction writes flags with any operand values. A shift by 0 and a string
/// operation of length 0 do not.
fn writes_always(instruction: &Instruction) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    let is_shift = matches!(
        instruction.mnemonic(),
        Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd
    );
    !is_shift && !instruction.has_rep_prefix() && !instruction.has_repne_prefix()
}
