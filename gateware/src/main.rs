//! `gateware`: emits the card, and builds bitstreams of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use gateware::bitstream::tools::Tools;
use gateware::bitstream::{self, Outcome, Plan, Requirement, table};
use gateware::boards::{self, BOARDS, Board, Rate};
use gateware::synth::{self, SynthError};
use hmtt_format::{MemoryDescription, escape};

/// The card in rust-hdl.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write Verilog, constraints and a build script; with --bitstream, go on to a bitstream.
    ///
    /// Without --bitstream, cells are counted if yosys is there. With it, the status is 0 only if
    /// every clock is fast enough.
    Synth(Synth),
}

#[derive(Args)]
struct Synth {
    /// Board to build for.
    #[arg(long, default_value = "alchitry-cu", value_parser = board_named)]
    board: Board,
    /// Memory description (TOML); default: 512 MB of DDR-200.
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
    /// Folder to write to; default: target/synth/ and the board's name.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Size of the packet FIFO: 8 or 16 on the alchitry-cu, 8 to 256 on the ecpix-5.
    #[arg(long, value_name = "KB")]
    fifo_kb: Option<usize>,
    /// MHz the DDR clock must reach instead of the memory's.
    #[arg(long, value_name = "MHZ", value_parser = frequency)]
    ddr_mhz: Option<f64>,
    /// Map, place, route and pack.
    #[arg(long)]
    bitstream: bool,
    /// Seeds to try; the first that meets every clock ends it.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "bitstream",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// Try all seeds and take the best.
    #[arg(long, requires = "bitstream")]
    sweep: bool,
    /// Seeds placed at the same time.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "bitstream",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Print the table as JSON.
    #[arg(long, requires = "bitstream")]
    json: bool,
    /// Folder that is searched for tools before PATH.
    #[arg(long, value_name = "DIR", default_value = "target/tools/bin")]
    tools: PathBuf,
}

fn board_named(name: &str) -> Result<Board, String> {
    boards::board(name).ok_or_else(|| {
        let names: Vec<&str> = BOARDS.iter().map(|board| board.name).collect();
        format!("boards: {}", names.join(", "))
    })
}

fn frequency(text: &str) -> Result<f64, String> {
    let mhz: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (1.0..=1000.0).contains(&mhz) { Ok(mhz) } else { Err("1 to 1000 MHz".into()) }
}

fn main() -> ExitCode {
    let Command::Synth(arguments) = Arguments::parse().command;
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gateware: {}", escape::message(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// `Ok(false)`: done, but a clock is too slow.
fn run(arguments: &Synth) -> Result<bool, SynthError> {
    let board = &arguments.board;
    let memory = synth::memory(arguments.memory.as_deref())?;
    let fifo_kb = arguments.fifo_kb.unwrap_or(board.fifo_kb[0]);
    let requirements = synth::requirements(board, &memory, arguments.ddr_mhz);
    let default = || Path::new("target/synth").join(board.name);
    let out = arguments.out.clone().unwrap_or_else(default);
    let files = synth::write(board, &memory, fifo_kb, &requirements, &out)?;
    warn_of_speed(board, &requirements);
    let title = title(board, &memory, fifo_kb);
    let tools = Tools::new(&arguments.tools);
    if arguments.bitstream {
        return bitstream(arguments, &out, &title, &requirements, &tools);
    }
    println!("{title}");
    for file in &files {
        println!("  {}", file.display());
    }
    match synth::map_with_yosys(board, &out, &tools)? {
        None => println!("yosys is not installed: cells not counted (`make setup` installs it)"),
        Some(mapped) => {
            let cells = board.family.cells();
            let cells = cells.map(|(name, kind)| format!("{} {name}", mapped.count(kind)));
            println!("  {}", cells.join(", "));
        }
    }
    Ok(true)
}

/// Warns if no build for the board has reached the frequency that its DDR clock needs.
fn warn_of_speed(board: &Board, requirements: &[Requirement]) {
    let clocks = board.clocks.iter().zip(requirements);
    let too_fast = clocks
        .filter(|(clock, _)| clock.rate == Rate::Memory)
        .find(|(_, requirement)| requirement.mhz > board.fastest_ddr_mhz);
    if let Some((_, Requirement { mhz, .. })) = too_fast {
        eprintln!(
            "gateware: warning: the memory needs a DDR clock of {mhz:.1} MHz; {} reaches {:.1} MHz \
             (docs/hardware.md)",
            board.name, board.fastest_ddr_mhz
        );
    }
}

fn title(board: &Board, memory: &MemoryDescription, fifo_kb: usize) -> String {
    let (device, generation) = (board.device, memory.generation.name());
    let megabytes = memory.capacity() >> 20;
    format!("{} on {device}: {generation} of {megabytes} MB, FIFO {fifo_kb} KB", board.name)
}

fn bitstream(
    arguments: &Synth,
    out: &Path,
    title: &str,
    requirements: &[Requirement],
    tools: &Tools,
) -> Result<bool, SynthError> {
    let family = arguments.board.family;
    let plan = Plan {
        folder: out,
        family,
        constraints: arguments.board.constraints.0,
        requirements,
        seeds: arguments.seeds,
        sweep: arguments.sweep,
        jobs: arguments.jobs.into(),
        tools,
    };
    eprintln!("{title}");
    let outcome = bitstream::build(&plan, &|done| eprintln!("  {done}"))?;
    if arguments.json {
        let mut json = table::json(family, &outcome);
        json["title"] = title.into();
        println!("{json:#}");
    } else {
        print!("{}", table::table(family, &outcome));
        for file in &outcome.packed {
            let path = file.path.display().to_string();
            println!("{}: {} bytes", escape::message(&path), file.bytes);
        }
    }
    if !outcome.met() {
        eprintln!("gateware: timing missed: {}", missed(&outcome));
    }
    Ok(outcome.met())
}

/// The clocks the packed design misses.
fn missed(outcome: &Outcome) -> String {
    let clocks = outcome.routed[outcome.best].clocks.iter().filter(|clock| !clock.met());
    let text = clocks.map(|clock| {
        format!("{} reaches {:.1} of {} MHz", clock.name, clock.achieved, clock.required)
    });
    text.collect::<Vec<_>>().join(", ")
}
