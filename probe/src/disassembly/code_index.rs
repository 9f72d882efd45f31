//! Indexes the addresses where control may arrive from outside the code of their function.
//!
//! Such an address must keep its instruction: among overwritten bytes, only the first byte may be
//! such an address. These *external targets* are return addresses, targets of branches from other
//! functions, addresses in jump tables and data, and all addresses that an instruction names
//! without branching to them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use super::address_set::AddressSet;
use super::call::Call;
use super::computed_bases::{self, ComputedBase, NamedAddress};
use super::go;
use super::{branch_target, bytes_of, in_parallel, instructions, is_call};
use crate::elf::{Image, Text};

/// Maximum number of jump table entries that are read.
const TABLE: u64 = 1 << 16;

/// Addresses at which control may arrive, for all functions of a file.
#[derive(Debug)]
pub struct CodeIndex {
    /// All external targets.
    external: AddressSet,
    /// External targets that begin a basic block: all except return addresses.
    heads: AddressSet,
    /// External targets that a table, data or the unwinder leads to, but no direct branch.
    computed: AddressSet,
    /// Starts of functions and parts whose jump tables could be read.
    tabled: HashSet<u64>,
    /// Starts of functions and parts with instructions that name addresses within the same range.
    self_naming: HashSet<u64>,
    /// For each separate part, by its start, the start of the function that it belongs to.
    owners: HashMap<u64, u64>,
    /// Calls with a direct target.
    calls: Vec<Call>,
    /// Go functions that are called by a function without a check of the stack.
    unchecked: HashSet<u64>,
    /// Instruction addresses from which code computes further addresses.
    bases: Vec<ComputedBase>,
    /// Functions and parts, by their starts, in which control may arrive at any instruction because
    /// code computes addresses. The value is the address of the computing instruction.
    entered_within: HashMap<u64, u64>,
}

/// A table whose address a function names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NamedTable {
    /// Address of the table.
    address: u64,
    /// Whether the entries are 32-bit addresses. Otherwise they are distances from the table's
    /// address.
    is_absolute: bool,
    /// Start and end of the function or part that names the table.
    range: (u64, u64),
}

impl CodeIndex {
    /// Decodes all functions of a file and reads the jump tables that they name.
    pub fn new(image: &Image) -> CodeIndex {
        let functions =
            image.functions.iter().map(|function| function.start..function.start + function.size);
        let ranges: Vec<Range<u64>> = functions.chain(image.fragments.iter().cloned()).collect();
        let mut code_index = CodeIndex::empty(image);
        let mut tables = Vec::new();
        for (part, more) in in_parallel(&ranges, |ranges| CodeIndex::from_ranges(image, ranges)) {
            code_index.external.extend(&part.external);
            code_index.heads.extend(&part.heads);
            code_index.computed.extend(&part.computed);
            code_index.self_naming.extend(part.self_naming);
            for (part, function) in part.owners {
                code_index.owners.entry(part).or_insert(function);
            }
            code_index.calls.extend(part.calls);
            code_index.bases.extend(part.bases);
            tables.extend(more);
        }
        let resumed = image.go.iter().flat_map(|go| &go.recovery_points);
        let reached = image.indirect_targets.iter().chain(&image.landing_pads).chain(resumed);
        reached.for_each(|address| code_index.add_computed_target(*address));
        // Each table is read once, even if a function names it several times.
        tables.sort_unstable();
        tables.dedup();
        // A table ends before the next table.
        let named: Vec<u64> = tables.iter().map(|table| table.address).collect();
        for table in tables {
            let next = named.partition_point(|other| *other <= table.address);
            let end = named.get(next).copied().unwrap_or(u64::MAX);
            code_index.read_table(image, &table, end);
        }
        code_index.bases.sort_unstable();
        for base in std::mem::take(&mut code_index.bases) {
            code_index.add_computed_entries(image, base);
        }
        code_index.unchecked = go::called_unchecked(image, &code_index.calls);
        // If control arrives in the middle of a call, the call's bytes belong to another
        // instruction as well.
        let (external, calls) = (&code_index.external, &mut code_index.calls);
        let is_external_target =
            |call: &Call| (call.start() + 1..call.next).any(|at| external.contains(at));
        calls.retain(|call| !is_external_target(call));
        code_index
    }

