//! Models the execution of stubs, instruction by instruction.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use crate::disassembly::{SHORT_BYTES, bytes_of, is_call};
use crate::elf::Image;
use crate::stubs::{Changes, Stubs};

/// Maximum number of instructions of a tag and the code after it.
const STEPS: usize = 100;

/// Bytes of `lea r11, [rip+disp32]`.
const LOAD_BYTES: u64 = 7;

/// Registers on the stack, by DWARF number, and their offsets.
pub(super) type Pushed = Vec<(u16, i64)>;

pub(super) struct Model {
    /// Bytes of the stubs.
    code: Vec<u8>,
    start: u64,
    /// Address range of the code that tags share.
    shared: Range<u64>,
    /// Address ranges of the code that searches unwind tables, each with its function.
    lookups: Vec<(Range<u64>, u64)>,
    /// Address of the original of each copied instruction, by the copy's address.
    copies: HashMap<u64, u64>,
}

impl Model {
    pub fn new(image: &Image, stubs: &Stubs, changes: &[&Changes]) -> Self {
        let (code, start) = (stubs.code(), stubs.start());
        let shared = start..start + stubs.shared_bytes() as u64;
        let (lookups, copies) = (Vec::new(), HashMap::new());
        let mut model = Model { code, start, shared, lookups, copies };
        for (old, new) in changes.iter().flat_map(|change| &change.moved) {
            let (old, new) = (old.0, new.0);
            let bytes = bytes_of(image, old, 1).map(|_| original(image, old)).unwrap();
            let copy = model.copy_of(&bytes, new);
            let copy = copy.unwrap_or_else(|| panic!("{bytes:?}: no copy at {}", model.shown(new)));
            model.copies.insert(copy, old);
        }
        for change in changes.iter().filter(|change| change.looks_up) {
            let function = change.regions.iter().map(|(start, _)| *start).find(|start| {
                change.edits.iter().any(|(at, bytes)| at == start && bytes[0] == 0xe9)
            });
            let entry = change.entry.0;
            let mut end = entry;
            while model.at(end).mnemonic() != Mnemonic::Ret {
                end = model.at(end).next_ip();
            }
            model.lookups.push((entry..end + 1, function.unwrap().0));
        }
        model
    }

    fn at(&self, address: u64) -> Instruction {
        let bytes = &self.code[(address - self.start) as usize..];
        Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode()
    }

    fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|at| at < self.code.len() as u64)
    }

    /// Whether the address is that of cold instructions.
    fn is_cold(&self, address: u64) -> bool {
        let is_load = |instruction: Instruction| {
            instruction.mnemonic() == Mnemonic::Lea && instruction.op0_register() == Register::R11
        };
        self.holds(address) && is_load(self.at(address))
    }

    /// Address of an instruction's copy, after the tags from `from` on.
    fn copy_of(&self, original: &Instruction, from: u64) -> Option<u64> {
        let mut at = from;
        for _ in 0..STEPS {
            let here = self.at(at);
            let is_copy = match original.flow_control() {
                _ if is_call(original) => {
                    here.code() == Code::Push_rm64 && here.is_ip_rel_memory_operand()
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    // Tags contain branches to their cold instructions.
                    let is_cold = self.is_cold(here.near_branch_target());
                    here.mnemonic() == original.mnemonic() && !is_cold
                }
                _ => is_same(&here, original),
            };
            if is_copy {
                return Some(at);
            }
            at = here.next_ip();
        }
        None
    }

    /// Whether an instruction is one of the two jumps after a branch with a short encoding only
    /// (`jrcxz`, `loop`).
    fn is_rewritten(&self, address: u64) -> bool {
        let is_short = |at: u64| {
            let instruction = self.at(at);
            instruction.next_ip() == at + SHORT_BYTES
                && (instruction.is_jcx_short() || instruction.is_loop() || instruction.is_loopcc())
        };
        let before = [1, 2].map(|branches| address.wrapping_sub(branches * SHORT_BYTES));
        let is_jump = self.at(address).is_jmp_short_or_near();
        is_jump && before.into_iter().any(|at| self.holds(at) && is_short(at))
    }

    /// All instructions that can be reached from jumps and copies.
    pub fn reached(&self, changes: &[&Changes]) -> BTreeSet<u64> {
        let starts = changes.iter().flat_map(|change| change.moved.iter().map(|(_, new)| new.0));
        let mut open: Vec<u64> =
            starts.chain(changes.iter().map(|change| change.entry.0)).collect();
        let mut reached = BTreeSet::new();
        while let Some(at) = open.pop() {
            if !self.holds(at) || self.shared.contains(&at) || !reached.insert(at) {
                continue;
            }
            let instruction = self.at(at);
            let target = instruction.near_branch_target();
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch => open.push(target),
                FlowControl::ConditionalBranch => open.extend([target, instruction.next_ip()]),
                FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => {}
                _ => open.push(instruction.next_ip()),
            }
        }
        reached
    }

    /// The next original instruction that is executed from an address on, and what is added to the
    /// stack pointer until then. `None` within the replacement of a branch with a short encoding
    /// only.
    pub fn leads(&self, from: u64) -> Option<(u64, i64)> {
        if let Some((_, function)) = self.lookups.iter().find(|(code, _)| code.contains(&from)) {
            return Some((*function, 0));
        }
        if self.is_rewritten(from) {
            return None;
        }
        // Cold instructions jump after they have loaded r11.
        let load = from.checked_sub(LOAD_BYTES).filter(|at| self.holds(*at)).map(|at| self.at(at));
        let mut r11 = load.map_or(0, |load| load.ip_rel_memory_address());
        let (mut at, mut rsp) = (from, 0);
        for _ in 0..STEPS {
            if let Some(old) = self.copies.get(&at) {
                return Some((*old, rsp));
            }
            if at == self.shared.start && !self.shared.is_empty() {
                at = r11;
                continue;
            }
            if !self.holds(at) {
                return Some((at, rsp));
            }
            let instruction = self.at(at);
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch => {
                    at = instruction.near_branch_target();
                    continue;
                }
                FlowControl::IndirectBranch => {
                    // After the push of a replaced call: the state before the call.
                    let push = at.wrapping_sub(6);
                    return Some((*self.copies.get(&push)?, rsp + 8));
                }
                FlowControl::ConditionalBranch if instruction.mnemonic() != Mnemonic::Je => {
                    return None;
                }
                _ => {}
            }
            if instruction.op0_register() == Register::R11
                && instruction.mnemonic() == Mnemonic::Lea
            {
                r11 = instruction.ip_rel_memory_address();
            }
            rsp += moves(&instruction);
            at = instruction.next_ip();
        }
        panic!("{} leads nowhere", self.shown(from))
    }

    /// Each instruction of the shared code, with the registers on the stack and their offsets from
    /// the tag's stack pointer. The last number is the distance of the tag's stack pointer above
    /// the current one.
    pub fn shared(&self) -> Vec<(u64, Pushed, i64)> {
        let (mut instructions, mut depths) = (Vec::new(), HashMap::new());
        let (mut pushed, mut rsp, mut at) = (Pushed::new(), 0, self.shared.start);
        while at < self.shared.end {
            let instruction = self.at(at);
            instructions.push((at, pushed.clone(), -rsp));
            depths.insert(at, rsp);
            rsp += moves(&instruction);
            match (instruction.mnemonic(), instruction.op0_kind()) {
                (Mnemonic::Push, OpKind::Register) => {
                    pushed.push((dwarf(instruction.op0_register()), rsp));
                }
                (Mnemonic::Pop, _) => {
                    let popped = (dwarf(instruction.op0_register()), rsp - 8);
                    assert_eq!(pushed.pop(), Some(popped), "{}", self.shown(at));
                }
                _ => {}
            }
            at = instruction.next_ip();
        }
        for (at, ..) in &instructions {
            let target = self.at(*at).near_branch_target();
            if self.shared.contains(&target) {
                assert_eq!(depths[&target], depths[at], "{}", self.shown(*at));
            }
        }
        instructions
    }

    /// A readable description of an instruction, for failed assertions.
    pub fn shown(&self, address: u64) -> String {
        let mut text = format!("{address:x} of {:x}:", self.start);
        let mut at = address;
        for _ in 0..8 {
            if !self.holds(at) {
                break;
            }
            let instruction = self.at(at);
            text += &format!(" {:?} {:?};", instruction.code(), instruction.op0_register());
            at = instruction.next_ip();
        }
        text
    }
}

fn original(image: &Image, at: u64) -> Instruction {
    let bytes = (1..=15).rev().find_map(|most| bytes_of(image, at, most)).unwrap();
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
}

/// Whether two instructions are equal but for their addresses.
fn is_same(first: &Instruction, second: &Instruction) -> bool {
    let operands = |instruction: &Instruction| {
        let values = (0..instruction.op_count()).map(|n| {
            (instruction.op_kind(n), instruction.op_register(n), instruction.try_immediate(n).ok())
        });
        let memory = (
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_displacement64(),
        );
        (instruction.code(), memory, values.collect::<Vec<_>>())
    };
    operands(first) == operands(second)
}

/// Number that an instruction of a tag adds to the stack pointer.
fn moves(instruction: &Instruction) -> i64 {
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq => -8,
        Mnemonic::Pop | Mnemonic::Popfq => 8,
        Mnemonic::Lea if instruction.op0_register() == Register::RSP => {
            instruction.memory_displacement64().cast_signed()
        }
        _ => 0,
    }
}

/// The number of a register in DWARF (psABI, figure 3.36).
fn dwarf(register: Register) -> u16 {
    let order = [
        Register::RAX,
        Register::RDX,
        Register::RCX,
        Register::RBX,
        Register::RSI,
        Register::RDI,
        Register::RBP,
        Register::RSP,
    ];
    match order.iter().position(|one| *one == register) {
        Some(number) => number as u16,
        None => register.number() as u16,
    }
}
