//! Computes the physical address of an access from rank, row, bank and column pins.
//!
//! It is the inverse of the memory's address map: a flat XOR network, one parity for each address
//! bit. Purely combinational. The column is read from the address pins, so the network also leaves
//! out A10 and A12 where they are no column bits. The model computes the parities with masks; the
//! Verilog lists the terms.

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::{ADDRESS_BITS, AddressMap, Axis};
use rust_hdl::prelude::*;

/// Places of bank, address pins and rank in one word; the row is at 0.
const BANK_AT: u32 = 18;
const PINS_AT: u32 = 22;
const RANK_AT: u32 = 40;

/// See the module's description.
#[derive(LogicBlock)]
pub struct AddressMatrix {
    /// Row in the bank's row buffer.
    pub row: Signal<In, Bits<18>>,
    /// Rank.
    pub rank: Signal<In, Bits<2>>,
    /// Bank address pins.
    pub ba: Signal<In, Bits<4>>,
    /// Address pins of the READ or WRITE.
    pub a: Signal<In, Bits<18>>,
    /// Bits 31..0 of the address.
    pub low: Signal<Out, Bits<32>>,
    /// Bits 39..32 of the address.
    pub high: Signal<Out, Bits<8>>,
    _masks: [u64; ADDRESS_BITS],
    _last: Option<u64>,
}

impl AddressMatrix {
    /// Builds the network for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let mut masks = [0; ADDRESS_BITS];
        for (bit, mask) in masks.iter_mut().enumerate() {
            *mask = pin_mask(memory, memory.map.inverse_mask(bit));
        }
        block! {
            Self {
                _masks: masks,
                _last: None,
            }
            default: row, rank, ba, a, low, high
        }
    }
}

/// Converts packed coordinate bits to bits of {rank, pins, bank, row}.
fn pin_mask(memory: &MemoryDescription, coordinates: u64) -> u64 {
    let place = |axis, bit: u8| match axis {
        Axis::Row => u32::from(bit),
        Axis::Bank => BANK_AT + u32::from(bit),
        Axis::Column => PINS_AT + u32::from(memory.generation.column_pin(bit)),
        Axis::Rank => RANK_AT + u32::from(bit),
    };
    let mut mask = 0;
    for axis in Axis::ALL {
        for bit in 0..memory.map.bits(axis) {
            let named = coordinates >> AddressMap::packed_position(axis, bit) & 1;
            mask |= named << place(axis, bit);
        }
    }
    mask
}

impl Logic for AddressMatrix {
    fn update(&mut self) {
        let sources = self.row.val().index() as u64
            | (self.ba.val().index() as u64) << BANK_AT
            | (self.a.val().index() as u64) << PINS_AT
            | (self.rank.val().index() as u64) << RANK_AT;
        if self._last == Some(sources) {
            return;
        }
        self._last = Some(sources);
        let address = self._masks.iter().enumerate().fold(0, |address, (bit, mask)| {
            address | u64::from((mask & sources).count_ones() & 1) << bit
        });
        self.low.next = (address & 0xffff_ffff).into();
        self.high.next = (address >> 32).into();
    }

    fn connect(&mut self) {
        self.low.connect();
        self.high.connect();
    }

    fn hdl(&self) -> Verilog {
        let parity = |mask: u64| {
            let terms: Vec<String> = (0..64)
                .filter(|bit| mask >> bit & 1 != 0)
                .map(|bit| format!("sources[{bit}]"))
                .collect();
            if terms.is_empty() { "1'b0".to_string() } else { terms.join(" ^ ") }
        };
        let lines: Vec<String> = self
            ._masks
            .iter()
            .enumerate()
            .map(|(bit, mask)| match bit {
                0..=31 => format!("    low[{bit}] = {};", parity(*mask)),
                _ => format!("    high[{}] = {};", bit - 32, parity(*mask)),
            })
            .collect();
        Verilog::Custom(format!(
            "wire [41:0] sources = {{rank, a, ba, row}};\nalways @(*) begin\n{}\nend\n",
            lines.join("\n")
        ))
    }
}
