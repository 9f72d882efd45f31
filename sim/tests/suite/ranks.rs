//! Tests several ranks, mirrored addresses, burst lengths of the mode register and every fault that
//! depends on time, with constructed traffic and both engines.

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, column_pins};
use hmtt_format::config::Granularity;
use hmtt_format::{Command, CommandKind, Event, FaultKind, MemoryDescription, toml_memory};
use hmtt_sim::engine::{self, Kind, Options, Settings};
use hmtt_sim::traffic::Traffic;

use crate::support;

fn ddr1() -> MemoryDescription {
    toml_memory::parse(
        "generation = 'DDR1'\ntck_ns = 5.0\nbus_bytes = 8\nburst_length = 'mode_register'\n\
         trcd_clocks = 3\ntrp_clocks = 4\ntmrd_clocks = 5\ntxs_clocks = 11\n\
         refresh_limit_clocks = 150\n[map]\ncolumn = ['p3-p13']\nbank = ['p14^p17', 'p15^p18']\n\
         row = ['p17-p29']\nrank = ['p16^p20']\n",
    )
    .unwrap()
}

fn ddr3() -> MemoryDescription {
    toml_memory::parse(
        "generation = 'DDR3'\ntck_ns = 2.5\nbus_bytes = 8\nburst_length = 'mode_register'\n\
         mirror_odd_ranks = true\nrefresh_limit_clocks = 0\n[map]\ncolumn = ['p3-p12']\n\
         bank = ['p13^p16', 'p14^p17', 'p15^p18']\nrow = ['p16-p30']\nrank = ['p31^p19']\n",
    )
    .unwrap()
}

fn ddr4() -> MemoryDescription {
    toml_memory::parse(
        "generation = 'DDR4'\ntck_ns = 1.25\nbus_bytes = 8\nburst_length = 8\n\
         mirror_odd_ranks = true\nrefresh_limit_clocks = 0\n[map]\ncolumn = ['p3-p12']\n\
         bank = ['p13^p22', 'p14^p23', 'p15', 'p16']\nrow = ['p19-p35']\nrank = ['p17', 'p18']\n",
    )
    .unwrap()
}

/// Returns the events that both engines send for the traffic.
fn events(traffic: &Traffic) -> Vec<Event> {
    let parameters = engine::default_parameters(traffic.memory().clone());
    let settings = Settings { granularity: Granularity::Burst, ..Settings::default() };
    let [reference, compiled] = [Kind::Rust, Kind::Verilator].map(|kind| {
        let options = Options { kind, ..Options::default() };
        support::replay_card(traffic.spans(), &options, &parameters, settings).events
    });
    assert!(reference == compiled, "the engines differ");
    reference
}

fn accesses(events: &[Event]) -> Vec<(u64, u64)> {
    let access = |event: &Event| match event {
        Event::Access(access) => Some((access.clock.0, access.address.0)),
        _ => None,
    };
    events.iter().filter_map(access).collect()
}

fn faults(events: &[Event]) -> Vec<(u64, FaultKind, u8)> {
    let fault = |event: &Event| match event {
        Event::Fault { clock, kind, bank } => Some((clock.0, *kind, *bank)),
        _ => None,
    };
    events.iter().filter_map(fault).collect()
}

/// Adds a raw command and returns its clock.
fn put(traffic: &mut Traffic, ranks: u8, kind: CommandKind, ba: u8, a: u32) -> u64 {
    traffic.raw_to(ranks, Command { kind, ba, a });
    traffic.clocks() - 1
}

#[test]
fn accesses_to_every_rank_have_the_address_of_the_map() {
    for mut memory in [ddr1(), ddr3(), ddr4()] {
        memory.refresh_limit_clocks = 0;
        let mut traffic = Traffic::new(memory.clone());
        let named = memory.map.named_bits();
        let mut state = 7u64;
        let mut ranks = 0u8;
        for step in 0..1500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let address = (state >> 20) & named;
            ranks |= 1 << memory.map.to_coordinates(address).rank;
            match state >> 59 {
                _ if step % 40 == 0 => traffic.refresh(),
                0..=12 => traffic.write(address),
                _ => traffic.read(address),
            };
        }
        assert_eq!(u32::from(memory.ranks()), ranks.count_ones());
        // Until the mode register is written, the description's length applies: DDR1 4, the others
        // 8.
        let burst = memory.burst_bytes().trailing_zeros();
        let truth: Vec<(u64, u64)> = traffic
            .truth()
            .iter()
            .map(|access| (access.clock.0, access.address.0 >> burst << burst))
            .collect();
        let events = events(&traffic);
        assert_eq!(accesses(&events), truth, "{:?}", memory.generation);
        assert_eq!(faults(&events), [], "{:?}", memory.generation);
    }
}

