//! The packet FIFO, whatever its clocks, its writer and its reader do.

use gateware::fifo::packet_fifo::{PacketFifo, SPACE_LATENCY};

use super::prover::{Proof, Reach, stepped};

fn proof<const N: usize>(block_words: u64, reach: Reach) -> Proof {
    Proof {
        name: "packet FIFO",
        verilog: stepped("top", PacketFifo::<N>::for_blocks_of(block_words)),
        checker: include_str!("fifo.v"),
        macros: vec![
            ("N", N as u64),
            ("BLOCK_WORDS", block_words),
            ("SPACE_LATENCY", SPACE_LATENCY as u64),
            ("BIT", 17),
        ],
        reach,
    }
}

#[test]
fn a_small_fifo_loses_repeats_and_reorders_nothing_ever() {
    let proof = proof::<2>(2, Reach::Ever);
    proof.holds();
    // The writer trusts `space_available` a clock too early.
    proof.refutes_macro("SPACE_LATENCY", SPACE_LATENCY as u64 - 1);
    // Room for one word less than a block.
    proof.refutes("space_below = 2'b10", "space_below = 2'b11");
    // Halves change places.
    proof.refutes("low$write_enable = write$low_enable", "low$write_enable = write$high_enable");
}

#[test]
fn a_larger_fifo_does_neither_for_more_than_a_lap() {
    let proof = proof::<3>(3, Reach::Steps(26));
    proof.holds();
    proof.refutes("space_below = 3'b101", "space_below = 3'b110");
}

/// A crossing samples a value of many bits only where it cannot be changing: the words below go
/// into the Verilog of both crossings, where its inner signals are in reach.
const STANDS_STILL: &str = "
    reg moved = 0;
    wire moves = from_clock && hold$d != hold$q;
    always @($global_clock) moved <= moves;
    always @(*) if (to_clock && request_stable$q != seen$q) assert(!moves && !moved);
endmodule";

#[test]
fn pointers_cross_only_while_they_stand_still() {
    let mut proof = proof::<2>(2, Reach::Ever);
    let crossings = ["module top$forward(", "module top$backward("];
    for crossing in crossings {
        let start = proof.verilog.find(crossing).expect("the crossing");
        let end = start + proof.verilog[start..].find("endmodule").expect("its end");
        proof.verilog.replace_range(end..end + "endmodule".len(), STANDS_STILL);
    }
    proof.name = "pointer crossing";
    proof.holds();
    // The next value does not wait until the far side has taken this one.
    proof.refutes("if (seen_stable$q == request$q)", "if (1'b1)");
}
