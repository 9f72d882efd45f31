//! Checks the controller's commands with a table of distances, with the model of the card's faults,
//! and for speed of the bus.

use std::convert::Infallible;

use hmtt_format::{
    Access, Cycles, Direction, Generation, MemoryDescription, PhysAddr, Pins, toml_memory,
};
use hmtt_sim::fuzz::memories;
use hmtt_sim::fuzz::pin_reader::{Outcome, PinReader, Seen};
use hmtt_sim::machine::controller::{CommandSink, Controller, Issued, LineRequest, PagePolicy};
use proptest::prelude::*;

use crate::support::legality::{Legality, Rules};

#[derive(Default)]
struct Kept(Vec<Issued>);

impl CommandSink for Kept {
    type Error = Infallible;

    fn issue(&mut self, issued: Issued) -> Result<(), Infallible> {
        self.0.push(issued);
        Ok(())
    }
}

struct Run {
    controller: Controller,
    issued: Vec<Issued>,
}

impl Run {
    fn accesses(&self) -> Vec<Access> {
        self.issued.iter().filter_map(|issued| issued.access).collect()
    }
}

/// Reads and writes lines. Each is given with the clocks since the one before and its address.
fn run(
    memory: &MemoryDescription,
    policy: PagePolicy,
    lines: impl IntoIterator<Item = (u64, Direction, u64)>,
) -> Run {
    let mut controller = Controller::new(memory, policy).unwrap();
    let mut sink = Kept::default();
    let Ok(Cycles(started)) = controller.power_up(&mut sink);
    let mut now = started;
    for (gap, direction, address) in lines {
        let from = Cycles(now + gap);
        let request = LineRequest { from, direction, address: PhysAddr(address), bytes: 64 };
        let Ok(accept_clock) = controller.push(request, &mut sink);
        assert!(accept_clock >= from);
        now = accept_clock.0;
    }
    let Ok(_) = controller.finish(&mut sink);
    Run { controller, issued: sink.0 }
}

/// Distances of JEDEC in clocks, computed by hand from JESD79F, JESD79-2F, JESD79-3F and JESD79-4.
fn ddr_200() -> (MemoryDescription, Rules) {
    let memory = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14', 'p15']\nrow = ['p16-p28']\n";
    let rules = Rules {
        cl: 2,
        cwl: 1,
        burst: 2,
        turn: 1,
        tccd: [2, 2],
        trcd: 2,
        trp: 2,
        trpa: 2,
        tras: 5,
        trc: 7,
        trrd: [2, 2],
        tfaw: 0,
        twr: 2,
        twtr: [1, 1],
        read_to_precharge: 2,
        trfc: 8,
        trefi: 780,
        tmrd: 2,
        tmod: 2,
    };
    (toml_memory::parse(memory).unwrap(), rules)
}

fn ddr2_667() -> (MemoryDescription, Rules) {
    let memory = "generation = 'DDR2'\ntck_ns = 3.0\nbus_bytes = 8\nburst_length = 4\n\
         [map]\ncolumn = ['p3', 'p4', 'p8-p15']\nbank = ['p5', 'p6', 'p7']\nrow = ['p16-p29']\n";
    let (_, base) = ddr_200();
    let rules = Rules {
        cl: 5,
        cwl: 4,
        trcd: 5,
        trp: 5,
        trpa: 6,
        tras: 15,
        trc: 20,
        trrd: [3, 3],
        tfaw: 13,
        twr: 5,
        twtr: [3, 3],
        read_to_precharge: 3,
        trfc: 43,
        trefi: 2600,
        ..base
    };
    (toml_memory::parse(memory).unwrap(), rules)
}

