//! Chosen functions to jumps at their entries and exits, and back.

use std::ops::Range;
use std::path::PathBuf;

use super::TagError;
use super::calls;
use super::edits::{self, Edit};
use super::linkage;
use super::loaded::Loaded;
use super::shared::Overwritten;
use crate::disassembly::{Block, Call, Grain, Rewrite, bytes_of};
use crate::elf::Function;
use crate::ptrace::{Interrupted, Process, PtraceError, mappings};
use crate::stubs::{Changes, Few, Sink, StubError, Stubs};

/// Room for what tags share.
const SHARED_BYTES: u64 = 1024;

/// A function with jumps to stubs.
#[derive(Clone, Debug)]
pub(super) struct Patched {
    pub function: Function,
    /// The file it is of.
    pub object: PathBuf,
    /// In events; those of its blocks follow.
    pub number: u32,
    /// Blocks that are tagged, in the order of their numbers.
    pub blocks: Vec<Block>,
    /// Blocks that were chosen and are not tagged.
    pub refused_blocks: Vec<Block>,
    address: u64,
    /// Exits that are not seen.
    pub hidden: usize,
    edits: Vec<Edit>,
    /// What regions take in memory, without their first byte.
    regions: Vec<(u64, u64)>,
    /// Each moved instruction: where it was and where it is, in memory.
    moved: Vec<(u64, u64)>,
    /// Where its stubs are in memory.
    pub stubs: Range<u64>,
}

/// Functions with jumps to stubs, those that cannot have them and why not, the stubs' code.
pub(super) struct Planned {
    pub patched: Vec<Patched>,
    pub refused: Vec<(Function, String)>,
    pub code: Vec<u8>,
}

/// What is to be patched.
pub(super) struct Plan {
    rewrites: Vec<(Function, Rewrite)>,
    refused: Vec<(Function, String)>,
    /// Calls of anything, from anywhere in the file.
    calls: Vec<Call>,
    sink: Sink,
}

/// A function whose stubs are made.
pub(super) struct Changed {
    pub function: Function,
    number: u32,
    rewrite: Rewrite,
    pub changes: Changes,
}

impl Changed {
    /// How many numbers it takes: its own and those of its blocks that are seen.
    fn numbers(&self) -> u32 {
        let seen = self.rewrite.blocks.iter().filter(|block| block.refusal.is_none());
        1 + seen.count() as u32
    }
}

/// Looks at the chosen functions.
pub(super) fn plan(
    loaded: &Loaded,
    chosen: impl Fn(&Function) -> Option<Grain>,
    sink: Sink,
) -> Plan {
    let chosen = loaded.image.functions.iter().filter_map(|one| Some((one, chosen(one)?)));
    let chosen: Vec<(&Function, Grain)> = chosen.collect();
    let disassembly = loaded.disassembly();
    let rewrites = disassembly.finer_rewrites(&chosen, sink.exits());
    let calls = disassembly.calls().to_vec();
    let mut plan = Plan { rewrites: Vec::new(), refused: Vec::new(), calls, sink };
    for ((function, _), rewrite) in chosen.into_iter().zip(rewrites) {
        let function = function.clone();
        match rewrite {
            Ok(rewrite) => plan.rewrites.push((function, rewrite)),
            Err(refusal) => plan.refused.push((function, refusal.to_string())),
        }
    }
    plan
}

impl Plan {
    /// Looks where calls get to by the procedure linkage table, in a process whose threads stand still.
    pub fn look_through(&mut self, process: &Process, loaded: &Loaded) -> Result<(), PtraceError> {
        linkage::resolve(process, loaded, &mut self.calls)
    }

    /// Room that the stubs need.
    pub fn stub_bytes(&self) -> u64 {
        let stubs = self.rewrites.iter().map(|(_, rewrite)| Stubs::room(rewrite, self.sink));
        stubs.sum::<u64>() + SHARED_BYTES
    }

    /// The patches, what could not be patched after all, and the code of the stubs.
    /// `first`: the number of the first function or block.
    pub fn stubs(self, start: u64, first: u32, loaded: &Loaded) -> Result<Planned, StubError> {
        let Plan { rewrites, mut refused, calls, sink } = self;
        let tags = rewrites.iter().map(|(_, rewrite)| Stubs::tags(rewrite)).sum();
        let mut stubs = Stubs::new(start, loaded.bias, sink, tags)?;
        let mut changed: Vec<Changed> = Vec::new();
        let mut number = first;
        for (function, rewrite) in rewrites {
            match stubs.add(&rewrite, function.start, number) {
                Ok(changes) => {
                    let one = Changed { function, number, rewrite, changes };
                    number += one.numbers();
                    changed.push(one);
                }
                Err(error) => refused.push((function, error.to_string())),
            }
        }
        calls::redirect(&calls, &mut changed);
        let patched = changed.into_iter().map(|changed| Patched::new(changed, loaded)).collect();
        Ok(Planned { patched, refused, code: stubs.code() })
    }
}

