//! Restarts everything that the DDR clock drives after that clock was lost.
//!
//! The last edges before a clock stops, and the first ones after, may be shorter than registers need: any
//! register of the DDR domain may then hold any value. So the domain is reset while the clock is stopped and until it has
//! run for [`STEADY_CHANGES`] changes of the clock watch in a row. Blocks that were complete before are sent
//! first; then the FIFO's transmit side is reset as well.
//!
//! ```text
//! ck       ~~~~~~____________________________~~~~~~~~~~~~~~~~~~~~
//! lost     ____________/~~~~~~~~~~~~~~~~~~~~~~\___________________
//! state    Run         |Drain        |Await                |Run
//! request  _____________/~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\____
//! clears   ___________________________/~~~~~~~~~~~~~~~~~~~~~\____
//! ```
//!
//! A pointer that came just before the clock stopped may be wrong, too. So the reader uses a pointer only after the
//! clock watch has seen [`BELIEF_CHANGES`] changes more: a clock that stops meanwhile does not make them.
//!
//! A reset of the transmit domain itself, which comes when its PLL has lost its lock, restarts the DDR domain
//! in the same way; that at power-on does not, as nothing has run before.

use rust_hdl::prelude::*;

use super::{Domain, KeptRegister};

/// Changes of the clock watch without a loss after which the clock is taken for steady: 512 clocks, in which
/// block RAM is cleared as well.
pub const STEADY_CHANGES: usize = 32;

/// Changes of the clock watch that a pointer must outlive before it is believed, at least.
pub const BELIEF_CHANGES: usize = 2;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Run,
    Drain,
    Await,
}

/// See the module's description. `N`: bits of the FIFO's pointers.
#[derive(LogicBlock)]
pub struct DdrRestart<const N: usize> {
    /// Transmit clock.
    pub clock: Signal<In, Domain>,
    /// The DDR clock is stopped.
    pub lost: Signal<In, Bit>,
    /// The clock watch saw the DDR clock's register change.
    pub changed: Signal<In, Bit>,
    /// End of the last complete block, as it has crossed.
    pub crossed: Signal<In, Bits<N>>,
    /// The same, once it can be believed.
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
    odd: KeptRegister<Bit>,
    /// Inputs and decisions of the clock before: a clock more does no harm, and their sources lie far apart on the chip.
    was_lost: KeptRegister<Bit>,
    was_changed: KeptRegister<Bit>,
    was_drained: KeptRegister<Bit>,
    is_last_change: KeptRegister<Bit>,
    takes: KeptRegister<Bit>,
    doubted: KeptRegister<Bits<N>>,
    believed: KeptRegister<Bits<N>>,
    first_word: Constant<Bits<N>>,
}

impl<const N: usize> Default for DdrRestart<N> {
    fn default() -> Self {
        block! {
            Self {
                first_word: Constant::new(Bits::default()),
            }
            default: clock, lost, changed, crossed, available, drained, request, clears, state,
                has_run, changes, requests, clearing, odd, was_lost, was_changed, was_drained,
                is_last_change, takes, doubted, believed
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
            odd,
            was_lost,
            was_changed,
            was_drained,
            is_last_change,
            takes,
            doubted,
            believed
        );
        self.available.next = self.believed.q.val();
        self.request.next = self.requests.q.val();
        self.clears.next = self.clearing.q.val();
        self.requests.d.next = self.state.q.val() != State::Run;
        self.clearing.d.next = self.state.q.val() == State::Await;
        self.was_lost.d.next = self.lost.val();
        self.was_changed.d.next = self.changed.val();
        self.was_drained.d.next = self.drained.val();
        self.is_last_change.d.next = self.changes.q.val() == 0x1f;
        self.takes.d.next = false;
        if self.takes.q.val() {
            self.doubted.d.next = self.crossed.val();
            self.believed.d.next = self.doubted.q.val();
        }
        if self.clearing.q.val() {
            self.doubted.d.next = self.first_word.val();
            self.believed.d.next = self.first_word.val();
        }
        match self.state.q.val() {
            State::Run => {
                self.changes.d.next = bits::<5>(0);
                if self.was_changed.q.val() {
                    self.odd.d.next = !self.odd.q.val();
                    self.takes.d.next = self.odd.q.val();
                }
                if self.was_lost.q.val() {
                    self.state.d.next = State::Drain;
                }
            }
            State::Drain => {
                if self.was_drained.q.val() {
                    self.state.d.next = State::Await;
                }
            }
            State::Await => {
                if self.was_changed.q.val() {
                    // Changes of a fast clock may follow one another too closely for `is_last_change`.
                    if self.changes.q.val() != 0x1f {
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
                self.state.d.next = State::Await;
            }
        }
        self.has_run.d.next = true;
        if self.clock.val().reset {
            self.has_run.d.next = self.has_run.q.val();
            self.changes.d.next = bits::<5>(0);
            if self.has_run.q.val() {
                self.state.d.next = State::Await;
            }
        }
    }
}