fn ddr3_800() -> (MemoryDescription, Rules) {
    let memory = "generation = 'DDR3'\nspeed = 'DDR3-800'\nbus_bytes = 8\nburst_length = 8\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13^p16', 'p14^p17', 'p15^p18']\nrow = ['p16-p30']\n";
    let rules = Rules {
        cl: 6,
        cwl: 5,
        burst: 4,
        turn: 2,
        tccd: [4, 4],
        trcd: 6,
        trp: 6,
        trpa: 6,
        tras: 15,
        trc: 21,
        trrd: [4, 4],
        tfaw: 16,
        twr: 6,
        twtr: [4, 4],
        read_to_precharge: 4,
        trfc: 64,
        trefi: 3120,
        tmrd: 4,
        tmod: 12,
    };
    (toml_memory::parse(memory).unwrap(), rules)
}

fn ddr4_1866() -> (MemoryDescription, Rules) {
    let memory = "generation = 'DDR4'\ntck_ns = 1.071\nbus_bytes = 8\nburst_length = 8\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13', 'p14', 'p15', 'p16']\nrow = ['p17-p31']\n";
    let (_, base) = ddr3_800();
    let rules = Rules {
        cl: 13,
        cwl: 10,
        tccd: [4, 5],
        trcd: 13,
        trp: 13,
        trpa: 13,
        tras: 32,
        trc: 45,
        trrd: [4, 5],
        tfaw: 22,
        twr: 14,
        twtr: [3, 7],
        read_to_precharge: 7,
        trfc: 243,
        trefi: 7284,
        tmrd: 8,
        tmod: 24,
        ..base
    };
    (toml_memory::parse(memory).unwrap(), rules)
}

/// The memories with distances of JEDEC, and those of the fuzz tests with the controller's own
/// distances.
fn all() -> Vec<(MemoryDescription, Rules)> {
    let others = memories::ALL.into_iter().map(|text| {
        let memory = memories::parse(text);
        let controller = Controller::new(&memory, PagePolicy::Open).unwrap();
        let rules = Rules::from(controller.timing());
        (memory, rules)
    });
    [ddr_200(), ddr2_667(), ddr3_800(), ddr4_1866()].into_iter().chain(others).collect()
}

/// Feeds all clocks to the model of the card's faults. Returns its accesses, and hits, misses and
/// conflicts.
fn read_pins(memory: &MemoryDescription, issued: &[Issued]) -> (Vec<Access>, [u64; 3]) {
    let mut reader = PinReader::new(memory);
    let (mut accesses, mut outcomes) = (Vec::new(), [0; 3]);
    let mut cke = 0;
    for Issued { clock, pins, .. } in issued {
        while reader.clocks() < clock.0 {
            let seen = reader.clock(Pins { cke, ..Pins::DESELECT });
            assert_eq!(seen, None, "before clock {clock}");
        }
        cke = pins.cke;
        match reader.clock(*pins) {
            Some(Seen::Access(access, outcome, _)) => {
                accesses.push(access);
                outcomes[match outcome {
                    Outcome::Hit => 0,
                    Outcome::Miss => 1,
                    Outcome::Conflict => 2,
                }] += 1;
            }
            Some(Seen::Fault(fault)) => panic!("{fault:?}"),
            None => {}
        }
    }
    (accesses, outcomes)
}

fn policy() -> impl Strategy<Value = PagePolicy> {
    prop_oneof![Just(PagePolicy::Open), Just(PagePolicy::Closed)]
}

