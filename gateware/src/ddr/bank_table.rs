//! Keeps the state of each bank and rank, and looks it up for each command: whether the bank is
//! open, whether its row was accessed since the ACTIVATE, and which JEDEC distances have not
//! passed.
//!
//! The state machine sends commands, and judges the state that they find.
//!
//! ```text
//! clock         _/0\_/1\_/2\_/3\_
//! op, ranks...      <A ><B >
//! found                 .   <A ><B >   two edges later
//! ```
//!
//! The first edge decodes a command into one select line for each bank. At the second edge each
//! bank and rank changes its state by itself, and the state before that edge is gathered into
//! `found`. So a command sees the effect of all commands before it, even of the one a clock
//! earlier, and no path is longer than the gathering. The Verilog has only the banks, ranks and
//! timers that the memory has; the model has them in lists.
//!
//! A bank has one timer: tRCD while it is open, tRP while it is closed. A rank has one timer for
//! tRFC, tXS and tMRD: during each of them all banks are closed and ACTIVATE is forbidden.

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::Axis;
use rust_hdl::prelude::*;

use crate::reset::domain::Edge;
use crate::reset::{Domain, Edges};

use model::{Shape, Spread, State};

pub use signals::{CommandLines, Found};

mod model;
mod signals;
mod verilog;

/// The JEDEC distance that a rank is within.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum Window {
    /// No distance, or it has passed.
    Elapsed,
    /// tRFC.
    Rfc,
    /// tXS.
    Xs,
    /// tMRD.
    Mrd,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct BankTable {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Command.
    pub op: Signal<In, CommandLines>,
    /// Address pin A10.
    pub a10: Signal<In, Bit>,
    /// Ranks that the command addresses; none without a command.
    pub ranks: Signal<In, Bits<4>>,
    /// Addressed ranks whose CKE falls.
    pub cke_falls: Signal<In, Bits<4>>,
    /// Ranks whose CKE rises, with or without a command.
    pub cke_rises: Signal<In, Bits<4>>,
    /// Bank address pins.
    pub ba: Signal<In, Bits<4>>,
    /// State that the command of two clocks before finds.
    pub found: Signal<Out, Found>,
    _shape: Shape,
    _state: State,
    /// The command that was sampled at the last edge; it is stored after the edge.
    _incoming: Option<Spread>,
    _edges: Edges,
}

impl BankTable {
    /// Builds the table for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let ranks = usize::from(memory.ranks());
        let banks = 1 << memory.bits(Axis::Bank);
        block! {
            Self {
                _shape: Shape {
                    ranks,
                    banks,
                    trcd: memory.trcd_clocks.into(),
                    trp: memory.trp_clocks.into(),
                    trfc: memory.trfc_clocks.into(),
                    txs: memory.txs_clocks.into(),
                    tmrd: memory.tmrd_clocks.into(),
                    refresh_limit: memory.refresh_limit_clocks,
                },
                _state: State::at_power_on(ranks * banks),
                _incoming: None,
            }
            default: clock, op, a10, ranks, cke_falls, cke_rises, ba, found, _edges
        }
    }

    fn spread(&self) -> Spread {
        let present = (1 << self._shape.ranks) - 1;
        Spread {
            op: self.op.val(),
            a10: self.a10.val(),
            ranks: self.ranks.val().index() as u8 & present,
            cke_falls: self.cke_falls.val().index() as u8,
            cke_rises: self.cke_rises.val().index() as u8,
            ba: self.ba.val().index() & (self._shape.banks - 1),
        }
    }
}

impl Logic for BankTable {
    fn update(&mut self) {
        let edge = self._edges.next(&self.clock);
        if self.clock.val().reset {
            if self.clock.changed {
                self._state.clear();
            }
            self._incoming = None;
            self.found.next = Found::default();
            return;
        }
        match edge {
            Some(Edge::Rising) => {
                // A second evaluation at this edge must find the same state.
                let findings = self._shape.found(&self._state);
                if self.found.val() != findings {
                    self.found.next = findings;
                }
                self._incoming = Some(self.spread());
            }
            Some(Edge::Falling) => {
                if let Some(incoming) = self._incoming.take() {
                    self._shape.advance(&mut self._state);
                    self._state.spread = incoming;
                }
            }
            None => {}
        }
    }

    fn connect(&mut self) {
        self.found.connect();
    }

    fn hdl(&self) -> Verilog {
        Verilog::Custom(verilog::of(&self._shape))
    }

    fn timing(&self) -> Vec<TimingInfo> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        vec![TimingInfo {
            name: "bank_table".into(),
            clock: "clock".into(),
            inputs: names(&["op", "a10", "ranks", "cke_falls", "cke_rises", "ba"]),
            outputs: names(&["found"]),
        }]
    }
}
