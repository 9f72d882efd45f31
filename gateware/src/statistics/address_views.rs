//! Extracts from an address the values for the traces: number of the line or burst, burst within
//! the line, number of the page.
//!
//! Purely combinational. The bit positions depend on the memory, so the Verilog is custom.

use hmtt_format::MemoryDescription;
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{NUMBER_BITS, SEGMENT_BITS};
use rust_hdl::prelude::*;

/// See the module's description.
#[derive(LogicBlock)]
pub struct AddressViews {
    /// Bits 31..0 of the address.
    pub low: Signal<In, Bits<32>>,
    /// Bits 39..32 of the address.
    pub high: Signal<In, Bits<8>>,
    /// Units are bursts instead of lines.
    pub burst: Signal<In, Bit>,
    /// Low bits of the line or burst number.
    pub unit_number: Signal<Out, Bits<26>>,
    /// High bits of the line or burst number.
    pub unit_segment: Signal<Out, Bits<12>>,
    /// One bit for each burst of the line; bit 0 when units are bursts.
    pub part: Signal<Out, Bits<8>>,
    /// Low bits of the page number.
    pub page_number: Signal<Out, Bits<26>>,
    /// High bits of the page number.
    pub page_segment: Signal<Out, Bits<12>>,
    /// Page number, all bits.
    pub page: Signal<Out, Bits<28>>,
    _line_log2: u32,
    _burst_log2: u32,
    _last: Option<(u64, bool)>,
}

impl AddressViews {
    /// Builds the block for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        block! {
            Self {
                _line_log2: memory.line_log2.into(),
                _burst_log2: memory.burst_log2().into(),
                _last: None,
            }
            default: low, high, burst, unit_number, unit_segment, part, page_number, page_segment,
                page
        }
    }
}

fn number(address: u64, log2: u32) -> u64 {
    address >> log2 & ((1 << NUMBER_BITS) - 1)
}

fn segment(address: u64, log2: u32) -> u64 {
    address >> log2 >> NUMBER_BITS & ((1 << SEGMENT_BITS) - 1)
}

impl Logic for AddressViews {
    fn update(&mut self) {
        let address = self.low.val().index() as u64 | (self.high.val().index() as u64) << 32;
        if self._last == Some((address, self.burst.val())) {
            return;
        }
        self._last = Some((address, self.burst.val()));
        let unit = if self.burst.val() { self._burst_log2 } else { self._line_log2 };
        self.unit_number.next = number(address, unit).into();
        self.unit_segment.next = segment(address, unit).into();
        let parts = (1u64 << (unit - self._burst_log2)) - 1;
        self.part.next = (1u64 << (address >> self._burst_log2 & parts)).into();
        self.page_number.next = number(address, PAGE_LOG2.into()).into();
        self.page_segment.next = segment(address, PAGE_LOG2.into()).into();
        self.page.next = (address >> PAGE_LOG2).into();
    }

    fn connect(&mut self) {
        self.unit_number.connect();
        self.unit_segment.connect();
        self.part.connect();
        self.page_number.connect();
        self.page_segment.connect();
        self.page.connect();
    }

    fn hdl(&self) -> Verilog {
        let (line, burst, page) = (self._line_log2, self._burst_log2, u32::from(PAGE_LOG2));
        let parts = (1u32 << (line - burst)) - 1;
        Verilog::Custom(format!(
            "wire [63:0] address = {{24'b0, high, low}};\n\
             wire [63:0] unit = burst ? address >> {burst} : address >> {line};\n\
             wire [63:0] pages = address >> {page};\n\
             wire [63:0] index = burst ? 64'd0 : (address >> {burst}) & 64'd{parts};\n\
             always @(*) begin\n\
             \x20   unit_number = unit[25:0];\n\
             \x20   unit_segment = unit[37:26];\n\
             \x20   page_number = pages[25:0];\n\
             \x20   page_segment = pages[37:26];\n\
             \x20   page = pages[27:0];\n\
             \x20   part = 8'd1 << index[2:0];\n\
             end\n"
        ))
    }
}
