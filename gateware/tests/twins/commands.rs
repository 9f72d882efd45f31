//! DDR command buffer against the command truth table of the format.

use gateware::ddr::CommandCode;
use gateware::ddr::command_buffer::CommandBuffer;
use hmtt_format::{Command, CommandKind, Generation, Pins};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};

/// What the state machine is told of a command.
fn code(kind: CommandKind) -> CommandCode {
    match kind {
        CommandKind::Deselect | CommandKind::Nop | CommandKind::PowerDownEntry => {
            CommandCode::Quiet
        }
        CommandKind::Activate => CommandCode::Activate,
        CommandKind::Read => CommandCode::Read,
        CommandKind::Write => CommandCode::Write,
        CommandKind::Precharge => CommandCode::Precharge,
        CommandKind::PrechargeAll => CommandCode::PrechargeAll,
        CommandKind::Refresh => CommandCode::Refresh,
        CommandKind::SelfRefreshEntry => CommandCode::SelfRefreshEntry,
        CommandKind::ModeRegisterSet => CommandCode::ModeRegisterSet,
        CommandKind::BurstTerminate => CommandCode::BurstTerminate,
        CommandKind::ZqCalibration => CommandCode::ZqCalibration,
        CommandKind::Reserved => CommandCode::Reserved,
    }
}

#[test]
fn pins_decode_as_the_truth_tables_say() {
    with_seeds(0..10, |rng| {
        for generation in Generation::ALL {
            let mut buffer = settled(CommandBuffer::new(generation));
            let mut cke_before = None;
            let mut before: Option<(Pins, Command)> = None;
            for _ in 0..3000 {
                let pins = Pins {
                    cke: chance(rng, 85),
                    cs_n: chance(rng, 30),
                    act_n: !generation.has_act_n() || chance(rng, 60),
                    ras_n: rng.bool(),
                    cas_n: rng.bool(),
                    we_n: rng.bool(),
                    ba: rng.u8(0..16),
                    a: spread(rng, 18) as u32,
                };
                buffer.cke.next = pins.cke;
                buffer.cs_n.next = pins.cs_n;
                buffer.act_n.next = pins.act_n;
                buffer.ras_n.next = pins.ras_n;
                buffer.cas_n.next = pins.cas_n;
                buffer.we_n.next = pins.we_n;
                buffer.ba.next = u64::from(pins.ba).into();
                buffer.a.next = u64::from(pins.a).into();
                pulse(&mut buffer, |buffer| &mut buffer.clock);
                assert_eq!(buffer.valid.val(), before.is_some());
                if let Some((pins, expected)) = before {
                    let made = buffer.command.val();
                    assert_eq!(made.code, code(expected.kind), "{pins:?}");
                    assert_eq!(made.ba.to_u64(), u64::from(expected.ba));
                    if made.code == CommandCode::Activate || pins.act_n {
                        assert_eq!(made.a.to_u64(), u64::from(expected.a), "{pins:?}");
                    }
                }
                before =
                    Some((pins, Command::decode(generation, pins, cke_before.unwrap_or(pins.cke))));
                cke_before = Some(pins.cke);
            }
            settle(&mut buffer);
        }
    });
}
