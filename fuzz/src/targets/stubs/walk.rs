//! Runs the original and the tagged program in parallel, one instruction at a time, along all
//! paths.
//!
//! A pair consists of an address of the original program and an address of the tagged program. From
//! both addresses the same state must have the same effect. So the instructions at both addresses
//! must do the same and lead to pairs again. Direct jumps are followed in both programs. Tags are
//! skipped in the tagged program, since they change nothing but the instruction address. The walk
//! also checks that each tagged entry and block is reported exactly once, on every path.

use std::collections::{HashMap, HashSet};

use hmtt_probe::address::RunAddr;
use hmtt_probe::fuzzing::is_call;
use hmtt_probe::stubs::Stubs;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

use super::program::Program;
use super::tags::{self, Tags};
use super::text::Text;
use super::unwound::Rows;
use super::{Tagged, same};

/// An address of the original program, an address of the tagged program, and whether all tags from
/// there on are known.
type Pair = (u64, u64, bool);

pub(super) struct Walk<'a> {
    program: &'a Program,
    text: &'a Text,
    stubs: Vec<u8>,
    stubs_at: u64,
    tags: Tags,
    rows: Rows,
    /// Events of tagged entries and blocks, by the instruction that they precede.
    expected: HashMap<u64, Vec<u32>>,
    seen: HashSet<Pair>,
    open: Vec<Pair>,
}

/// The address after jumps were followed, and the events of tags on the way.
struct Arrival {
    at: u64,
    events: Vec<u32>,
}

impl<'a> Walk<'a> {
    pub fn new(program: &'a Program, text: &'a Text, stubs: &Stubs, tagged: &[Tagged]) -> Self {
        let (code, stubs_at) = (stubs.code(), program.stubs_at);
        let tags = Tags::new(program, &code, tagged);
        let (expected, rows) = (tags::expected(program, tagged), Rows::new(stubs));
        let (seen, open) = Default::default();
        let stubs = code;
        let mut walk = Walk { program, text, stubs, stubs_at, tags, rows, expected, seen, open };
        walk.begin(tagged);
        walk
    }

    /// Adds the pairs at which control may come from other code.
    fn begin(&mut self, tagged: &[Tagged]) {
        let image = &self.program.image;
        let parts = image.fragments.iter().map(|part| part.start);
        let starts = image.functions.iter().map(|one| one.start).chain(parts);
        self.open.extend(starts.map(|start| (start, start, true)));
        for address in image.indirect_targets.iter().chain(&image.landing_pads) {
            self.arrives(*address);
        }
        // Instructions that were not overwritten must do the same, even if no branch to them is
        // known.
        let addresses = self.program.instructions.keys().copied();
        let stay = addresses.filter(|address| !self.text.is_inside(*address));
        self.open.extend(stay.map(|address| (address, address, false)));
        // Threads that are stopped in overwritten code continue in the stub. Threads in a stub
        // continue in the original code when the tags are removed.
        for changes in tagged.iter().map(|one| &one.changes) {
            self.open.extend(changes.moved.iter().map(|(old, new)| (old.0, new.0, false)));
            let behind = changes.tags.iter().map(|tag| (tag.original.0, tag.end.0, false));
            self.open.extend(behind);
        }
    }

    /// Adds a pair for an address that may be the target of an indirect branch.
    fn arrives(&mut self, address: u64) {
        assert!(!self.text.is_inside(address), "{address:x} is overwritten");
        self.open.push((address, address, true));
    }

    pub fn run(mut self) {
        while let Some(pair) = self.open.pop() {
            if self.seen.insert(pair) {
                self.compare(pair);
            }
        }
    }

