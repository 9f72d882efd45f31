//! Passes a value from one clock domain to another without mixing bits of two values: a two-phase
//! handshake around a register that holds the value.
//!
//! ```text
//! from   value -> [hold] ---------------------> sampled only while it does not change
//!                 request toggles --2 FF-->     to
//!                 <--2 FF-- acknowledge toggles
//! ```
//!
//! The far side gets each value that lasts for about eight clocks. A reset of both sides together
//! sets both to zero; one side must not be reset while the other one runs.

use rust_hdl::prelude::*;

use crate::reset::{Domain, Register};

/// See the module's description. `N`: bits of the value.
#[derive(LogicBlock, Default)]
pub struct PointerCrossing<const N: usize> {
    /// Clock of the near side.
    pub from_clock: Signal<In, Domain>,
    /// Clock of the far side.
    pub to_clock: Signal<In, Domain>,
    /// Value on the near side.
    pub value: Signal<In, Bits<N>>,
    /// Value on the far side, some clocks late.
    pub crossed: Signal<Out, Bits<N>>,
    hold: Register<Bits<N>>,
    request: Register<Bit>,
    request_sampled: Register<Bit>,
    request_stable: Register<Bit>,
    seen: Register<Bit>,
    seen_sampled: Register<Bit>,
    seen_stable: Register<Bit>,
    taken: Register<Bits<N>>,
}

impl<const N: usize> Logic for PointerCrossing<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, from_clock, hold, request, seen_sampled, seen_stable);
        dff_setup!(self, to_clock, request_sampled, request_stable, seen, taken);
        self.seen_sampled.d.next = self.seen.q.val();
        self.seen_stable.d.next = self.seen_sampled.q.val();
        if self.seen_stable.q.val() == self.request.q.val() {
            self.hold.d.next = self.value.val();
            self.request.d.next = !self.request.q.val();
        }
        self.request_sampled.d.next = self.request.q.val();
        self.request_stable.d.next = self.request_sampled.q.val();
        self.seen.d.next = self.request_stable.q.val();
        if self.request_stable.q.val() != self.seen.q.val() {
            self.taken.d.next = self.hold.q.val();
        }
        self.crossed.next = self.taken.q.val();
    }
}
