//! Resets the DDR domain after the DDR clock was lost.
//!
//! The last edges before a clock stops, and the first ones after, may be closer than registers
//! need, so any register of the DDR domain may have any value then. The domain is reset while the
//! clock is stopped, and until the clock watch has seen [`STEADY_CHANGES`] changes in a row. Blocks
//! that were complete before are sent first; then the FIFO's transmit side is reset too.
//!
//! ```text
//! ck       ~~~~~~____________________________~~~~~~~~~~~~~~~~~~~~
//! lost     ____________/~~~~~~~~~~~~~~~~~~~~~~\___________________
//! state    Run         |AwaitDrained |AwaitSteady          |Run
//! request  _____________/~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\____
//! clears   ___________________________/~~~~~~~~~~~~~~~~~~~~~\____
//! ```
//!
//! A pointer that crossed just before the clock stopped may be wrong too. So the reader uses a
//! pointer only after the clock watch has seen [`CONFIRM_CHANGES`] more changes, which a stopped
//! clock does not make.
//!
//! A reset of the transmit domain itself, after its PLL has lost its lock, resets the DDR domain in
//! the same way. The reset at power-on does not, because nothing has run before it.

use rust_hdl::prelude::*;

use super::{Domain, KeptRegister};

/// Changes of the clock watch without a loss after which the clock counts as steady. They take 512
/// clocks, in which block RAM is cleared.
pub const STEADY_CHANGES: usize = 32;

/// Least changes of the clock watch between the crossing of a pointer and its use.
pub const CONFIRM_CHANGES: usize = 2;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Run,
    AwaitDrained,
    AwaitSteady,
}

/// See the module's description. `N`: bits of the FIFO's pointers.
#[derive(LogicBlock)]
pub struct DdrRestart<const N: usize> {
    /// Transmit clock domain, 125 MHz. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The DDR clock is stopped.
    pub lost: Signal<In, Bit>,
    /// The clock watch has seen a change.
    pub changed: Signal<In, Bit>,
    /// End of the last complete block, after it has crossed.
    pub crossed: Signal<In, Bits<N>>,
    /// End of the last complete block that the reader may use.
    pub available: Signal<Out, Bits<N>>,
    /// All blocks up to `available` have been sent.
    pub drained: Signal<In, Bit>,
    /// The DDR domain must be in reset.
    pub request: Signal<Out, Bit>,
    /// The FIFO's transmit side must be in reset.
    pub clears: Signal<Out, Bit>,
    state: KeptRegister<State>,
    /// The transmit domain has been out of reset.
    has_run: KeptRegister<Bit>,
    changes: KeptRegister<Bits<5>>,
    requests: KeptRegister<Bit>,
    clearing: KeptRegister<Bit>,
    odd_change: KeptRegister<Bit>,
    /// Inputs and decisions of the clock before. They are registered because their sources are far
    /// apart on the chip.
    was_lost: KeptRegister<Bit>,
    was_changed: KeptRegister<Bit>,
    was_drained: KeptRegister<Bit>,
    is_last_change: KeptRegister<Bit>,
    takes: KeptRegister<Bit>,
    candidate: KeptRegister<Bits<N>>,
    confirmed: KeptRegister<Bits<N>>,
    first_word: Constant<Bits<N>>,
    steady_last: Constant<Bits<5>>,
}

impl<const N: usize> Default for DdrRestart<N> {
    fn default() -> Self {
        block! {
            Self {
                first_word: Constant::new(Bits::default()),
                steady_last: Constant::new((STEADY_CHANGES as u64 - 1).into()),
            }
            default: clock, lost, changed, crossed, available, drained, request, clears, state,
                has_run, changes, requests, clearing, odd_change, was_lost, was_changed,
                was_drained, is_last_change, takes, candidate, confirmed
        }
    }
}

impl<const N: usize> Logic for DdrRestart<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            has_run,
            changes,
            requests,
            clearing,
            odd_change,
            was_lost,
            was_changed,
            was_drained,
            is_last_change,
            takes,
            candidate,
            confirmed
        );
        self.available.next = self.confirmed.q.val();
        self.request.next = self.requests.q.val();
        self.clears.next = self.clearing.q.val();
        self.requests.d.next = self.state.q.val() != State::Run;
        self.clearing.d.next = self.state.q.val() == State::AwaitSteady;
        self.was_lost.d.next = self.lost.val();
        self.was_changed.d.next = self.changed.val();
        self.was_drained.d.next = self.drained.val();
        self.is_last_change.d.next = self.changes.q.val() == self.steady_last.val();
        self.takes.d.next = false;
        if self.takes.q.val() {
            self.candidate.d.next = self.crossed.val();
            self.confirmed.d.next = self.candidate.q.val();
        }
        if self.clearing.q.val() {
            self.candidate.d.next = self.first_word.val();
            self.confirmed.d.next = self.first_word.val();
        }
        match self.state.q.val() {
            State::Run => {
                self.changes.d.next = bits::<5>(0);
                if self.was_changed.q.val() {
                    self.odd_change.d.next = !self.odd_change.q.val();
                    self.takes.d.next = self.odd_change.q.val();
                }
                if self.was_lost.q.val() {
                    self.state.d.next = State::AwaitDrained;
                }
            }
            State::AwaitDrained => {
                if self.was_drained.q.val() {
                    self.state.d.next = State::AwaitSteady;
                }
            }
            State::AwaitSteady => {
                if self.was_changed.q.val() {
                    // Changes of a fast clock may be too close for `is_last_change`.
                    if self.changes.q.val() != self.steady_last.val() {
                        self.changes.d.next = self.changes.q.val() + 1;
                    }
                    if self.is_last_change.q.val() {
                        self.state.d.next = State::Run;
                    }
                }
                if self.was_lost.q.val() {
                    self.changes.d.next = bits::<5>(0);
                }
            }
            _ => {
                self.state.d.next = State::AwaitSteady;
            }
        }
        self.has_run.d.next = true;
        if self.clock.val().reset {
            self.has_run.d.next = self.has_run.q.val();
            self.changes.d.next = bits::<5>(0);
            if self.has_run.q.val() {
                self.state.d.next = State::AwaitSteady;
            }
        }
    }
}