    /// Returns the original program's instruction at an address, if it belongs to a function.
    fn old(&self, address: u64) -> Option<&'a Instruction> {
        self.program.instructions.get(&address)
    }

    /// Decodes the tagged program's instruction at an address.
    fn new_at(&self, address: u64) -> Option<Instruction> {
        let (bytes, start) = match address.checked_sub(self.stubs_at) {
            Some(at) if at < self.stubs.len() as u64 => (&self.stubs, self.stubs_at),
            _ => (&self.text.code, self.program.start),
        };
        let bytes = bytes.get(usize::try_from(address.checked_sub(start)?).ok()?..)?;
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        Some(decoder.decode()).filter(|one| !one.is_invalid())
    }

    fn is_stub(&self, address: u64) -> bool {
        address.checked_sub(self.stubs_at).is_some_and(|at| at < self.stubs.len() as u64)
    }

    /// Whether an address has unchanged bytes that are no instruction of a function.
    fn is_unread(&self, address: u64) -> bool {
        let is_text = self.program.range().contains(&address);
        is_text && self.old(address).is_none() && !self.text.is_written(address)
    }

    /// Follows jumps of the original program; `None` if they form an endless loop.
    fn follow_old(&self, mut at: u64) -> Option<Arrival> {
        let (mut passed, mut events) = (HashSet::new(), Vec::new());
        while passed.insert(at) {
            events.extend(self.expected.get(&at).into_iter().flatten());
            match self.old(at) {
                Some(instruction) if is_jump(instruction) => at = instruction.near_branch_target(),
                _ => return Some(Arrival { at, events }),
            }
        }
        None
    }

    /// Follows jumps of the tagged program, and skips tags.
    fn follow_new(&self, mut at: u64) -> Option<Arrival> {
        let (mut passed, mut events) = (HashSet::new(), Vec::new());
        let mut before = at;
        while passed.insert(at) {
            if let Some(tag) = self.tags.at(at) {
                self.rows.check(at, tag.original);
                events.extend(tag.event.filter(|event| event % 2 == 0));
                at = tag.end;
                continue;
            }
            let is_out = !self.text.is_inside(at) || self.text.is_island(before, at);
            assert!(is_out, "{at:x}, behind {before:x}, is in the middle of what is overwritten");
            if self.is_unread(at) {
                return Some(Arrival { at, events });
            }
            before = at;
            match self.new_at(at) {
                Some(instruction) if is_jump(&instruction) => at = instruction.near_branch_target(),
                Some(instruction) if self.is_own_pointer(&instruction) => {
                    at = self.constant(&instruction)
                }
                _ => return Some(Arrival { at, events }),
            }
        }
        None
    }

    /// Whether an instruction of a stub jumps to an address that is stored in the stub.
    fn is_own_pointer(&self, instruction: &Instruction) -> bool {
        instruction.code() == Code::Jmp_rm64
            && instruction.is_ip_rel_memory_operand()
            && self.is_stub(instruction.ip_rel_memory_address())
    }

    /// Returns the file address that an instruction reads from its stub.
    fn constant(&self, instruction: &Instruction) -> u64 {
        let at = instruction.ip_rel_memory_address().wrapping_sub(self.stubs_at) as usize;
        let value = self.stubs[at..at + 8].try_into().expect("they are eight");
        self.program.bias.to_file(RunAddr(u64::from_le_bytes(value))).0
    }

    fn compare(&mut self, (old, new, is_known): Pair) {
        let from = (old, new);
        let Some(Arrival { at: old, events: expected }) = self.follow_old(old) else {
            return;
        };
        // In a function with invalid bytes the further instructions are not known.
        if self.old(old).is_none() && self.program.is_unreadable(old) {
            return;
        }
        let Some(Arrival { at: new, events }) = self.follow_new(new) else {
            panic!("{:x} goes round at {:x}", from.0, from.1);
        };
        if is_known && self.tags.are_known {
            assert_eq!(events, expected, "{:x} at {:x}", from.0, from.1);
        }
        let Some(old_instruction) = self.old(old).copied() else {
            // Code that belongs to no function is unchanged.
            assert_eq!(old, new, "{:x} at {:x}", from.0, from.1);
            assert!(!self.text.is_written(old), "{old:x} is overwritten");
            return;
        };
        let Some(new_instruction) = self.new_at(new) else {
            panic!("{old:x} is at {new:x}, where nothing is")
        };
        if self.is_stub(new) {
            self.rows.check(new, old);
        } else {
            assert_eq!(old, new, "{:x} at {:x}", from.0, from.1);
        }
        if is_call(&old_instruction) {
            return self.compare_calls(&old_instruction, &new_instruction, is_known);
        }
        assert!(
            same::is_same(&old_instruction, &new_instruction),
            "{old:x} {old_instruction:?}\n{new:x} {new_instruction:?}"
        );
        let targets =
            (old_instruction.near_branch_target(), new_instruction.near_branch_target(), is_known);
        let behind = (old_instruction.next_ip(), new_instruction.next_ip(), is_known);
        match old_instruction.flow_control() {
            FlowControl::UnconditionalBranch => unreachable!("jumps are followed"),
            FlowControl::ConditionalBranch => self.open.extend([targets, behind]),
            FlowControl::XbeginXabortXend => {
                if old_instruction.near_branch_target() != 0 {
                    self.open.push(targets);
                }
                self.open.push(behind);
            }
            FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception => {}
            _ => self.open.push(behind),
        }
    }

    /// Compares calls. In the tagged program a call is still a call, or its return address is
    /// pushed before a jump.
    fn compare_calls(
        &mut self,
        old_instruction: &Instruction,
        new_instruction: &Instruction,
        is_known: bool,
    ) {
        let (old, new) = (old_instruction.ip(), new_instruction.ip());
        let mut leads = *new_instruction;
        if self.is_stub(new) {
            assert_eq!(new_instruction.code(), Code::Push_rm64, "{old:x} at {new:x}");
            assert!(self.is_stub(new_instruction.ip_rel_memory_address()), "{old:x} at {new:x}");
            assert_eq!(
                self.constant(new_instruction),
                old_instruction.next_ip(),
                "{old:x} at {new:x}"
            );
            leads = self.new_at(new_instruction.next_ip()).expect("a jump follows");
            // A direct call becomes a direct jump.
            let is_direct = is_jump(&leads);
            assert_eq!(
                is_direct,
                old_instruction.code() == Code::Call_rel32_64,
                "{old:x} at {new:x}"
            );
            assert!(is_direct || leads.code() == Code::Jmp_rm64, "{old:x} at {new:x}");
        } else {
            assert!(
                same::is_same(old_instruction, new_instruction),
                "{old:x} {old_instruction:?}\n{new:x} {new_instruction:?}"
            );
        }
        assert!(
            same::have_same_operands(old_instruction, &leads),
            "{old:x} {old_instruction:?}\n{new:x} {leads:?}"
        );
        if old_instruction.code() == Code::Call_rel32_64 {
            let target = old_instruction.near_branch_target();
            self.open.push((target, leads.near_branch_target(), is_known));
            self.arrives(target);
        }
        self.arrives(old_instruction.next_ip());
    }
}

/// Whether an instruction is a direct jump.
fn is_jump(instruction: &Instruction) -> bool {
    instruction.is_jmp_short_or_near()
}
