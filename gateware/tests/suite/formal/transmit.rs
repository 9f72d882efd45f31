//! Tx thread and GMAC: what becomes of blocks on GMII; and the check sequence's step by itself.

use gateware::ethernet::crc32::Crc32Step;
use gateware::ethernet::gmac::Gmac;
use gateware::ethernet::tx_thread::{MAX_READ_CLOCKS, TxThread};

use super::prover::{Proof, Reach, stepped, without_initial_values};

/// Three frames and the gaps between them: 8 + 66 + 4 + 12 clocks each at most.
const REACH: Reach = Reach::Steps(280);

/// The first block's words, all others', clocks the memory takes, clock from which there are
/// others.
fn proof(first: u64, others: u64, read_clocks: usize, commits_at: u64) -> Proof {
    Proof {
        name: "Tx thread and GMAC",
        verilog: stepped("thread", TxThread::<3>::default()) + &stepped("gmac", Gmac::default()),
        checker: include_str!("transmit.v"),
        macros: vec![
            ("N", 3),
            ("OCTET_BITS", 7),
            ("FIRST_WORDS", first),
            ("OTHER_WORDS", others),
            ("READ_CLOCKS", read_clocks as u64),
            ("COMMITS_AT", commits_at),
            ("RESET_CLOCKS", 0),
        ],
        reach: REACH,
    }
}

#[test]
fn frames_are_whole_apart_and_what_the_blocks_say() {
    // Padded and not, empty, at once and after a pause, with each latency of the memory.
    proof(6, 1, MAX_READ_CLOCKS, 1).holds();
    proof(6, 2, 2, 1).holds();
    proof(2, 2, 1, 1).holds();
    proof(2, 0, 1, 97).holds();
}

/// A reset leaves registers of data as they are. Clocks of a reset at least: `boards/lock_reset`.
#[test]
fn frames_after_a_reset_are_whole_whatever_data_registers_held() {
    let mut proof = proof(2, 2, 1, 1);
    let reset = proof.macros.iter_mut().find(|(name, _)| *name == "RESET_CLOCKS");
    reset.expect("the macro exists").1 = 3;
    // A frame.
    proof.reach = Reach::Steps(110);
    proof.verilog = without_initial_values(&proof.verilog, &[]);
    proof.holds();
    // The first octet of a frame is its last, or there is one without a block.
    for register in ["thread$at_last", "gmac$state"] {
        let verilog = without_initial_values(&proof.verilog, &[register]);
        assert_ne!(verilog, proof.verilog, "{register}");
        Proof { verilog, reach: Reach::Steps(60), macros: proof.macros.clone(), ..proof }.fails();
    }
}

#[test]
fn faulty_frames_are_noticed() {
    let proof = proof(6, 1, 1, 1);
    proof.refutes("gap_left = 4'ha", "gap_left = 4'h9");
    proof.refutes("last_needed_but_one = 6'b111010", "last_needed_but_one = 6'b111001");
    proof.refutes("source_prefix = 32'h2000000", "source_prefix = 32'h3000000");
    proof.refutes_macro("READ_CLOCKS", MAX_READ_CLOCKS as u64 + 1);
}

#[test]
fn the_check_sequence_is_the_standards() {
    let proof = Proof {
        name: "CRC-32 step",
        verilog: stepped("top", Crc32Step::default()),
        checker: include_str!("crc32.v"),
        macros: vec![],
        reach: Reach::Steps(2),
    };
    proof.holds();
    proof.refutes("crc[8] ^ ", "");
}
