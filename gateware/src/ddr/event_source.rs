//! Turns verdicts into the card's events: computes the address of each access, recognises commands,
//! and adds ticks, ends of time slices and the level of the run switch. The event queue finds the
//! changes of the switch.
//!
//! Verdicts come from the state machine; events go to the event queue. Clock 0 is the first edge at
//! which the pins were sampled, and all stages are delayed like the pins, so an event has the
//! number of the clock that caused it. All later stages depend on the order of these events only,
//! never on real time. This makes captures reproducible.

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

use super::address_matrix::AddressMatrix;
use super::event_ports::EventWriter;
use super::sequence::Sequence;
use super::{BANK_BITS, FAULT_CODE_AT, SlotEvent, VERDICT_LATENCY, Verdict};
use crate::reset::{ClearedRegister, Domain, Register};

/// See the module's description.
#[derive(LogicBlock)]
pub struct EventSource {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The verdict follows from a sample of the pins.
    pub valid: Signal<In, Bit>,
    /// Run switch, unsynchronized.
    pub run: Signal<In, Bit>,
    /// Verdict of the state machine.
    pub verdict: Signal<In, Verdict>,
    /// Row of the verdict's bank.
    pub row: Signal<In, Bits<18>>,
    /// Clocks of a time slice, less one.
    pub slice_last: Signal<In, Bits<32>>,
    /// Time slices are wanted.
    pub slices: Signal<In, Bit>,
    /// The length of slices has changed: begin a slice.
    pub slice_restart: Signal<In, Bit>,
    /// Events of one clock, [`super::VERDICT_LATENCY`] + 3 clocks after its edge.
    pub events: EventWriter,
    matrix: AddressMatrix,
    detector: Sequence,
    located_valid: Register<Bit>,
    located: ClearedRegister<SlotEvent>,
    made: Register<SlotEvent>,
    made_valid: Register<Bit>,
    made_any: Register<Bit>,
    sent: Register<SlotEvent>,
    sent_valid: Register<Bit>,
    sent_any: Register<Bit>,
    command_register: Register<Bits<9>>,
    tick_phase: ClearedRegister<Bits<16>>,
    slice_phase: ClearedRegister<Bits<32>>,
    slice_before: Register<Bits<32>>,
    slice_ends: Register<Bit>,
    slice_due: Register<Bit>,
    run_sampled: Register<Bit>,
    run_stable: Register<Bit>,
    run_aligned: Register<Bits<5>>,
    run_located: Register<Bit>,
    is_tick: Signal<Local, Bit>,
    is_control: Signal<Local, Bit>,
    tick_last: Constant<Bits<16>>,
    beyond_registers: Constant<Bits<32>>,
    run_last: Constant<Bits<3>>,
    bank_bits: Constant<Bits<3>>,
    fault_code_at: Constant<Bits<4>>,
}

impl EventSource {
    /// Builds the event source for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let window = config::REGISTERS_LOG2 + memory.config_stride_log2;
        block! {
            Self {
                matrix: AddressMatrix::new(memory),
                detector: Sequence::new(memory),
                tick_last: Constant::new(u64::from(memory.tick_clocks - 1).into()),
                beyond_registers: Constant::new((0xffff_ffff_u64 >> window << window).into()),
                run_last: Constant::new((VERDICT_LATENCY - 3).into()),
                bank_bits: Constant::new(BANK_BITS.into()),
                fault_code_at: Constant::new(FAULT_CODE_AT.into()),
            }
            default: clock, valid, run, verdict, row, slice_last, slices, slice_restart, events,
                located_valid, located, made, made_valid, made_any, sent, sent_valid, sent_any,
                command_register, tick_phase, slice_phase, slice_before, slice_ends, slice_due,
                run_sampled, run_stable, run_aligned, run_located, is_tick, is_control
        }
    }
}

