//! Card parameters to Verilog text.

use rust_hdl::prelude::*;

use crate::card::Card;
use crate::{CardParameters, FifoSize};

/// Why no Verilog could be made.
#[derive(Debug)]
pub enum EmitError {
    /// rust-hdl's own checks refused the card.
    Check(String),
    /// The board lacks pins for the memory.
    Pins(String),
    /// The board has no card with a FIFO of so many KB, but with these.
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

/// The card's Verilog; its top module is `top`, its ports are [`Card`]'s.
pub fn verilog(parameters: &CardParameters) -> Result<String, EmitError> {
    match parameters.fifo {
        FifoSize::Kb128 => checked(Card::<14>::new(&parameters.memory)),
        FifoSize::Kb8 => checked(Card::<10>::new(&parameters.memory)),
    }
}

/// Checks a block's wiring and emits it as module `top`.
pub(crate) fn checked<B: Block>(mut block: B) -> Result<String, EmitError> {
    block.connect_all();
    check_all(&block).map_err(|error| EmitError::Check(format!("{error:?}")))?;
    Ok(generate_verilog(&block))
}
