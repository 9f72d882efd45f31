//! Lists the boards that a card can be built for. Each has a file here and a folder under
//! `constraints/`.

pub mod alchitry_cu;
pub mod ecp5;
pub mod ecpix_5;
pub mod ice40;
pub mod lock_reset;
pub mod phy_reset;

use hmtt_format::MemoryDescription;

use crate::bitstream::Family;
use crate::emit::EmitError;

/// A board, for the `synth` command.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// Name on the command line and of its folder under `constraints/`.
    pub name: &'static str,
    /// Name of its FPGA.
    pub device: &'static str,
    /// The FPGA, with the names that its tools use.
    pub family: Family,
    /// Possible sizes of the packet FIFO in KB; the first one is the default.
    pub fifo_kb: &'static [usize],
    /// Pins and clocks: name and text of the constraints file.
    pub constraints: (&'static str, &'static str),
    /// The clock domains, each with its net in the constraints file and its required frequency.
    pub clocks: &'static [BoardClock],
    /// Highest frequency in MHz of the DDR clock that a build has reached (`docs/hardware.md`).
    pub fastest_ddr_mhz: f64,
    /// Returns the board's Verilog for a memory and for a FIFO of this size in KB.
    pub verilog: fn(&MemoryDescription, usize) -> Result<String, EmitError>,
}

/// A clock domain and its required frequency.
#[derive(Clone, Copy, Debug)]
pub struct BoardClock {
    /// Name in tables.
    pub name: &'static str,
    /// Net in the design, as the constraints file names it.
    pub net: &'static str,
    /// Required frequency.
    pub rate: Rate,
}

/// Required frequency of a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A fixed number of MHz.
    Mhz(f64),
    /// The clock of the memory slot.
    Memory,
}

/// All boards.
pub const BOARDS: [Board; 2] = [alchitry_cu::BOARD, ecpix_5::BOARD];

/// Returns the board with this name.
pub fn board(name: &str) -> Option<Board> {
    BOARDS.into_iter().find(|board| board.name == name)
}
