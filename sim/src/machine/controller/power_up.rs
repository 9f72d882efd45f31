//! Lists the commands by which a controller starts a memory: mode registers, first refreshes,
//! calibration.
//!
//! Sources: JESD79F *Initialization*, JESD79-2F 3.3.1 *Power-up and initialization sequence*,
//! JESD79-3F 3.3.1 and JESD79-4 3.3.1 *Power-up initialization sequence*. One difference: CKE is
//! low for [`LOW_CLOCKS`] clocks, not for 200 us or more, since nothing is on the bus in that time.

use hmtt_format::address_map::Axis;
use hmtt_format::command::A10;
use hmtt_format::{Command, CommandKind, Generation, MemoryDescription, Pins};

use super::ControllerError;
use hmtt_format::timing::Timing;

/// Clocks with CKE low at the start.
const LOW_CLOCKS: u64 = 16;
/// DDR1 and DDR2, mode register: resets the DLL (A8).
const DLL_RESET: u32 = 1 << 8;
/// DDR2, extended mode register: OCD calibration default (A9 to A7).
const OCD_DEFAULT: u32 = 7 << 7;

/// Checks that modules of the generation have the bursts and pins that a memory needs.
pub fn check(memory: &MemoryDescription) -> Result<(), ControllerError> {
    let (generation, length) = (memory.generation, memory.burst_length);
    if length < 4 && generation != Generation::Ddr1 || generation == Generation::Ddr4 && length < 8
    {
        return Err(ControllerError::BurstLength { generation, length });
    }
    // JESD21-C 4.5.10 (DDR), 4.20.13 (DDR2), 4.20.19 (DDR3) and 4.20.26 (DDR4): BA and A pins of
    // the slot.
    let (banks, rows) = match generation {
        Generation::Ddr1 => (2, 14),
        Generation::Ddr2 | Generation::Ddr3 => (3, 16),
        Generation::Ddr4 => (4, 18),
    };
    let columns =
        (0..rows).filter(|pin| *pin != 10 && (generation < Generation::Ddr2 || *pin != 12));
    for (axis, most) in
        [(Axis::Bank, banks), (Axis::Row, rows), (Axis::Column, columns.count() as u8)]
    {
        let bits = memory.bits(axis);
        if bits > most {
            return Err(ControllerError::Pins { generation, axis, bits });
        }
    }
    Ok(())
}

/// Returns the pins of a power-up, each with its clock: CKE, then commands.
pub fn commands(memory: &MemoryDescription, timing: &Timing) -> Vec<(u64, Pins)> {
    let mut script = Script { memory, pins: Vec::new(), next: LOW_CLOCKS };
    script.pins.push((0, Pins { cke: 0, ..Pins::DESELECT }));
    script.pins.push((LOW_CLOCKS, Pins::DESELECT));
    script.next += timing.txpr;
    match memory.generation {
        Generation::Ddr1 => ddr1(&mut script, timing),
        Generation::Ddr2 => ddr2(&mut script, timing),
        Generation::Ddr3 => {
            let registers =
                [(2, write_latency(timing)), (3, 0), (1, 0), (0, ddr3_mode(memory, timing))];
            registers_and_calibration(&mut script, timing, &registers);
        }
        Generation::Ddr4 => {
            let latency = ddr4_write_latency(timing);
            let registers = [
                (3, 0),
                (6, ddr4_group_distance(timing)),
                (5, 0),
                (4, 0),
                (2, latency),
                (1, 1),
                (0, ddr4_mode(timing)),
            ];
            registers_and_calibration(&mut script, timing, &registers);
        }
    }
    script.pins
}

/// Clocks between the last command of a power-up and the first one after it.
pub fn last_wait(timing: &Timing) -> u64 {
    timing.tmod.max(timing.tzqinit).max(timing.tdllk)
}

/// A sequence of commands that is being built.
struct Script<'a> {
    memory: &'a MemoryDescription,
    pins: Vec<(u64, Pins)>,
    /// First clock for the next command.
    next: u64,
}

impl Script<'_> {
    /// Adds a command to all ranks, and the clocks until the next one.
    fn all(&mut self, kind: CommandKind, a: u32, wait: u64) {
        let ranks = (1 << self.memory.ranks()) - 1;
        let pins = self.memory.pins(Command { kind, ba: 0, a }, ranks);
        self.pins.push((self.next, pins));
        self.next += wait;
    }

    /// Sets a mode register of each rank. This takes a command for each rank, since the address
    /// pins of some ranks are mirrored.
    fn mode(&mut self, register: u8, a: u32, wait: u64) {
        for rank in 0..self.memory.ranks() {
            let command = Command { kind: CommandKind::ModeRegisterSet, ba: register, a };
            self.pins.push((self.next, self.memory.pins(command, 1 << rank)));
            self.next += wait;
        }
    }
}

