//! Emits the Verilog of a card.

use rust_hdl::prelude::*;

use crate::card::Card;
use crate::{CardParameters, FifoSize};

/// Why no Verilog was emitted.
#[derive(Debug)]
pub enum EmitError {
    /// The checks of rust-hdl failed.
    Check(String),
    /// The board has too few pins for the memory.
    Pins(String),
    /// The board has no card with a FIFO of this size: the size in KB, and the possible sizes.
    Fifo(usize, &'static [usize]),
}

impl std::fmt::Display for EmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EmitError::Check(why) => write!(f, "the gateware fails its own checks: {why}"),
            EmitError::Pins(why) => f.write_str(why),
            EmitError::Fifo(kb, sizes) => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                write!(f, "FIFO of {kb} KB: this board's sizes are {} KB", sizes.join(", "))
            }
        }
    }
}

impl std::error::Error for EmitError {}

/// Returns the Verilog of the card. The top module is `top`; its ports are those of [`Card`].
pub fn verilog(parameters: &CardParameters) -> Result<String, EmitError> {
    match parameters.fifo {
        FifoSize::Kb128 => checked(Card::<14>::new(&parameters.memory)),
        FifoSize::Kb8 => checked(Card::<10>::new(&parameters.memory)),
    }
}

/// Checks the wiring of a block and emits it as module `top`.
pub(crate) fn checked<B: Block>(mut block: B) -> Result<String, EmitError> {
    block.connect_all();
    check_all(&block).map_err(|error| EmitError::Check(format!("{error:?}")))?;
    Ok(generate_verilog(&block))
}
