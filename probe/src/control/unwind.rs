//! Describes stubs to the unwinders of a process ([`crate::unwind`]), for as long as their memory is there.
//!
//! ```text
//! memory of a table   node | .eh_frame_hdr | .eh_frame          read-only, noted as memory of stubs is
//! list                address of the first node                 memory of its own
//! ```
//!
//! Unwinders ask the C library's `_dl_find_object` (glibc 2.35, libgcc 12), which is changed to look through that list
//! first ([`crate::stubs::lookup`]). A table is complete before it is in the list, and in the list before a jump leads
//! to what it describes. The process needs no controller to use it.
//!
//! A process without that function goes on without: its stubs are described to whoever reads the tables otherwise.

use std::ops::Range;

use super::described::Described;
use super::gate::{Gate, Purpose};
use super::loaded::Loaded;
use super::patch::{self, Planned};
use super::{TagError, Tagged, areas, linker};
use crate::disassembly::Grain;
use crate::elf::Function;
use crate::ptrace::{PtraceError, code_files, mappings};
use crate::stubs::lookup::{MAGIC, node};
use crate::stubs::{Lookup, Sink};
use crate::unwind::{self, NODE_BYTES};

/// What unwinders call.
const FUNCTION: &str = "_dl_find_object";
/// What the C library's file is called.
const C_LIBRARY: &str = "libc.so";
/// Bytes of the frames of signal handlers that are looked at, at most.
const HANDLER_BYTES: u64 = 1 << 20;
/// Bytes of an address.
const ADDRESS_BYTES: u64 = 8;

impl Tagged {
    /// Makes an empty list of tables.
    pub(super) fn make_list(&mut self) -> Result<(), TagError> {
        let shared = self.collector.shared();
        let area = areas::reserve(&mut self.process, shared, &self.program, ADDRESS_BYTES)?;
        self.list = area.start;
        self.areas.push(area);
        Ok(())
    }

    /// What a file's function is to look up, if it is the one.
    pub(super) fn lookup_in(&self, loaded: &Loaded) -> Option<Lookup> {
        let gate = self.gates.iter().find(|gate| is_lookup(gate))?;
        let function = gate.patched.address().wrapping_sub(loaded.bias);
        let is_in = gate.patched.object == loaded.image.path;
        is_in.then_some(Lookup { function, list: self.list })
    }

    /// Changes the function that unwinders call, if the process has it and that is not done yet.
    pub(super) fn watch_unwinder(&mut self) -> Result<(), TagError> {
        if self.gates.iter().any(is_lookup) || self.looks_up() {
            return Ok(());
        }
        let has = |one: &&Function| one.symbols.iter().any(|symbol| symbol == FUNCTION);
        let program = std::sync::Arc::clone(&self.program);
        if let Some(function) = program.image.functions.iter().find(has) {
            return self.change_lookup(&program, function);
        }
        let (files, mapped) = code_files(self.process.pid)?;
        for file in files {
            if !file.file_name().starts_with(C_LIBRARY) {
                continue;
            }
            // A file without such a function, or one that cannot be read, is left as it is.
            let exporting =
                Loaded::open_exporting(&self.process, &file, &mapped, FUNCTION, self.own_edits());
            let Ok(Some(loaded)) = exporting else { continue };
            return self.change_lookup(&loaded, &loaded.image.functions[0]);
        }
        Ok(())
    }

    /// Whether the C library is still to be loaded, or may be.
    pub(super) fn waits_for_unwinder(&self) -> Result<bool, TagError> {
        let is_known = self.looks_up() || self.gates.iter().any(is_lookup);
        if is_known || !self.program.image.dynamic {
            return Ok(false);
        }
        Ok(linker::notifier(&self.process)?.is_none())
    }

