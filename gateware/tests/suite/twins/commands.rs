//! Compares the DDR command buffer with the command truth table of the format.

use fastrand::Rng;
use gateware::ddr::command_buffer::CommandBuffer;
use gateware::ddr::{CommandCode, SlotCommand};
use hmtt_format::address_map::Axis;
use hmtt_format::command::{ALL_RANKS, mirror};
use hmtt_format::{Command, CommandKind, MemoryDescription, Pins};

use crate::direct::{chance, pulse, settled, spread, with_seeds};
use crate::memories;

/// Returns the code of a command for the state machine.
fn code(kind: CommandKind) -> CommandCode {
    match kind {
        CommandKind::Deselect | CommandKind::Nop | CommandKind::PowerDownEntry => {
            CommandCode::NoCommand
        }
        CommandKind::Activate => CommandCode::Activate,
        CommandKind::Read => CommandCode::Read,
        CommandKind::Write => CommandCode::Write,
        CommandKind::Precharge => CommandCode::Precharge,
        CommandKind::PrechargeAll => CommandCode::PrechargeAll,
        CommandKind::Refresh | CommandKind::SelfRefreshEntry => CommandCode::Refresh,
        CommandKind::ModeRegisterSet => CommandCode::ModeRegisterSet,
        CommandKind::BurstTerminate => CommandCode::BurstTerminate,
        CommandKind::ZqCalibration => CommandCode::ZqCalibration,
        CommandKind::Reserved => CommandCode::Reserved,
    }
}

/// Combines the slot's command from the command that each rank decodes.
fn expected(memory: &MemoryDescription, pins: Pins, cke_before: u8) -> SlotCommand {
    let present = (1u8 << memory.ranks()) - 1;
    let of_rank = |rank: u8| {
        let awake = cke_before >> rank & 1 != 0;
        Command::decode_rank(memory.generation, pins, rank, awake)
    };
    let decoded: Vec<(u8, Command)> = (0..memory.ranks())
        .map(|rank| (rank, of_rank(rank)))
        .filter(|(_, command)| code(command.kind) != CommandCode::NoCommand)
        .collect();
    let ranks = decoded.iter().fold(0u8, |ranks, (rank, _)| ranks | 1 << rank);
    let reserved = decoded.iter().any(|(_, command)| command.kind == CommandKind::Reserved);
    let (mut ba, mut a) = decoded.first().map_or((pins.ba, pins.a), |(_, command)| {
        let straight = Pins { ba: command.ba, a: command.a, ..pins };
        (straight.ba, straight.a)
    });
    if memory.mirror_odd_ranks && ranks != 0 && ranks & 5 == 0 {
        // The strobe pins, which are A14 to A16 of an ACTIVATE, are not mirrored.
        let (crossed, pins_a) = mirror(memory.generation, memory.bits(Axis::Bank), pins.ba, pins.a);
        (ba, a) = (crossed, a & 0x1_c000 | pins_a & !0x1_c000);
        if pins.act_n || !memory.generation.has_act_n() {
            a = pins_a;
        }
    }
    SlotCommand {
        code: match decoded.first() {
            None => CommandCode::NoCommand,
            Some(_) if reserved => CommandCode::Reserved,
            Some((_, command)) => code(command.kind),
        },
        ranks: u64::from(ranks).into(),
        cke_falls: u64::from(ranks & !pins.cke).into(),
        cke_rises: u64::from(!cke_before & pins.cke & present).into(),
        ba: u64::from(ba).into(),
        a: u64::from(a).into(),
    }
}

/// Returns chip selects, usually of one rank or none.
fn selects(rng: &mut Rng) -> u8 {
    match rng.u8(0..10) {
        0..6 => ALL_RANKS & !(1 << rng.u8(0..4)),
        6..8 => ALL_RANKS,
        _ => rng.u8(0..16),
    }
}

fn random(rng: &mut Rng, memory: &MemoryDescription) -> Pins {
    Pins {
        cke: if chance(rng, 85) { ALL_RANKS } else { rng.u8(0..16) },
        cs_n: if memory.ranks() == 1 { rng.u8(0..16) } else { selects(rng) },
        act_n: !memory.generation.has_act_n() || chance(rng, 60),
        ras_n: rng.bool(),
        cas_n: rng.bool(),
        we_n: rng.bool(),
        ba: rng.u8(0..16),
        a: spread(rng, 18) as u32,
    }
}

#[test]
fn pins_are_decoded_by_the_truth_tables() {
    with_seeds(0..6, |rng| {
        for memory in memories::decoded() {
            let mut buffer = settled(CommandBuffer::new(&memory));
            let mut cke_before = None;
            let mut before: Option<(Pins, SlotCommand)> = None;
            for _ in 0..2000 {
                let pins = random(rng, &memory);
                buffer.pins.cke.next = u64::from(pins.cke).into();
                buffer.pins.cs_n.next = u64::from(pins.cs_n).into();
                buffer.pins.act_n.next = pins.act_n;
                buffer.pins.ras_n.next = pins.ras_n;
                buffer.pins.cas_n.next = pins.cas_n;
                buffer.pins.we_n.next = pins.we_n;
                buffer.pins.ba.next = u64::from(pins.ba).into();
                buffer.pins.a.next = u64::from(pins.a).into();
                pulse(&mut buffer, |buffer| &mut buffer.clock);
                assert_eq!(buffer.valid.val(), before.is_some());
                if let Some((pins, expected)) = before {
                    let command = buffer.command.val();
                    if expected.code == CommandCode::NoCommand {
                        let (ranks, cke_rises) = (command.ranks, command.cke_rises);
                        assert_eq!(
                            (command.code, ranks, cke_rises),
                            (expected.code, expected.ranks, expected.cke_rises)
                        );
                    } else {
                        // The operand of a reserved command has no meaning.
                        let a = if expected.code == CommandCode::Reserved {
                            command.a
                        } else {
                            expected.a
                        };
                        assert_eq!(command, SlotCommand { a, ..expected }, "{pins:?}");
                    }
                }
                let cke = cke_before.unwrap_or(pins.cke);
                before = Some((pins, expected(&memory, pins, cke)));
                cke_before = Some(pins.cke);
            }
        }
    });
}
