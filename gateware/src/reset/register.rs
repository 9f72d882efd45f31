//! Defines the registers of a [`Domain`]. rust-hdl's `DFF` cannot be used, because it has no reset.
//!
//! ```text
//! clock  _/~\_/~\_/~\_/~\_
//! reset  ______/~~~~~~~\__
//! d      <A ><B ><C ><D >
//! q          <A><0      ><D       power-on value as long as the reset lasts
//! ```
//!
//! The reset of [`Register`] is asynchronous, for two reasons. It needs no edge of a clock that may
//! have stopped. And in an iCE40, whose synchronous reset works only with the clock enable, it adds
//! no logic to the enables. The reset ends at an edge of the domain's clock
//! ([`super::reset_crossing`]), so all registers leave it together.

use rust_hdl::prelude::*;

use super::{Domain, Edges};

/// Declares a register. `$update` sets `q` of `$register`; `$rises` is whether its clock rises.
/// `$always` is the same update in Verilog, with `ZERO` for the power-on value.
macro_rules! register {
    ($(#[$doc:meta])+ $name:ident, |$register:ident, $rises:ident| $update:block, $always:literal) => {
        $(#[$doc])+
        #[derive(Clone, Debug, LogicBlock)]
        pub struct $name<T: Synth> {
            /// Value to take at the next edge.
            pub d: Signal<In, T>,
            /// Value.
            pub q: Signal<Out, T>,
            /// Clock and reset.
            pub clock: Signal<In, Domain>,
            _edges: Edges,
        }

        impl<T: Synth> Default for $name<T> {
            fn default() -> Self {
                Self {
                    d: Default::default(),
                    q: Default::default(),
                    clock: Default::default(),
                    _edges: Default::default(),
                }
            }
        }

        impl<T: Synth> Logic for $name<T> {
            fn update(&mut self) {
                let $rises = self._edges.rises(&self.clock);
                let $register = self;
                $update
            }

            fn connect(&mut self) {
                self.q.connect();
            }

            fn hdl(&self) -> Verilog {
                let zero = format!("{:x}", T::default().verilog());
                let body = $always.replace("ZERO", &zero);
                Verilog::Custom(format!("initial q = {zero};\n{body}"))
            }

            fn timing(&self) -> Vec<TimingInfo> {
                vec![TimingInfo {
                    name: "register".into(),
                    clock: "clock".into(),
                    inputs: vec!["d".into()],
                    outputs: vec!["q".into()],
                }]
            }
        }
    };
}

register!(
    /// A register that a reset sets to its power-on value, all zeros.
    Register,
    |register, rises| {
        if register.clock.val().reset {
            register.q.next = T::default();
        } else if rises {
            register.q.next = register.d.val();
        }
    },
    "always @(posedge clock[0] or posedge clock[1]) begin\n    if (clock[1]) q <= ZERO;\n    else q <= d;\nend\n"
);

register!(
    /// A register that its own logic clears too, as counters are. A reset clears it synchronously,
    /// so that an iCE40 uses one pin of the flip-flop for both. With an asynchronous reset the
    /// logic's own clear would need a gate in front of each bit.
    ClearedRegister,
    |register, rises| {
        if rises {
            register.q.next =
                if register.clock.val().clear { T::default() } else { register.d.val() };
        }
    },
    "always @(posedge clock[0]) begin\n    if (clock[2]) q <= ZERO;\n    else q <= d;\nend\n"
);

register!(
    /// A register that no reset changes. It is for state that must survive resets, and for data
    /// that is loaded before it is used. The data may also be loaded on each clock of the state in
    /// which a reset leaves the block. With a reset, the logic's own clear would need a gate in
    /// front of each bit.
    KeptRegister,
    |register, rises| {
        if rises {
            register.q.next = register.d.val();
        }
    },
    "always @(posedge clock[0]) begin\n    q <= d;\nend\n"
);
