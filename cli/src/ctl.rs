//! Implements `hmtt ctl`: controls a card from the traced machine.
//!
//! ```text
//! words      the command line        -> commands
//! (format)   commands                -> accesses to the card's configuration registers
//! (probe)    accesses                -> a mapped device
//! recording  accesses                -> DDR commands, by `bus`
//! ```

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::CommandFactory;
use hmtt_format::control::{ACCESS_BYTES, Control, Registers};
use hmtt_probe::control::{CardRegisters, CardWindow, WindowError};

use crate::tag::values::window;

mod bus;
pub mod recording;
mod words;

/// Control a card from the machine whose memory it watches
///
/// Makes accesses to physical memory that the card takes as commands.
#[derive(clap::Args)]
#[command(after_help = words::HELP)]
pub struct Arguments {
    /// Commands, such as: reset mode page start mark 1
    #[arg(value_name = "COMMAND", required = true)]
    commands: Vec<String>,
    /// The device in which physical address 0 is mapped, uncached: /dev/mem, or one of a UIO
    /// driver; and the offset of that address in it
    #[arg(long, value_name = "PATH[:OFFSET[:BYTES]]", value_parser = window, default_value = "/dev/mem")]
    device: CardWindow,
    /// Description of the memory, in TOML, if it moves the registers; required for a new recording
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
    /// Print the accesses, as R,OFFSET,SIZE, instead of making them
    #[arg(long, conflicts_with_all = ["device", "record"])]
    dry_run: bool,
    /// Write the accesses as DDR commands into a recording, appended if it exists, instead of
    /// making them
    #[arg(long, value_name = "FILE.cmd", conflicts_with = "device")]
    record: Option<PathBuf>,
}

/// Runs `hmtt ctl`. Always returns false, because nothing can be missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let controls = words::parse(&arguments.commands).unwrap_or_else(|error| {
        let mut command = crate::Arguments::command().name("hmtt");
        command.error(clap::error::ErrorKind::ValueValidation, format!("{error:#}")).exit()
    });
    let memory = arguments.memory.as_deref().map(recording::read_memory).transpose()?;
    if let Some(path) = &arguments.record {
        recording::write(path, memory.as_ref(), &controls)?;
        return Ok(false);
    }
    let registers = memory.as_ref().map_or(Registers::DEFAULT, Registers::of);
    if arguments.dry_run {
        print(registers, &controls)?;
        return Ok(false);
    }
    let card = CardRegisters::map(&arguments.device, registers).map_err(explained)?;
    controls.iter().for_each(|control| card.send(*control));
    Ok(false)
}

/// Prints the accesses to registers, in the notation of `hmtt-sim record --accesses`.
fn print(registers: Registers, controls: &[Control]) -> Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    for access in controls.iter().flat_map(|control| registers.accesses(*control)) {
        let (letter, offset) = (access.direction.letter(), access.offset);
        writeln!(output, "{letter},{offset:x},{ACCESS_BYTES}")?;
    }
    output.flush().context("cannot write to standard output")
}

/// Adds advice to an error in mapping the registers.
pub fn explained(error: WindowError) -> anyhow::Error {
    let advice = match &error {
        WindowError::Open(_, cause) => match cause.kind() {
            ErrorKind::NotFound => "name the device with --device",
            ErrorKind::PermissionDenied => {
                "run it as root, or with the right to read and write the device; under kernel lockdown /dev/mem cannot be \
                 used, a UIO device can"
            }
            _ => "name a device that can be mapped with --device",
        },
        WindowError::Map(_, cause) => match cause.kind() {
            ErrorKind::PermissionDenied => {
                "the kernel protects this memory (CONFIG_STRICT_DEVMEM): boot with iomem=relaxed, or use a UIO device"
            }
            ErrorKind::InvalidInput => "the device has no such part: check its offset and its size",
            _ => "it is no device or file that can be mapped",
        },
        WindowError::Offset { .. } => "name the offset of a page",
        WindowError::TooSmall { .. } => "name a device that has all registers",
    };
    let text = format!("{:#}", anyhow::Error::from(error));
    anyhow!("{text}; {advice}")
}