impl Patched {
    fn new(changed: Changed, loaded: &Loaded) -> Self {
        let Changed { function, number, rewrite, changes } = changed;
        let Loaded { image, bias, .. } = loaded;
        let there = |address: u64| address.wrapping_add(*bias);
        let edit = |(address, new): (u64, Few)| {
            let original = bytes_of(image, address, new.len() as u64).and_then(Few::of);
            let original = original.unwrap_or_default();
            let is_start = changes.regions.iter().any(|(start, _)| *start == address);
            Edit::new(there(address), original, new, is_start)
        };
        let (blocks, refused_blocks) =
            rewrite.blocks.into_iter().partition(|block| block.refusal.is_none());
        Patched {
            object: image.path.clone(),
            number,
            blocks,
            refused_blocks,
            address: there(function.start),
            function,
            hidden: rewrite.hidden.len(),
            edits: changes.edits.into_iter().map(edit).collect(),
            regions: changes.regions.into_iter().map(|(a, b)| (there(a) + 1, there(b))).collect(),
            moved: changes.moved.into_iter().map(|(a, b)| (there(a), there(b))).collect(),
            stubs: there(changes.stubs.start)..there(changes.stubs.end),
        }
    }

    /// Whether some of another one's jumps are where its instructions stood.
    pub fn hosts(&self, other: &Patched) -> bool {
        let inside = |at: u64| self.regions.iter().any(|(start, end)| (*start..*end).contains(&at));
        other.edits.iter().any(|edit| inside(edit.address))
    }

    /// How many numbers it has: its own and those of its blocks.
    pub fn numbers(&self) -> u32 {
        1 + self.blocks.len() as u32
    }

    /// How many events it has had, by those of each number.
    pub fn events(&self, all: &[u64]) -> u64 {
        let first = self.number as usize;
        let own = all.get(first..).unwrap_or_default().iter().take(self.numbers() as usize);
        own.sum()
    }

    /// Where an address of the file is in memory.
    pub fn there(&self, address: u64) -> u64 {
        address.wrapping_sub(self.function.start).wrapping_add(self.address)
    }

    /// Where the function is in memory.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where instructions of the stubs have been moved from: each with its place.
    pub fn homes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.moved.iter().map(|(old, new)| (*new, *old))
    }

    /// Where a thread that stands in what is overwritten is to go on; none if it stands elsewhere, or
    /// where it has no counterpart.
    fn counterpart(&self, rip: u64) -> Option<Option<u64>> {
        let inside = self.regions.iter().any(|(start, end)| (*start..*end).contains(&rip));
        let moved = || self.moved.binary_search_by_key(&rip, |(old, _)| *old).ok();
        inside.then(|| moved().map(|index| self.moved[index].1))
    }
}

/// What stands where jumps are to be, in the order in which they are put in.
pub(super) fn overwritten(patched: &[Patched]) -> Vec<Overwritten> {
    edits::overwritten(patched.iter().flat_map(|patched| &patched.edits))
}

fn counterpart(patched: &[Patched], rip: u64) -> Option<Option<u64>> {
    patched.iter().find_map(|patched| patched.counterpart(rip))
}

/// Puts the jumps in; all threads stand still.
///
/// # Errors
/// [`TagError::InTheWay`] if a thread stands where it cannot be moved from; nothing was changed.
pub(super) fn tag(process: &Process, patched: &[Patched]) -> Result<(), TagError> {
    let mappings = mappings(process.pid)?;
    let (mut moves, mut returns) = (Vec::new(), Vec::new());
    for thread in process.threads.keys() {
        let registers = process.registers(*thread)?;
        let in_the_way = |rip| TagError::InTheWay(*thread, rip);
        if let Some(rip) = counterpart(patched, registers.rip) {
            let rip = rip.ok_or_else(|| in_the_way(registers.rip))?;
            moves.push((*thread, libc::user_regs_struct { rip, ..registers }));
        }
        for Interrupted { rip, place } in process.interrupted(*thread, &mappings)? {
            if let Some(new) = counterpart(patched, rip) {
                returns.push((place, new.ok_or_else(|| in_the_way(rip))?));
            }
        }
    }
    for (thread, registers) in moves {
        process.set_registers(thread, registers)?;
    }
    for (place, rip) in returns {
        process.write(place, &rip.to_le_bytes())?;
    }
    Ok(edits::put_in(process, patched.iter().flat_map(|patched| &patched.edits))?)
}

/// Takes the jumps out where they still are: a library may have been unloaded. A thread in a stub goes on
/// there: stubs stay, and lead back behind the jump.
pub(super) fn restore(process: &Process, patched: &[Patched]) -> Result<(), PtraceError> {
    edits::take_out(process, patched.iter().flat_map(|patched| &patched.edits))
}
