//! The boards a card can be built for: one file here and one folder under `constraints/` each.

pub mod alchitry_cu;
pub mod ice40;

use hmtt_format::MemoryDescription;

use crate::emit::EmitError;

/// A board, as the `synth` command knows it.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// Name on the command line and of its folder under `constraints/`.
    pub name: &'static str,
    /// The FPGA on it.
    pub device: &'static str,
    /// Bytes of the packet FIFO it has room for.
    pub fifo_bytes: usize,
    /// Constraint files: name and text.
    pub constraints: &'static [(&'static str, &'static str)],
    /// Script that turns the written files into a bitstream.
    pub build_script: &'static str,
    /// yosys command that maps the design, for counting cells.
    pub synthesis: &'static str,
    /// The board's Verilog for one memory.
    pub verilog: fn(&MemoryDescription) -> Result<String, EmitError>,
}

/// All boards.
pub const BOARDS: [Board; 1] = [alchitry_cu::BOARD];

/// The board with this name.
pub fn board(name: &str) -> Option<Board> {
    BOARDS.into_iter().find(|board| board.name == name)
}
