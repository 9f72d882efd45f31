//! The GMAC, whatever frames it is offered: what is on GMII, for ever.

use gateware::ethernet::gmac::Gmac;

use super::prover::{Proof, Reach, exposed, stepped};

/// Registers that lemmas speak of.
const INNER: [&str; 12] = [
    "state",
    "timer",
    "timed_out",
    "taking",
    "filled",
    "long_enough",
    "octet",
    "sending",
    "starts",
    "feeds",
    "checks",
    "check",
];
/// Their bits.
const INNER_BITS: usize = 60;

fn proof(kind: &'static str, reach: Reach) -> Proof {
    let verilog = exposed(&stepped("gmac", Gmac::default()), "gmac", INNER_BITS, &INNER);
    Proof { name: "GMAC", verilog, checker: include_str!("gmac.v"), macros: vec![(kind, 1)], reach }
}

#[test]
fn frames_are_whole_and_apart_for_ever() {
    proof("LEMMAS", Reach::Inductive).holds();
}

#[test]
fn faulty_gmacs_are_noticed() {
    // Two frames and the gap between them.
    let proof = proof("FIXED", Reach::Steps(180));
    proof.holds();
    // Gap, preamble, padding and FCS one octet less; the FCS goes on from the frame before; padding
    // left out of it.
    proof.refutes("gap_left = 4'ha", "gap_left = 4'h9");
    proof.refutes("preamble_left = 4'h7", "preamble_left = 4'h6");
    proof.refutes("last_needed_but_one = 6'b111010", "last_needed_but_one = 6'b111001");
    proof.refutes("check_left = 4'h3", "check_left = 4'h2");
    proof.refutes("if (starts$q) begin", "if (1'b0) begin");
    proof.refutes("if (feeds$q) begin", "if (feeds$q & taking$q) begin");
}
