//! Adds unwind tables for stubs ([`crate::unwind`]) to a process, where its unwinders find the
//! tables.
//!
//! ```text
//! memory of a table   node | .eh_frame_hdr | .eh_frame          read-only, recorded as memory of stubs
//! list                address of the first node                 memory of its own
//! ```
//!
//! Unwinders call the C library's `_dl_find_object` (glibc 2.35, libgcc 12). That function is
//! changed to search this list first ([`crate::stubs::lookup`]).
//!
//! Invariant: a table is complete before it is in the list. It is in the list before a jump leads
//! to the code that it describes. The process can use the tables without a controller.
//!
//! If a process lacks the function, only debuggers that read the tables in another way can unwind
//! stubs.

use std::ops::Range;

use super::breakpoint::{Breakpoint, Purpose};
use super::loaded::LoadedFile;
use super::patch::{self, GeneratedStubs};
use super::shared::Shared;
use super::stub_rows::StubRows;
use super::{PatchedCode, TagError, Tags, UnwindTables, areas, linker};
use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::Granularity;
use crate::elf::Function;
use crate::ptrace::{PtraceError, Stopped, code_files, mappings};
use crate::stubs::lookup::{MAGIC, node};
use crate::stubs::{Lookup, Sink};
use crate::unwind::{self, NODE_BYTES};

/// Function that unwinders call to find the tables of an address.
const FUNCTION: &str = "_dl_find_object";
/// Start of the file name of the C library.
const C_LIBRARY: &str = "libc.so";
/// Maximum number of bytes of a stack that are searched while a signal handler runs.
const HANDLER_BYTES: u64 = 1 << 20;
/// Bytes of an address.
const ADDRESS_BYTES: u64 = 8;

impl UnwindTables {
    /// Address ranges of code with tables, in the order of addition.
    pub fn described_code(&self) -> &[Range<RunAddr>] {
        &self.described_code
    }

