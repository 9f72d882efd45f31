//! Turns events into items, one in each clock.
//!
//! Events come from the event queue; items go to the statistics unit. A control event becomes two
//! items: first its time, with the count of missed events before it; then, when its request has
//! been carried out, its access or fault. A command that the queue stored without its access is a
//! control event too: the access is counted as missed just before the command. Two more items are
//! made here: a completed mark, and, during a capture, a fault for a command that the queue lost.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_
//! head           <A >                    taken
//! item               <A .... until it passes
//! ```

use hmtt_format::{FaultKind, MemoryDescription};
use rust_hdl::prelude::*;

use super::{Item, ItemKind};
use crate::ddr::FAULT_CODE_AT;
use crate::ddr::event_ports::EventReader;
use crate::ddr::event_queue::{COMMAND_LOST_AT, COMMAND_ROW_STATE_AT, COMMAND_WRITE_AT};
use crate::reset::{Domain, Register};

/// See the module's description.
#[derive(LogicBlock)]
pub struct EventIntake {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Events, from the queue.
    pub events: EventReader,
    /// Events may be taken from the queue.
    pub takes_events: Signal<In, Bit>,
    /// The capture runs.
    pub running: Signal<In, Bit>,
    /// Make the loss of a command the next item. Only while `may_report_loss` is high.
    pub report_loss: Signal<In, Bit>,
    /// A loss of a command must be recorded, now or after the second item of the event.
    pub loss_pending: Signal<Out, Bit>,
    /// The loss can be recorded now; a clock late.
    pub may_report_loss: Signal<Out, Bit>,
    /// The item that passes completes a command.
    pub complete: Signal<Out, Bit>,
    /// Register of the last completed command.
    pub register: Signal<Out, Bits<9>>,
    /// The item passes on this clock.
    pub advance: Signal<In, Bit>,
    /// The request of the control event is carried out: make its second item.
    pub request_done: Signal<In, Bit>,
    /// A mark is the next item.
    pub mark: Signal<In, Bit>,
    /// Next item, unchanged until `advance`; `Nothing` when there is none.
    pub item: Signal<Out, Item>,
    made: Register<Item>,
    control_pending: Register<Bit>,
    second_kind: Register<ItemKind>,
    second_command: Register<Bit>,
    command_register: Register<Bits<9>>,
    lost: Register<Bit>,
    loss_reportable: Register<Bit>,
    event_kind: Signal<Local, ItemKind>,
    event_high: Signal<Local, Bits<8>>,
    taken: Signal<Local, Bit>,
    address: Signal<Local, Bits<32>>,
    stride: Constant<Bits<32>>,
    lost_command: Constant<Bits<32>>,
    command_lost_at: Constant<Bits<3>>,
    row_state_at: Constant<Bits<4>>,
    write_bit: Constant<Bits<9>>,
}

impl EventIntake {
    /// Builds the block for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        block! {
            Self {
                stride: Constant::new(u64::from(memory.config_stride_log2).into()),
                lost_command: Constant::new((u64::from(FaultKind::CommandLost.code()) << FAULT_CODE_AT).into()),
                command_lost_at: Constant::new(COMMAND_LOST_AT.into()),
                row_state_at: Constant::new(COMMAND_ROW_STATE_AT.into()),
                write_bit: Constant::new((1u64 << COMMAND_WRITE_AT).into()),
            }
            default: clock, events, takes_events, running, report_loss, loss_pending,
                may_report_loss, complete, register, advance, request_done, mark, item, made,
                control_pending, second_kind, second_command, command_register, lost,
                loss_reportable, event_kind, event_high, taken, address
        }
    }
}

