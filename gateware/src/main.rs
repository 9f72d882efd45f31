//! `gateware`: emits the card.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gateware::boards::{self, BOARDS};
use gateware::synth;

/// The card in rust-hdl.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write Verilog, constraints and a build script.
    Synth {
        /// Board to build for.
        #[arg(long, default_value = "alchitry-cu", value_parser = board_name)]
        board: String,
        /// Memory description (TOML); default: 512 MB of DDR-200.
        #[arg(long, value_name = "FILE")]
        memory: Option<PathBuf>,
        /// Folder to write to.
        #[arg(long, value_name = "DIR", default_value = "target/synth")]
        out: PathBuf,
    },
}

fn board_name(name: &str) -> Result<String, String> {
    boards::board(name).map(|board| board.name.to_string()).ok_or_else(|| {
        let names: Vec<&str> = BOARDS.iter().map(|board| board.name).collect();
        format!("boards: {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let Command::Synth { board, memory, out } = Arguments::parse().command;
    match run(&board, memory, out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateware: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, memory: Option<PathBuf>, out: PathBuf) -> Result<(), synth::SynthError> {
    let board = boards::board(name).expect("clap checked the name");
    let memory = synth::memory(memory.as_deref())?;
    let files = synth::write(&board, &memory, &out)?;
    println!(
        "{} on {}: {} of {} MB, FIFO {} KB",
        board.name,
        board.device,
        memory.generation.name(),
        memory.capacity() >> 20,
        board.fifo_bytes >> 10
    );
    for file in &files {
        println!("  {}", file.display());
    }
    match synth::map_with_yosys(&board, &out.join("card.v"))? {
        None => println!("yosys is not installed: cells not counted (apt-get install yosys)"),
        Some(mapped) => println!(
            "  {} LUTs, {} flip-flops, {} carries, {} block RAMs",
            mapped.count("SB_LUT4"),
            mapped.count("SB_DFF"),
            mapped.count("SB_CARRY"),
            mapped.count("SB_RAM40")
        ),
    }
    Ok(())
}
