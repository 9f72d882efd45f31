//! Tests the blocks between the slot and the event queue.

use fastrand::Rng;
use gateware::ddr::address_matrix::AddressMatrix;
use gateware::ddr::command_buffer::CommandBuffer;
use gateware::ddr::event_queue::EventQueue;
use gateware::ddr::event_source::EventSource;
use gateware::ddr::state_machine::StateMachine;
use gateware::ddr::{CommandCode, SlotCommand, SlotEvent, Verdict};
use hmtt_format::MemoryDescription;

use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

fn command_buffer(memory: &MemoryDescription, rng: &mut Rng) -> Recording<CommandBuffer> {
    let mut recording = Recording::new("command buffer", CommandBuffer::new(memory));
    for _ in 0..1500 {
        let block = &mut recording.block;
        block.pins.cke.next = if chance(rng, 85) { 15 } else { rng.u64(0..16) }.into();
        block.pins.cs_n.next = rng.u64(0..16).into();
        block.pins.act_n.next = chance(rng, 60);
        block.pins.ras_n.next = rng.bool();
        block.pins.cas_n.next = rng.bool();
        block.pins.we_n.next = rng.bool();
        block.pins.ba.next = spread(rng, 4).into();
        block.pins.a.next = spread(rng, 18).into();
        recording.step();
        recording.edge(|block| &mut block.clock);
    }
    recording
}

#[test]
fn command_buffers_of_all_generations_agree() {
    with_seeds(0..1, |rng| {
        for memory in memories::decoded() {
            command_buffer(&memory, rng).agrees();
        }
    });
}

#[test]
fn a_wrong_constant_is_a_difference() {
    let recording = command_buffer(&memories::ddr4(), &mut Rng::with_seed(1));
    recording.notices("a15 = 18'b1000000000000000", "a15 = 18'b0100000000000000");
}

const CODES: [CommandCode; 11] = [
    CommandCode::NoCommand,
    CommandCode::Activate,
    CommandCode::Read,
    CommandCode::Write,
    CommandCode::Precharge,
    CommandCode::PrechargeAll,
    CommandCode::Refresh,
    CommandCode::ModeRegisterSet,
    CommandCode::BurstTerminate,
    CommandCode::ZqCalibration,
    CommandCode::Reserved,
];

/// Returns a command that is more often legal than a random one, to one or several ranks.
fn command(rng: &mut Rng, memory: &MemoryDescription) -> SlotCommand {
    let common = chance(rng, 80);
    let code = CODES[rng.usize(0..if common { 5 } else { CODES.len() })];
    let present = (1u64 << memory.ranks()) - 1;
    let several = chance(rng, 5);
    let ranks =
        if several { rng.u64(1..16) & present } else { 1 << rng.u64(0..memory.ranks().into()) };
    let quiet = code == CommandCode::NoCommand || ranks == 0;
    let refresh = code == CommandCode::Refresh && chance(rng, 30);
    SlotCommand {
        code: if quiet { CommandCode::NoCommand } else { code },
        ranks: if quiet { 0 } else { ranks }.into(),
        cke_falls: if refresh && !quiet { ranks } else { 0 }.into(),
        cke_rises: if chance(rng, 10) { rng.u64(0..16) & present } else { 0 }.into(),
        ba: (rng.u64(0..16) & if chance(rng, 80) { 3 } else { 15 }).into(),
        a: spread(rng, 18).into(),
    }
}

#[test]
fn state_machines_of_all_memories_agree() {
    with_seeds(0..1, |rng| {
        for memory in memories::decoded() {
            let mut recording = Recording::new("state machine", StateMachine::new(&memory));
            let mut busy = true;
            for clock in 0..3000 {
                // In quiet stretches the minimum distances pass.
                busy ^= chance(rng, 3);
                recording.block.valid.next = clock > 2;
                recording.block.command.next =
                    if busy { command(rng, &memory) } else { SlotCommand::default() };
                recording.step();
                recording.edge(|block| &mut block.clock);
            }
            recording.agrees();
        }
    });
}

#[test]
fn address_matrices_of_all_maps_agree() {
    with_seeds(0..1, |rng| {
        for memory in memories::decoded() {
            let mut recording = Recording::new("address matrix", AddressMatrix::new(&memory));
            for _ in 0..1000 {
                recording.block.row.next = spread(rng, 18).into();
                recording.block.rank.next = spread(rng, 2).into();
                recording.block.ba.next = spread(rng, 4).into();
                recording.block.a.next = spread(rng, 18).into();
                recording.step();
            }
            recording.agrees();
        }
    });
}

#[test]
fn event_sources_agree() {
    with_seeds(0..1, |rng| {
        let memory = memories::ddr1("tick_clocks = 256");
        let mut recording = Recording::new("event source", EventSource::new(&memory));
        for clock in 0..3000 {
            let block = &mut recording.block;
            block.valid.next = clock > 3;
            block.run.next = block.run.val() ^ chance(rng, 3);
            block.verdict.next = Verdict {
                access: rng.bool(),
                write: rng.bool(),
                fault: if chance(rng, 70) { 0u64 } else { spread(rng, 6) }.into(),
                rank: spread(rng, 2).into(),
                ba: spread(rng, 4).into(),
                a: spread(rng, 18).into(),
                row_state: rng.u64(0..3).into(),
            };
            block.row.next = spread(rng, 18).into();
            if clock % 500 == 0 {
                block.slice_last.next = rng.u64(1..200).into();
            }
            block.slices.next = clock / 700 % 2 == 1;
            block.slice_restart.next = chance(rng, 1);
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

fn slot_event(rng: &mut Rng) -> SlotEvent {
    let mut event = SlotEvent {
        run_change: chance(rng, 2),
        run: rng.bool(),
        slice: chance(rng, 3),
        tick: chance(rng, 3),
        access: chance(rng, 70),
        fault: chance(rng, 20),
        write: rng.bool(),
        command: chance(rng, 5),
        high: spread(rng, 8).into(),
        low: spread(rng, 32).into(),
        gap: spread(rng, 16).into(),
        bank: spread(rng, 6).into(),
        row_state: rng.u64(0..3).into(),
        ..Default::default()
    };
    event.is_control = event.run_change || event.slice || event.tick;
    event
}

#[test]
fn event_queues_agree_while_empty_and_nearly_full() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("event queue", EventQueue::default());
        for clock in 0..4000 {
            let filling = clock / 600 % 2 == 0;
            let pops =
                recording.block.read.valid.val() && chance(rng, if filling { 10 } else { 90 });
            recording.block.read.pop.next = pops;
            recording.block.write.push.next = chance(rng, if filling { 90 } else { 10 });
            recording.block.write.clocked.next = clock > 5;
            recording.block.write.slot_event.next = slot_event(rng);
            recording.block.write.register.next = spread(rng, 9).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn another_fill_limit_of_the_queue_is_a_difference() {
    let mut recording = Recording::new("event queue", EventQueue::default());
    let rng = &mut Rng::with_seed(1);
    recording.block.write.clocked.next = true;
    for clock in 0..600 {
        recording.block.write.push.next = clock < 300;
        recording.block.read.pop.next = clock > 300 && recording.block.read.valid.val();
        // The switch stays on: each of its changes would be stored.
        recording.block.write.slot_event.next = SlotEvent { run: true, ..slot_event(rng) };
        recording.step();
        recording.edge(|block| &mut block.clock);
    }
    recording.notices("overflow_to = 8'h80", "overflow_to = 8'h81");
}
