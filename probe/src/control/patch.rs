//! Plans and inserts the jumps of chosen functions, and restores the original instructions.
//!
//! [`plan`] selects the instructions to be changed, [`Plan::stubs`] generates the stubs for an
//! address, [`tag`] inserts the jumps and moves the threads that are at overwritten instructions,
//! and [`restore`] removes the jumps.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use hmtt_files::tag_log::FunctionId;

use super::TagError;
use super::changed_function::ChangedFunction;
use super::direct_calls;
use super::edits::{self, Edit};
use super::linkage;
use super::loaded::LoadedFile;
use super::refused::{RefusalReason, Refused};
use super::shared::Overwritten;
use super::stub_rows::StubRows;
use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{Block, Call, Granularity, NaturalLoop, Refusal, Rewrite, bytes_of};
use crate::elf::Function;
use crate::ptrace::{HandlerReturn, PtraceError, Stopped, mappings};
use crate::stubs::lookup;
use crate::stubs::restorer::{Entry, list_bytes};
use crate::stubs::{InlineBytes, Lookup, Sink, StubError, Stubs, TagCode};

/// Bytes reserved for code that tags share.
const SHARED_BYTES: u64 = 1024;

/// A function with jumps to stubs.
#[derive(Clone, Debug)]
pub(super) struct PatchedFunction {
    pub function: Function,
    /// Path of the file with the function.
    pub object: PathBuf,
    /// Number of the function in events. The numbers of its blocks follow.
    pub id: FunctionId,
    /// Blocks that are tagged, in the order of their numbers.
    pub blocks: Vec<Block>,
    /// Blocks that were chosen and are not tagged.
    pub refused_blocks: Vec<Block>,
    /// Natural loops, if blocks or loops were chosen.
    pub loops: Vec<NaturalLoop>,
    bias: LoadBias,
    /// Number of exits that no tag reports.
    pub hidden: usize,
    /// Whether the stub of the function looks up stubs, for unwinders.
    pub looks_up: bool,
    /// Whether the function is Go code.
    pub is_go: bool,
    edits: Vec<Edit>,
    /// Whether the jumps are gone because the library was unloaded.
    pub is_removed: bool,
    /// Address ranges of regions in memory. A range leaves out the first byte of its region.
    regions: Vec<(RunAddr, RunAddr)>,
    /// Original and new address of each moved instruction in memory, ascending.
    moved: Vec<(RunAddr, RunAddr)>,
    /// Position of the code of its tags in memory.
    tags: Vec<TagCode<RunAddr>>,
    /// Address range of its stubs in memory.
    pub stubs: Range<RunAddr>,
}

/// Result of generating stubs: the changed functions, the refused functions with the reasons, the
/// code of the stubs and its unwind rows.
pub(super) struct GeneratedStubs {
    pub patched: Vec<PatchedFunction>,
    pub refused: Vec<Refused>,
    pub code: Vec<u8>,
    pub described: StubRows,
}

/// Functions that are to be changed, with the changes.
#[derive(Clone)]
pub(super) struct Plan {
    rewrites: Vec<(Function, Granularity, Rewrite)>,
    refused: Vec<Refused>,
    /// All direct calls in the file.
    calls: Vec<Call>,
    sink: Sink,
    /// Data of the stub lookup, if the function that unwinders call is changed.
    pub lookup: Option<Lookup>,
}

/// Plans the changes of the chosen functions. `chosen`: granularity for a chosen function, `None`
/// for all others.
pub(super) fn plan(
    loaded: &LoadedFile,
    chosen: impl Fn(&Function) -> Option<Granularity>,
    sink: Sink,
) -> Plan {
    let chosen =
        loaded.image.functions.iter().filter_map(|function| Some((function, chosen(function)?)));
    let chosen: Vec<(&Function, Granularity)> = chosen.collect();
    let disassembly = loaded.disassembly();
    let rewrites = disassembly.rewrites_with_granularity(&chosen, sink.exits());
    let calls = disassembly.calls().iter().filter(|call| loaded.image.is_unchanged_call(call.next));
    let calls = calls.copied().collect();
    let (planned, refused) = (Vec::new(), Vec::new());
    let mut plan = Plan { rewrites: planned, refused, calls, sink, lookup: None };
    let outcomes = chosen
        .into_iter()
        .map(|(function, granularity)| (function.clone(), granularity))
        .zip(rewrites);
    plan.add_rewrites(outcomes);
    plan
}

