//! The Tx thread, whatever blocks, heartbeats and GMAC do: octets of frames, for ever.

use gateware::ethernet::tx_thread::{MAX_READ_CLOCKS, TxThread};

use super::heartbeat::header;
use super::prover::{Proof, Reach, exposed, stepped};

/// Registers of the thread that lemmas speak of, and what stands for its frame counter.
const INNER: [&str; 16] = [
    "state",
    "group",
    "pending",
    "sends_heartbeat",
    "word_high",
    "word_low",
    "loads_group",
    "next_group",
    "shift",
    "left",
    "reload",
    "words_left",
    "finishing",
    "counter$high",
    "counter$mid",
    "counter$low",
];
/// Their bits.
const INNER_BITS: usize = 187;
/// A frame counter without the delays of its carries, which frames outlast (counter.v).
const COUNTER: &str = "module thread$counter(clock, step, high, mid, low);
    input wire [2:0] clock;
    input wire step;
    output wire [7:0] high;
    output wire [15:0] mid, low;
    reg [39:0] count = 0;
    assign {high, mid, low} = count;
    always @($global_clock) if (clock[0] && step) count <= count + 1;
";

fn thread() -> String {
    let mut verilog =
        exposed(&stepped("thread", TxThread::<3>::default()), "thread", INNER_BITS, &INNER);
    let start = verilog.find("module thread$counter(").expect("the counter");
    let end = start + verilog[start..].find("endmodule").expect("its end");
    verilog.replace_range(start..end, COUNTER);
    verilog
}

fn proof(read_clocks: usize, kind: &'static str, reach: Reach) -> Proof {
    let macros =
        [("READ_CLOCKS", read_clocks as u64), (kind, 1)].into_iter().chain(header()).collect();
    Proof { name: "Tx thread", verilog: thread(), checker: include_str!("thread.v"), macros, reach }
}

#[test]
fn frames_are_what_blocks_and_heartbeats_say_for_ever() {
    for read_clocks in [1, MAX_READ_CLOCKS] {
        proof(read_clocks, "LEMMAS", Reach::Inductive).holds();
    }
}

#[test]
fn faulty_threads_are_noticed() {
    // Four frames.
    let proof = proof(MAX_READ_CLOCKS, "FIXED", Reach::Steps(160));
    proof.holds();
    // Heartbeats: not counted; read from the FIFO; after a block that waits.
    proof.refutes("counter$step = sent$q", "counter$step = sent$q & ~sends_heartbeat$q");
    proof.refutes("if (~sends_heartbeat$q) begin", "if (1'b1) begin");
    proof.refutes("if (pending$q | beat$due) begin", "if (pending$q) begin");
    // Blocks: a word too many; a half twice; a descriptor that is not skipped; read too late.
    proof.refutes("words_left$q == 32'h0", "words_left$q == 32'hff");
    proof.refutes("next_group$d = word_high$q", "next_group$d = word_low$q");
    proof.refutes("freed_to$d = read_at$q", "freed_to$d = read_at$q - 1'b1");
    proof.refutes_macro("READ_CLOCKS", MAX_READ_CLOCKS as u64 + 1);
}
