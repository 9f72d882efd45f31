//! A function's instructions to its basic blocks: where each begins, and where control goes from it.
//!
//! A block begins with the function's first instruction, with what a branch, a table or the unwinder leads
//! to, and behind a branch or a return. A call ends no block: it returns to the middle of one.

use std::collections::HashMap;

use iced_x86::{FlowControl, Instruction, Mnemonic, RflagsBits};

use super::body::Body;
use super::flow::Flow;
use super::leaving::{self, Leaving};
use super::loops::{self, Loops};
use super::region::Ground;
use super::{Refusal, branch_target, goes_on, is_call};
use crate::elf::{Function, Image};

/// How far ahead it is looked for what becomes of flags, in instructions.
const AHEAD: usize = 32;
const FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// What of a function is to be seen beside that it is entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// Nothing.
    #[default]
    Function,
    /// When a turn of one of its loops begins.
    Loops,
    /// When one of its basic blocks begins.
    Blocks,
}

/// A basic block that is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of its first instruction, its head.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is the head of a natural loop.
    pub is_loop: bool,
    /// Whether flags may mean something there.
    pub flags: bool,
    /// Why it cannot be seen.
    pub refusal: Option<Refusal>,
}

impl Block {
    /// What people call it: its function, and how far it is from that one's start.
    pub fn name(&self, function: &Function) -> String {
        match self.start.checked_sub(function.start) {
            Some(offset) => format!("{}+{offset:x}", function.name),
            None => format!("{}-{:x}", function.name, function.start - self.start),
        }
    }
}

/// A block in its body.
#[derive(Clone, Copy, Debug)]
struct Place {
    body: usize,
    first: usize,
    /// Behind its last instruction.
    end: usize,
}

/// The blocks of a function that are asked for, by address within each body. `bodies`: the function's, and
/// those of its parts that lie apart.
pub(super) fn of(image: &Image, flow: &Flow, bodies: &[Body], grain: Grain) -> Vec<Block> {
    let mut places = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        let ground = Ground { image, flow, body };
        let heads = leaders(&ground);
        let ends = heads.iter().skip(1).copied().chain([body.instructions.len()]);
        let place = |(first, end): (&usize, usize)| Place { body: number, first: *first, end };
        places.extend(heads.iter().zip(ends).map(place));
    }
    let found = graph(image, flow, bodies, &places).loops();
    let hidden = hidden_targets(image, flow, bodies);
    let block = |(number, place): (usize, &Place)| {
        let body = &bodies[place.body];
        let is_loop = found.heads.contains(&number);
        let is_irregular = found.irregular.contains(&number);
        let wanted = match grain {
            Grain::Function => false,
            Grain::Loops => is_loop || is_irregular,
            Grain::Blocks => true,
        };
        let irregular = (grain == Grain::Loops && !is_loop).then_some(Refusal::Irregular);
        let start = body.address(place.first);
        wanted.then(|| Block {
            start,
            size: last(body, place).next_ip() - start,
            is_loop,
            flags: are_flags_alive(body, place.first),
            refusal: hidden.or(irregular),
        })
    };
    places.iter().enumerate().filter_map(block).collect()
}

/// The instructions that blocks begin with, by number.
fn leaders(ground: &Ground) -> Vec<usize> {
    let body = ground.body;
    let all = &body.instructions;
    let mut begins = vec![false; all.len()];
    for (index, instruction) in all.iter().enumerate() {
        let ip = instruction.ip();
        let is_led_to = !body.branches_to(ip).is_empty() || ground.flow.is_head(ip);
        begins[index] |= index == 0 || is_led_to;
        let next = match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => Some(index + 1),
            FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return => {
                (index + 1..all.len()).find(|next| !ground.is_padding(&all[*next]))
            }
            _ => None,
        };
        if let Some(begin) = next.and_then(|next| begins.get_mut(next)) {
            *begin = true;
        }
    }
    begins.iter().enumerate().filter_map(|(index, begin)| begin.then_some(index)).collect()
}

