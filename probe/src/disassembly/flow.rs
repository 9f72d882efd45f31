//! All instructions of a file to where control may arrive in ways its own function does not show.
//!
//! Such an address stays what it is: nothing that would be overwritten may have one but its first byte.
//! They are: what calls return to, branches from elsewhere lead to, jump tables and data hold, and
//! whatever an instruction names without branching there.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind};

use super::call::Call;
use super::go;
use super::marks::Marks;
use super::{branch_target, bytes_of, in_parallel, instructions, is_call};
use crate::elf::{Image, Text};

/// Longest jump table that is read, in entries.
const TABLE: u64 = 1 << 16;

/// Where control may arrive.
#[derive(Debug)]
pub struct Flow {
    fixed: Marks,
    /// Those of them that blocks begin at: all but what calls return to.
    heads: Marks,
    /// Those of them that no branch leads to that says so: tables, data and the unwinder do.
    computed: Marks,
    /// Functions and parts, by their first addresses, whose tables were read.
    tabled: HashSet<u64>,
    /// Those whose instructions name places within them.
    self_naming: HashSet<u64>,
    /// The function that each part belongs to, both by their first addresses.
    owners: HashMap<u64, u64>,
    /// Calls that say where they lead.
    calls: Vec<Call>,
    /// Functions of Go that others call which do not check the stack.
    unchecked: HashSet<u64>,
}

impl Flow {
    /// Reads all instructions of all functions, and the tables they name.
    pub fn of(image: &Image) -> Flow {
        let functions = image.functions.iter().map(|one| one.start..one.start + one.size);
        let ranges: Vec<Range<u64>> = functions.chain(image.fragments.iter().cloned()).collect();
        let mut flow = Flow::none(image);
        let mut tables = Vec::new();
        for (part, more) in in_parallel(&ranges, |ranges| Flow::of_some(image, ranges)) {
            flow.fixed.add(&part.fixed);
            flow.heads.add(&part.heads);
            flow.computed.add(&part.computed);
            flow.self_naming.extend(part.self_naming);
            for (part, function) in part.owners {
                flow.owners.entry(part).or_insert(function);
            }
            flow.calls.extend(part.calls);
            tables.extend(more);
        }
        let resumed = image.go.iter().flat_map(|go| &go.resumed);
        let reached = image.reached.iter().chain(&image.landing_pads).chain(resumed);
        reached.for_each(|address| flow.lead_to(*address));
        // However often a function names a table, it is read once.
        tables.sort_unstable_by_key(|(range, address)| (range.start, *address));
        tables.dedup();
        // A table ends before the next thing that is named.
        let mut named: Vec<u64> = tables.iter().map(|(_, address)| *address).collect();
        named.sort_unstable();
        for (range, address) in tables {
            let next = named.partition_point(|other| *other <= address);
            let end = named.get(next).copied().unwrap_or(u64::MAX);
            flow.table(image, &range, address, end);
        }
        flow.unchecked = go::called_unchecked(image, &flow.calls);
        // Where control arrives in the middle of a call, its bytes are another instruction's as well.
        let (fixed, calls) = (&flow.fixed, &mut flow.calls);
        let is_fixed = |call: &Call| (call.start() + 1..call.next).any(|at| fixed.has(at));
        calls.retain(|call| !is_fixed(call));
        flow
    }

    /// Whether a function of Go that does not check the stack calls another one.
    pub fn is_called_unchecked(&self, start: u64) -> bool {
        self.unchecked.contains(&start)
    }

    fn none(image: &Image) -> Flow {
        let [fixed, heads, computed] = [(); 3].map(|()| Marks::new(image));
        let (tabled, self_naming, owners, calls, unchecked) = Default::default();
        Flow { fixed, heads, computed, tabled, self_naming, owners, calls, unchecked }
    }

    /// Reads some ranges; the tables that they name are to be read yet.
    fn of_some(image: &Image, ranges: &[Range<u64>]) -> (Flow, Vec<(Range<u64>, u64)>) {
        let (mut flow, mut tables) = (Flow::none(image), Vec::new());
        for range in ranges {
            flow.fixed.set(range.start);
            flow.read(image, range.clone(), &mut tables);
        }
        (flow, tables)
    }

    /// Whether control may arrive at an address from elsewhere.
    pub fn is_fixed(&self, address: u64) -> bool {
        self.fixed.has(address)
    }

    /// Whether a block begins there because of that.
    pub fn is_head(&self, address: u64) -> bool {
        self.heads.has(address)
    }

