//! `hmtt-recv`: captures a card's frames. The only program here that needs a privilege.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use hmtt_host::capture::fallback::Fallback;
use hmtt_host::capture::queue::Queue;
use hmtt_host::capture::ring::{BLOCK_BYTES, Ring};
use hmtt_host::capture::{CaptureError, Interface};
use hmtt_host::pcapng::PcapngWriter;
use hmtt_host::receive::{Limits, Outcome, receive};
use hmtt_host::report::summary;

const EXIT_ERROR: u8 = 1;
const EXIT_LOSS: u8 = 3;

/// Capture the frames of an HMTT card and say exactly what was lost
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 nothing lost, 1 error, 2 wrong usage, 3 finished, but something was \
                  lost.\nThe first SIGINT or SIGTERM finishes the capture, the second aborts it."
)]
struct Arguments {
    /// Interface the card is connected to
    #[arg(value_name = "IFACE")]
    interface: String,
    /// Write the frames to this pcapng file
    #[arg(short, long, value_name = "FILE.pcapng")]
    write: Option<PathBuf>,
    /// Stop by itself after S seconds
    #[arg(short, long, value_name = "duration:S", value_parser = parse_autostop)]
    autostop: Option<Duration>,
    /// Stop after this many frames
    #[arg(short, long, value_name = "FRAMES")]
    count: Option<u64>,
    /// Stop when the card says that its capture ended
    #[arg(long)]
    until_end: bool,
    /// Overwrite FILE
    #[arg(short, long)]
    force: bool,
    /// Size of the kernel's ring in MiB; 1 s at line rate is 120
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=2048))]
    ring_mb: u32,
    /// Capture through pnet instead of the ring: portable, but slower, and kernel drops are unknown
    #[arg(long)]
    fallback: bool,
    /// Print the summary as one JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn parse_autostop(text: &str) -> Result<Duration> {
    let seconds = text.strip_prefix("duration:").context("expected duration:SECONDS")?;
    let seconds: f64 = seconds.parse().context("expected a number of seconds")?;
    Duration::try_from_secs_f64(seconds).context("expected a number of seconds")
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::from(EXIT_LOSS),
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hmtt-recv: {error:#}");
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Whether anything was lost.
fn run(arguments: &Arguments) -> Result<bool> {
    let interrupted = watch_signals().context("cannot watch for signals")?;
    let interface = Interface::find(&arguments.interface)?;
    let queue = listen(arguments, interface)?;
    let writer = arguments
        .write
        .as_deref()
        .map(|path| PcapngWriter::create(path, &arguments.interface, arguments.force))
        .transpose()?;
    eprintln!("capturing on {}", arguments.interface);
    let limits = Limits {
        duration: arguments.autostop,
        frames: arguments.count,
        until_end: arguments.until_end,
    };
    let mut outcome = receive::<File>(queue, writer, &limits, &interrupted);
    print(&outcome, arguments.json).context("cannot print the summary")?;
    match outcome.error.take() {
        Some(error) => Err(anyhow!(error).context("the capture ended early")),
        None => Ok(outcome.has_loss()),
    }
}

fn listen(arguments: &Arguments, interface: Interface) -> Result<Queue, CaptureError> {
    if arguments.fallback {
        return Ok(Queue::start(Fallback::open(interface)?));
    }
    let blocks = arguments.ring_mb as usize * (1 << 20) / BLOCK_BYTES;
    Ok(Queue::start(Ring::open(interface, blocks)?))
}

/// The first signal sets the flag; the second finds it set and ends the process.
fn watch_signals() -> std::io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let flag = || Arc::clone(&interrupted);
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_ERROR.into(), flag())?;
        signal_hook::flag::register(signal, flag())?;
    }
    Ok(interrupted)
}

fn print(outcome: &Outcome, json: bool) -> std::io::Result<()> {
    summary::write_outcome(outcome, &mut std::io::stderr().lock())?;
    if json {
        let mut output = std::io::stdout().lock();
        serde_json::to_writer(&mut output, outcome)?;
        writeln!(output)?;
    }
    Ok(())
}
