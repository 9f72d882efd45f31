//! Chosen functions to jumps at their entries and exits, and back.

use std::path::PathBuf;

use super::loaded::Loaded;
use super::{Overwritten, TagError};
use crate::disassembly::{Disassembly, Rewrite, bytes_of};
use crate::elf::{Function, Image};
use crate::ptrace::{Interrupted, Process, PtraceError, mappings};
use crate::stubs::layout::PAGE_BYTES;
use crate::stubs::{Changes, Sink, StubError, Stubs};

/// Edits within a page of each other are made at once, so many at most.
const GROUP: usize = 256;
/// Room for what tags share.
const SHARED_BYTES: u64 = 1024;

/// A function with jumps to stubs.
#[derive(Clone, Debug)]
pub(super) struct Patched {
    pub function: Function,
    /// The file it is of.
    pub object: PathBuf,
    address: u64,
    /// Exits that are not seen.
    pub hidden: usize,
    edits: Vec<Edit>,
    /// What regions take in memory, without their first byte.
    regions: Vec<(u64, u64)>,
    /// Each moved instruction: where it was and where it is, in memory.
    moved: Vec<(u64, u64)>,
}

/// Functions with jumps to stubs, those that cannot have them and why not, the stubs' code.
pub(super) type Planned = (Vec<Patched>, Vec<(Function, String)>, Vec<u8>);

/// Bytes that are changed.
#[derive(Clone, Debug)]
struct Edit {
    address: u64,
    original: Vec<u8>,
    new: Vec<u8>,
}

/// What is to be patched.
pub(super) struct Plan {
    rewrites: Vec<(Function, Rewrite)>,
    refused: Vec<(Function, String)>,
    sink: Sink,
}

/// Looks at the chosen functions.
pub(super) fn plan(image: &Image, chosen: impl Fn(&Function) -> bool, sink: Sink) -> Plan {
    let chosen: Vec<&Function> = image.functions.iter().filter(|one| chosen(one)).collect();
    let rewrites = Disassembly::of(image).rewrites(&chosen, sink.exits());
    let mut plan = Plan { rewrites: Vec::new(), refused: Vec::new(), sink };
    for (function, rewrite) in chosen.into_iter().cloned().zip(rewrites) {
        match rewrite {
            Ok(rewrite) => plan.rewrites.push((function, rewrite)),
            Err(refusal) => plan.refused.push((function, refusal.to_string())),
        }
    }
    plan
}

impl Plan {
    /// Room that the stubs need.
    pub fn stub_bytes(&self) -> u64 {
        let stubs = self.rewrites.iter().map(|(_, rewrite)| Stubs::room(rewrite));
        stubs.sum::<u64>() + SHARED_BYTES
    }

    /// The patches, what could not be patched after all, and the code of the stubs.
    /// `first`: the number of the first function.
    pub fn stubs(self, start: u64, first: u32, loaded: &Loaded) -> Result<Planned, StubError> {
        let Plan { rewrites, mut refused, sink } = self;
        let tags = rewrites.iter().map(|(_, rewrite)| Stubs::tags(rewrite)).sum();
        let mut stubs = Stubs::new(start, loaded.bias, sink, tags)?;
        let mut patched = Vec::new();
        for (function, rewrite) in rewrites {
            match stubs.add(&rewrite, function.start, first + patched.len() as u32) {
                Ok(changes) => patched.push(Patched::new(function, &rewrite, changes, loaded)),
                Err(error) => refused.push((function, error.to_string())),
            }
        }
        Ok((patched, refused, stubs.code()))
    }
}

impl Patched {
    fn new(function: Function, rewrite: &Rewrite, changes: Changes, loaded: &Loaded) -> Self {
        let Loaded { image, bias } = loaded;
        let there = |address: u64| address.wrapping_add(*bias);
        let edit = |(address, new): (u64, Vec<u8>)| {
            let original = bytes_of(image, address, new.len() as u64).unwrap_or_default().to_vec();
            Edit { address: there(address), original, new }
        };
        Patched {
            object: image.path.clone(),
            address: there(function.start),
            function,
            hidden: rewrite.hidden.len(),
            edits: changes.edits.into_iter().map(edit).collect(),
            regions: changes.regions.into_iter().map(|(a, b)| (there(a) + 1, there(b))).collect(),
            moved: changes.moved.into_iter().map(|(a, b)| (there(a), there(b))).collect(),
        }
    }

    /// What stood where its jumps are.
    pub fn overwritten(&self) -> impl Iterator<Item = Overwritten> + '_ {
        self.edits
            .iter()
            .map(|edit| Overwritten { address: edit.address, bytes: edit.original.clone() })
    }

    /// Where the function is in memory.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where a thread that stands in what is overwritten is to go on; none if it stands elsewhere, or
    /// where it has no counterpart.
    fn counterpart(&self, rip: u64) -> Option<Option<u64>> {
        let inside = self.regions.iter().any(|(start, end)| (*start..*end).contains(&rip));
        let moved = || self.moved.binary_search_by_key(&rip, |(old, _)| *old).ok();
        inside.then(|| moved().map(|index| self.moved[index].1))
    }
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
    Ok(change(process, patched, false, |there, edit| there.copy_from_slice(&edit.new))?)
}

/// Takes the jumps out where they still are: a library may have been unloaded. A thread in a stub goes on
/// there: stubs stay, and lead back behind the jump.
pub(super) fn restore(process: &Process, patched: &[Patched]) -> Result<(), PtraceError> {
    change(process, patched, true, |there, edit| {
        if there == edit.new {
            there.copy_from_slice(&edit.original);
        }
    })
}

/// Changes the places of all edits, those near each other at once. `may_be_gone`: what is not mapped any
/// more is left out.
fn change(
    process: &Process,
    patched: &[Patched],
    may_be_gone: bool,
    change: impl Fn(&mut [u8], &Edit),
) -> Result<(), PtraceError> {
    let mut edits: Vec<&Edit> = patched.iter().flat_map(|patched| &patched.edits).collect();
    edits.sort_unstable_by_key(|edit| edit.address);
    let near = |one: &&Edit, other: &&Edit| other.address - one.address < PAGE_BYTES;
    for group in edits.chunk_by(near) {
        // A chain of near ones may be long: pages of it.
        for group in group.chunks(GROUP) {
            let (first, last) = (group[0], group[group.len() - 1]);
            let end = last.address + last.new.len() as u64;
            let mut bytes = vec![0; (end - first.address) as usize];
            match process.read(first.address, &mut bytes) {
                Err(_) if may_be_gone => continue,
                read => read?,
            }
            for edit in group {
                let at = (edit.address - first.address) as usize;
                change(&mut bytes[at..at + edit.new.len()], edit);
            }
            process.write(first.address, &bytes)?;
        }
    }
    Ok(())
}
