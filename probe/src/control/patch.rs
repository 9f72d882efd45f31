//! Chosen functions to jumps at their entries and exits, and back.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use super::TagError;
use super::calls;
use super::changed::Changed;
use super::described::Described;
use super::edits::{self, Edit};
use super::linkage;
use super::loaded::Loaded;
use super::shared::Overwritten;
use crate::disassembly::{Block, Call, Grain, Refusal, Rewrite, bytes_of};
use crate::elf::Function;
use crate::ptrace::{Interrupted, Process, PtraceError, mappings};
use crate::stubs::lookup;
use crate::stubs::restorer::{Entry, list_bytes};
use crate::stubs::{Few, Lookup, Sink, StubError, Stubs, TagCode};

/// Room for what tags share.
const SHARED_BYTES: u64 = 1024;

/// A function that was chosen and is not tagged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The function.
    pub function: Function,
    /// Why it is not.
    pub reason: String,
    /// Whether the reason is in the process, not in the file.
    pub is_of_process: bool,
}

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
    /// Whether it looks stubs up, for unwinders.
    pub looks_up: bool,
    /// Whether it is Go's.
    pub is_go: bool,
    edits: Vec<Edit>,
    /// Whether the jumps are not there any more: the library was unloaded.
    pub is_out: bool,
    /// What regions take in memory, without their first byte.
    regions: Vec<(u64, u64)>,
    /// Each moved instruction: where it was and where it is, in memory.
    moved: Vec<(u64, u64)>,
    /// The code of its tags in memory.
    tags: Vec<TagCode>,
    /// Where its stubs are in memory.
    pub stubs: Range<u64>,
}

/// Functions with jumps to stubs, those that cannot have them and why not, the stubs' code.
pub(super) struct Planned {
    pub patched: Vec<Patched>,
    pub refused: Vec<Refused>,
    pub code: Vec<u8>,
    pub described: Described,
}

/// What is to be patched.
#[derive(Clone)]
pub(super) struct Plan {
    rewrites: Vec<(Function, Grain, Rewrite)>,
    refused: Vec<Refused>,
    /// Calls of anything, from anywhere in the file.
    calls: Vec<Call>,
    sink: Sink,
    /// What a function is to look up, if it is among them.
    pub lookup: Option<Lookup>,
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
    let calls = disassembly.calls().iter().filter(|call| loaded.image.is_settled_call(call.next));
    let calls = calls.copied().collect();
    let (planned, refused) = (Vec::new(), Vec::new());
    let mut plan = Plan { rewrites: planned, refused, calls, sink, lookup: None };
    let all = chosen.into_iter().map(|(function, grain)| (function.clone(), grain)).zip(rewrites);
    plan.take(all);
    plan
}

impl Plan {
    /// Keeps what is to be changed of each function, or why it cannot be tagged.
    fn take(&mut self, all: impl Iterator<Item = ((Function, Grain), Result<Rewrite, Refusal>)>) {
        for ((function, grain), rewrite) in all {
            match rewrite {
                Ok(rewrite) => self.rewrites.push((function, grain, rewrite)),
                Err(refusal) => {
                    let is_of_process = matches!(refusal, Refusal::Differs(_));
                    let reason = refusal.to_string();
                    self.refused.push(Refused { function, reason, is_of_process });
                }
            }
        }
    }

    /// Looks where calls get to by the procedure linkage table, in a process whose threads stand still.
    pub fn look_through(&mut self, process: &Process, loaded: &Loaded) -> Result<(), PtraceError> {
        linkage::resolve(process, loaded, &mut self.calls)
    }

    /// How many numbers its functions and blocks take at most.
    pub fn numbers(&self) -> usize {
        self.rewrites.iter().map(|(.., rewrite)| 1 + rewrite.seen_blocks().count()).sum()
    }

    /// Room that the stubs need, and the list of what they hold.
    pub fn stub_bytes(&self) -> u64 {
        let stubs = self.rewrites.iter().map(|(.., rewrite)| Stubs::room(rewrite, self.sink));
        let regions = self.rewrites.iter().flat_map(|(.., rewrite)| &rewrite.regions);
        let moved = regions.map(|region| region.instructions.len() as u64).sum();
        stubs.sum::<u64>() + SHARED_BYTES + lookup::MOST_BYTES + list_bytes(moved)
    }