/// Lines of a few rows of all banks, mostly without a pause.
fn lines() -> impl Strategy<Value = Vec<(u64, Direction, u64)>> {
    let gap = prop_oneof![6 => Just(0u64), 3 => 0u64..40, 1 => 0u64..20_000];
    let line = (gap, any::<bool>(), 0u64..4, any::<u64>());
    let line = line.prop_map(|(gap, write, row, random)| {
        // Bits of rows and ranks from `row`, others from `random`.
        let address = row << 17 | row << 28 | random & 0x1_ffc0 | (random >> 40 & 1) << 30;
        (gap, Direction::from_bit(write), address)
    });
    prop::collection::vec(line, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn commands_are_legal_and_transfer_the_lines_in_order(policy in policy(), lines in lines()) {
        for (memory, rules) in all() {
            let highest = memory.map.named_bits();
            let lines: Vec<_> =
                lines.iter().map(|(gap, direction, address)| (*gap, *direction, address & highest & !63)).collect();
            let run = run(&memory, policy, lines.iter().copied());
            let mut legality = Legality::new(&memory, rules);
            for issued in run.issued.iter().filter(|issued| issued.pins.cs_n != 0xf) {
                legality.check(issued.clock.0, issued.pins);
            }
            prop_assert_eq!(&legality.accesses, &run.accesses());
            let counts = run.controller.counts();
            // A power-up has two of its own until DDR2.
            let more = if memory.generation <= Generation::Ddr2 { 2 } else { 0 };
            prop_assert_eq!(legality.refreshes, counts.refreshes + more);
            let (seen, outcomes) = read_pins(&memory, &run.issued);
            prop_assert_eq!(seen, run.accesses());
            prop_assert_eq!(outcomes, [counts.row_hits, counts.row_misses, counts.row_conflicts]);
            // Where a burst is contiguous, a line is its bursts.
            let bytes = u64::from(memory.burst_bytes());
            if memory.burst_log2() == bytes.trailing_zeros() as u8 {
                let bursts = |(_, direction, address): &(u64, Direction, u64)| {
                    let (direction, address) = (*direction, *address);
                    let starts = (0..64).step_by(bytes as usize);
                    starts.map(move |at| (direction, PhysAddr(address + at))).collect::<Vec<_>>()
                };
                let expected: Vec<_> = lines.iter().flat_map(bursts).collect();
                let transferred: Vec<_> =
                    run.accesses().iter().map(|access| (access.direction, access.address)).collect();
                prop_assert_eq!(transferred, expected);
            }
        }
    }
}

/// The controller issues a command as soon as it is legal, so each command of a row conflict is
/// illegal a clock earlier.
#[test]
fn the_checker_rejects_commands_that_are_a_clock_too_early() {
    for (memory, rules) in [ddr_200(), ddr2_667(), ddr3_800(), ddr4_1866()] {
        let lines = [(0, Direction::Write, 0), (0, Direction::Read, 1 << 20)];
        let run = run(&memory, PagePolicy::Open, lines);
        let commands: Vec<_> =
            run.issued.iter().filter(|issued| issued.pins.cs_n != 0xf).copied().collect();
        let legal = |commands: &[Issued]| {
            let check = || {
                let mut legality = Legality::new(&memory, rules);
                commands.iter().for_each(|issued| legality.check(issued.clock.0, issued.pins));
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_ok()
        };
        assert!(legal(&commands));
        let bursts = if memory.burst_length == 4 { 2 } else { 1 };
        // From the end: READs, ACTIVATE, PRECHARGE, WRITEs.
        for at in commands.len() - 2 * bursts - 2..commands.len() {
            let mut early = commands.clone();
            early[at].clock.0 -= 1;
            assert!(!legal(&early), "{:?} of {}", commands[at], memory.generation.name());
        }
    }
}

/// Clocks of the accesses of lines that arrive at once, from the first one on.
fn clocks(memory: &MemoryDescription, policy: PagePolicy, addresses: &[u64]) -> Vec<u64> {
    let lines = addresses.iter().map(|address| (0, Direction::Read, *address));
    let accesses = run(memory, policy, lines).accesses();
    accesses.iter().map(|access| access.clock.0 - accesses[0].clock.0).collect()
}

#[test]
fn lines_of_an_open_row_follow_without_a_gap() {
    let (memory, _) = ddr_200();
    assert_eq!(clocks(&memory, PagePolicy::Open, &[0, 64, 128]), [0, 2, 4, 6, 8, 10]);
    let (memory, _) = ddr3_800();
    assert_eq!(clocks(&memory, PagePolicy::Open, &[0, 64, 128]), [0, 4, 8]);
}

#[test]
fn rows_of_other_banks_are_opened_during_transfers() {
    let (memory, _) = ddr_200();
    let banks = [0, 1 << 14, 2 << 14, 3 << 14];
    assert_eq!(clocks(&memory, PagePolicy::Open, &banks), [0, 2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(clocks(&memory, PagePolicy::Closed, &banks), [0, 2, 4, 6, 8, 10, 12, 14]);
}

#[test]
fn a_conflict_takes_a_row_cycle() {
    let (memory, _) = ddr3_800();
    // tRAS + tRP; both policies close the row as early.
    for policy in [PagePolicy::Open, PagePolicy::Closed] {
        assert_eq!(clocks(&memory, policy, &[0, 1 << 19, 0]), [0, 21, 42]);
    }
}

#[test]
fn a_row_stays_open_only_with_the_open_policy() {
    let (memory, _) = ddr_200();
    let far = |policy| {
        let lines = [(0, Direction::Read, 0), (100, Direction::Read, 64)];
        run(&memory, policy, lines).controller.counts()
    };
    let open = far(PagePolicy::Open);
    assert_eq!((open.row_hits, open.row_misses, open.row_conflicts), (3, 1, 0));
    let closed = far(PagePolicy::Closed);
    assert_eq!((closed.row_hits, closed.row_misses, closed.row_conflicts), (2, 2, 0));
}

#[test]
fn an_idle_memory_is_refreshed() {
    let (memory, _) = ddr_200();
    let run = run(&memory, PagePolicy::Open, [(780_000, Direction::Read, 0)]);
    let refreshes: Vec<_> = run
        .issued
        .iter()
        .filter(|issued| issued.clock.0 > 16)
        .filter(|Issued { pins, .. }| !pins.ras_n && !pins.cas_n && pins.we_n)
        .map(|issued| issued.clock.0)
        .collect();
    // Two in the power-up, and those that become due in 780 000 clocks, the first of them soon.
    assert_eq!(refreshes.len(), 2 + 1000);
    assert!(refreshes[1..].windows(2).all(|pair| pair[1] - pair[0] == 780));
    assert_eq!(run.controller.counts().refreshes, 1000);
}

#[test]
fn a_controller_takes_no_more_lines_than_wait() {
    let (memory, _) = ddr_200();
    let mut controller = Controller::new(&memory, PagePolicy::Open).unwrap();
    let mut sink = Kept::default();
    let Ok(start) = controller.power_up(&mut sink);
    let mut push = |line: u64| {
        let address = PhysAddr(line * 64);
        let request = LineRequest { from: start, direction: Direction::Read, address, bytes: 64 };
        let Ok(accept_clock) = controller.push(request, &mut sink);
        accept_clock.0 - start.0
    };
    let delays: Vec<_> = (0..11).map(&mut push).collect();
    // ACTIVATE at 0, READs of the first line at 2 and 4.
    assert_eq!(delays, [0, 0, 0, 0, 0, 0, 0, 0, 5, 9, 13]);
}

#[test]
fn memories_that_modules_cannot_have_are_refused() {
    let error = |text: &str| {
        let memory = toml_memory::parse(text).unwrap();
        Controller::new(&memory, PagePolicy::Open).err().unwrap().to_string()
    };
    let map = "tck_ns = 2.5\nbus_bytes = 8\n[map]\ncolumn = ['p3-p12']\nbank = ['p13', 'p14', 'p15']\n\
        row = ['p16-p28']\n";
    let errors = [
        error(&format!("generation = 'DDR1'\nburst_length = 4\n{map}")),
        error(&format!("generation = 'DDR2'\nburst_length = 2\n{map}")),
        error(&format!("generation = 'DDR4'\nburst_length = 4\n{map}")),
        error(&format!("generation = 'DDR3'\nburst_length = 8\nrefresh_limit_clocks = 100\n{map}")),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r"
    DDR1 modules have no pins for 3 bank bits
    DDR2 has no bursts of 2 words
    DDR4 has no bursts of 4 words
    a refresh every 100 clocks leaves no time for accesses
    ");
}
