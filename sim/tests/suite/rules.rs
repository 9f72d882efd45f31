//! Tests rules of `docs/format.md` that no vector covers: slices that end at commands, conflicts,
//! faults of commands without a bank, and the effects of illegal commands.

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, column_pins};
use hmtt_format::config::{
    FREQUENCY_ON, MARK_FREE_FIRST, Mode, RESET, SLICE_FIRST, START, STOP, slice_clocks,
};
use hmtt_format::record::CountGroup;
use hmtt_format::{Command, CommandKind, Event, FaultKind, MemoryDescription, toml_memory};
use hmtt_sim::engine::{self, Options, Settings};
use hmtt_sim::replay::Outcome;
use hmtt_sim::traffic::Traffic;

use crate::support;

fn memory(more: &str) -> MemoryDescription {
    let text = format!(
        "generation = 'DDR1'\ntck_ns = 5.0\nbus_bytes = 8\nrefresh_limit_clocks = 0\ntrp_clocks = 4\n\
         tmrd_clocks = 5\ntxs_clocks = 40\ntrfc_clocks = 30\n{more}\n[map]\ncolumn = ['p3-p13']\n\
         bank = ['p14', 'p15']\nrow = ['p16-p28']\n"
    );
    toml_memory::parse(&text).unwrap()
}

fn replayed(traffic: &Traffic, settings: Settings) -> Outcome {
    let parameters = engine::default_parameters(traffic.memory().clone());
    support::replay_card(traffic.spans(), &Options::default(), &parameters, settings)
}

/// A slice as the card sent it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: u64,
    end: u64,
    code: u8,
    partial: bool,
    bursts: u64,
}

fn slices(outcome: &Outcome, memory: &MemoryDescription) -> Vec<Slice> {
    let slice = |event: &Event| match *event {
        Event::Slice { clock, code: Some(code), length, reads, writes } => {
            let whole = slice_clocks(code, memory.tck_ps).into();
            let clocks = length.clocks().map_or(whole, |clocks| clocks.0);
            let bursts = u64::from(reads + writes);
            let partial = length.is_partial();
            Some(Slice { start: clock.0, end: clock.0 + clocks, code, partial, bursts })
        }
        _ => None,
    };
    outcome.events.iter().filter_map(slice).collect()
}

/// Adds a read every ten clocks, so that no slice is empty.
fn reads(traffic: &mut Traffic, count: u64) {
    for line in 0..count {
        traffic.read(0x80_0000 + line % 64 * 64).idle(9);
    }
}

/// Adds a configuration command whose last access ends a slice. Returns the clock of that access.
fn cut(traffic: &mut Traffic, register: u16) -> u64 {
    traffic.configure(register);
    traffic.truth().last().expect("accesses").clock.0
}

#[test]
fn a_command_ends_a_slice_after_the_access_that_completes_it() {
    let memory = memory("burst_length = 4");
    let mut traffic = Traffic::new(memory.clone());
    reads(&mut traffic, 40);
    // Marks end no slice.
    traffic.configure(MARK_FREE_FIRST);
    reads(&mut traffic, 50);
    let cuts = [SLICE_FIRST + 1, SLICE_FIRST, FREQUENCY_ON, START, STOP].map(|register| {
        let clock = cut(&mut traffic, register);
        reads(&mut traffic, 150);
        clock
    });
    let settings = Settings { mode: Mode::Frequency, slice_code: 0, ..Settings::default() };
    let outcome = replayed(&traffic, settings);
    assert_eq!(outcome.summary.lost_records, 0);
    let slices = slices(&outcome, &memory);
    for clock in cuts {
        let at = slices.iter().position(|slice| slice.end == clock);
        let at = at.unwrap_or_else(|| panic!("no slice ends at {clock}: {slices:?}"));
        if clock != cuts[cuts.len() - 1] {
            assert_eq!(slices[at + 1].start, clock);
        }
    }
    for slice in &slices {
        let inside = |clock: u64| {
            let completes = cuts.contains(&clock);
            clock >= slice.start && clock < slice.end && !(completes && clock == slice.start)
                || completes && clock == slice.end
        };
        let accesses = traffic.truth().iter().filter(|access| inside(access.clock.0));
        assert_eq!(accesses.count() as u64, slice.bursts, "{slice:?}");
    }
}

