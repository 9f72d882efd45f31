//! Sends commands to a card from the machine whose memory it watches.
//!
//! The card takes a certain number of accesses to an address in physical memory as a command
//! (docs/format.md, *Configuration registers*). [`hmtt_format::control`] defines the accesses; this
//! module makes them in mapped memory. Each access bypasses the caches, even where the memory is
//! cached. After the memory was mapped, no system call is made.
//!
//! ```no_run
//! use hmtt_format::control::Registers;
//! use hmtt_probe::control::{CardRegisters, CardWindow};
//!
//! // Physical address 0. On most kernels a device of a UIO driver takes the place of /dev/mem.
//! let window = CardWindow { path: "/dev/mem".into(), offset: 0, bytes: None };
//! let card = CardRegisters::map(&window, Registers::DEFAULT)?;
//! card.mark(1);
//! // The phase of the program that mark 1 begins is here.
//! card.mark(2);
//! # Ok::<(), hmtt_probe::control::WindowError>(())
//! ```

use hmtt_format::Direction;
use hmtt_format::control::{Control, Registers};

use super::memory::Memory;
use super::window::{self, CardWindow};
use crate::control::WindowError;

/// A card's configuration registers, mapped.
#[derive(Debug)]
pub struct CardRegisters {
    memory: Memory,
    registers: Registers,
}

impl CardRegisters {
    /// Maps the registers. The file is a device that gives access to physical memory without
    /// caching, or an ordinary file in tests.
    ///
    /// # Errors
    /// [`WindowError`] if the file cannot be opened or mapped, or is too small.
    pub fn map(window: &CardWindow, registers: Registers) -> Result<Self, WindowError> {
        let file = window::open(window)?;
        window::check(window, &file, registers.bytes())?;
        let memory = Memory::map_at(&file, registers.bytes(), window.offset)
            .map_err(|error| WindowError::Map(window.path.clone(), error))?;
        Ok(CardRegisters { memory, registers })
    }

    /// Sends a command. Other threads must not send a command meanwhile: an access of another
    /// command restarts the card's count.
    pub fn send(&self, control: Control) {
        for access in self.registers.accesses(control) {
            match access.direction {
                // The card sees the read; its value is not used.
                Direction::Read => {
                    std::hint::black_box(self.memory.read_past_caches(access.offset));
                }
                Direction::Write => self.memory.write(access.offset, 0),
            }
        }
    }

    /// Makes a mark with one of the registers for free use.
    pub fn mark(&self, number: u8) {
        self.send(Control::Mark(number));
    }
}
