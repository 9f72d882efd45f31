//! A value from one clock domain to another, whole: a two-phase handshake around held data.
//!
//! ```text
//! from   value -> [hold] ---------------------> sampled only while it stands still
//!                 request toggles --2 FF-->     to
//!                 <--2 FF-- acknowledge toggles
//! ```
//!
//! The far side sees every value that stands for about eight clocks, and never a mixture of two.

use rust_hdl::prelude::*;

/// See the module's description. `N`: bits of the value.
#[derive(LogicBlock, Default)]
pub struct PointerCrossing<const N: usize> {
    /// Clock of the near side.
    pub from_clock: Signal<In, Clock>,
    /// Clock of the far side.
    pub to_clock: Signal<In, Clock>,
    /// Value on the near side.
    pub value: Signal<In, Bits<N>>,
    /// Value on the far side, late but never wrong.
    pub crossed: Signal<Out, Bits<N>>,
    hold: DFF<Bits<N>>,
    request: DFF<Bit>,
    request_sampled: DFF<Bit>,
    request_stable: DFF<Bit>,
    seen: DFF<Bit>,
    seen_sampled: DFF<Bit>,
    seen_stable: DFF<Bit>,
    taken: DFF<Bits<N>>,
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
