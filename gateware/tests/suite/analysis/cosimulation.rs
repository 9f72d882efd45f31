//! Compares the emitted Verilog of the whole analysis with the model.

use gateware::analysis::unit::Analysis;
use gateware::config::Settings;
use gateware::record::RecordKind;
use gateware::statistics::{Observed, SlotClock};

use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

#[test]
fn the_verilog_of_the_analysis_agrees() {
    for memory in [memories::ddr1(""), memories::ddr4_ranks()] {
        with_seeds(0..2, |rng| {
            let mut recording = Recording::new("analysis", Analysis::with_ticks(&memory, 3));
            for clock in 0..5000 {
                let block = &mut recording.block;
                block.settings.next =
                    Settings { analysis: clock % 700 < 650, ..Default::default() };
                let passes = chance(rng, 60);
                let page = if chance(rng, 50) { rng.u64(0..3) << 12 } else { spread(rng, 28) };
                block.observed.next = Observed {
                    access: passes,
                    row_state: rng.u64(0..3).into(),
                    bank: (rng.u64(0..64) & 0x13).into(),
                    page: page.into(),
                    ..Default::default()
                };
                block.now.next =
                    SlotClock { low: spread(rng, 24).into(), high: spread(rng, 24).into() };
                block.may_send.next = chance(rng, 80);
                block.taken.next = block.offers.val() && chance(rng, 60);
                block.held.next =
                    if chance(rng, 60) { RecordKind::Nothing } else { RecordKind::HotPage };
                block.word.next = rng.u64(0..2).into();
                block.requests.next.record_kind =
                    if chance(rng, 10) { RecordKind::Tick } else { RecordKind::Nothing };
                block.requests.next.dump = chance(rng, 1);
                block.requests.next.dump_all = chance(rng, 20);
                recording.step();
                recording.edge(|block| &mut block.clock);
            }
            recording.agrees();
        });
    }
}

#[test]
fn a_changed_vote_is_a_difference() {
    let mut recording = Recording::new("analysis", Analysis::new(&memories::ddr1("")));
    recording.block.settings.next = Settings { analysis: true, ..Default::default() };
    recording.block.may_send.next = true;
    for clock in 0..400u64 {
        recording.block.observed.next = Observed {
            access: clock % 4 == 0 && clock < 200,
            page: (clock / 4 % 3).into(),
            ..Default::default()
        };
        recording.block.requests.next.dump = clock == 220;
        recording.block.taken.next = recording.block.offers.val();
        recording.step();
        recording.edge(|block| &mut block.clock);
    }
    recording.notices("mem[write_address] <= write_data;", "mem[write_address] <= ~write_data;");
}
