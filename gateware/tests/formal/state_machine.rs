//! The DSMU locates nothing in a closed bank.

use gateware::ddr::state_machine::StateMachine;
use gateware::ddr::{CommandCode, SlotCommand, Verdict};
use rust_hdl::prelude::*;

use crate::memories;
use crate::prover::{Proof, Reach, stepped};

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

fn width(of: &TypeDescriptor) -> usize {
    match &of.kind {
        TypeKind::Bits(bits) | TypeKind::Signed(bits) => *bits,
        TypeKind::Enum(names) => names.len().next_power_of_two().trailing_zeros() as usize,
        TypeKind::Composite(fields) => fields.iter().map(|field| width(&field.kind)).sum(),
    }
}

fn proof() -> Proof {
    let (command, command_bits) = fields::<SlotCommand>();
    let (verdict, verdict_bits) = fields::<Verdict>();
    assert_eq!((command_bits as usize, verdict_bits as usize), (SlotCommand::BITS, Verdict::BITS));
    let at = |places: &[(String, u64)], name: &str| {
        places.iter().find(|(field, _)| field == name).map(|(_, place)| *place)
    };
    let TypeKind::Enum(codes) = CommandCode::descriptor().kind else { panic!("an enum") };
    let code = |name: &str| codes.iter().position(|code| code.ends_with(name)).map(|at| at as u64);
    let verilog = stepped("top", StateMachine::new(&memories::ddr1("")));
    let mut macros = vec![
        ("LATENCY", LATENCY),
        ("COMMAND_BITS", command_bits),
        ("VERDICT_BITS", verdict_bits),
        ("CODE_BITS", CommandCode::BITS as u64),
        ("LAST_CODE", codes.len() as u64 - 1),
    ];
    let named = [
        ("QUIET", code("Quiet")),
        ("ACTIVATE", code("Activate")),
        ("READ", code("Read")),
        ("WRITE", code("Write")),
        ("PRECHARGE", code("Precharge")),
        ("PRECHARGE_ALL", code("PrechargeAll")),
        ("REFRESH", code("Refresh")),
        ("CODE_AT", at(&command, "code")),
        ("BA_AT", at(&command, "ba")),
        ("A_AT", at(&command, "a")),
        ("RANKS_AT", at(&command, "ranks")),
        ("ACCESS_AT", at(&verdict, "access")),
        ("WRITE_AT", at(&verdict, "write")),
        ("FAULT_AT", at(&verdict, "fault")),
        ("VERDICT_BA_AT", at(&verdict, "ba")),
    ];
    macros.extend(named.iter().map(|(name, value)| (*name, value.expect(name))));
    Proof {
        name: "DSMU",
        verilog,
        checker: include_str!("state_machine.v"),
        macros,
        reach: Reach::Ever,
    }
}

#[test]
fn accesses_go_to_open_banks_only() {
    let proof = proof();
    proof.holds();
    // Auto-precharge by another pin.
    proof.refutes("command_a[32'ha]", "command_a[32'hb]");
    // A bank that PRECHARGE ALL leaves open, or REFRESH and self-refresh entry do.
    let closing = "single0_1 | auto0_1 | all0 | closes0)";
    proof.refutes(closing, "single0_1 | auto0_1 | closes0)");
    proof.refutes(closing, "single0_1 | auto0_1 | all0)");
    proof.refutes_macro("LATENCY", LATENCY + 1);
}
