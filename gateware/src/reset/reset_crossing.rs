//! Turns a request for reset from another clock domain into a reset of this domain.
//!
//! The reset begins with the request, even if the clock is stopped: the first edge after the clock
//! returns finds it active. It ends at an edge, three edges after the request. The clear, for
//! registers with a synchronous reset, is a register of its own, so that it needs no logic; it
//! begins three edges after the request.
//!
//! ```text
//! request  _/~~~~~~~~~~~~~~~~~\_______________
//! clock    _________________/~\_/~\_/~\_/~\_/~\
//! reset    _/~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\____
//! clear    _______________________/~~~~~~~\____
//! ```

use rust_hdl::prelude::*;

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct ResetCrossing {
    /// Clock of the domain to be reset.
    pub clock: Signal<In, Clock>,
    /// From a register of another domain; lasts longer than three clocks of this one.
    pub request: Signal<In, Bit>,
    /// Registers of the domain have their power-on values.
    pub reset: Signal<Out, Bit>,
    /// Registers with a synchronous reset are cleared.
    pub clear: Signal<Out, Bit>,
    sampled: DFF<Bit>,
    stable: DFF<Bit>,
    held: DFF<Bit>,
}

impl Logic for ResetCrossing {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, sampled, stable, held);
        self.sampled.d.next = self.request.val();
        self.stable.d.next = self.sampled.q.val();
        self.held.d.next = self.stable.q.val();
        self.reset.next = self.request.val() | self.held.q.val();
        self.clear.next = self.held.q.val();
    }
}
