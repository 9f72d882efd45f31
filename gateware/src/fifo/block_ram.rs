//! Stores words in the block RAM of the FPGA: a memory with one write port and one read port, each
//! with its own clock.
//!
//! A read returns, one edge later, the word that was stored before that edge. If an address is read
//! at the edge that writes it, the result is undefined: block RAMs differ, and logic to define it
//! would need a register and a comparison for each bit. Users read again, or ignore the word. To
//! detect users that do not, the model returns zeros in this case, and the Verilog the old word.
//!
//! The enable of the write port must be 0 in reset, so that no reset writes; registers of its
//! domain ensure that. In Verilog, words that were never written are unknown. A user that reads
//! such words needs [`BlockRam::zeroed`]: its words are 0 from power-on, and after a reset of at
//! least `2^N` clocks in which address and data are 0. A FIFO does not need it, and yosys takes a
//! quarter of an hour to initialise its 32,768 words.

use rust_hdl::prelude::*;

use crate::reset::{Domain, Edges};

/// `2^N` words of `D`.
#[derive(LogicBlock)]
pub struct BlockRam<D: Synth, const N: usize> {
    /// Address of the word to read.
    pub read_address: Signal<In, Bits<N>>,
    /// Clock of the read port.
    pub read_clock: Signal<In, Domain>,
    /// The word, one edge later.
    pub read_data: Signal<Out, D>,
    /// Address of the word to write.
    pub write_address: Signal<In, Bits<N>>,
    /// Clock of the write port.
    pub write_clock: Signal<In, Domain>,
    /// Word to write.
    pub write_data: Signal<In, D>,
    /// Write the word at this edge.
    pub write_enable: Signal<In, Bit>,
    _words: Vec<D>,
    _zeroed: bool,
    /// Next word to clear in reset.
    _sweep: usize,
    _read_edges: Edges,
    _write_edges: Edges,
}

impl<D: Synth, const N: usize> Default for BlockRam<D, N> {
    fn default() -> Self {
        block! {
            Self {
                _words: vec![D::default(); 1 << N],
                _zeroed: false,
                _sweep: 0,
            }
            default: read_address, read_clock, read_data, write_address, write_clock, write_data,
                write_enable, _read_edges, _write_edges
        }
    }
}

impl<D: Synth, const N: usize> BlockRam<D, N> {
    /// Builds a memory whose words are 0 at power-on.
    pub fn zeroed() -> Self {
        Self { _zeroed: true, ..Default::default() }
    }

    /// Clears a word in reset; returns the next one to clear.
    fn sweep(&mut self, clear: bool) -> usize {
        if !clear {
            return 0;
        }
        self._words[self.write_address.val().index() | self._sweep] = self.write_data.val();
        (self._sweep + 1) % (1 << N)
    }
}

impl<D: Synth, const N: usize> Logic for BlockRam<D, N> {
    fn update(&mut self) {
        let clocked = self._write_edges.rises(&self.write_clock);
        let clear = self.write_clock.val().clear;
        let writes = clocked && self.write_enable.val();
        if self._read_edges.rises(&self.read_clock) {
            let collides = writes && self.read_address.val() == self.write_address.val();
            self.read_data.next =
                if collides { D::default() } else { self._words[self.read_address.val().index()] };
        }
        if writes {
            self._words[self.write_address.val().index()] = self.write_data.val();
        }
        if clocked && self._zeroed {
            self._sweep = self.sweep(clear);
        }
    }

    fn connect(&mut self) {
        self.read_data.connect();
    }

    fn hdl(&self) -> Verilog {
        let last = (1usize << N) - 1;
        let (zeros, enable, address) = if self._zeroed {
            let zeros = format!(
                "integer word;\n\
                 initial for (word = 0; word <= {last}; word = word + 1) mem[word] = 0;\n\
                 reg [{high}:0] sweep = 0;\n\
                 always @(posedge write_clock[0]) sweep <= write_clock[2] ? sweep + 1'b1 : 0;\n",
                high = N - 1
            );
            (zeros, "write_enable | write_clock[2]", "write_address | sweep")
        } else {
            (String::new(), "write_enable", "write_address")
        };
        Verilog::Custom(format!(
            "(* no_rw_check *) reg [{width}:0] mem [0:{last}];\n{zeros}\
             always @(posedge read_clock[0]) begin\n    read_data <= mem[read_address];\nend\n\
             always @(posedge write_clock[0]) begin\n    if ({enable}) begin\n        \
             mem[{address}] <= write_data;\n    end\nend\n",
            width = D::BITS - 1
        ))
    }

    fn timing(&self) -> Vec<TimingInfo> {
        let info = |name: &str, clock: &str, inputs: &[&str], outputs: &[&str]| TimingInfo {
            name: name.into(),
            clock: clock.into(),
            inputs: inputs.iter().map(|s| (*s).into()).collect(),
            outputs: outputs.iter().map(|s| (*s).into()).collect(),
        };
        vec![
            info("ram_read", "read_clock", &["read_address"], &["read_data"]),
            info("ram_write", "write_clock", &["write_address", "write_data", "write_enable"], &[]),
        ]
    }
}
