//! Events to items, one a clock while they flow.
//!
//! Of an event that steers the card the time it came at passes first, with the count of what was missed
//! before it; what else it holds follows when it has been carried out. A completed mark becomes an item
//! here, too.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_
//! slot_event     <A >                    taken
//! item               <A .... until it passes
//! ```

use rust_hdl::prelude::*;

use super::{Item, ItemKind};
use crate::ddr::SlotEvent;

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct EventIntake {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Oldest event.
    pub slot_event: Signal<In, SlotEvent>,
    /// There is one.
    pub event_valid: Signal<In, Bit>,
    /// Events may be taken.
    pub flows: Signal<In, Bit>,
    /// It is taken on this clock.
    pub take: Signal<Out, Bit>,
    /// The access to the registers that passed on the clock before may complete a command.
    pub pending: Signal<In, Bit>,
    /// The item passes on this clock.
    pub advance: Signal<In, Bit>,
    /// All is carried out: what the event that steered holds besides is the next item.
    pub let_go: Signal<In, Bit>,
    /// A mark is the next item.
    pub mark: Signal<In, Bit>,
    /// Its register.
    pub register: Signal<In, Bits<9>>,
    /// The item; `Nothing` when there is none.
    pub item: Signal<Out, Item>,
    made: DFF<Item>,
    steered: DFF<Bit>,
    left_kind: DFF<ItemKind>,
    left_in_registers: DFF<Bit>,
    event_kind: Signal<Local, ItemKind>,
    taken: Signal<Local, Bit>,
}

impl Logic for EventIntake {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, made, steered, left_kind, left_in_registers);
        // An access to the registers may have completed a command: once it has passed it is known whether
        // it may, and a clock later whether it did.
        self.taken.next = self.flows.val()
            & self.event_valid.val()
            & self.advance.val()
            & !self.made.q.val().in_registers
            & !self.pending.val();
        self.take.next = self.taken.val();
        self.event_kind.next = ItemKind::Time;
        if self.slot_event.val().access {
            self.event_kind.next = ItemKind::Access;
        }
        if self.slot_event.val().fault {
            self.event_kind.next = ItemKind::Fault;
        }
        if self.advance.val() {
            self.made.d.next.kind = ItemKind::Nothing;
            self.made.d.next.in_registers = false;
        }
        if self.taken.val() {
            self.made.d.next.write = self.slot_event.val().write;
            self.made.d.next.low = self.slot_event.val().low;
            self.made.d.next.high = self.slot_event.val().high;
            self.made.d.next.row_state = self.slot_event.val().row_state;
            self.made.d.next.bank = self.slot_event.val().bank;
            self.made.d.next.gap = self.slot_event.val().gap;
            self.made.d.next.kind = self.event_kind.val();
            self.made.d.next.in_registers = self.slot_event.val().in_registers;
            self.left_kind.d.next = self.event_kind.val();
            self.left_in_registers.d.next = self.slot_event.val().in_registers;
            self.steered.d.next = self.slot_event.val().steers;
            if self.slot_event.val().steers {
                self.made.d.next.kind = ItemKind::Time;
                self.made.d.next.in_registers = false;
            }
            if self.slot_event.val().overrun {
                self.made.d.next.kind = ItemKind::Overrun;
            }
        }
        if self.mark.val() {
            self.made.d.next.kind = ItemKind::Mark;
            self.made.d.next.gap = bits::<16>(0);
            self.made.d.next.low = bit_cast::<32, 9>(self.register.val());
        }
        if self.let_go.val() {
            if self.steered.q.val() {
                self.made.d.next.kind = self.left_kind.q.val();
                self.made.d.next.in_registers = self.left_in_registers.q.val();
                self.made.d.next.gap = bits::<16>(0);
            }
            self.steered.d.next = false;
        }
        self.item.next = self.made.q.val();
    }
}