    /// Sets the address of the linker's record in tables that were made before the dynamic linker
    /// had run.
    pub fn set_link_maps(&self, process: &Stopped<'_>) -> Result<(), TagError> {
        for table in &self.tables {
            let at = table.start;
            if read_word(process, at + node::LINK_MAP)? == 0 {
                let bias = LoadBias::new(read_word(process, at + node::BIAS)?);
                let map = linker::link_map(process, bias).unwrap_or_default();
                process.write(at + node::LINK_MAP, &map.0.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Updates the address of the linker's record in the tables of a file that was loaded again.
    pub fn set_link_map(&self, process: &Stopped<'_>, bias: LoadBias) -> Result<(), TagError> {
        let map = linker::link_map(process, bias).unwrap_or_default();
        for table in &self.tables {
            if LoadBias::new(read_word(process, table.start + node::BIAS)?) == bias {
                process.write(table.start + node::LINK_MAP, &map.0.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether a signal handler may be reading a table: the handler's registers or its stack hold
    /// the address of a table. All threads of the process are stopped. The stubs that the table
    /// describes may already be unused.
    pub fn is_in_use(&self, process: &Stopped<'_>) -> Result<bool, TagError> {
        let is_of_table =
            |word: u64| self.tables.iter().any(|table| table.contains(&RunAddr(word)));
        let mapped = mappings(process.pid)?;
        for thread in process.threads.keys() {
            let interrupted = match process.handler_returns(*thread, &mapped) {
                Err(PtraceError::TooMuchMemory { .. }) => return Ok(true),
                interrupted => interrupted?,
            };
            let Some(last) = interrupted.iter().map(|handler_return| handler_return.place).max()
            else {
                continue;
            };
            let registers = process.registers(*thread)?;
            let rsp = RunAddr(registers.rsp);
            let bytes = last.offset_from(rsp).unwrap_or(0).min(HANDLER_BYTES) / ADDRESS_BYTES;
            let mut stack = vec![0; (bytes * ADDRESS_BYTES) as usize];
            process.read(rsp, &mut stack)?;
            let words = stack.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let kept = [registers.rax, registers.rbx, registers.rcx, registers.rdx, registers.rsi];
            let more = [registers.rdi, registers.rbp, registers.r8, registers.r9, registers.r10];
            let rest = [registers.r11, registers.r12, registers.r13, registers.r14, registers.r15];
            let mut values = words.chain(kept).chain(more).chain(rest);
            if values.any(is_of_table) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a table for stubs of a file. Returns the memory of the table; `None` if the stubs have
    /// no rows.
    fn add(
        &mut self,
        process: &mut Stopped<'_>,
        shared: &Shared,
        described: &StubRows,
        loaded: &LoadedFile,
    ) -> Result<Option<Range<RunAddr>>, TagError> {
        let StubRows { rows, end } = described;
        let Some(first) = rows.first() else { return Ok(None) };
        let pid = process.pid;
        let bytes = (NODE_BYTES + unwind::max_table_bytes(rows)) as u64;
        let area = areas::reserve(process, shared, loaded, bytes)?;
        let at = area.start + NODE_BYTES as u64;
        let place = unwind::TablePlacement { at, end: *end, bias: loaded.bias };
        let table = unwind::table(rows, place).ok_or(TagError::NoFreeRange(pid, bytes))?;
        let code = loaded.bias.range_to_run(&(FileAddr(first.at)..*end));
        let node = self.node(process, &code, at, loaded)?;
        process.write(area.start, &[node.as_slice(), table.as_slice()].concat())?;
        process.write(self.list, &area.start.0.to_le_bytes())?;
        self.tables.push(area.clone());
        self.described_code.push(code);
        Ok(Some(area))
    }

    fn node(
        &self,
        process: &Stopped<'_>,
        code: &Range<RunAddr>,
        table: RunAddr,
        loaded: &LoadedFile,
    ) -> Result<[u8; NODE_BYTES], TagError> {
        let fields = [
            (node::MAGIC, MAGIC),
            (node::NEXT, read_word(process, self.list)?),
            (node::START, code.start.0),
            (node::END, code.end.0),
            (node::LINK_MAP, linker::link_map(process, loaded.bias).unwrap_or_default().0),
            (node::TABLE, table.0),
            (node::BIAS, loaded.bias.value()),
        ];
        let mut node = [0; NODE_BYTES];
        for (at, value) in fields {
            let at = at as usize;
            node[at..at + ADDRESS_BYTES as usize].copy_from_slice(&value.to_le_bytes());
        }
        Ok(node)
    }
}

impl Tags {
    /// Makes an empty list of tables.
    pub(super) fn make_table_list(&mut self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        let shared = self.collector.shared();
        let area = areas::reserve(process, shared, &self.program, ADDRESS_BYTES)?;
        self.unwinding.list = area.start;
        self.code.areas.push(area);
        Ok(())
    }

    /// Data of the stub lookup for a file; `None` if the function that unwinders call is in another
    /// file.
    pub(super) fn lookup_in(&self, loaded: &LoadedFile) -> Option<Lookup> {
        let breakpoint = self.code.breakpoints.iter().find(|breakpoint| is_lookup(breakpoint))?;
        let function = loaded.bias.to_file(breakpoint.patched.address());
        let is_in = breakpoint.patched.object == loaded.image.path;
        is_in.then_some(Lookup { function, list: self.unwinding.list })
    }

    /// Changes the function that unwinders call, if the process has the function and it is not
    /// changed yet.
    pub(super) fn hook_unwinder(&mut self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        if self.code.breakpoints.iter().any(is_lookup) || self.code.looks_up() {
            return Ok(());
        }
        let has = |function: &&Function| function.symbols.iter().any(|symbol| symbol == FUNCTION);
        let program = std::sync::Arc::clone(&self.program);
        if let Some(function) = program.image.functions.iter().find(has) {
            return self.change_lookup(process, &program, function);
        }
        let (files, mapped) = code_files(process.pid)?;
        for file in files {
            if !file.file_name().starts_with(C_LIBRARY) {
                continue;
            }
            // A file that does not export the function, or that cannot be read, is skipped.
            let exporting = LoadedFile::open_exporting(
                process,
                &file,
                &mapped,
                FUNCTION,
                self.code.own_edits(),
            );
            let Ok(Some(loaded)) = exporting else { continue };
            return self.change_lookup(process, &loaded, &loaded.image.functions[0]);
        }
        Ok(())
    }

    /// Whether the C library may be loaded later.
    pub(super) fn awaits_unwinder(&self, process: &Stopped<'_>) -> Result<bool, TagError> {
        let is_known = self.code.looks_up() || self.code.breakpoints.iter().any(is_lookup);
        if is_known || !self.program.image.dynamic {
            return Ok(false);
        }
        Ok(linker::notifier(process)?.is_none())
    }

    fn change_lookup(
        &mut self,
        process: &mut Stopped<'_>,
        loaded: &LoadedFile,
        function: &Function,
    ) -> Result<(), TagError> {
        let lookup = Lookup { function: function.address(), list: self.unwinding.list };
        let chosen =
            |one: &Function| (one.start == function.start).then_some(Granularity::Function);
        let mut plan = patch::plan(loaded, chosen, Sink::Lookup);
        plan.lookup = Some(lookup);
        let shared = self.collector.shared();
        match Breakpoint::with(process, shared, loaded, function, plan, Purpose::Unwinder) {
            Ok(breakpoint) if breakpoint.patched.looks_up => {
                self.set_breakpoint(process, breakpoint, loaded)
            }
            // The function cannot be changed, so unwinders do not find the tables.
            Ok(breakpoint) => {
                self.code.areas.push(breakpoint.stubs);
                Ok(())
            }
            Err(
                TagError::NoBreakpoint { .. } | TagError::Ptrace(PtraceError::Forbidden { .. }),
            ) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds an unwind table for stubs of a file.
    pub(super) fn add_unwind_table(
        &mut self,
        process: &mut Stopped<'_>,
        described: &StubRows,
        loaded: &LoadedFile,
    ) -> Result<(), TagError> {
        let shared = self.collector.shared();
        self.code.areas.extend(self.unwinding.add(process, shared, described, loaded)?);
        Ok(())
    }
}

impl PatchedCode {
    /// Removes the change of the function that unwinders call if this function is now to be tagged;
    /// its stub then includes the change. All threads are stopped since the change was inserted, so
    /// no thread has executed the change.
    pub(super) fn replace_lookup(
        &mut self,
        process: &Stopped<'_>,
        planned: &GeneratedStubs,
    ) -> Result<(), TagError> {
        if !planned.patched.iter().any(|patched| patched.looks_up) {
            return Ok(());
        }
        for breakpoint in self.breakpoints.extract_if(.., |breakpoint| is_lookup(breakpoint)) {
            patch::restore(process, std::slice::from_ref(&breakpoint.patched))?;
            self.areas.push(breakpoint.stubs);
        }
        Ok(())
    }
}

fn read_word(process: &Stopped<'_>, address: RunAddr) -> Result<u64, TagError> {
    let mut word = [0; ADDRESS_BYTES as usize];
    process.read(address, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Whether a breakpoint stands for the change of the function that unwinders call.
fn is_lookup(breakpoint: &Breakpoint) -> bool {
    breakpoint.purpose == Purpose::Unwinder
}
