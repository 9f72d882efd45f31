//! Indexes the addresses where control may arrive other than through the code of the same function.
//!
//! Such an address must keep its instruction: among overwritten bytes, only the first may be one.
//! External targets are return addresses, targets of branches from other functions, addresses in jump tables
//! and data, and every address that an instruction names without branching to it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind};

use super::address_set::AddressSet;
use super::call::Call;
use super::go;
use super::{branch_target, bytes_of, in_parallel, instructions, is_call};
use crate::elf::{Image, Text};

/// Largest number of jump table entries that are read.
const TABLE: u64 = 1 << 16;

/// Addresses where control may arrive, for all functions of a file.
#[derive(Debug)]
pub struct CodeIndex {
    /// All external targets.
    external: AddressSet,
    /// External targets that begin a basic block: all but return addresses.
    heads: AddressSet,
    /// External targets that no direct branch leads to, but a table, data or the unwinder.
    computed: AddressSet,
    /// Starts of functions and parts whose jump tables could be read.
    tabled: HashSet<u64>,
    /// Starts of functions and parts whose instructions name addresses within them.
    self_naming: HashSet<u64>,
    /// The function that each separate part belongs to, both by their starts.
    owners: HashMap<u64, u64>,
    /// Calls with a direct target.
    calls: Vec<Call>,
    /// Go functions that are called by functions which do not check the stack.
    unchecked: HashSet<u64>,
}