/// The code of the burst length in mode register 0.
fn burst_code(memory: &MemoryDescription) -> u32 {
    match (memory.generation, memory.burst_length) {
        (Generation::Ddr1 | Generation::Ddr2, length) => length.trailing_zeros(),
        (_, 4) => 2,
        _ => 0,
    }
}

fn ddr1(script: &mut Script, timing: &Timing) {
    // CL 2, or 3 for all slower devices (2.5 counts as 3 here).
    let mode = burst_code(script.memory) | (timing.cl as u32) << 4;
    script.all(CommandKind::PrechargeAll, A10, timing.trp);
    script.mode(1, 0, timing.tmrd);
    script.mode(0, mode | DLL_RESET, timing.tmrd);
    script.all(CommandKind::PrechargeAll, A10, timing.trp);
    script.all(CommandKind::Refresh, 0, timing.trfc);
    script.all(CommandKind::Refresh, 0, timing.trfc);
    script.mode(0, mode, timing.tmrd);
}

fn ddr2(script: &mut Script, timing: &Timing) {
    // Write recovery in clocks, less one, in A11 to A9.
    let recovery = (timing.write_recovery - 1) as u32 & 7;
    let mode = burst_code(script.memory) | (timing.cl as u32) << 4 | recovery << 9;
    script.all(CommandKind::PrechargeAll, A10, timing.trpa);
    for register in [2, 3, 1] {
        script.mode(register, 0, timing.tmrd);
    }
    script.mode(0, mode | DLL_RESET, timing.tmrd);
    script.all(CommandKind::PrechargeAll, A10, timing.trpa);
    script.all(CommandKind::Refresh, 0, timing.trfc);
    script.all(CommandKind::Refresh, 0, timing.trfc);
    script.mode(0, mode, timing.tdllk);
    script.mode(1, OCD_DEFAULT, timing.tmrd);
    script.mode(1, 0, timing.tmrd);
}

/// DDR3 and DDR4: the mode registers in the order of the standard, then the long ZQ calibration
/// (A10).
fn registers_and_calibration(script: &mut Script, timing: &Timing, registers: &[(u8, u32)]) {
    for (register, value) in registers {
        script.mode(*register, *value, timing.tmrd);
    }
    script.next += timing.tmod - timing.tmrd.min(timing.tmod);
    script.all(CommandKind::ZqCalibration, A10, timing.tzqinit);
}

/// Mode register 0 of DDR3 (JESD79-3F 3.4.2): burst length, CAS latency in A6 to A4 and A2, DLL
/// reset, write recovery in A11 to A9.
fn ddr3_mode(memory: &MemoryDescription, timing: &Timing) -> u32 {
    let latency = match timing.cl as u32 {
        cl @ ..=11 => cl.saturating_sub(4) << 4,
        cl => (cl - 12) << 4 | 1 << 2,
    };
    let recovery = match timing.write_recovery as u32 {
        clocks @ ..=8 => clocks.saturating_sub(4),
        clocks => clocks / 2 & 7,
    };
    burst_code(memory) | latency | DLL_RESET | recovery << 9
}

/// Mode register 2 of DDR3 (JESD79-3F 3.4.4): CAS write latency in A5 to A3.
fn write_latency(timing: &Timing) -> u32 {
    (timing.cwl.saturating_sub(5) as u32 & 7) << 3
}

/// Mode register 6 of DDR4 (JESD79-4 3.5, MR6): tCCD_L in A12 to A10.
fn ddr4_group_distance(timing: &Timing) -> u32 {
    let code = timing.tccd_l.clamp(4, 8) as u32 - 4;
    code << 10
}

/// Mode register 0 of DDR4 (JESD79-4 3.5, MR0): CAS latency in A6 to A4 and A2, DLL reset, write
/// recovery in A13 and A11 to A9. Burst length 8 is code 0.
fn ddr4_mode(timing: &Timing) -> u32 {
    // The codes of CL 9 to 16 come first, then the codes of 18, 20, 22, 24, then 17, 19, 21, 23.
    let code = match timing.cl as u32 {
        cl @ 9..=16 => cl - 9,
        cl @ (18 | 20 | 22 | 24) => (cl - 18) / 2 + 8,
        23 => 12,
        cl @ (17 | 19 | 21) => (cl - 17) / 2 + 13,
        _ => 0,
    };
    // Codes of WR 10, 12 and so on, with 22 and 24 in each other's place.
    let recovery = match timing.write_recovery as u32 {
        22 => 7,
        24 => 6,
        clocks => clocks.clamp(10, 28) / 2 - 5,
    };
    (code & 1) << 2 | (code >> 1) << 4 | DLL_RESET | (recovery & 7) << 9 | (recovery >> 3) << 13
}

/// Mode register 2 of DDR4 (JESD79-4 3.5, MR2): CAS write latency in A5 to A3.
fn ddr4_write_latency(timing: &Timing) -> u32 {
    let code = match timing.cwl as u32 {
        cwl @ 9..=12 => cwl - 9,
        cwl @ (14 | 16 | 18) => (cwl - 14) / 2 + 4,
        _ => 0,
    };
    code << 3
}