    /// Gives tables that were made before the dynamic linker had run the linker's record of the file.
    pub(super) fn name_objects(&self) -> Result<(), TagError> {
        for table in &self.tables {
            let at = table.start;
            if self.read_word(at + node::LINK_MAP)? == 0 {
                let bias = self.read_word(at + node::BIAS)?;
                let map = linker::link_map(&self.process, bias).unwrap_or(0);
                self.process.write(at + node::LINK_MAP, &map.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Gives tables of a file that was loaded once more the linker's record of it.
    pub(super) fn name_object(&self, bias: u64) -> Result<(), TagError> {
        let map = linker::link_map(&self.process, bias).unwrap_or(0);
        for table in &self.tables {
            if self.read_word(table.start + node::BIAS)? == bias {
                self.process.write(table.start + node::LINK_MAP, &map.to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn read_word(&self, address: u64) -> Result<u64, TagError> {
        let mut word = [0; ADDRESS_BYTES as usize];
        self.process.read(address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Whether a signal handler of a process whose threads are all stopped may be reading a table: it has the address of
    /// one in its registers or on its stack. Its stubs may have no thread any more that returns to them.
    pub(super) fn is_unwinding(&self) -> Result<bool, TagError> {
        let is_of_table = |word: u64| self.tables.iter().any(|table| table.contains(&word));
        let mapped = mappings(self.process.pid)?;
        for thread in self.process.threads.keys() {
            let interrupted = self.process.interrupted(*thread, &mapped)?;
            let Some(last) = interrupted.iter().map(|one| one.place).max() else { continue };
            let registers = self.process.registers(*thread)?;
            let bytes = last.saturating_sub(registers.rsp).min(HANDLER_BYTES) / ADDRESS_BYTES;
            let mut stack = vec![0; (bytes * ADDRESS_BYTES) as usize];
            self.process.read(registers.rsp, &mut stack)?;
            let words = stack.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let kept = [registers.rax, registers.rbx, registers.rcx, registers.rdx, registers.rsi];
            let more = [registers.rdi, registers.rbp, registers.r8, registers.r9, registers.r10];
            let rest = [registers.r11, registers.r12, registers.r13, registers.r14, registers.r15];
            let mut all = words.chain(kept).chain(more).chain(rest);
            if all.any(is_of_table) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the function is among those that are tagged.
    fn looks_up(&self) -> bool {
        self.patched.iter().any(|patched| patched.looks_up)
    }

    fn change_lookup(&mut self, loaded: &Loaded, function: &Function) -> Result<(), TagError> {
        let lookup = Lookup { function: function.start, list: self.list };
        let chosen = |one: &Function| (one.start == function.start).then_some(Grain::Function);
        let mut plan = patch::plan(loaded, chosen, Sink::Lookup);
        plan.lookup = Some(lookup);
        let shared = self.collector.shared();
        match Gate::with(&mut self.process, shared, loaded, function, plan, Purpose::Unwinder) {
            Ok(gate) if gate.patched.looks_up => self.close(gate, loaded),
            // It cannot be changed: as if there were none.
            Ok(gate) => {
                self.areas.push(gate.stubs);
                Ok(())
            }
            Err(TagError::NoGate { .. } | TagError::Ptrace(PtraceError::Forbidden { .. })) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the change out, where the function is to have a tag too, which does the same. Nothing has run since it
    /// was put in: both are done while all threads are stopped.
    pub(super) fn replace_lookup(&mut self, planned: &Planned) -> Result<(), TagError> {
        if !planned.patched.iter().any(|patched| patched.looks_up) {
            return Ok(());
        }
        for gate in self.gates.extract_if(.., |gate| is_lookup(gate)) {
            patch::restore(&self.process, std::slice::from_ref(&gate.patched))?;
            self.areas.push(gate.stubs);
        }
        Ok(())
    }

    /// Describes stubs of a file.
    pub(super) fn describe(
        &mut self,
        described: &Described,
        loaded: &Loaded,
    ) -> Result<(), TagError> {
        let Described { rows, end } = described;
        let Some(first) = rows.first() else { return Ok(()) };
        let pid = self.process.pid;
        let bytes = (NODE_BYTES + unwind::room(rows)) as u64;
        let area = areas::reserve(&mut self.process, self.collector.shared(), loaded, bytes)?;
        let at = area.start + NODE_BYTES as u64;
        let place = unwind::Place { at, end: *end, bias: loaded.bias };
        let table = unwind::table(rows, place).ok_or(TagError::NoRoom(pid, bytes))?;
        let there = |address: u64| address.wrapping_add(loaded.bias);
        let code = there(first.at)..there(*end);
        let node = self.node(&code, at, loaded)?;
        self.process.write(area.start, &[node.as_slice(), table.as_slice()].concat())?;
        self.process.write(self.list, &area.start.to_le_bytes())?;
        self.areas.push(area.clone());
        self.tables.push(area);
        self.described.push(code);
        Ok(())
    }

    fn node(
        &self,
        code: &Range<u64>,
        table: u64,
        loaded: &Loaded,
    ) -> Result<[u8; NODE_BYTES], TagError> {
        let fields = [
            (node::MAGIC, MAGIC),
            (node::NEXT, self.read_word(self.list)?),
            (node::START, code.start),
            (node::END, code.end),
            (node::LINK_MAP, linker::link_map(&self.process, loaded.bias).unwrap_or(0)),
            (node::TABLE, table),
            (node::BIAS, loaded.bias),
        ];
        let mut node = [0; NODE_BYTES];
        for (at, value) in fields {
            let at = at as usize;
            node[at..at + ADDRESS_BYTES as usize].copy_from_slice(&value.to_le_bytes());
        }
        Ok(node)
    }
}

/// Whether a gate is the change of the function that unwinders call.
fn is_lookup(gate: &Gate) -> bool {
    gate.purpose == Purpose::Unwinder
}