    /// Whether a function, or a part of one, names a table of places within it.
    pub fn has_table(&self, start: u64) -> bool {
        self.tabled.contains(&start)
    }

    /// Whether its instructions name places within it without leading there.
    pub fn names_itself(&self, start: u64) -> bool {
        self.self_naming.contains(&start)
    }

    /// Whether that is a table, a pointer or the unwinder.
    pub fn is_computed(&self, address: u64) -> bool {
        self.computed.has(address)
    }

    /// Takes note that control may arrive at an address that is computed.
    fn lead_to(&mut self, address: u64) {
        self.fixed.set(address);
        self.heads.set(address);
        self.computed.set(address);
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
                    self.fixed.set(target);
                    self.heads.set(target);
                    self.own(image, range.start, target);
                }
                Some(target) => targets.push(target),
                None => {
                    let named = self.note(image, &instruction, &range);
                    tables.extend(named.map(|at| (range.clone(), at)));
                }
            }
        }
        // What is not all instructions, or may be read in two ways, may be no calls.
        let next = image.functions.partition_point(|one| one.start <= range.start);
        let is_alone = image.functions.get(next).is_none_or(|one| range.end <= one.start);
        if end == range.end && is_alone {
            targets.sort_unstable();
            let is_led_into = |call: &Call| {
                let behind = targets.partition_point(|target| *target <= call.start());
                targets.get(behind).is_some_and(|target| *target < call.next)
            };
            self.calls.extend(calls.into_iter().filter(|call| !is_led_into(call)));
        }
    }

    /// Calls that say where they lead.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// A branch between a function and a part that lies apart says that they belong together.
    fn own(&mut self, image: &Image, from: u64, to: u64) {
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

    /// Parts of functions and the functions they belong to, by their first addresses.
    pub fn owners(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.owners.iter().map(|(part, function)| (*part, *function))
    }

    /// Takes note of what an instruction that is no branch to a known place says. It may name a table.
    fn note(
        &mut self,
        image: &Image,
        instruction: &Instruction,
        range: &Range<u64>,
    ) -> Option<u64> {
        if is_call(instruction) {
            self.fixed.set(instruction.near_branch_target());
            self.fixed.set(instruction.next_ip());
        }
        // Where a transaction that is given up goes on.
        if instruction.flow_control() == FlowControl::XbeginXabortXend {
            self.lead_to(instruction.near_branch_target());
        }
        let immediate = [OpKind::Immediate32, OpKind::Immediate32to64, OpKind::Immediate64];
        if !image.relocatable && immediate.contains(&instruction.op1_kind()) {
            self.name(instruction.immediate(1), range);
        }
        let address = || instruction.ip_rel_memory_address();
        let named = instruction.is_ip_rel_memory_operand().then(address)?;
        self.name(named, range);
        (instruction.mnemonic() == Mnemonic::Lea).then_some(named)
    }

    fn name(&mut self, address: u64, range: &Range<u64>) {
        self.lead_to(address);
        if address != range.start && range.contains(&address) {
            self.self_naming.insert(range.start);
        }
    }

    /// Reads a table of distances from itself, for as long as they lead into the function.
    fn table(&mut self, image: &Image, range: &Range<u64>, address: u64, end: u64) {
        let Some(bytes) = data_at(image, address) else { return };
        let longest = ((end - address) / 4).min(TABLE) as usize;
        for distance in bytes.as_chunks().0.iter().take(longest) {
            let distance = i64::from(i32::from_le_bytes(*distance));
            let target = address.wrapping_add_signed(distance);
            // A case that cannot be may lead behind the last instruction.
            if target == range.end {
                continue;
            }
            if !range.contains(&target) && fragment_at(image, target).is_none() {
                break;
            }
            self.lead_to(target);
            self.tabled.insert(range.start);
        }
    }
}

/// The part of a function, lying apart from it, that has an address.
pub(super) fn fragment_at(image: &Image, address: u64) -> Option<&Range<u64>> {
    let after = image.fragments.partition_point(|range| range.start <= address);
    image.fragments.get(after.checked_sub(1)?).filter(|range| range.contains(&address))
}

/// The data behind an address.
pub(super) fn data_at(image: &Image, address: u64) -> Option<&[u8]> {
    let after = image.data.partition_point(|segment| segment.start <= address);
    let Text { start, bytes, .. } = image.data.get(after.checked_sub(1)?)?;
    bytes.get(usize::try_from(address - start).ok()?..).filter(|bytes| !bytes.is_empty())
}