/// The instruction that a block ends with: behind a jump that leaves it there may be padding.
fn last<'a>(body: &'a Body, place: &Place) -> &'a Instruction {
    let instructions = &body.instructions[place.first..place.end];
    let leaves = instructions.iter().find(|instruction| !goes_on(instruction));
    leaves.unwrap_or(&instructions[instructions.len() - 1])
}

/// Where control goes from each block, all by number.
struct Graph {
    successors: Vec<Vec<usize>>,
    /// To which it comes from who knows where.
    roots: Vec<usize>,
    /// Blocks that end with a call, and go on with the next one if that returns.
    calling: Vec<usize>,
}

impl Graph {
    /// Its loops. Error paths end with calls that do not return, and what is behind them is something else:
    /// where a loop would have a second way in, it is looked whether that is one.
    fn loops(mut self) -> Loops {
        let mut found = loops::of(&self.successors, &self.roots);
        if found.irregular.is_empty() {
            return found;
        }
        for block in self.calling {
            self.successors[block].retain(|next| *next != block + 1);
        }
        let Loops { heads, irregular } = loops::of(&self.successors, &self.roots);
        found.heads.extend(heads);
        found.irregular = irregular.difference(&found.heads).copied().collect();
        found
    }
}

fn graph(image: &Image, flow: &Flow, bodies: &[Body], places: &[Place]) -> Graph {
    let address = |place: &Place| bodies[place.body].address(place.first);
    let numbers: HashMap<u64, usize> =
        places.iter().enumerate().map(|(number, place)| (address(place), number)).collect();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
    let (mut computed, mut calling) = (Vec::new(), Vec::new());
    // What direct branches of the function itself lead to from another of its bodies needs no other cause.
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
        if goes_on(last) && place.end < body.instructions.len() {
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
    for (number, place) in places.iter().enumerate().filter(|(_, it)| flow.is_head(address(it))) {
        let is_pad = image.landing_pads.binary_search(&address(place)).is_ok();
        if is_pad && explained[number] {
            continue;
        }
        if !flow.is_computed(address(place)) {
            // A branch from elsewhere.
            roots.extend((!explained[number]).then_some(number));
        } else if computed.is_empty() {
            roots.push(number);
        } else {
            computed.iter().for_each(|from| successors[*from].push(number));
        }
    }
    Graph { successors, roots, calling }
}

/// Why it is not known where all blocks begin: a computed jump within the function must go by a table that
/// was read. One whose table holds distances from a label shows by naming it.
fn hidden_targets(image: &Image, flow: &Flow, bodies: &[Body]) -> Option<Refusal> {
    let jumps = bodies.iter().flat_map(|body| {
        let computed = |index: &usize| {
            body.instructions[*index].flow_control() == FlowControl::IndirectBranch
                && leaving::of(image, body, *index) != Some(Leaving::Computed)
        };
        (0..body.instructions.len()).filter(computed).map(|index| body.address(index))
    });
    let jump = jumps.into_iter().next()?;
    let starts = || bodies.iter().map(|body| body.range.start);
    let is_known = bodies.iter().any(|body| body.has_inner_pointers(image))
        || starts().any(|start| flow.has_table(start));
    let names_itself = starts().any(|start| flow.names_itself(start));
    (!is_known || names_itself).then_some(Refusal::Computed(jump))
}

/// Whether flags may be read that were written before an instruction.
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
        // Nobody keeps flags for a function that is called, or returned to (psABI, 3.2.1).
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

/// Whether an instruction writes flags whatever its operands are: shifts by 0 and strings of no length do not.
fn writes_always(instruction: &Instruction) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    let is_shift = matches!(
        instruction.mnemonic(),
        Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd
    );
    !is_shift && !instruction.has_rep_prefix() && !instruction.has_repne_prefix()
}
