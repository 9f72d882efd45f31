//! The event queue, for ever: what it stores and counts when nothing empties it.

use gateware::ddr::event_queue::{DEPTH_LOG2, EventQueue, LAP_CLOCKS, MAX_MISSED_FAULTS, RESERVED};

use super::prover::{Proof, Reach, exposed, stepped};

/// What the checker sees inside, and its bits.
const INNER: [(&str, usize); 22] = [
    ("entry$d", 74),
    ("write_at", 8),
    ("read_at", 8),
    ("since", 16),
    ("laps", 17),
    ("missed", 32),
    ("missed_faults", 8),
    ("writes_entry", 1),
    ("overflows", 1),
    ("nearly_full", 1),
    ("full", 1),
    ("has_laps", 1),
    ("lap_ended", 1),
    ("run_stored", 1),
    ("has_missed", 1),
    ("missed_command", 1),
    ("passed_due", 1),
    ("writes_entry$d", 1),
    ("holds_one", 1),
    ("holds_two", 1),
    ("holds_three", 1),
    ("popped", 1),
];

/// Gives a register of the queue another first value.
fn begins(verilog: &str, register: &str, bits: usize, value: u64) -> String {
    let start = verilog.find(&format!("module top${register}(")).expect("the register");
    let (before, rest) = verilog.split_at(start);
    let zero = format!("q = {bits}'h0");
    assert!(rest.contains(&zero));
    before.to_string() + &rest.replacen(&zero, &format!("q = {bits}'h{value:x}"), 1)
}

/// The queue, with so many events and clocks at first.
fn proof(events: u64, clock: u64, reach: Reach) -> Proof {
    let (names, bits): (Vec<&str>, Vec<usize>) = INNER.into_iter().unzip();
    let verilog = exposed(&stepped("top", EventQueue::default()), "top", bits.iter().sum(), &names);
    let verilog = begins(&verilog, "write_at", 8, events);
    Proof {
        name: "event queue",
        verilog: begins(&verilog, "since", 16, clock),
        checker: include_str!("event_queue.v"),
        macros: vec![
            ("LEMMAS", 1),
            ("START", events),
            ("CLOCK", clock),
            ("MOST_FAULTS", MAX_MISSED_FAULTS),
        ],
        reach,
    }
}

#[test]
fn the_event_queue_never_wraps_and_counts_what_it_leaves_out() {
    proof(0, 0, Reach::Inductive).holds();
    // A queue that nothing empties any more.
    let nearly_full = proof((1 << DEPTH_LOG2) - RESERVED, 0, Reach::Steps(40));
    nearly_full.holds();
    nearly_full.refutes("full_from = 8'hfc", "full_from = 8'hfe");
    nearly_full.refutes("~behind & ~full$q", "~behind");
    // Accesses without a capture are counted; a count comes before the start that it waits for.
    nearly_full.refutes("& run & ~keeps_command", "& ~keeps_command");
    nearly_full.refutes("space & pending & ~starts", "space & pending");
    // Some clocks before the end of a lap. An event that leaves without the lap before it has a
    // wrong clock.
    let lap = proof(0, LAP_CLOCKS - 9, Reach::Steps(14));
    lap.holds();
    lap.refutes("has_laps$d = 1'b1", "has_laps$d = 1'b0");
    lap.refutes("laps$d = laps$q + 32'h1", "laps$d = laps$q");
}
