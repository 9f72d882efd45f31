//! Defines a clock and its reset as one signal. Both pass through the hierarchy together, so no
//! simulator can change their order.

use rust_hdl::prelude::*;

/// A clock domain. In Verilog bit 0 is the clock, bit 1 the reset, bit 2 the clear.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Domain {
    /// The clock.
    pub clk: Clock,
    /// Registers have their power-on values, without a clock edge.
    pub reset: Bit,
    /// Registers with a synchronous reset, and block RAM, are cleared at clock edges. The clear
    /// begins some edges after the reset and ends with it.
    pub clear: Bit,
}

impl Domain {
    /// Returns a domain that is not in reset.
    pub fn clocked(clk: bool) -> Self {
        Self { clk: Clock { clk }, ..Self::default() }
    }

    /// Width of the clock; `#[hdl_gen]` needs these functions for each field of a struct.
    pub fn get_my_width_clk(&self) -> usize {
        1
    }

    /// Place of the clock.
    pub fn get_my_offset_clk(&self) -> usize {
        0
    }

    /// Width of the reset.
    pub fn get_my_width_reset(&self) -> usize {
        1
    }

    /// Place of the reset.
    pub fn get_my_offset_reset(&self) -> usize {
        1
    }

    /// Width of the clear.
    pub fn get_my_width_clear(&self) -> usize {
        1
    }

    /// Place of the clear.
    pub fn get_my_offset_clear(&self) -> usize {
        2
    }
}

// rust-hdl derives this only for structs without clocks.
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

/// Detects the edges of a domain's clock, for blocks with a model of their own. The reset may
/// change between edges.
#[derive(Copy, Clone, Debug, Default)]
pub struct Edges {
    high: bool,
}

impl Edges {
    /// Returns the edge of the clock, if there is one.
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

    /// Returns whether there is a rising edge.
    #[inline(always)]
    pub fn rises(&mut self, domain: &Signal<In, Domain>) -> bool {
        self.next(domain) == Some(Edge::Rising)
    }
}