    /// Whether a Go function is called by a Go function without a check of the stack.
    pub fn is_called_unchecked(&self, start: u64) -> bool {
        self.unchecked.contains(&start)
    }

    fn empty(image: &Image) -> CodeIndex {
        let [external, heads, computed] = [(); 3].map(|()| AddressSet::new(image));
        let (tabled, self_naming, owners, calls, unchecked) = Default::default();
        let (bases, entered_within) = Default::default();
        CodeIndex {
            external,
            heads,
            computed,
            tabled,
            self_naming,
            owners,
            calls,
            unchecked,
            bases,
            entered_within,
        }
    }

    /// Indexes some address ranges. Returns the index, and the tables that their instructions name.
    fn from_ranges(image: &Image, ranges: &[Range<u64>]) -> (CodeIndex, Vec<NamedTable>) {
        let (mut code_index, mut tables) = (CodeIndex::empty(image), Vec::new());
        for range in ranges {
            code_index.external.insert(range.start);
            code_index.read(image, range.clone(), &mut tables);
        }
        (code_index, tables)
    }

    /// Whether control may arrive at an address from outside the code of its function.
    pub fn is_external_target(&self, address: u64) -> bool {
        self.external.contains(address)
    }

    /// Whether an external target begins a basic block.
    pub fn is_block_start(&self, address: u64) -> bool {
        self.heads.contains(address)
    }

    /// Whether a function or part names a table whose entries lead into it.
    pub fn has_table(&self, start: u64) -> bool {
        self.tabled.contains(&start)
    }

    /// Whether a function or part names an address within itself without branching to it.
    pub fn names_itself(&self, start: u64) -> bool {
        self.self_naming.contains(&start)
    }

    /// Whether an address is the target of a table, a pointer or the unwinder.
    pub fn is_computed(&self, address: u64) -> bool {
        self.computed.contains(address)
    }

    /// Address of the instruction that computes addresses within a function or part. Control may
    /// then arrive at any instruction of this range.
    pub fn computes_entry(&self, start: u64) -> Option<u64> {
        self.entered_within.get(&start).copied()
    }

    /// Records an address that control reaches by a computed jump or call.
    fn add_computed_target(&mut self, address: u64) {
        self.external.insert(address);
        self.heads.insert(address);
        self.computed.insert(address);
    }

    fn read(&mut self, image: &Image, range: Range<u64>, tables: &mut Vec<NamedTable>) {
        let Some(bytes) = bytes_of(image, range.start, range.end - range.start) else { return };
        let (mut calls, mut targets, mut end) = (Vec::new(), Vec::new(), range.start);
        let (mut named, mut number) = (Vec::new(), 0);
        let mut is_whole = true;
        for instruction in all_instructions(bytes, range.start) {
            is_whole &= instruction.ip() == end;
            end = instruction.next_ip();
            if instruction.code() == Code::Call_rel32_64 {
                calls.push(Call { next: end, target: instruction.near_branch_target() });
            }
            match branch_target(&instruction) {
                Some(target) if !range.contains(&target) => {
                    self.external.insert(target);
                    self.heads.insert(target);
                    if is_whole {
                        self.assign_part(image, range.start, target);
                    }
                }
                Some(target) => targets.push(target),
                None => {
                    let named =
                        self.record_references(image, &instruction, &range, number, &mut named);
                    let table = |(address, is_absolute)| NamedTable {
                        address,
                        is_absolute,
                        range: (range.start, range.end),
                    };
                    tables.extend(named.map(table));
                }
            }
            number += 1;
        }
        if !named.is_empty() {
            let instructions: Vec<Instruction> = all_instructions(bytes, range.start).collect();
            self.bases.extend(computed_bases::find(&instructions, &range, &named));
        }
        // If some bytes are no instructions, or can be decoded in two ways, some calls may not be
        // real ones.
        let next = image.functions.partition_point(|function| function.start <= range.start);
        let is_alone = image.functions.get(next).is_none_or(|function| range.end <= function.start);
        if is_whole && end == range.end && is_alone {
            targets.sort_unstable();
            let has_target_inside = |call: &Call| {
                let after = targets.partition_point(|target| *target <= call.start());
                targets.get(after).is_some_and(|target| *target < call.next)
            };
            self.calls.extend(calls.into_iter().filter(|call| !has_target_inside(call)));
        }
    }

