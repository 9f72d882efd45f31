//! Makes the marks of snapshots: sends them to a card, or collects them for a recording.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use anyhow::Result;
use hmtt_format::MemoryDescription;
use hmtt_format::control::{Control, Registers};
use hmtt_probe::control::{CardRegisters, CardWindow};

use crate::ctl::{explained, recording};
use crate::tag::values::window;

/// Where marks of snapshots go.
#[derive(clap::Args)]
#[command(next_help_heading = "Marks")]
pub struct MarkOptions {
    /// Mark the begin and the end of each snapshot in the capture of a card, whose registers this
    /// device has: /dev/mem, or one of a UIO driver; and the offset of physical address 0 in it.
    /// Accesses are then resolved by the snapshots around them
    #[arg(long, value_name = "PATH[:OFFSET[:BYTES]]", value_parser = window)]
    device: Option<CardWindow>,
    /// Description of the memory, in TOML, if it moves the registers; required for a new recording
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
    /// Write the marks as DDR commands into a recording, appended if it exists, instead of making
    /// them
    #[arg(long, value_name = "FILE.cmd", conflicts_with = "device")]
    record: Option<PathBuf>,
}

/// The receiver of marks.
enum Sink {
    None,
    Card(CardRegisters),
    Recording(Vec<Control>),
}

/// Makes marks, and numbers the snapshots.
pub struct Marks {
    sink: Sink,
    memory: Option<MemoryDescription>,
    /// Number of the next snapshot.
    next: u32,
}

impl Marks {
    /// Prepares the receiver that the options select. For a card, maps its registers.
    ///
    /// # Errors
    /// The registers cannot be mapped, or the description of the memory cannot be read.
    pub fn new(options: &MarkOptions) -> Result<Marks> {
        let memory = options.memory.as_deref().map(recording::read_memory).transpose()?;
        let sink = match (&options.device, &options.record) {
            (Some(device), _) => {
                let registers = memory.as_ref().map_or(Registers::DEFAULT, Registers::of);
                Sink::Card(CardRegisters::map(device, registers).map_err(explained)?)
            }
            (None, Some(_)) => Sink::Recording(Vec::new()),
            (None, None) => Sink::None,
        };
        // The first number is random, so that two recordings of maps during one capture have
        // different numbers.
        let next = RandomState::new().hash_one("snapshot") as u32;
        Ok(Marks { sink, memory, next })
    }

    /// Calls `take` to make a snapshot. `take` receives the snapshot's number and a function that
    /// makes a mark; or `None`, if the user wants no marks.
    pub fn with_next<T>(&mut self, take: impl FnOnce(Option<(u32, &mut dyn FnMut(u8))>) -> T) -> T {
        let number = self.next;
        self.next = number.wrapping_add(1);
        match &mut self.sink {
            Sink::None => take(None),
            Sink::Card(card) => take(Some((number, &mut |mark| card.mark(mark)))),
            Sink::Recording(controls) => {
                take(Some((number, &mut |mark| controls.push(Control::Mark(mark)))))
            }
        }
    }

    /// Writes the collected marks into the recording, if there is one.
    ///
    /// # Errors
    /// The recording cannot be created or extended.
    pub fn finish(self, options: &MarkOptions) -> Result<()> {
        match (self.sink, &options.record) {
            (Sink::Recording(controls), Some(path)) => {
                recording::write(path, self.memory.as_ref(), &controls)
            }
            _ => Ok(()),
        }
    }
}