#[test]
fn bursts_are_aligned_to_the_length_in_the_mode_register() {
    let mut traffic = Traffic::new(ddr1());
    let mut expected = vec![0x20];
    traffic.idle(20).read(0x38);
    for (code, start) in [(1, 0x30), (2, 0x20), (3, 0), (7, 0)] {
        traffic.refresh();
        put(&mut traffic, 3, CommandKind::ModeRegisterSet, 0, 0x20 | code);
        // The extended mode register sets no burst length.
        traffic.idle(20).raw(Command { kind: CommandKind::ModeRegisterSet, ba: 1, a: 1 });
        traffic.idle(20).read(0x38);
        expected.push(start);
    }
    let addresses: Vec<u64> = accesses(&events(&traffic)).into_iter().map(|(_, at)| at).collect();
    assert_eq!(addresses, expected);
}

#[test]
fn chopped_bursts_start_at_their_half_in_a_mirrored_rank() {
    let memory = ddr3();
    let mut traffic = Traffic::new(memory.clone());
    let columns = memory.bits(Axis::Column);
    let place = hmtt_format::Coordinates { rank: 1, bank: 5, row: 0x2a5a, column: 0x3b6 };
    let mut expected = Vec::new();
    // MR0 selects fixed 8, on the fly, or fixed 4; then A12 of the READ.
    for (register, a12, words) in [(0, 0, 8), (1, 0, 4), (1, 1, 8), (2, 1, 4)] {
        traffic.idle(20);
        put(&mut traffic, 2, CommandKind::ModeRegisterSet, 0, 0x500 | register);
        traffic.idle(20);
        put(&mut traffic, 2, CommandKind::Activate, 5, place.row);
        traffic.idle(20);
        let column = column_pins(memory.generation, place.column, columns) | a12 << 12 | A10;
        let clock = put(&mut traffic, 2, CommandKind::Read, 5, column);
        let start = hmtt_format::Coordinates { column: place.column & !(words - 1), ..place };
        expected.push((clock, memory.map.to_address(start)));
    }
    let events = events(&traffic);
    assert_eq!(accesses(&events), expected);
    assert_eq!(faults(&events), []);
}

#[test]
fn every_distance_that_is_too_short_is_a_fault() {
    use CommandKind::*;
    let mut traffic = Traffic::new(ddr1());
    let mut expected = Vec::new();
    traffic.idle(20);
    let to = |traffic: &mut Traffic, ranks, kind, ba| put(traffic, ranks, kind, ba, 0);
    // tRCD: the access is recorded, and its fault at the next free clock.
    to(&mut traffic, 2, Activate, 2);
    let early = to(&mut traffic, 2, Read, 2);
    let second = to(&mut traffic, 2, Read, 2);
    expected.push((early + 2, FaultKind::ColumnInRcd, 18));
    traffic.idle(20);
    let mut kept = vec![early, second];
    // tRP: the row is opened nevertheless.
    to(&mut traffic, 2, Precharge, 2);
    expected.push((to(&mut traffic, 2, Activate, 2), FaultKind::CommandInRp, 18));
    traffic.idle(10);
    kept.push(to(&mut traffic, 2, Write, 2));
    traffic.idle(20);
    put(&mut traffic, 3, PrechargeAll, 0, A10);
    to(&mut traffic, 1, Activate, 3);
    traffic.idle(5);
    put(&mut traffic, 3, PrechargeAll, 0, A10);
    expected.push((to(&mut traffic, 1, Refresh, 0), FaultKind::CommandInRp, 0));
    traffic.idle(30);
    expected.push((to(&mut traffic, 3, Activate, 3), FaultKind::MultiRank, 3));
    expected.push((to(&mut traffic, 3, Read, 3), FaultKind::MultiRank, 3));
    // tMRD, which does not apply to the other rank.
    put(&mut traffic, 1, ModeRegisterSet, 0, 0x22);
    to(&mut traffic, 2, Precharge, 0);
    expected.push((to(&mut traffic, 1, Precharge, 0), FaultKind::CommandInMrd, 0));
    traffic.idle(10);
    // tXS: the ACTIVATE has no effect, as within tRFC.
    let entry = to(&mut traffic, 2, SelfRefreshEntry, 0);
    traffic.idle(1);
    expected.push((to(&mut traffic, 2, Activate, 1), FaultKind::CommandInXs, 17));
    traffic.idle(20);
    expected.push((to(&mut traffic, 2, Read, 1), FaultKind::ReadIdle, 17));
    let refresh = to(&mut traffic, 1, Refresh, 0);
    traffic.idle(400);
    // CKE rose one clock after it fell.
    expected.push((entry + 1 + 151, FaultKind::RefreshOverdue, 16));
    expected.push((refresh + 151, FaultKind::RefreshOverdue, 0));
    let events = events(&traffic);
    assert_eq!(faults(&events), expected);
    let clocks: Vec<u64> = accesses(&events).into_iter().map(|(clock, _)| clock).collect();
    assert_eq!(clocks, kept);
}

#[test]
fn zq_calibration_requires_closed_banks() {
    use CommandKind::*;
    let mut traffic = Traffic::new(ddr3());
    traffic.idle(20);
    put(&mut traffic, 2, Activate, 1, 0);
    traffic.idle(20);
    let calibration = put(&mut traffic, 2, ZqCalibration, 0, A10);
    // The other rank has no bank open.
    put(&mut traffic, 1, ZqCalibration, 0, A10);
    assert_eq!(faults(&events(&traffic)), [(calibration, FaultKind::ZqOpen, 16)]);
}
