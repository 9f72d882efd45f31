//! What blocks record of each form: the bytes that follow from the slots are those of the
//! description.

use std::collections::BTreeSet;

use hmtt_format::Direction;
use hmtt_probe::address::RunAddr;
use hmtt_translator::block::Block;
use hmtt_translator::memory_accesses::{Condition, memory_accesses};
use hmtt_translator::recorded::{Choice, Content, Recorded, Slot};
use iced_x86::Register;

use super::forms::{self, CODE, Form};
use super::model::Registers;
use super::probe::{Random, trial};

/// Random values of registers for each form.
const TRIALS: u64 = 4;

/// What is stored in a slot.
fn value(slot: &Slot, registers: &Registers) -> u64 {
    match slot.content {
        Content::Sum(sum) => {
            let index = registers.general(sum.index).wrapping_mul(sum.scale.into());
            let sum_of_registers = registers.general(sum.base).wrapping_add(index);
            sum_of_registers.wrapping_add(sum.displacement as u64)
        }
        // What is above the needed bits may be anything.
        Content::Bits { register, count } => {
            let above = if count < 64 { u64::MAX << count } else { 0 };
            registers.masks[register.number()] | above
        }
        Content::Signs { register, bytes } => {
            let vector = &registers.vectors[register.number()][..register.size()];
            let signs = vector.chunks(bytes.into()).map(|one| one[one.len() - 1] >> 7);
            signs.rev().fold(0, |all, sign| all << 1 | u64::from(sign))
        }
        Content::Vector { register, part } => {
            let vector = &registers.vectors[register.number()];
            let from = 8 * usize::from(part);
            u64::from_le_bytes(vector[from..from + 8].try_into().expect("8 bytes"))
        }
    }
}

/// Whether the description states all bytes.
fn is_described(form: &Form) -> bool {
    memory_accesses(&form.instruction).iter().all(|access| {
        !access.is_elsewhere
            && access.condition != Condition::Repeated
            && access.operand.base != Register::None
            // `xlat` adds a part of a register.
            && !access.operand.index.is_gpr8()
    })
}

#[test]
fn recorded_bytes_are_those_of_the_description() {
    let mut random = Random(2);
    let mut checked = 0;
    for form in forms::all().iter().filter(|form| is_described(form)) {
        let Ok(block) = Block::from_bytes(RunAddr(CODE), &form.bytes) else { continue };
        let recorded = Recorded::new(&[block], &Choice::EVERY);
        assert!(recorded.accesses.is_possible(), "{}", form.name());
        let accesses = memory_accesses(&form.instruction);
        for number in 0..TRIALS {
            let (base, bytes) = (accesses[0].operand.base.full_register().number(), 64);
            let registers = trial(number + 4, &accesses, (base, bytes), &mut random);
            let slots: Vec<u64> =
                recorded.slots.iter().map(|slot| value(slot, &registers)).collect();
            let mut values = slots.clone();
            recorded.accesses.derive(&mut values, recorded.accesses.derived.len() as u16);
            let mut touched_bytes = BTreeSet::new();
            recorded.accesses.made(1, &values, 0, |access| {
                let from = access.address.expect("it is known");
                let is_write = access.direction == Direction::Write;
                touched_bytes
                    .extend((from..from + u64::from(access.size)).map(|at| (is_write, at)));
            });
            let mut expected = BTreeSet::new();
            for touch in accesses.iter().flat_map(|access| registers.touched(access)) {
                let is_write = touch.direction == Direction::Write;
                expected.extend((touch.from..touch.from + touch.bytes).map(|at| (is_write, at)));
            }
            assert_eq!(touched_bytes, expected, "{}", form.name());
        }
        checked += 1;
    }
    assert!(checked > 1000, "{checked} forms");
}
