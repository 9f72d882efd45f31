//! A clock and its reset, as one signal.
//!
//! Both travel through the hierarchy together, so that no simulator can let one overtake the other.

use rust_hdl::prelude::*;

/// A clock domain. In Verilog bit 0 is the clock, bit 1 the reset, bit 2 the clear.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Domain {
    /// The clock.
    pub clk: Clock,
    /// Registers have their power-on values, without an edge.
    pub reset: Bit,
    /// Registers that are cleared synchronously, and block RAM, are cleared at edges. Ends with the reset, and begins
    /// some edges after it.
    pub clear: Bit,
}

impl Domain {
    /// A domain out of reset.
    pub fn clocked(clk: bool) -> Self {
        Self { clk: Clock { clk }, ..Self::default() }
    }

    /// Bits of the clock: what `#[hdl_gen]` asks of a struct's field.
    pub fn get_my_width_clk(&self) -> usize {
        1
    }

    /// Place of the clock.
    pub fn get_my_offset_clk(&self) -> usize {
        0
    }

    /// Bits of the reset.
    pub fn get_my_width_reset(&self) -> usize {
        1
    }

    /// Place of the reset.
    pub fn get_my_offset_reset(&self) -> usize {
        1
    }

    /// Bits of the clear.
    pub fn get_my_width_clear(&self) -> usize {
        1
    }

    /// Place of the clear.
    pub fn get_my_offset_clear(&self) -> usize {
        2
    }
}

// By hand: rust-hdl derives this only for structs without clocks.
impl Synth for Domain {
    const BITS: usize = 3;

    fn descriptor() -> TypeDescriptor {
        let field = |name: &str, kind| Box::new(TypeField { fieldname: name.into(), kind });
        TypeDescriptor {
            name: "Domain".into(),
            kind: TypeKind::Composite(vec![
                field("clk", Clock::descriptor()),
                field("reset", Bit::descriptor()),
                field("clear", Bit::descriptor()),
            ]),
        }
    }

    fn vcd(self) -> VCDValue {
        VCDValue::Composite(vec![
            Box::new(self.clk.vcd()),
            Box::new(self.reset.vcd()),
            Box::new(self.clear.vcd()),
        ])
    }

    fn verilog(self) -> VerilogLiteral {
        let levels = [self.clk.clk, self.reset, self.clear];
        let bits = levels.iter().rev().fold(0, |bits, level| bits << 1 | u64::from(*level));
        Bits::<3>::from(bits).into()
    }
}

/// An edge of a clock.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    /// From low to high.
    Rising,
    /// From high to low.
    Falling,
}

/// Finds the edges of a domain's clock, for blocks with a model of their own. The reset may change
/// between them.
#[derive(Copy, Clone, Debug, Default)]
pub struct Edges {
    high: bool,
}

impl Edges {
    /// The edge that the domain brings, if it does.
    #[inline(always)]
    pub fn next(&mut self, domain: &Signal<In, Domain>) -> Option<Edge> {
        if !domain.changed {
            return None;
        }
        let high = domain.val().clk.clk;
        let was_high = std::mem::replace(&mut self.high, high);
        match (was_high, high) {
            (false, true) => Some(Edge::Rising),
            (true, false) => Some(Edge::Falling),
            _ => None,
        }
    }

    /// Whether it is a rising one.
    #[inline(always)]
    pub fn rises(&mut self, domain: &Signal<In, Domain>) -> bool {
        self.next(domain) == Some(Edge::Rising)
    }
}