#[test]
fn the_first_slice_of_a_new_code_is_longer_than_the_others() {
    let memory = memory("burst_length = 4");
    // Setting the code in force and a reset also start a new grid.
    for register in [SLICE_FIRST + 1, SLICE_FIRST + 2, RESET] {
        let mut traffic = Traffic::new(memory.clone());
        reads(&mut traffic, 33);
        let clock = cut(&mut traffic, register);
        reads(&mut traffic, 300);
        let settings = Settings { mode: Mode::Frequency, slice_code: 2, ..Settings::default() };
        let outcome = replayed(&traffic, settings);
        let slices = slices(&outcome, &memory);
        let first = slices.iter().position(|slice| slice.start == clock).expect("a slice");
        let length = |slice: &Slice| slice.end - slice.start;
        let [first, second] = [slices[first], slices[first + 1]];
        let whole = u64::from(slice_clocks(first.code, memory.tck_ps));
        let beyond = length(&first) - whole;
        assert!(first.partial && beyond > 0, "{beyond} clocks beyond {first:?}");
        assert_eq!((second.start, length(&second), second.partial), (first.end, whole, false));
    }
}

/// Adds a raw command to the only rank and returns its clock.
fn put(traffic: &mut Traffic, kind: CommandKind, ba: u8, a: u32) -> u64 {
    traffic.raw(Command { kind, ba, a });
    traffic.clocks() - 1
}

#[test]
fn a_conflict_is_the_first_access_after_a_precharge_of_just_its_bank() {
    use CommandKind::*;
    let memory = memory("burst_length = 4");
    let column = column_pins(memory.generation, 0, memory.bits(Axis::Column));
    let mut traffic = Traffic::new(memory);
    let open_and_read = |traffic: &mut Traffic, row: u32, reads: u32| {
        put(traffic.idle(20), Activate, 1, row);
        traffic.idle(20);
        for _ in 0..reads {
            put(traffic.idle(3), Read, 1, column);
        }
        traffic.idle(20);
    };
    // After power-up: a miss and a hit.
    open_and_read(&mut traffic, 5, 2);
    // Another row, the same row, and a row that was opened before without an access: conflicts.
    put(&mut traffic, Precharge, 1, 0);
    open_and_read(&mut traffic, 6, 1);
    put(&mut traffic, Precharge, 1, 0);
    open_and_read(&mut traffic, 6, 1);
    put(&mut traffic, Precharge, 1, 0);
    open_and_read(&mut traffic, 7, 0);
    put(&mut traffic, Precharge, 1, 0);
    open_and_read(&mut traffic, 6, 1);
    // After PRECHARGE ALL, a second PRECHARGE or a REFRESH: misses.
    put(&mut traffic, PrechargeAll, 1, A10);
    open_and_read(&mut traffic, 7, 1);
    put(&mut traffic, Precharge, 1, 0);
    put(traffic.idle(20), PrechargeAll, 1, A10);
    open_and_read(&mut traffic, 8, 1);
    put(&mut traffic, Precharge, 1, 0);
    put(traffic.idle(20), Refresh, 0, 0);
    open_and_read(traffic.idle(40), 9, 1);
    let settings = Settings { mode: Mode::Analysis, ..Settings::default() };
    let outcome = replayed(&traffic, settings);
    assert_eq!(outcome.summary.protocol_faults, 0);
    let count = |wanted: CountGroup| {
        let value = |event: &Event| match *event {
            Event::Count { group, index: 1, value, .. } if group == wanted => Some(value),
            _ => None,
        };
        outcome.events.iter().find_map(value).unwrap_or(0)
    };
    let groups = [CountGroup::RowHits, CountGroup::RowMisses, CountGroup::RowConflicts];
    assert_eq!(groups.map(count), [1, 4, 3]);
}

fn faults(traffic: &Traffic) -> Vec<(u64, FaultKind, u8)> {
    let fault = |event: &Event| match *event {
        Event::Fault { clock, kind, bank } => Some((clock.0, kind, bank)),
        _ => None,
    };
    replayed(traffic, Settings::default()).events.iter().filter_map(fault).collect()
}