impl Plan {
    /// Adds the changes of each function, or the reason why it cannot be tagged.
    fn add_rewrites(
        &mut self,
        outcomes: impl Iterator<Item = ((Function, Granularity), Result<Rewrite, Refusal>)>,
    ) {
        for ((function, granularity), rewrite) in outcomes {
            match rewrite {
                Ok(rewrite) => self.rewrites.push((function, granularity, rewrite)),
                Err(refusal) => {
                    let reason = RefusalReason::Code(refusal);
                    self.refused.push(Refused { function, reason });
                }
            }
        }
    }

    /// Resolves calls through the procedure linkage table, in a process whose threads are stopped.
    pub fn resolve_calls(
        &mut self,
        process: &Stopped<'_>,
        loaded: &LoadedFile,
    ) -> Result<(), PtraceError> {
        linkage::resolve(process, loaded, &mut self.calls)
    }

    /// Whether no function is changed.
    pub fn is_empty(&self) -> bool {
        self.rewrites.is_empty()
    }

    /// Functions that were chosen and cannot be changed, with the reasons.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Maximum count of numbers that the functions and blocks take in events.
    pub fn numbers(&self) -> usize {
        self.rewrites.iter().map(|(.., rewrite)| 1 + rewrite.tagged_blocks().count()).sum()
    }

    /// Maximum size in bytes of the stubs and the list of their moved instructions.
    pub fn stub_bytes(&self) -> u64 {
        let stubs = self.rewrites.iter().map(|(.., rewrite)| Stubs::max_bytes(rewrite, self.sink));
        let regions = self.rewrites.iter().flat_map(|(.., rewrite)| &rewrite.regions);
        let moved = regions.map(|region| region.instructions.len() as u64).sum();
        stubs.sum::<u64>() + SHARED_BYTES + lookup::MOST_BYTES + list_bytes(moved)
    }

    /// Generates the stubs for the address `start`. `first`: number of the first function.
    ///
    /// # Errors
    /// [`StubError`] if the code that tags share cannot be generated.
    pub fn stubs(
        mut self,
        start: RunAddr,
        first: FunctionId,
        loaded: &LoadedFile,
    ) -> Result<GeneratedStubs, StubError> {
        loop {
            let before = self.refused.len();
            let tags = self.rewrites.iter().map(|(.., rewrite)| Stubs::tags(rewrite)).sum();
            let mut stubs = Stubs::new(start, loaded.bias, self.sink, tags)?;
            stubs.look_up(self.lookup);
            let mut changed: Vec<ChangedFunction> = Vec::new();
            let mut id = first;
            let mut granularities = Vec::new();
            for (function, granularity, rewrite) in std::mem::take(&mut self.rewrites) {
                match stubs.add(&rewrite, function.start, id) {
                    Ok(changes) => {
                        let changed_function = ChangedFunction { function, id, rewrite, changes };
                        id = id.offset(changed_function.numbers());
                        changed.push(changed_function);
                        granularities.push(granularity);
                    }
                    Err(error) => {
                        let reason = RefusalReason::Stub(error);
                        self.refused.push(Refused { function, reason });
                    }
                }
            }
            if self.refused.len() == before {
                direct_calls::redirect(&self.calls, &mut changed);
                let patched =
                    changed.into_iter().map(|changed| PatchedFunction::new(changed, loaded));
                let (patched, code) = (patched.collect(), stubs.code());
                let (rows, end) = stubs.rows();
                let described = StubRows { rows, end };
                return Ok(GeneratedStubs { patched, refused: self.refused, code, described });
            }
            // The other functions may have relied on free bytes in the functions that were just
            // refused, so they are planned again.
            let rest: Vec<(Function, Granularity)> = changed
                .into_iter()
                .map(|changed_function| changed_function.function)
                .zip(granularities)
                .collect();
            let chosen: Vec<(&Function, Granularity)> =
                rest.iter().map(|(function, granularity)| (function, *granularity)).collect();
            let rewrites =
                loaded.disassembly().rewrites_with_granularity(&chosen, self.sink.exits());
            self.add_rewrites(rest.into_iter().zip(rewrites));
        }
    }
}

