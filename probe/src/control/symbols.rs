//! Writes an ELF file that describes the stubs of a process to debuggers (`add-symbol-file` of
//! gdb): names and unwind tables.
//!
//! The names and tables are read from the process alone: from the records in the shared memory
//! ([`super::abandoned::records`]) and from the unwind tables ([`super::unwind`]). So this works
//! without the controller.
//!
//! Invariant: everything that is read from the process is checked before use; damaged parts are
//! left out.
//!
//! gdb's JIT interface would work without such a file, but gdb looks for `__jit_debug_descriptor`
//! among the symbols of the process's object files, and no object file is added to the process.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use nix::unistd::Pid;

use super::TagError;
use super::abandoned::records::{Place, Records};
use super::loaded::LoadedFile;
use super::stub_names::{SHARED, SUFFIX};
use crate::address::{FileAddr, RunAddr};
use crate::disassembly::JUMP_BYTES;
use crate::ptrace::{Mapping, PtraceError, ReadMemory, RunningMemory, mappings};
use crate::selection::Selection;
use crate::stubs::lookup;
use crate::unwind::{NODE_BYTES, SymbolFile, frames};

/// Opcode of `jmp rel32`.
const JUMP: u8 = 0xe9;
/// Maximum length of a table that is read, in bytes. The largest programs need less.
const TABLE_BYTES: u64 = 1 << 28;

/// Stubs of a process.
#[derive(Debug, Default)]
struct FoundStubs {
    /// Address range and unwind table of each piece of code, by its first address.
    code: BTreeMap<RunAddr, (Range<RunAddr>, Vec<u8>)>,
    /// Address of a jump, by its target.
    jumps: BTreeMap<RunAddr, RunAddr>,
}

/// An ELF file with the symbols and unwind tables of the stubs of a process; `None` if the process
/// has no stubs.
///
/// # Errors
/// [`TagError`] if the process cannot be read.
pub fn symbol_file(pid: Pid) -> Result<Option<Vec<u8>>, TagError> {
    let open = RunningMemory::open(pid);
    let memory =
        open.map_err(|source| PtraceError::System { pid, operation: "open its memory", source })?;
    let mapped = mappings(pid)?;
    let records = Records::read(&memory, &mapped)?;
    let mut stubs = FoundStubs::default();
    for Place { address, original } in &records.places {
        stubs.add_jump(&memory, *address, original.len());
    }
    for area in records.areas {
        stubs.add_table(&memory, area);
    }
    if stubs.code.is_empty() {
        return Ok(None);
    }
    let names = stubs.names(&memory, &mapped);
    let mut file = SymbolFile::default();
    for (code, table) in stubs.code.values() {
        let inside = names.range(code.clone());
        let starts: Vec<(RunAddr, &str)> = inside.map(|(at, name)| (*at, name.as_str())).collect();
        let shared = starts.first().is_none_or(|(at, _)| *at != code.start);
        let shared = shared.then_some((code.start, SHARED));
        let starts: Vec<(RunAddr, &str)> = shared.into_iter().chain(starts).collect();
        let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([code.end]);
        let symbols = starts.iter().zip(ends).map(|((at, name), end)| (*at..end, *name));
        file.add(code.clone(), symbols, table);
    }
    Ok(Some(file.finish()))
}

impl FoundStubs {
    /// Adds the jump at an address, if a jump is there. `bytes`: number of overwritten bytes.
    fn add_jump(&mut self, memory: &RunningMemory, address: RunAddr, bytes: usize) {
        let mut jump = [0; JUMP_BYTES];
        if bytes != JUMP_BYTES || memory.read(address, &mut jump).is_err() || jump[0] != JUMP {
            return;
        }
        let distance = i32::from_le_bytes([jump[1], jump[2], jump[3], jump[4]]);
        let behind = address.wrapping_add(JUMP_BYTES as u64);
        let place = self.jumps.entry(behind.wrapping_add_signed(distance.into()));
        let place = place.or_insert(address);
        *place = (*place).min(address);
    }

    /// Adds the unwind table in an area, if the area has one.
    fn add_table(&mut self, memory: &RunningMemory, area: Range<RunAddr>) -> Option<()> {
        let mut node = [0; NODE_BYTES];
        memory.read(area.start, &mut node).ok()?;
        let long = |at: u64| {
            let bytes = node.get(at as usize..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let is_table = long(lookup::node::MAGIC) == lookup::MAGIC
            && RunAddr(long(lookup::node::TABLE)) == area.start + NODE_BYTES as u64;
        let code = RunAddr(long(lookup::node::START))..RunAddr(long(lookup::node::END));
        if !is_table || code.is_empty() || area.end - area.start > TABLE_BYTES {
            return None;
        }
        let at = area.start + NODE_BYTES as u64;
        let mut table = vec![0; (area.end - at) as usize];
        memory.read(at, &mut table).ok()?;
        self.code.insert(code.start, (code, frames(&table, at)?));
        Some(())
    }

    /// Names of the targets of jumps, by the target's address.
    fn names(&self, memory: &RunningMemory, mapped: &[Mapping]) -> BTreeMap<RunAddr, String> {
        let mut files: HashMap<_, Option<LoadedFile>> = HashMap::new();
        let mut names = BTreeMap::new();
        for (stub, jump) in &self.jumps {
            let next = mapped.partition_point(|mapping| mapping.start <= *jump);
            let mapping = next.checked_sub(1).map(|at| &mapped[at]);
            let Some(mapping) = mapping.filter(|mapping| *jump < mapping.end) else { continue };
            let loaded = files.entry((mapping.file, &mapping.path)).or_insert_with(|| {
                let no_sources = Selection::default();
                LoadedFile::open(memory, mapping, mapped, &no_sources, std::iter::empty()).ok()
            });
            let Some(loaded) = loaded else { continue };
            let FileAddr(address) = loaded.bias.to_file(*jump);
            let Some(function) = loaded.image.function_at(address) else { continue };
            let name = match address - function.start {
                0 => format!("{}{SUFFIX}", function.name),
                offset => format!("{}+{offset:#x}{SUFFIX}", function.name),
            };
            names.insert(*stub, name);
        }
        names
    }
}
