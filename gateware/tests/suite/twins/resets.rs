//! Resets: when they begin and end, and what they bring back.

use gateware::fifo::block_ram::BlockRam;
use gateware::reset::ddr_restart::{CONFIRM_CHANGES, DdrRestart, STEADY_CHANGES};
use gateware::reset::reset_crossing::ResetCrossing;
use gateware::reset::{ClearedRegister, Domain, KeptRegister, Register};
use rust_hdl::prelude::*;

use crate::direct::{pulse, settle, settled};

/// What a register holds after each change of its data, its reset and its clock.
fn values<B: Block>(mut block: B, set: fn(&mut B, u64, Domain), value: fn(&B) -> u64) -> Vec<u64> {
    block = settled(block);
    let changes = [
        // An edge takes the data, and the data alone changes nothing.
        (1, false, true),
        (2, false, false),
        // A reset needs no edge, lasts over edges, and its end changes nothing.
        (2, true, false),
        (3, true, true),
        (3, false, true),
        (4, false, false),
        (4, false, true),
        // It may begin while the clock is high.
        (4, true, true),
    ];
    let mut step = |(d, reset, clk)| {
        set(&mut block, d, Domain { reset, clear: reset, ..Domain::clocked(clk) });
        settle(&mut block);
        value(&block)
    };
    changes.into_iter().map(&mut step).collect()
}

#[test]
fn reset_brings_a_register_back_without_an_edge() {
    let set = |block: &mut Register<Bits<8>>, d: u64, domain| {
        (block.d.next, block.clock.next) = (d.into(), domain);
    };
    let outputs = values(Register::default(), set, |block| block.q.val().to_u64());
    assert_eq!(outputs, [1, 1, 0, 0, 0, 0, 4, 0]);
}

#[test]
fn reset_brings_a_cleared_register_back_at_an_edge() {
    let set = |block: &mut ClearedRegister<Bits<8>>, d: u64, domain| {
        (block.d.next, block.clock.next) = (d.into(), domain);
    };
    let outputs = values(ClearedRegister::default(), set, |block| block.q.val().to_u64());
    assert_eq!(outputs, [1, 1, 1, 0, 0, 0, 4, 4]);
}

#[test]
fn reset_leaves_a_kept_register_alone() {
    let set = |block: &mut KeptRegister<Bits<8>>, d: u64, domain| {
        (block.d.next, block.clock.next) = (d.into(), domain);
    };
    let outputs = values(KeptRegister::default(), set, |block| block.q.val().to_u64());
    assert_eq!(outputs, [1, 1, 1, 3, 3, 3, 4, 4]);
}

#[test]
fn a_reset_begins_without_a_clock_and_ends_three_edges_after_its_request() {
    let mut crossing = settled(ResetCrossing::default());
    crossing.request.next = true;
    settle(&mut crossing);
    assert!(crossing.reset.val(), "no edge has come");
    for _ in 0..5 {
        pulse(&mut crossing, |crossing| &mut crossing.clock);
    }
    crossing.request.next = false;
    for edge in 0..6 {
        settle(&mut crossing);
        assert_eq!(crossing.reset.val(), edge < 3, "after {edge} edges");
        pulse(&mut crossing, |crossing| &mut crossing.clock);
    }
}

/// A block RAM with one clock.
struct Memory(BlockRam<Bits<8>, 4>);

impl Memory {
    fn clock(&mut self, reset: bool) {
        for clk in [true, false] {
            for port in [&mut self.0.read_clock, &mut self.0.write_clock] {
                port.next.clk = Clock { clk };
                (port.next.reset, port.next.clear) = (reset, reset);
            }
            settle(&mut self.0);
        }
    }

    fn write(&mut self, address: u64, data: u64, enable: bool, reset: bool) {
        self.0.write_address.next = address.into();
        self.0.write_data.next = data.into();
        self.0.write_enable.next = enable;
        self.clock(reset);
    }

    fn words(&mut self) -> Vec<u64> {
        let word = |address: u64| {
            self.0.read_address.next = address.into();
            self.write(0, 0, false, false);
            self.0.read_data.val().to_u64()
        };
        (0..16).map(word).collect()
    }
}