#[test]
fn a_fault_states_the_bank_pins_of_commands_without_a_bank() {
    use CommandKind::*;
    let mut traffic = Traffic::new(memory("burst_length = 4"));
    put(traffic.idle(20), Activate, 2, 1);
    // The bank pins select the register; the memory has two bank pins.
    let mode = put(traffic.idle(20), ModeRegisterSet, 1, 0);
    let refresh = put(traffic.idle(20), Refresh, 3, 0);
    put(traffic.idle(20), Refresh, 0, 0);
    let precharge = put(&mut traffic, PrechargeAll, 2, A10);
    let expected = [
        (mode, FaultKind::ModeRegisterOpen, 1),
        (refresh, FaultKind::RefreshOpen, 3),
        (precharge, FaultKind::CommandInRfc, 2),
    ];
    assert_eq!(faults(&traffic), expected);
}

#[test]
fn an_illegal_refresh_restarts_trfc_unless_a_bank_was_open() {
    use CommandKind::*;
    let mut traffic = Traffic::new(memory("burst_length = 4"));
    let mut expected = Vec::new();
    // With a bank open, the row is closed, and an ACTIVATE may follow at once.
    put(traffic.idle(20), Activate, 2, 1);
    expected.push((put(traffic.idle(20), Refresh, 0, 0), FaultKind::RefreshOpen, 0));
    put(&mut traffic, Activate, 2, 1);
    put(traffic.idle(20), Precharge, 2, 0);
    // Within tRFC: 30 clocks from the second REFRESH.
    put(traffic.idle(20), Refresh, 0, 0);
    expected.push((put(traffic.idle(24), Refresh, 0, 0), FaultKind::CommandInRfc, 0));
    expected.push((put(traffic.idle(28), Precharge, 0, 0), FaultKind::CommandInRfc, 0));
    put(&mut traffic, Precharge, 0, 0);
    // Within tXS of 40 clocks: tRFC applies, which ends later here.
    put(traffic.idle(20), SelfRefreshEntry, 0, 0);
    expected.push((put(traffic.idle(30), Refresh, 0, 0), FaultKind::CommandInXs, 0));
    expected.push((put(traffic.idle(28), Precharge, 0, 0), FaultKind::CommandInRfc, 0));
    put(&mut traffic, Precharge, 0, 0);
    // Within tMRD.
    put(traffic.idle(20), ModeRegisterSet, 0, 0x22);
    expected.push((put(&mut traffic, Refresh, 0, 0), FaultKind::CommandInMrd, 0));
    expected.push((put(traffic.idle(28), Precharge, 0, 0), FaultKind::CommandInRfc, 0));
    put(&mut traffic, Precharge, 0, 0);
    assert_eq!(faults(&traffic), expected);
}

#[test]
fn a_mode_register_is_set_within_trp_and_not_where_a_bank_is_open() {
    use CommandKind::*;
    let memory = memory("burst_length = 'mode_register'\ninitial_burst_length = 8");
    assert_eq!(1 << memory.config_stride_log2, 64, "registers a longest burst apart");
    let column = column_pins(memory.generation, 6, memory.bits(Axis::Column));
    let mut traffic = Traffic::new(memory);
    let mut expected = Vec::new();
    let (four, two) = (0x22, 0x21);
    // While a bank is open, burst length and distances do not change.
    put(traffic.idle(20), Activate, 0, 0);
    expected.push((
        put(traffic.idle(20), ModeRegisterSet, 0, four),
        FaultKind::ModeRegisterOpen,
        0,
    ));
    put(&mut traffic, Read, 0, column);
    put(traffic.idle(20), Precharge, 0, 0);
    // Within tRP the register is set, and tMRD starts.
    expected.push((put(&mut traffic, ModeRegisterSet, 0, four), FaultKind::CommandInRp, 0));
    // Within tMRD the register is not set, and tMRD continues from the command before.
    expected.push((put(traffic.idle(2), ModeRegisterSet, 0, two), FaultKind::CommandInMrd, 0));
    expected.push((put(&mut traffic, Precharge, 3, 0), FaultKind::CommandInMrd, 3));
    put(&mut traffic, Activate, 0, 0);
    put(traffic.idle(20), Read, 0, column);
    assert_eq!(faults(&traffic), expected);
    let address = |event: &Event| match event {
        Event::Access(access) => Some(access.address.0),
        _ => None,
    };
    let settings =
        Settings { granularity: hmtt_format::config::Granularity::Burst, ..Settings::default() };
    let outcome = replayed(&traffic, settings);
    let addresses: Vec<u64> = outcome.events.iter().filter_map(address).collect();
    // Column 6 of bursts of eight words, then of four.
    assert_eq!(addresses, [0, 4 * 8]);
}