    /// The patches, what could not be patched after all, and the code of the stubs.
    /// `first`: the number of the first function or block.
    pub fn stubs(mut self, start: u64, first: u32, loaded: &Loaded) -> Result<Planned, StubError> {
        loop {
            let before = self.refused.len();
            let tags = self.rewrites.iter().map(|(.., rewrite)| Stubs::tags(rewrite)).sum();
            let mut stubs = Stubs::new(start, loaded.bias, self.sink, tags)?;
            stubs.look_up(self.lookup);
            let mut changed: Vec<Changed> = Vec::new();
            let mut number = first;
            let mut grains = Vec::new();
            for (function, grain, rewrite) in std::mem::take(&mut self.rewrites) {
                match stubs.add(&rewrite, function.start, number) {
                    Ok(changes) => {
                        let one = Changed { function, number, rewrite, changes };
                        number += one.numbers();
                        changed.push(one);
                        grains.push(grain);
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        self.refused.push(Refused { function, reason, is_of_process: false });
                    }
                }
            }
            if self.refused.len() == before {
                calls::redirect(&self.calls, &mut changed);
                let patched = changed.into_iter().map(|changed| Patched::new(changed, loaded));
                let (patched, code) = (patched.collect(), stubs.code());
                let (rows, end) = stubs.rows();
                let described = Described { rows, end };
                return Ok(Planned { patched, refused: self.refused, code, described });
            }
            // Others may count on what these would have left free.
            let rest: Vec<(Function, Grain)> =
                changed.into_iter().map(|one| one.function).zip(grains).collect();
            let chosen: Vec<(&Function, Grain)> =
                rest.iter().map(|(one, grain)| (one, *grain)).collect();
            let rewrites = loaded.disassembly().finer_rewrites(&chosen, self.sink.exits());
            self.take(rest.into_iter().zip(rewrites));
        }
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
        let tag = |one: TagCode| TagCode {
            start: there(one.start),
            end: there(one.end),
            original: there(one.original),
        };
        let (blocks, refused_blocks) =
            rewrite.blocks.into_iter().partition(|block| block.refusal.is_none());
        Patched {
            object: image.path.clone(),
            number,
            blocks,
            refused_blocks,
            address: there(function.start),
            is_go: image.go.as_ref().is_some_and(|go| go.function_at(function.start).is_some()),
            function,
            hidden: rewrite.hidden.len(),
            looks_up: changes.looks_up,
            is_out: false,
            edits: changes.edits.into_iter().map(edit).collect(),
            regions: changes.regions.into_iter().map(|(a, b)| (there(a) + 1, there(b))).collect(),
            moved: changes.moved.into_iter().map(|(a, b)| (there(a), there(b))).collect(),
            tags: changes.tags.into_iter().map(tag).collect(),
            stubs: there(changes.stubs.start)..there(changes.stubs.end),
        }
    }

    /// What is changed, as long as it is.
    pub fn edits(&self) -> &[Edit] {
        if self.is_out { &[] } else { &self.edits }
    }

    /// Whether the same is changed to the same.
    pub fn has_edits_of(&self, other: &Patched) -> bool {
        self.edits == other.edits
    }

    /// Whether what was to be changed is there as if it never was: the file was mapped once more.
    pub fn is_original(&self, process: &Process) -> bool {
        let Some(edit) = self.edits.first() else { return false };
        let mut there = vec![0; edit.new_bytes().len()];
        process.read(edit.address, &mut there).is_ok() && there == edit.original_bytes()
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

    /// Where instructions of the stubs have been moved from: each with its place. Tags stand for the instruction
    /// behind them.
    pub fn homes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let tags = self.tags.iter();
        let tags = tags.flat_map(|tag| [(tag.start, tag.original), (tag.end, tag.original)]);
        self.moved.iter().map(|(old, new)| (*new, *old)).chain(tags)
    }

    /// The original address of a boundary in the stubs.
    pub fn original(&self, address: u64) -> Option<u64> {
        self.homes().find_map(|(place, original)| (place == address).then_some(original))
    }

    /// The tag that an address is within.
    pub fn tag_around(&self, address: u64) -> Option<&TagCode> {
        self.tags.iter().find(|tag| tag.is_within(address))
    }

    /// Whether a region begins at an address.
    pub fn is_start(&self, address: u64) -> bool {
        self.regions.iter().any(|(behind, _)| behind.wrapping_sub(1) == address)
    }

    /// Instructions that jumps have overwritten, for handlers that return to them.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let jumps = self.edits.iter().map(|edit| (edit.address, edit.new_bytes()));
        let jumps: HashMap<u64, &[u8]> = jumps.collect();
        let of_region = move |(behind, end): (u64, u64)| {
            let start = behind.wrapping_sub(1);
            let jump = jumps.get(&start)?.first_chunk().copied()?;
            let first = self.moved.partition_point(|(old, _)| *old < behind);
            let inside = self.moved[first..].iter().take_while(move |(old, _)| *old < end);
            Some(inside.map(move |(original, counterpart)| Entry {
                original: *original,
                counterpart: *counterpart,
                start,
                jump,
            }))
        };
        self.regions.iter().copied().filter_map(of_region).flatten()
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
        for Interrupted { rip, place, restorer } in process.interrupted(*thread, &mappings)? {
            // The restorer looks for it.
            if restorer.is_some_and(|one| process.restorers.contains(&one)) {
                continue;
            }
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
/// there: stubs stay, and lead back behind the jump. The addresses come back at which the program has put something
/// else meanwhile, which is left there.
pub(super) fn restore(process: &Process, patched: &[Patched]) -> Result<Vec<u64>, PtraceError> {
    edits::take_out(process, patched.iter().flat_map(Patched::edits))
}