impl Logic for EventIntake {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            made,
            control_pending,
            second_kind,
            second_command,
            command_register,
            lost,
            loss_reportable
        );
        // A command is carried out before any event after its last access.
        self.loss_pending.next = self.lost.q.val() & self.running.val();
        self.may_report_loss.next = self.loss_reportable.q.val();
        self.loss_reportable.d.next = self.loss_pending.val()
            & (!self.control_pending.q.val()
                | (self.second_kind.q.val() == ItemKind::Time)
                | (self.second_kind.q.val() == ItemKind::Overrun));
        self.taken.next = self.takes_events.val()
            & self.events.valid.val()
            & self.advance.val()
            & !self.made.q.val().command;
        self.complete.next = self.made.q.val().command & self.advance.val();
        self.register.next = self.command_register.q.val();
        self.events.pop.next = self.taken.val();
        self.event_kind.next = ItemKind::Time;
        if self.events.head.val().access {
            self.event_kind.next = ItemKind::Access;
        }
        if self.events.head.val().fault {
            self.event_kind.next = ItemKind::Fault;
        }
        if self.events.head.val().command & !self.events.head.val().access {
            self.event_kind.next = ItemKind::Overrun;
        }
        if self.advance.val() {
            self.made.d.next.kind = ItemKind::Nothing;
            self.made.d.next.command = false;
        }
        self.event_high.next = self.events.head.val().high;
        // A shift is slow to simulate, so it is left out in most clocks.
        self.address.next = bits::<32>(0);
        if self.events.head.val().command {
            self.address.next = self.events.head.val().low >> self.stride.val();
        }
        if self.taken.val() {
            if self.events.head.val().command {
                self.command_register.d.next = self.address.val().get_bits::<9>(0);
                if !self.events.head.val().access {
                    self.command_register.d.next = bit_cast::<9, 6>(self.events.head.val().bank)
                        | (bit_cast::<9, 2>(self.events.head.val().row_state)
                            << self.row_state_at.val());
                    if self.events.head.val().write {
                        self.command_register.d.next =
                            bit_cast::<9, 6>(self.events.head.val().bank)
                                | (bit_cast::<9, 2>(self.events.head.val().row_state)
                                    << self.row_state_at.val())
                                | self.write_bit.val();
                    }
                }
            }
            if self.events.head.val().overrun
                & self.event_high.val().get_bit(self.command_lost_at.val().index())
            {
                self.lost.d.next = true;
            }
            self.made.d.next.write = self.events.head.val().write;
            self.made.d.next.low = self.events.head.val().low;
            self.made.d.next.high = self.events.head.val().high;
            self.made.d.next.row_state = self.events.head.val().row_state;
            self.made.d.next.bank = self.events.head.val().bank;
            self.made.d.next.gap = self.events.head.val().gap;
            self.made.d.next.kind = self.event_kind.val();
            self.made.d.next.command = self.events.head.val().command;
            self.second_kind.d.next = self.event_kind.val();
            self.second_command.d.next = self.events.head.val().command;
            self.control_pending.d.next = self.events.head.val().is_control;
            if self.events.head.val().is_control {
                self.made.d.next.kind = ItemKind::Time;
                self.made.d.next.command = false;
            }
            if self.events.head.val().overrun {
                self.made.d.next.kind = ItemKind::Overrun;
            }
        }
        if self.mark.val() {
            self.made.d.next.kind = ItemKind::Mark;
            self.made.d.next.gap = bits::<16>(0);
            self.made.d.next.low = bit_cast::<32, 9>(self.command_register.q.val());
        }
        if self.report_loss.val() {
            self.lost.d.next = false;
            self.made.d.next.kind = ItemKind::Fault;
            self.made.d.next.gap = bits::<16>(0);
            self.made.d.next.write = false;
            self.made.d.next.low = self.lost_command.val();
            self.made.d.next.high = bits::<8>(0);
        }
        if self.request_done.val() {
            if self.control_pending.q.val() {
                self.made.d.next.kind = self.second_kind.q.val();
                self.made.d.next.command = self.second_command.q.val();
                self.made.d.next.gap = bits::<16>(0);
                if self.second_kind.q.val() == ItemKind::Overrun {
                    self.made.d.next.low = bits::<32>(1);
                    self.made.d.next.high = bits::<8>(0);
                }
            }
            self.control_pending.d.next = false;
        }
        self.item.next = self.made.q.val();
    }
}
