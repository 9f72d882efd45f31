//! Tests the blocks between the two clock domains, on clocks of unrelated periods.

use gateware::fifo::packet_fifo::PacketFifo;
use gateware::fifo::pointer_crossing::PointerCrossing;

use crate::direct::{chance, spread, with_seeds};
use crate::recording::Recording;

#[test]
fn pointer_crossings_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("pointer crossing", PointerCrossing::<10>::default());
        for step in 0..4000 {
            recording.block.value.next = spread(rng, 10).into();
            recording.step();
            let near = chance(rng, if step % 1000 < 500 { 30 } else { 80 });
            if near {
                recording.edge(|block| &mut block.from_clock);
            } else {
                recording.edge(|block| &mut block.to_clock);
            }
        }
        recording.agrees();
    });
}

#[test]
fn packet_fifos_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("packet FIFO", PacketFifo::<10>::default());
        for _ in 0..4000 {
            let block = &mut recording.block;
            block.write.high_enable.next = rng.bool();
            block.write.low_enable.next = rng.bool();
            // Few addresses are used, so that written words are also read.
            block.write.address.next = rng.u64(0..8).into();
            block.read.address.next = rng.u64(0..8).into();
            block.write.high.next = spread(rng, 32).into();
            block.write.low.next = spread(rng, 32).into();
            if chance(rng, 10) {
                block.write.committed.next = spread(rng, 10).into();
                block.read.freed.next = spread(rng, 10).into();
            }
            recording.step();
            if rng.bool() {
                recording.edge(|block| &mut block.ddr_clock);
            } else {
                recording.edge(|block| &mut block.tx_clock);
            }
        }
        recording.agrees();
    });
}
