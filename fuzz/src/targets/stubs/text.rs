//! Checks which bytes of the code are overwritten, and applies the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hmtt_probe::address::FileAddr;
use hmtt_probe::disassembly::{Call, JUMP_BYTES, Jump, Region};
use iced_x86::{Instruction, Mnemonic};

use super::Tagged;
use super::program::Program;

/// Size in bytes of a branch's displacement.
const DISTANCE_BYTES: u64 = 4;
/// Opcode of `call rel32`.
const CALL: u8 = 0xe8;

/// The code with jumps to stubs.
pub(super) struct Text {
    pub code: Vec<u8>,
    /// Regions by address. Only their first instruction is executed in place.
    regions: BTreeMap<u64, u64>,
    /// Islands by address, with the addresses of the jumps that lead to them.
    islands: BTreeMap<u64, u64>,
    /// Overwritten ranges by address.
    written: BTreeMap<u64, u64>,
}

impl Text {
    /// Applies the changes. Panics if a byte is overwritten twice. Only moved instructions, the
    /// padding after them, and displacements of branches may be overwritten.
    pub fn new(program: &Program, tagged: &[Tagged]) -> Text {
        let code = program.code.clone();
        let [regions, islands, written] = Default::default();
        let mut text = Text { code, regions, islands, written };
        for tagged_function in tagged {
            let moved_regions = tagged_function.rewrite.regions.iter();
            let listed = moved_regions.clone().map(|region| (region.start(), region.limit));
            let changed = tagged_function.changes.regions.iter();
            let mut changed: Vec<(u64, u64)> = changed.map(|(at, end)| (at.0, end.0)).collect();
            changed.sort_unstable();
            let mut listed: Vec<(u64, u64)> = listed.collect();
            listed.sort_unstable();
            assert_eq!(changed, listed);
            moved_regions.for_each(|region| text.take(program, region));
        }
        let ends = text.regions.values();
        let next = text.regions.keys().skip(1);
        assert!(ends.zip(next).all(|(end, next)| end <= next), "{:x?}", text.regions);
        for (FileAddr(at), bytes) in tagged.iter().flat_map(|one| &one.changes.edits) {
            let end = at + bytes.len() as u64;
            text.may_be_written(program, tagged, *at..end);
            assert_eq!(text.written.insert(*at, end), None, "{at:x} is written twice");
            let place = (at - program.start) as usize;
            text.code[place..place + bytes.len()].copy_from_slice(bytes);
        }
        let next = text.written.keys().skip(1);
        let is_apart = text.written.values().zip(next).all(|(end, next)| end <= next);
        assert!(is_apart, "{:x?}", text.written);
        text
    }

    /// Records a region, which consists of consecutive instructions and padding.
    fn take(&mut self, program: &Program, region: &Region) {
        let mut at = region.start();
        for moved in &region.instructions {
            assert_eq!(program.instructions.get(&at), Some(moved), "{at:x}");
            at = moved.next_ip();
        }
        assert!(at <= region.limit, "{at:x}");
        // The padding after the last instruction belongs to the same function or to none.
        let own = owner(program, region.start());
        while at < region.limit {
            let there = owner(program, at);
            assert!(there.is_none() || there == own, "{at:x} is another function's");
            let place = (at - program.start) as usize;
            let decoder = iced_x86::Decoder::with_ip(64, &program.code[place..], at, 0);
            let padding = decoder.into_iter().next().expect("there are bytes");
            let bytes = &program.code[place..place + padding.len()];
            let fills = [Mnemonic::Nop, Mnemonic::Int3].contains(&padding.mnemonic())
                || bytes.ends_with(&[0x90])
                || bytes.iter().all(|byte| *byte == 0);
            assert!(fills, "{at:x} {bytes:x?}");
            at = padding.next_ip();
        }
        assert_eq!(at, region.limit);
        let is_relocated = |place: &Range<u64>| place.start < at && region.start() < place.end;
        assert!(!program.image.relocated.iter().any(is_relocated), "{:x}", region.start());
        assert_eq!(self.regions.insert(region.start(), region.limit), None);
        if let Jump::Island(island) = region.jump {
            assert_eq!(self.islands.insert(island, region.start()), None);
        }
    }

    /// Whether the byte at an address has changed.
    pub fn is_written(&self, address: u64) -> bool {
        let before = self.written.range(..=address).next_back();
        before.is_some_and(|(_, end)| address < *end)
    }

    /// Whether an address is inside a region, after its first instruction.
    pub fn is_inside(&self, address: u64) -> bool {
        let before = self.regions.range(..address).next_back();
        before.is_some_and(|(_, end)| address < *end)
    }

    /// Whether the jump at an address leads to another jump that is its island.
    pub fn is_island(&self, from: u64, to: u64) -> bool {
        self.islands.get(&to) == Some(&from)
    }

    fn may_be_written(&self, program: &Program, tagged: &[Tagged], range: Range<u64>) {
        let text = program.range();
        assert!(text.start <= range.start && range.end <= text.end, "{range:x?} is no code");
        let is_branch = tagged.iter().flat_map(|one| &one.rewrite.redirects).any(|branch| {
            range == (branch.next_ip() - DISTANCE_BYTES..branch.next_ip())
                && program.instructions.get(&branch.ip()) == Some(branch)
        });
        let relocated = &program.image.relocated;
        let is_relocated = |place: &Range<u64>| place.start < range.end && range.start < place.end;
        assert!(!relocated.iter().any(is_relocated), "{range:x?} is relocated");
        if is_branch {
            assert!(!range.clone().any(|at| self.is_inside(at)), "{range:x?} has moved");
            return;
        }
        let in_region =
            |at: u64| self.regions.contains_key(&at) || self.is_inside(at) || is_free(program, at);
        assert!(range.clone().all(in_region), "{range:x?} is not moved");
    }
}

/// Returns the start of the function or fragment that contains an address.
fn owner(program: &Program, address: u64) -> Option<u64> {
    let image = &program.image;
    let functions = image.functions.iter().map(|one| one.start..one.start + one.size);
    let mut ranges = functions.chain(image.fragments.iter().cloned());
    ranges.find(|range| range.contains(&address)).map(|range| range.start)
}

/// Whether a byte is padding after a function.
fn is_free(program: &Program, address: u64) -> bool {
    owner(program, address).is_none()
}

/// Panics unless each call calls the stated target and no branch leads into the call. The
/// displacement of a call may be changed.
pub(super) fn check_calls(program: &Program, calls: &[Call]) {
    let led_to = program.instructions.values().map(Instruction::near_branch_target);
    let known = program.image.indirect_targets.iter().chain(&program.image.landing_pads);
    let led_to: BTreeSet<u64> = led_to.chain(known.copied()).collect();
    for Call { next, target } in calls {
        let end = (next - program.start) as usize;
        let code = &program.code[end - JUMP_BYTES..end];
        let distance = i32::from_le_bytes(code[1..].try_into().expect("they are four"));
        assert_eq!(code[0], CALL, "{next:x}");
        let inside = next - JUMP_BYTES as u64 + 1..*next;
        assert_eq!(led_to.range(inside).next(), None, "{next:x}");
        assert_eq!(next.wrapping_add_signed(distance.into()), *target);
    }
}