impl CodeIndex {
    /// Decodes all functions of a file and reads the jump tables that they name.
    pub fn new(image: &Image) -> CodeIndex {
        let functions = image.functions.iter().map(|one| one.start..one.start + one.size);
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
            tables.extend(more);
        }
        let resumed = image.go.iter().flat_map(|go| &go.recovery_points);
        let reached = image.indirect_targets.iter().chain(&image.landing_pads).chain(resumed);
        reached.for_each(|address| code_index.add_computed_target(*address));
        // A table is read once, however often a function names it.
        tables.sort_unstable_by_key(|(range, address)| (range.start, *address));
        tables.dedup();
        // A table ends before the next address that is named.
        let mut named: Vec<u64> = tables.iter().map(|(_, address)| *address).collect();
        named.sort_unstable();
        for (range, address) in tables {
            let next = named.partition_point(|other| *other <= address);
            let end = named.get(next).copied().unwrap_or(u64::MAX);
            code_index.read_table(image, &range, address, end);
        }
        code_index.unchecked = go::called_unchecked(image, &code_index.calls);
        // If control arrives in the middle of a call, its bytes belong to another instruction as
        // well.
        let (external, calls) = (&code_index.external, &mut code_index.calls);
        let is_external_target =
            |call: &Call| (call.start() + 1..call.next).any(|at| external.contains(at));
        calls.retain(|call| !is_external_target(call));
        code_index
    }

    /// Whether a Go function is called by one that does not check the stack.
    pub fn is_called_unchecked(&self, start: u64) -> bool {
        self.unchecked.contains(&start)
    }

    fn empty(image: &Image) -> CodeIndex {
        let [external, heads, computed] = [(); 3].map(|()| AddressSet::new(image));
        let (tabled, self_naming, owners, calls, unchecked) = Default::default();
        CodeIndex { external, heads, computed, tabled, self_naming, owners, calls, unchecked }
    }

    /// Indexes some ranges. Also returns the tables that they name, each with the range that names
    /// it.
    fn from_ranges(image: &Image, ranges: &[Range<u64>]) -> (CodeIndex, Vec<(Range<u64>, u64)>) {
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

    /// Whether a function, or a part of one, names a table of addresses within it.
    pub fn has_table(&self, start: u64) -> bool {
        self.tabled.contains(&start)
    }

    /// Whether a function, or a part of one, names an address within it without branching there.
    pub fn names_itself(&self, start: u64) -> bool {
        self.self_naming.contains(&start)
    }

    /// Whether an address is the target of a table, a pointer or the unwinder.
    pub fn is_computed(&self, address: u64) -> bool {
        self.computed.contains(address)
    }

    /// Records an address that control reaches through a computed target.
    fn add_computed_target(&mut self, address: u64) {
        self.external.insert(address);
        self.heads.insert(address);
        self.computed.insert(address);
    }

    fn read(&mut self, image: &Image, range: Range<u64>, tables: &mut Vec<(Range<u64>, u64)>) {
        let Some(bytes) = bytes_of(image, range.start, range.end - range.start) else { return };
        let (mut calls, mut targets, mut end) = (Vec::new(), Vec::new(), range.start);
        for instruction in instructions(bytes, range.start) {
            end = instruction.next_ip();
            if instruction.code() == Code::Call_rel32_64 {
                calls.push(Call { next: end, target: instruction.near_branch_target() });
            }
            match branch_target(&instruction) {
                Some(target) if !range.contains(&target) => {
                    self.external.insert(target);
                    self.heads.insert(target);
                    self.assign_part(image, range.start, target);
                }
                Some(target) => targets.push(target),
                None => {
                    let named = self.record_references(image, &instruction, &range);
                    tables.extend(named.map(|at| (range.clone(), at)));
                }
            }
        }
        // If bytes are not all instructions, or can be decoded in two ways, apparent calls may not
        // be calls.
        let next = image.functions.partition_point(|one| one.start <= range.start);
        let is_alone = image.functions.get(next).is_none_or(|one| range.end <= one.start);
        if end == range.end && is_alone {
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

    /// Records that a function and a separate part belong together, if a branch connects them.
    fn assign_part(&mut self, image: &Image, from: u64, to: u64) {
        let function = |address| image.function_at(address).map(|one| one.start);
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

    /// Separate parts of functions and the functions that they belong to, by their starts.
    pub fn owners(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.owners.iter().map(|(part, function)| (*part, *function))
    }

    /// Records the addresses that an instruction refers to, if it is not a direct branch. Returns the
    /// address of a possible jump table.
    fn record_references(
        &mut self,
        image: &Image,
        instruction: &Instruction,
        range: &Range<u64>,
    ) -> Option<u64> {
        if is_call(instruction) {
            self.external.insert(instruction.near_branch_target());
            self.external.insert(instruction.next_ip());
        }
        // An aborted transaction continues at this address.
        if instruction.flow_control() == FlowControl::XbeginXabortXend {
            self.add_computed_target(instruction.near_branch_target());
        }
        let immediate = [OpKind::Immediate32, OpKind::Immediate32to64, OpKind::Immediate64];
        if !image.relocatable && immediate.contains(&instruction.op1_kind()) {
            self.record_reference(instruction.immediate(1), range);
        }
        let address = || instruction.ip_rel_memory_address();
        let named = instruction.is_ip_rel_memory_operand().then(address)?;
        self.record_reference(named, range);
        (instruction.mnemonic() == Mnemonic::Lea).then_some(named)
    }

    fn record_reference(&mut self, address: u64, range: &Range<u64>) {
        self.add_computed_target(address);
        if address != range.start && range.contains(&address) {
            self.self_naming.insert(range.start);
        }
    }

    /// Reads a table of distances from the table's own address, for as long as they lead into the
    /// function.
    fn read_table(&mut self, image: &Image, range: &Range<u64>, address: u64, end: u64) {
        let Some(bytes) = data_at(image, address) else { return };
        let longest = ((end - address) / 4).min(TABLE) as usize;
        for distance in bytes.as_chunks().0.iter().take(longest) {
            let distance = i64::from(i32::from_le_bytes(*distance));
            let target = address.wrapping_add_signed(distance);
            // An impossible case may lead to the address after the last instruction.
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
}

/// The separate part of a function that contains an address.
pub(super) fn fragment_at(image: &Image, address: u64) -> Option<&Range<u64>> {
    let after = image.fragments.partition_point(|range| range.start <= address);
    image.fragments.get(after.checked_sub(1)?).filter(|range| range.contains(&address))
}

/// The data from an address to the end of its segment.
pub(super) fn data_at(image: &Image, address: u64) -> Option<&[u8]> {
    let after = image.data.partition_point(|segment| segment.start <= address);
    let Text { start, bytes, .. } = image.data.get(after.checked_sub(1)?)?;
    bytes.get(usize::try_from(address - start).ok()?..).filter(|bytes| !bytes.is_empty())
}