impl Logic for EventSource {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            located_valid,
            located,
            made,
            made_valid,
            made_any,
            sent,
            sent_valid,
            sent_any,
            command_register,
            tick_phase,
            slice_phase,
            slice_before,
            slice_ends,
            slice_due,
            run_sampled,
            run_stable,
            run_aligned,
            run_located
        );
        clock!(self, clock, detector);
        self.matrix.row.next = self.row.val();
        self.matrix.rank.next = self.verdict.val().rank;
        self.matrix.ba.next = self.verdict.val().ba;
        self.matrix.a.next = self.verdict.val().a;

        // The switch passes two synchronizing registers and then as many stages as the pins.
        self.run_sampled.d.next = self.run.val();
        self.run_stable.d.next = self.run_sampled.q.val();
        self.run_aligned.d.next = self.run_aligned.q.val() << 1;
        if self.run_stable.q.val() {
            self.run_aligned.d.next = (self.run_aligned.q.val() << 1) | 1;
        }
        self.run_located.d.next = self.run_aligned.q.val().get_bit(self.run_last.val().index());

        self.located_valid.d.next = self.valid.val();
        self.located.d.next.access = self.verdict.val().access;
        self.located.d.next.write = self.verdict.val().write;
        self.located.d.next.row_state = self.verdict.val().row_state;
        self.located.d.next.bank = (bit_cast::<6, 2>(self.verdict.val().rank)
            << self.bank_bits.val())
            | bit_cast::<6, 4>(self.verdict.val().ba);
        self.located.d.next.high = self.matrix.high.val();
        self.located.d.next.low = self.matrix.low.val();
        self.located.d.next.fault = self.verdict.val().fault != 0;
        if self.verdict.val().fault != 0 {
            self.located.d.next.high = bits::<8>(0);
            self.located.d.next.low = (bit_cast::<32, 6>(self.verdict.val().fault)
                << self.fault_code_at.val())
                | (bit_cast::<32, 2>(self.verdict.val().rank) << self.bank_bits.val())
                | bit_cast::<32, 4>(self.verdict.val().ba);
        }

        self.is_tick.next = self.tick_phase.q.val() == self.tick_last.val();
        self.is_control.next = self.slice_due.q.val() | self.is_tick.val();
        self.made.d.next = self.located.q.val();
        self.made.d.next.is_control = self.is_control.val();
        self.made.d.next.run_change = false;
        self.made.d.next.run = self.run_located.q.val();
        self.made.d.next.slice = self.slice_due.q.val();
        self.made.d.next.tick = self.is_tick.val();
        self.made.d.next.overrun = false;
        self.made_valid.d.next = self.located_valid.q.val();
        self.made_any.d.next = self.located_valid.q.val()
            & (self.is_control.val() | self.located.q.val().access | self.located.q.val().fault);
        // The end of a slice is computed a clock ahead. This is possible because a slice has many
        // clocks.
        self.slice_before.d.next = self.slice_last.val() - 1;
        if self.located_valid.q.val() {
            self.tick_phase.d.next = self.tick_phase.q.val() + 1;
            if self.is_tick.val() {
                self.tick_phase.d.next = bits::<16>(0);
            }
            self.slice_phase.d.next = self.slice_phase.q.val() + 1;
            self.slice_ends.d.next = self.slice_phase.q.val() == self.slice_before.q.val();
            self.slice_due.d.next = self.slice_ends.q.val() & self.slices.val();
            if self.slice_ends.q.val() | self.slice_restart.val() {
                self.slice_phase.d.next = bits::<32>(0);
                self.slice_ends.d.next = false;
            }
        }
        self.detector.passes.next = self.located_valid.q.val();
        self.detector.in_registers.next = self.located.q.val().access
            & (self.located.q.val().high == 0)
            & ((self.located.q.val().low & self.beyond_registers.val()) == 0);
        self.detector.low.next = self.located.q.val().low;
        // An access is known to complete a command one clock later.
        self.command_register.d.next = self.detector.register.val();
        self.sent.d.next = self.made.q.val();
        self.sent.d.next.command = self.detector.complete.val();
        self.sent_any.d.next = self.made_any.q.val();
        self.sent_valid.d.next = self.made_valid.q.val();
        self.events.register.next = self.command_register.q.val();
        self.events.slot_event.next = self.sent.q.val();
        self.events.push.next = self.sent_any.q.val();
        self.events.clocked.next = self.sent_valid.q.val();
    }
}