impl PatchedFunction {
    fn new(changed: ChangedFunction, loaded: &LoadedFile) -> Self {
        let ChangedFunction { function, id, rewrite, changes } = changed;
        let LoadedFile { image, bias, .. } = loaded;
        let in_memory = |address: FileAddr| bias.to_run(address);
        let edit = |(address, new): (FileAddr, InlineBytes)| {
            let original =
                bytes_of(image, address.0, new.len() as u64).and_then(InlineBytes::from_slice);
            let original = original.unwrap_or_default();
            let is_start = changes.regions.iter().any(|(start, _)| *start == address);
            Edit::new(in_memory(address), original, new, is_start)
        };
        let (blocks, refused_blocks) =
            rewrite.blocks.into_iter().partition(|block| block.refusal.is_none());
        PatchedFunction {
            object: image.path.clone(),
            id,
            blocks,
            refused_blocks,
            loops: rewrite.loops,
            bias: *bias,
            is_go: image.go.as_ref().is_some_and(|go| go.function_at(function.start).is_some()),
            function,
            hidden: rewrite.hidden.len(),
            looks_up: changes.looks_up,
            is_removed: false,
            edits: changes.edits.into_iter().map(edit).collect(),
            regions: changes
                .regions
                .into_iter()
                .map(|(a, b)| (in_memory(a) + 1, in_memory(b)))
                .collect(),
            moved: changes.moved.into_iter().map(|(a, b)| (in_memory(a), in_memory(b))).collect(),
            tags: changes.tags.iter().map(|tag| tag.in_process(*bias)).collect(),
            stubs: bias.range_to_run(&changes.stubs),
        }
    }

    /// The edits of the function; none if the library was unloaded.
    pub fn edits(&self) -> &[Edit] {
        if self.is_removed { &[] } else { &self.edits }
    }

    /// Whether both functions have the same edits.
    pub fn has_edits_of(&self, other: &PatchedFunction) -> bool {
        self.edits == other.edits
    }

    /// Whether the original bytes are in memory although no tag was removed. This happens when the
    /// file was mapped again.
    pub fn is_original(&self, process: &Stopped<'_>) -> bool {
        let Some(edit) = self.edits.first() else { return false };
        let mut there = vec![0; edit.new_bytes().len()];
        process.read(edit.address, &mut there).is_ok() && there == edit.original_bytes()
    }

    /// Whether jumps of another function are within the regions of this function.
    pub fn overlaps_jumps_of(&self, other: &PatchedFunction) -> bool {
        let inside =
            |at: RunAddr| self.regions.iter().any(|(start, end)| (*start..*end).contains(&at));
        other.edits.iter().any(|edit| inside(edit.address))
    }

    /// Tagged blocks with their numbers.
    pub fn numbered_blocks(&self) -> impl Iterator<Item = (FunctionId, &Block)> {
        (1..).zip(&self.blocks).map(|(at, block)| (self.id.offset(at), block))
    }

    /// Count of numbers that the function takes in events: one for itself and one for each of its
    /// blocks.
    pub fn numbers(&self) -> u32 {
        1 + self.blocks.len() as u32
    }

    /// Number of events of the function and its blocks. `counts`: counts by the number of the
    /// function or block.
    pub fn events(&self, counts: &[u64]) -> u64 {
        let own =
            counts.get(self.id.index()..).unwrap_or_default().iter().take(self.numbers() as usize);
        own.sum()
    }

    /// Address in memory of an address of the file.
    pub fn in_memory(&self, address: FileAddr) -> RunAddr {
        self.bias.to_run(address)
    }

    /// Address of the function in memory.
    pub fn address(&self) -> RunAddr {
        self.in_memory(self.function.address())
    }

