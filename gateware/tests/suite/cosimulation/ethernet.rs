//! Tests the blocks between the packet FIFO and the PHY.

use fastrand::Rng;
use gateware::ethernet::clock_watch::ClockWatch;
use gateware::ethernet::crc32::Crc32Step;
use gateware::ethernet::gmac::Gmac;
use gateware::ethernet::heartbeat::Heartbeat;
use gateware::ethernet::tx_thread::{FrameCounter, TxThread};
use gateware::table::Table;

use crate::direct::{chance, spread, with_seeds};
use crate::recording::Recording;

fn gmac(rng: &mut Rng) -> Recording<Gmac> {
    let mut recording = Recording::new("GMAC", Gmac::default());
    for _ in 0..4000 {
        recording.block.octets.valid.next = chance(rng, 50);
        recording.block.octets.data.next = spread(rng, 8).into();
        recording.block.octets.last.next = chance(rng, 3);
        recording.step();
        recording.edge(|block| &mut block.clock);
    }
    recording
}

#[test]
fn gmacs_agree() {
    with_seeds(0..1, |rng| gmac(rng).agrees());
}

#[test]
fn a_missing_term_of_the_checksum_is_a_difference() {
    gmac(&mut Rng::with_seed(1)).notices("crc[8] ^ ", "");
}

#[test]
fn checksum_steps_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("CRC-32", Crc32Step::default());
        for _ in 0..2000 {
            recording.block.crc.next = spread(rng, 32).into();
            recording.block.data.next = spread(rng, 8).into();
            recording.step();
        }
        recording.agrees();
    });
}

#[test]
fn transmit_threads_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("Tx thread", TxThread::<10>::default());
        let mut end = 0;
        for _ in 0..6000 {
            if chance(rng, 1) {
                end = rng.u64(0..1 << 10);
            }
            // Frames get few words: the descriptor is whatever word was read.
            let few_words = 0xff07_ffff;
            recording.block.available.next = end.into();
            recording.block.read.high.next = spread(rng, 32).into();
            recording.block.read.low.next = (spread(rng, 32) & few_words).into();
            recording.block.octets.ready.next = chance(rng, 80);
            recording.block.beat.due.next = chance(rng, 1);
            recording.block.beat.group.next = (spread(rng, 32) & few_words).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn frame_counters_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("frame counter", FrameCounter::default());
        for _ in 0..2000 {
            recording.block.step.next = chance(rng, 30);
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn heartbeats_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("heartbeat", Heartbeat::after(1));
        for _ in 0..70_000 {
            recording.block.lost.next = chance(rng, 20);
            recording.block.beat.sent.next = chance(rng, 1) && chance(rng, 1);
            recording.block.beat.taken.next = chance(rng, 2);
            recording.block.beat.step.next = chance(rng, 10);
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn clock_watches_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("clock watch", ClockWatch::default());
        for step in 0..8000 {
            if rng.bool() || (2000..5000).contains(&step) {
                recording.edge(|block| &mut block.tx_clock);
            } else {
                recording.edge(|block| &mut block.ddr_clock);
            }
            recording.step();
        }
        recording.agrees();
    });
}

#[test]
fn tables_agree_within_and_beyond_their_contents() {
    with_seeds(0..1, |rng| {
        let words: Vec<u64> = (0..21).map(|_| spread(rng, 32)).collect();
        let mut recording = Recording::new("table", Table::<5, 32>::new(words));
        for index in 0..32u64 {
            recording.block.index.next = index.into();
            recording.step();
        }
        recording.agrees();
    });
}