#[test]
fn block_ram_that_needs_zeros_has_them_after_a_reset() {
    let mut memory = Memory(settled(BlockRam::zeroed()));
    // One clock of reset less than there are words leaves one.
    for (clocks, left) in [(16, 0), (15, 1)] {
        (0..16).for_each(|address| memory.write(address, 100 + address, true, false));
        (0..clocks).for_each(|_| memory.write(0, 0, false, true));
        memory.write(0, 0, false, false);
        assert_eq!(memory.words().iter().filter(|word| **word != 0).count(), left);
    }
}

/// The block under test; its inputs are set at each clock.
struct Restart(DdrRestart<6>);

impl Restart {
    fn new() -> Self {
        Self(settled(DdrRestart::default()))
    }

    fn clocks(&mut self, clocks: usize) {
        (0..clocks).for_each(|_| pulse(&mut self.0, |restart| &mut restart.clock));
    }

    /// So many changes of the clock watch.
    fn changes(&mut self, changes: usize) {
        for _ in 0..changes {
            self.0.changed.next = true;
            self.clocks(1);
            self.0.changed.next = false;
            self.clocks(4);
        }
    }

    fn asks(&self) -> (bool, bool) {
        (self.0.request.val(), self.0.clears.val())
    }
}

#[test]
fn a_pointer_is_believed_when_it_has_outlived_two_changes() {
    for odd in [0, 1] {
        let mut restart = Restart::new();
        restart.changes(odd);
        restart.0.crossed.next = 33u64.into();
        restart.changes(CONFIRM_CHANGES);
        assert_eq!(restart.0.available.val().to_u64(), 0, "{odd}");
        restart.changes(CONFIRM_CHANGES);
        assert_eq!(restart.0.available.val().to_u64(), 33, "{odd}");
    }
}

#[test]
fn what_is_believed_is_sent_before_anything_is_cleared() {
    let mut restart = Restart::new();
    restart.0.crossed.next = 33u64.into();
    restart.changes(2 * CONFIRM_CHANGES);
    restart.0.lost.next = true;
    restart.clocks(4);
    assert_eq!(restart.asks(), (true, false));
    // Whatever crosses now, and whether the clock is back.
    restart.0.lost.next = false;
    restart.0.crossed.next = 44u64.into();
    restart.changes(2 * STEADY_CHANGES);
    assert_eq!(restart.asks(), (true, false));
    assert_eq!(restart.0.available.val().to_u64(), 33);
    restart.0.drained.next = true;
    restart.clocks(4);
    assert_eq!(restart.asks(), (true, true));
    assert_eq!(restart.0.available.val().to_u64(), 0);
    restart.changes(STEADY_CHANGES - 1);
    assert_eq!(restart.asks(), (true, true));
    restart.changes(1);
    assert_eq!(restart.asks(), (false, false));
}

#[test]
fn a_clock_that_is_lost_again_is_waited_for_anew() {
    let mut restart = Restart::new();
    restart.0.drained.next = true;
    for _ in 0..3 {
        restart.0.lost.next = true;
        restart.clocks(4);
        restart.0.lost.next = false;
        restart.changes(STEADY_CHANGES - 1);
        assert_eq!(restart.asks(), (true, true));
    }
    restart.changes(1);
    assert_eq!(restart.asks(), (false, false));
}

#[test]
fn the_transmit_domains_reset_restarts_the_ddr_domain_but_not_at_power_on() {
    let mut restart = Restart::new();
    restart.0.clock.next.reset = true;
    restart.changes(3);
    assert_eq!(restart.asks(), (false, false));
    restart.0.clock.next.reset = false;
    restart.changes(3);
    assert_eq!(restart.asks(), (false, false));
    restart.0.clock.next.reset = true;
    restart.changes(3);
    assert_eq!(restart.asks(), (true, true));
    restart.0.clock.next.reset = false;
    restart.changes(STEADY_CHANGES - 1);
    assert_eq!(restart.asks(), (true, true));
    restart.changes(1);
    assert_eq!(restart.asks(), (false, false));
}