    /// Calls with a direct target.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Records that a separate part belongs to a function, if a branch connects them.
    fn assign_part(&mut self, image: &Image, from: u64, to: u64) {
        let function = |address| image.function_at(address).map(|function| function.start);
        let part = |address| fragment_at(image, address).map(|range| range.start);
        let pair = match (function(from), part(to), part(from), function(to)) {
            (Some(function), Some(part), ..) => Some((part, function)),
            (_, _, Some(part), Some(function)) if function != to => Some((part, function)),
            _ => None,
        };
        if let Some((part, function)) = pair {
            self.owners.entry(part).or_insert(function);
        }
    }

    /// Pairs of a separate part and the function that it belongs to, both by their starts.
    pub fn owners(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.owners.iter().map(|(part, function)| (*part, *function))
    }

    /// Records the addresses that an instruction refers to. Direct branches are left out. Returns
    /// the address of a possible jump table, and whether its entries are addresses. `number`: index
    /// of the instruction. `named`: list to which this function adds addresses of instructions, if
    /// the instruction loads such an address into a register.
    fn record_references(
        &mut self,
        image: &Image,
        instruction: &Instruction,
        range: &Range<u64>,
        number: usize,
        named: &mut Vec<NamedAddress>,
    ) -> Option<(u64, bool)> {
        if is_call(instruction) {
            self.external.insert(instruction.near_branch_target());
            self.external.insert(instruction.next_ip());
        }
        // An aborted transaction continues at the target of this instruction.
        if instruction.flow_control() == FlowControl::XbeginXabortXend {
            self.add_computed_target(instruction.near_branch_target());
        }
        let mut load = |address| {
            let register = instruction.op0_register();
            if is_code(image, address) && register.is_gpr() {
                named.push(NamedAddress { index: number, register, address });
            }
        };
        let place = instruction.ip();
        let immediate = [OpKind::Immediate32, OpKind::Immediate32to64, OpKind::Immediate64];
        if !image.relocatable && immediate.contains(&instruction.op1_kind()) {
            let address = instruction.immediate(1);
            match instruction.mnemonic() {
                Mnemonic::Mov => load(address),
                Mnemonic::Add | Mnemonic::Sub if is_code(image, address) => {
                    self.bases.push(ComputedBase { address, place });
                }
                _ => {}
            }
            self.record_reference(address, range);
        }
        if !instruction.is_ip_rel_memory_operand() {
            return self.record_displacement(image, instruction);
        }
        let address = instruction.ip_rel_memory_address();
        self.record_reference(address, range);
        match instruction.mnemonic() {
            Mnemonic::Lea => {
                load(address);
                Some((address, false))
            }
            // The memory operand holds a pointer that the linker or the program sets.
            Mnemonic::Mov => {
                image.pointer_at(address).into_iter().for_each(load);
                None
            }
            _ => None,
        }
    }

