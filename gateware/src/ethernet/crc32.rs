//! Computes the frame check sequence (IEEE 802.3 clause 3.2.9): CRC-32, one octet in each clock.
//!
//! The model uses a table. The Verilog is a flat XOR network: the step is linear, so it is derived
//! from steps with single bits. A test compares both over random frames.

use rust_hdl::prelude::*;

/// The reflected generator polynomial 0x04C11DB7.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Returns the check value after one more octet.
pub fn step(crc: u32, byte: u8) -> u32 {
    (0..8).fold(
        crc ^ u32::from(byte),
        |crc, _| {
            if crc & 1 != 0 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 }
        },
    )
}

/// See the module's description. Purely combinational.
#[derive(LogicBlock)]
pub struct Crc32Step {
    /// Check value so far, as in the shift register.
    pub crc: Signal<In, Bits<32>>,
    /// Next octet.
    pub data: Signal<In, Bits<8>>,
    /// Check value including the octet.
    pub stepped: Signal<Out, Bits<32>>,
    _table: [u32; 256],
}

impl Default for Crc32Step {
    fn default() -> Self {
        Self {
            crc: Default::default(),
            data: Default::default(),
            stepped: Default::default(),
            _table: std::array::from_fn(|byte| step(0, byte as u8)),
        }
    }
}

impl Logic for Crc32Step {
    fn update(&mut self) {
        let crc = self.crc.val().index() as u32;
        let index = (crc ^ self.data.val().index() as u32) & 0xff;
        self.stepped.next = u64::from(crc >> 8 ^ self._table[index as usize]).into();
    }

    fn connect(&mut self) {
        self.stepped.connect();
    }

    fn hdl(&self) -> Verilog {
        let line = |bit: usize| {
            let from_crc =
                (0..32).filter(|i| step(1 << i, 0) >> bit & 1 != 0).map(|i| format!("crc[{i}]"));
            let from_byte =
                (0..8).filter(|i| step(0, 1 << i) >> bit & 1 != 0).map(|i| format!("data[{i}]"));
            let terms: Vec<String> = from_crc.chain(from_byte).collect();
            format!("    stepped[{bit}] = {};", terms.join(" ^ "))
        };
        let lines: Vec<String> = (0..32).map(line).collect();
        Verilog::Custom(format!("always @(*) begin\n{}\nend\n", lines.join("\n")))
    }
}
