//! The DSMU reports every READ and WRITE to an open bank, with its row, and no other.

use gateware::ddr::state_machine::StateMachine;
use gateware::ddr::{CommandCode, SlotCommand, Verdict};
use hmtt_format::address_map::Axis;
use hmtt_format::{FaultKind, MemoryDescription};
use rust_hdl::prelude::*;

use super::prover::{Proof, Reach, stepped};
use crate::memories;

/// Clocks from a command to its verdict.
const LATENCY: u64 = 5;

/// Places of a struct's fields, the first lowest, and its width.
fn fields<T: Synth>() -> (Vec<(String, u64)>, u64) {
    let TypeKind::Composite(fields) = T::descriptor().kind else { panic!("a struct") };
    let mut at = 0;
    let places = fields.iter().map(|field| {
        let place = at;
        at += width(&field.kind) as u64;
        (field.fieldname.clone(), place)
    });
    let places = places.collect();
    (places, at)
}

fn width(descriptor: &TypeDescriptor) -> usize {
    match &descriptor.kind {
        TypeKind::Bits(bits) | TypeKind::Signed(bits) => *bits,
        TypeKind::Enum(names) => names.len().next_power_of_two().trailing_zeros() as usize,
        TypeKind::Composite(fields) => fields.iter().map(|field| width(&field.kind)).sum(),
    }
}

fn proof(name: &'static str, memory: &MemoryDescription) -> Proof {
    let (command, command_bits) = fields::<SlotCommand>();
    let (verdict, verdict_bits) = fields::<Verdict>();
    assert_eq!((command_bits as usize, verdict_bits as usize), (SlotCommand::BITS, Verdict::BITS));
    let at = |places: &[(String, u64)], name: &str| {
        places.iter().find(|(field, _)| field == name).map(|(_, place)| *place)
    };
    let TypeKind::Enum(codes) = CommandCode::descriptor().kind else { panic!("an enum") };
    let code = |name: &str| codes.iter().position(|code| code.ends_with(name)).map(|at| at as u64);
    let mut macros = vec![
        ("LATENCY", LATENCY),
        ("COMMAND_BITS", command_bits),
        ("VERDICT_BITS", verdict_bits),
        ("CODE_BITS", CommandCode::BITS as u64),
        ("LAST_CODE", codes.len() as u64 - 1),
        ("REFRESH_OVERDUE", FaultKind::RefreshOverdue.code().into()),
        ("RANKS", memory.ranks().into()),
        ("BANKS", 1 << memory.bits(Axis::Bank)),
        ("TRCD", memory.trcd_clocks.into()),
        ("TRP", memory.trp_clocks.into()),
        ("TRFC", memory.trfc_clocks.into()),
        ("TXS", memory.txs_clocks.into()),
        ("TMRD", memory.tmrd_clocks.into()),
        // Where the mode register sets the length of bursts, their start is looked at by the bits
        // above it.
        ("BURST_BITS", if memory.burst_from_mode_register { 3 } else { 0 }),
    ];
    let named = [
        ("NO_COMMAND", code("NoCommand")),
        ("ACTIVATE", code("Activate")),
        ("READ", code("Read")),
        ("WRITE", code("Write")),
        ("PRECHARGE", code("Precharge")),
        ("PRECHARGE_ALL", code("PrechargeAll")),
        ("REFRESH", code("Refresh")),
        ("MODE_REGISTER_SET", code("ModeRegisterSet")),
        ("ZQ_CALIBRATION", code("ZqCalibration")),
        ("RESERVED", code("Reserved")),
        ("CODE_AT", at(&command, "code")),
        ("RANKS_AT", at(&command, "ranks")),
        ("CKE_FALLS_AT", at(&command, "cke_falls")),
        ("CKE_RISES_AT", at(&command, "cke_rises")),
        ("BA_AT", at(&command, "ba")),
        ("A_AT", at(&command, "a")),
        ("ACCESS_AT", at(&verdict, "access")),
        ("WRITE_AT", at(&verdict, "write")),
        ("FAULT_AT", at(&verdict, "fault")),
        ("VERDICT_RANK_AT", at(&verdict, "rank")),
        ("VERDICT_BA_AT", at(&verdict, "ba")),
        ("VERDICT_A_AT", at(&verdict, "a")),
        ("ROW_STATE_AT", at(&verdict, "row_state")),
    ];
    macros.extend(named.iter().map(|(name, value)| (*name, value.expect(name))));
    Proof {
        name,
        verilog: stepped("top", StateMachine::new(memory)),
        checker: concat!(include_str!("rank_books.v"), include_str!("state_machine.v")),
        macros,
        reach: Reach::Ever,
    }
}

#[test]
fn reads_and_writes_to_open_banks_are_accesses_and_nothing_else_is() {
    let proof = proof("DSMU", &memories::ddr1(""));
    proof.holds();
    // Auto-precharge by another pin.
    proof.refutes("command_a[a10]", "command_a[32'hb]");
    // A bank that PRECHARGE ALL leaves open, or REFRESH and self-refresh entry do.
    let closing = "single0_1 | auto0_1 | all0 | closes0)";
    proof.refutes(closing, "single0_1 | auto0_1 | closes0)");
    proof.refutes(closing, "single0_1 | auto0_1 | all0)");
    proof.refutes_macro("LATENCY", LATENCY + 1);
    proof.refutes_macro("LATENCY", LATENCY - 1);
    // The row of another bank; a row without its highest bit.
    proof.refutes("rows$read_address = row_at", "rows$read_address = row_at ^ 6'h1");
    let written = "rows$write_data = judged$q[(64'he)+:(18)]";
    proof.refutes(written, &format!("{written} & 18'h1ffff"));
    // A tRFC, tXS or tMRD that never ends: the accesses after a REFRESH are swallowed.
    proof.refutes("if (wait0 == 1) busy0", "if (wait0 == 0) busy0");
}