    /// Pairs of an address in the stubs and its original address. The pairs are for moved
    /// instructions and for the start and end of tags; a tag stands for the instruction that
    /// follows it.
    pub fn original_addresses(&self) -> impl Iterator<Item = (RunAddr, RunAddr)> + '_ {
        let tags = self.tags.iter();
        let tags = tags.flat_map(|tag| [(tag.start, tag.original), (tag.end, tag.original)]);
        self.moved.iter().map(|(old, new)| (*new, *old)).chain(tags)
    }

    /// The original address for an address in the stubs; `None` if the address is no boundary.
    pub fn original(&self, address: RunAddr) -> Option<RunAddr> {
        self.original_addresses()
            .find_map(|(place, original)| (place == address).then_some(original))
    }

    /// The tag whose code contains an address.
    pub fn tag_around(&self, address: RunAddr) -> Option<&TagCode<RunAddr>> {
        self.tags.iter().find(|tag| tag.is_within(address))
    }

    /// Whether an instruction of a tag begins at an address.
    pub fn has_tag_at(&self, address: RunAddr) -> bool {
        self.tags.iter().any(|tag| (tag.start..tag.end).contains(&address))
    }

    /// Whether a region begins at an address.
    pub fn is_start(&self, address: RunAddr) -> bool {
        self.regions.iter().any(|(behind, _)| behind.wrapping_sub(1) == address)
    }

    /// Instructions that jumps have overwritten. Signal handlers that return to such an instruction
    /// use these entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let jumps = self.edits.iter().map(|edit| (edit.address, edit.new_bytes()));
        let jumps: HashMap<RunAddr, &[u8]> = jumps.collect();
        let of_region = move |(behind, end): (RunAddr, RunAddr)| {
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

    /// Address in the stubs of an overwritten instruction. `None` if `rip` is not overwritten,
    /// `Some(None)` if it has no counterpart in the stubs.
    ///
    /// For example, after a 5-byte jump was written over `push rbp; mov rbp, rsp; sub rsp, 16` at
    /// 0x1000 (1, 3 and 4 bytes long), the results are `None` for 0x1000, where the jump is
    /// executed, the address of the moved `mov` for 0x1001, and `Some(None)` for 0x1002, where no
    /// instruction begins.
    fn counterpart(&self, rip: RunAddr) -> Option<Option<RunAddr>> {
        let inside = self.regions.iter().any(|(start, end)| (*start..*end).contains(&rip));
        let moved = || self.moved.binary_search_by_key(&rip, |(old, _)| *old).ok();
        inside.then(|| moved().map(|index| self.moved[index].1))
    }
}

/// Original and new bytes of all places that edits overwrite, in the order of insertion.
pub(super) fn overwritten(patched: &[PatchedFunction]) -> Vec<Overwritten> {
    edits::overwritten(patched.iter().flat_map(|patched| &patched.edits))
}

fn counterpart(patched: &[PatchedFunction], rip: RunAddr) -> Option<Option<RunAddr>> {
    patched.iter().find_map(|patched| patched.counterpart(rip))
}

/// Inserts the jumps; all threads are stopped.
///
/// # Errors
/// [`TagError::InTheWay`] if a thread is at an overwritten instruction and cannot be moved; nothing
/// was changed then.
pub(super) fn tag(process: &Stopped<'_>, patched: &[PatchedFunction]) -> Result<(), TagError> {
    let mappings = mappings(process.pid)?;
    let (mut moves, mut returns) = (Vec::new(), Vec::new());
    for thread in process.threads.keys() {
        let registers = process.registers(*thread)?;
        let in_the_way = |rip| TagError::InTheWay(*thread, rip);
        let at = RunAddr(registers.rip);
        if let Some(new) = counterpart(patched, at) {
            let rip = new.ok_or_else(|| in_the_way(at))?.0;
            moves.push((*thread, libc::user_regs_struct { rip, ..registers }));
        }
        for HandlerReturn { rip, place, restorer } in process.handler_returns(*thread, &mappings)? {
            // The changed restorer finds the new address by itself.
            if restorer.is_some_and(|address| process.restorers.contains(&address)) {
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
        process.write(place, &rip.0.to_le_bytes())?;
    }
    Ok(edits::insert(process, patched.iter().flat_map(|patched| &patched.edits))?)
}

/// Removes the jumps. Jumps of an unloaded library are skipped. A thread in a stub continues there:
/// stubs stay, and lead back to the code behind the jump. Returns the addresses where the program
/// has overwritten a jump; these addresses keep the program's bytes.
pub(super) fn restore(
    process: &Stopped<'_>,
    patched: &[PatchedFunction],
) -> Result<Vec<RunAddr>, PtraceError> {
    edits::remove(process, patched.iter().flat_map(PatchedFunction::edits))
}
