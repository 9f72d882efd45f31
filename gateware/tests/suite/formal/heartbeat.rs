//! When a heartbeat is due and what it says, and the frame counter, for ever; the Tx thread's part
//! is in [`super::thread`].

use gateware::ethernet::heartbeat::Heartbeat;
use gateware::ethernet::tx_thread::FrameCounter;
use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::FrameKind;

use super::prover::{Proof, Reach, exposed, stepped};

/// Ticks of silence before a heartbeat under proof.
const SILENCE_TICKS: u64 = 2;
/// A few clocks, or frames, before a carry into all parts of a counter.
const BEFORE_CARRY: u64 = 0xffff_fff0;
/// Clocks within which all words of a heartbeat that is taken near a carry are sent.
const SENT: Reach = Reach::Steps(60);

/// Makes the register `part` begin with other bits, of 16.
fn begins(verilog: &str, part: &str, bits: u64) -> String {
    let start = verilog.find(&format!("module {part}(")).expect("the register");
    let (before, rest) = verilog.split_at(start);
    let zero = "q = 16'h0";
    assert!(rest.contains(zero));
    before.to_string() + &rest.replacen(zero, &format!("q = 16'h{bits:x}"), 1)
}

/// A heartbeat whose ticks have `1 << tick_log2` clocks: the low part of its clock has its last
/// values only.
fn with_short_ticks(tick_log2: u32) -> String {
    let verilog = stepped("heartbeat", Heartbeat::after(SILENCE_TICKS));
    let (counts, high) = ("low$d = low$q + 32'h1;", 0xffff << tick_log2 & 0xffff);
    assert!(verilog.contains(counts));
    let counted = format!("low$d = (low$q + 32'h1) | 16'h{high:x};");
    begins(&verilog.replace(counts, &counted), "heartbeat$low", high)
}

/// The macros that checkers of heartbeats share.
pub fn header() -> [(&'static str, u64); 2] {
    [("VERSION", FORMAT_VERSION.into()), ("HEARTBEAT", FrameKind::Heartbeat as u64)]
}

#[test]
fn a_heartbeat_is_due_when_it_must_be_and_at_no_other_time() {
    let proof = Proof {
        name: "heartbeat, when",
        verilog: with_short_ticks(3),
        checker: include_str!("silence.v"),
        macros: vec![("TICK_LOG2", 3), ("SILENCE_TICKS", SILENCE_TICKS)],
        reach: Reach::Ever,
    };
    proof.holds();
    let bounded = Proof { reach: Reach::Steps(60), ..proof };
    // No heartbeat after silence; a second one at once; a frame does not end the silence; only a
    // loss of the clock is reported, not its return.
    bounded.refutes("silence_full$d = silent_ticks$q == silence_limit", "silence_full$d = 1'b0");
    bounded.refutes("(silence_full$q & ~beat$taken) & ~take_low$q", "silence_full$q & ~beat$taken");
    bounded.refutes("& ~take_low$q) & ~take_mid$q", "& ~take_low$q)");
    bounded.refutes("ends_silence$d = beat$sent | beat$taken", "ends_silence$d = beat$taken");
    bounded.refutes("if (lost != was_lost$q) begin", "if (lost & ~was_lost$q) begin");
}

/// What a heartbeat says, its clock beginning with some value.
fn contents(start: u64, lemmas: bool, reach: Reach) -> Proof {
    let words = [
        "low",
        "mid",
        "high",
        "low_full",
        "mid_step",
        "mid_full",
        "high_step",
        "take_low",
        "take_mid",
        "take_high",
        "kept_low",
        "kept_mid",
        "kept_high",
        "kept_lost",
        "kept_losses",
        "index",
        "step_taken",
        "was_lost",
        "losses",
    ];
    let mut verilog =
        exposed(&stepped("heartbeat", Heartbeat::default()), "heartbeat", 141, &words);
    for (part, shift) in [("low", 0), ("mid", 16), ("high", 32)] {
        verilog = begins(&verilog, &format!("heartbeat${part}"), start >> shift & 0xffff);
    }
    let mut macros = vec![("START", start)];
    macros.extend(header());
    macros.extend(lemmas.then_some(("LEMMAS", 1)));
    Proof {
        name: "heartbeat, contents",
        verilog,
        checker: include_str!("heartbeat.v"),
        macros,
        reach,
    }
}

#[test]
fn a_heartbeat_says_what_was_true_when_it_was_taken() {
    contents(0, true, Reach::Inductive).holds();
    let proof = contents(BEFORE_CARRY, false, SENT);
    proof.holds();
    // A part of the clock read too early; a carry too many; losses counted as clocks; a wrong
    // state; words in another order.
    proof.refutes("if (take_mid$q) begin", "if (take_low$q) begin");
    let low = contents(BEFORE_CARRY & 0xffff, false, SENT);
    low.refutes("high_step$d = mid_step$q & mid_full$q", "high_step$d = mid_step$q");
    proof.refutes("lost & ~was_lost$q", "lost");
    proof.refutes("kept_lost$d = was_lost$q", "kept_lost$d = lost");
    proof.refutes("if (index$q == word_0_low)", "if (index$q == word_1_high)");
}

/// The frame counter, beginning with some value.
fn counter(start: u64, lemmas: bool, reach: Reach) -> Proof {
    let inner = ["low_full", "mid_step", "mid_full", "high_step"];
    let mut verilog = exposed(&stepped("top", FrameCounter::default()), "top", 4, &inner);
    for (part, shift) in [("low_part", 0), ("mid_part", 16)] {
        verilog = begins(&verilog, &format!("top${part}"), start >> shift & 0xffff);
    }
    let mut macros = vec![("START", start)];
    macros.extend(lemmas.then_some(("LEMMAS", 1)));
    Proof { name: "frame counter", verilog, checker: include_str!("counter.v"), macros, reach }
}

#[test]
fn the_frame_counter_counts_each_frame_in_all_its_bits() {
    counter(0, true, Reach::Inductive).holds();
    let proof = counter(BEFORE_CARRY, false, Reach::Steps(80));
    proof.holds();
    proof.refutes("mid_step$d = step & low_full$q", "mid_step$d = low_full$q");
    proof.refutes("high_step$d = mid_step$q & mid_full$q", "high_step$d = mid_full$q");
}
