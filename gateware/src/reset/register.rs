//! Registers of a [`Domain`]. rust-hdl's `DFF` has no reset.
//!
//! ```text
//! clock  _/~\_/~\_/~\_/~\_
//! reset  ______/~~~~~~~\__
//! d      <A ><B ><C ><D >
//! q          <A><0      ><D       power-on value as long as the reset lasts
//! ```
//!
//! The reset is asynchronous, so that it needs no edge of a clock that may have stopped, and so that in an iCE40, whose
//! synchronous reset waits for the clock enable, it adds no logic to the enables. It ends at an edge of its own
//! domain's clock ([`super::reset_crossing`]), so the registers leave it together.

use rust_hdl::prelude::*;

use super::{Domain, Edges};

/// A register that reset brings back to its power-on value, all zeros.
#[derive(Clone, Debug, LogicBlock)]
pub struct Register<T: Synth> {
    /// Value to take at the next edge.
    pub d: Signal<In, T>,
    /// Value.
    pub q: Signal<Out, T>,
    /// Clock and reset.
    pub clock: Signal<In, Domain>,
    _edges: Edges,
}

impl<T: Synth> Default for Register<T> {
    fn default() -> Self {
        Self {
            d: Default::default(),
            q: Default::default(),
            clock: Default::default(),
            _edges: Default::default(),
        }
    }
}

impl<T: Synth> Logic for Register<T> {
    fn update(&mut self) {
        let rises = self._edges.rises(&self.clock);
        if self.clock.val().reset {
            self.q.next = T::default();
        } else if rises {
            self.q.next = self.d.val();
        }
    }

    fn connect(&mut self) {
        self.q.connect();
    }

    fn hdl(&self) -> Verilog {
        let zero = T::default().verilog();
        Verilog::Custom(format!(
            "initial q = {zero:x};\nalways @(posedge clock[0] or posedge clock[1]) begin\n    \
             if (clock[1]) q <= {zero:x};\n    else q <= d;\nend\n"
        ))
    }

    fn timing(&self) -> Vec<TimingInfo> {
        timing()
    }
}

/// A register that its own logic clears, too, as counters are. A reset clears it synchronously, so that an iCE40 uses one
/// pin for both; an asynchronous reset would move its own clear into logic in front of every bit.
#[derive(Clone, Debug, LogicBlock)]
pub struct ClearedRegister<T: Synth> {
    /// Value to take at the next edge.
    pub d: Signal<In, T>,
    /// Value.
    pub q: Signal<Out, T>,
    /// Clock and reset.
    pub clock: Signal<In, Domain>,
    _edges: Edges,
}

impl<T: Synth> Default for ClearedRegister<T> {
    fn default() -> Self {
        Self {
            d: Default::default(),
            q: Default::default(),
            clock: Default::default(),
            _edges: Default::default(),
        }
    }
}

impl<T: Synth> Logic for ClearedRegister<T> {
    fn update(&mut self) {
        if self._edges.rises(&self.clock) {
            self.q.next = if self.clock.val().clear { T::default() } else { self.d.val() };
        }
    }

    fn connect(&mut self) {
        self.q.connect();
    }

    fn hdl(&self) -> Verilog {
        let zero = T::default().verilog();
        Verilog::Custom(format!(
            "initial q = {zero:x};\nalways @(posedge clock[0]) begin\n    if (clock[2]) q <= {zero:x};\n    \
             else q <= d;\nend\n"
        ))
    }

    fn timing(&self) -> Vec<TimingInfo> {
        timing()
    }
}

/// A register that no reset changes: for state that must outlive resets, and for data that is loaded before it is used, or
/// on each clock of the state in which a reset leaves its block. A reset at the same flip-flop would move the logic's own
/// clear in front of each bit.
#[derive(Clone, Debug, LogicBlock)]
pub struct KeptRegister<T: Synth> {
    /// Value to take at the next edge.
    pub d: Signal<In, T>,
    /// Value.
    pub q: Signal<Out, T>,
    /// Clock; its reset is ignored.
    pub clock: Signal<In, Domain>,
    _edges: Edges,
}

impl<T: Synth> Default for KeptRegister<T> {
    fn default() -> Self {
        Self {
            d: Default::default(),
            q: Default::default(),
            clock: Default::default(),
            _edges: Default::default(),
        }
    }
}

impl<T: Synth> Logic for KeptRegister<T> {
    fn update(&mut self) {
        if self._edges.rises(&self.clock) {
            self.q.next = self.d.val();
        }
    }

    fn connect(&mut self) {
        self.q.connect();
    }

    fn hdl(&self) -> Verilog {
        let zero = T::default().verilog();
        Verilog::Custom(format!(
            "initial q = {zero:x};\nalways @(posedge clock[0]) begin\n    q <= d;\nend\n"
        ))
    }

    fn timing(&self) -> Vec<TimingInfo> {
        timing()
    }
}

fn timing() -> Vec<TimingInfo> {
    vec![TimingInfo {
        name: "register".into(),
        clock: "clock".into(),
        inputs: vec!["d".into()],
        outputs: vec!["q".into()],
    }]
}