    /// Records the displacement of an instruction's memory operand, which is an address in a
    /// program that is loaded at a fixed address. Returns the address if a table of addresses may
    /// begin there.
    fn record_displacement(
        &mut self,
        image: &Image,
        instruction: &Instruction,
    ) -> Option<(u64, bool)> {
        /// Bytes of an entry of such a table.
        const ENTRY: u32 = 4;
        let address = instruction.memory_displacement64();
        let has_register = instruction.memory_index() != Register::None
            || instruction.memory_base() != Register::None;
        let has_memory =
            (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
        if image.relocatable || !has_memory || !has_register {
            return None;
        }
        if instruction.mnemonic() == Mnemonic::Lea && is_code(image, address) {
            self.bases.push(ComputedBase { address, place: instruction.ip() });
        }
        (instruction.memory_index_scale() == ENTRY).then_some((address, true))
    }

    fn record_reference(&mut self, address: u64, range: &Range<u64>) {
        self.add_computed_target(address);
        if address != range.start && range.contains(&address) {
            self.self_naming.insert(range.start);
        }
    }

    /// Reads a table up to the first entry that leads out of the function. An entry is an address,
    /// or a distance from the table's own address.
    fn read_table(&mut self, image: &Image, table: &NamedTable, end: u64) {
        let (address, range) = (table.address, table.range.0..table.range.1);
        let Some(bytes) = data_at(image, address) else { return };
        let longest = ((end - address) / 4).min(TABLE) as usize;
        for entry in bytes.as_chunks().0.iter().take(longest) {
            let target = if table.is_absolute {
                u64::from(u32::from_le_bytes(*entry))
            } else {
                address.wrapping_add_signed(i64::from(i32::from_le_bytes(*entry)))
            };
            // The entry of an impossible case may lead to the address behind the last instruction.
            if target == range.end {
                continue;
            }
            if !range.contains(&target) && fragment_at(image, target).is_none() {
                break;
            }
            self.add_computed_target(target);
            self.tabled.insert(range.start);
        }
    }

    /// Records that control may arrive at any byte behind the first instruction of the function or
    /// part that contains an address. An address at the beginning of a function may also be the end
    /// of the function before it; then both functions are recorded.
    fn add_computed_entries(&mut self, image: &Image, base: ComputedBase) {
        let before = |at: u64| range_at(image, at.checked_sub(1)?);
        let at_start =
            range_at(image, base.address).is_none_or(|range| range.start == base.address);
        let before = before(padding_start(image, base.address)).filter(|_| at_start);
        let ranges = [range_at(image, base.address), before];
        for range in ranges.into_iter().flatten() {
            let owner = self.owners.get(&range.start).copied();
            let owner = owner.and_then(|function| range_at(image, function));
            for range in [Some(range), owner].into_iter().flatten() {
                if self.entered_within.insert(range.start, base.place).is_some() {
                    continue;
                }
                let bytes = bytes_of(image, range.start, range.end - range.start);
                let first = bytes.and_then(|bytes| instructions(bytes, range.start).next());
                let first = first.map_or(range.start, |first| first.next_ip());
                (first..range.end).for_each(|address| self.external.insert(address));
            }
        }
    }
}

/// Decodes all instructions, even those behind bytes that are no instructions, so that no reference
/// is missed.
fn all_instructions(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    std::iter::from_fn(move || {
        while decoder.can_decode() {
            let ip = decoder.ip();
            let instruction = decoder.decode();
            if !instruction.is_invalid() {
                return Some(instruction);
            }
            decoder.set_position((ip - start + 1) as usize).ok()?;
            decoder.set_ip(ip + 1);
        }
        None
    })
}

/// The function or separate part that contains an address.
fn range_at(image: &Image, address: u64) -> Option<Range<u64>> {
    let function =
        image.function_at(address).map(|function| function.start..function.start + function.size);
    function.or_else(|| fragment_at(image, address).cloned())
}

/// Whether an address is in, or directly behind, a function or a separate part of a function.
fn is_code(image: &Image, address: u64) -> bool {
    // A table may have an entry for the end of a function, and an unrolled loop may be entered at
    // its end.
    range_at(image, address).is_some()
        || address.checked_sub(1).is_some_and(|last| range_at(image, last).is_some())
}

/// Address of the first byte of the padding that ends at an address.
fn padding_start(image: &Image, address: u64) -> u64 {
    /// Maximum length of the padding between functions that are aligned.
    const LONGEST: u64 = 16;
    let first = address.saturating_sub(LONGEST);
    (first..address).rev().take_while(|at| range_at(image, *at).is_none()).last().unwrap_or(address)
}

/// The separate part of a function that contains an address.
pub(super) fn fragment_at(image: &Image, address: u64) -> Option<&Range<u64>> {
    let after = image.fragments.partition_point(|range| range.start <= address);
    image.fragments.get(after.checked_sub(1)?).filter(|range| range.contains(&address))
}

/// The data from an address to the end of its segment. The segment may also hold instructions
/// (`-z noseparate-code`).
pub(super) fn data_at(image: &Image, address: u64) -> Option<&[u8]> {
    let in_text = || {
        let is_free = range_at(image, address).is_none();
        is_free.then(|| bytes_from(&image.text, address)).flatten()
    };
    bytes_from(&image.data, address).or_else(in_text)
}

/// The bytes from an address to the end of its segment.
fn bytes_from(segments: &[Text], address: u64) -> Option<&[u8]> {
    let after = segments.partition_point(|segment| segment.start <= address);
    let Text { start, bytes, .. } = segments.get(after.checked_sub(1)?)?;
    bytes.get(usize::try_from(address - start).ok()?..).filter(|bytes| !bytes.is_empty())
}
