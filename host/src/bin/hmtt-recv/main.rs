//! `hmtt-recv`: captures the frames of cards. The only program here that needs a privilege.

mod lines;
mod signals;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use hmtt_host::arguments::Arguments;
use hmtt_host::capture::fallback::Fallback;
use hmtt_host::capture::queue::Queue;
use hmtt_host::capture::ring::{BLOCK_BYTES, Ring};
use hmtt_host::capture::{CaptureError, Interface, Source, drop_privileges};
use hmtt_host::receive::{Capture, Outcome, ReceiveError, Setup};
use watch::Watch;

const EXIT_ERROR: u8 = 1;
const EXIT_LOSS: u8 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(wrong) = arguments.check() {
        wrong.exit();
    }
    match run(&arguments) {
        Ok(true) => ExitCode::from(EXIT_LOSS),
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be gone; `eprintln` would panic.
            let _ = writeln!(std::io::stderr(), "hmtt-recv: {error:#}");
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Whether anything was lost.
fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.list_interfaces {
        Interface::names().iter().try_for_each(|name| writeln!(std::io::stdout(), "{name}"))?;
        return Ok(false);
    }
    let signals = signals::watch().context("cannot watch for signals")?;
    let interfaces = arguments.interfaces();
    let sources =
        interfaces.iter().map(|name| listen(arguments, name)).collect::<Result<_, _>>()?;
    drop_privileges().context("cannot drop privileges")?;
    let mut watch = Watch::new(arguments)?;
    let capacity = arguments.queue_mb as usize * (1 << 20) / BLOCK_BYTES;
    let capture = Capture::start(Setup {
        queue: Queue::start(sources, capacity),
        interfaces: interfaces.clone(),
        files: arguments.files(),
        limits: arguments.limits(),
        interrupted: signals.interruption(),
        observer: watch.observer(),
        observer_share: f64::from(arguments.statistics_cpu) / 100.0,
    })?;
    if !arguments.quiet {
        let _ = writeln!(std::io::stderr(), "capturing on {}", interfaces.join(", "));
    }
    let shown = if arguments.tui { watch.open_screen() } else { Ok(()) };
    let shown = shown.and_then(|()| watch.run(&capture, &signals));
    if shown.is_err() {
        capture.stop();
    }
    let mut outcome = capture.finish();
    match watch.finish(&outcome, &signals) {
        // Nobody reads it.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        printed => printed.context("cannot print the summary")?,
    }
    shown.context("the capture ended early")?;
    match outcome.error.take() {
        Some(error) => {
            let how = how_it_failed(&error, &outcome);
            Err(anyhow!(error).context(how))
        }
        None => Ok(outcome.has_loss()),
    }
}

fn listen(arguments: &Arguments, name: &str) -> Result<Box<dyn Source>, CaptureError> {
    let interface = Interface::find(name)?;
    if arguments.fallback {
        return Ok(Box::new(Fallback::open(interface)?));
    }
    let blocks = arguments.ring_mb as usize * (1 << 20) / BLOCK_BYTES;
    Ok(Box::new(Ring::open(interface, blocks)?))
}

/// Not every error ends a capture.
fn how_it_failed(error: &ReceiveError, outcome: &Outcome) -> &'static str {
    let is_of_interface = matches!(error, ReceiveError::Capture(_));
    if is_of_interface && outcome.links.iter().any(|link| link.failed.is_none()) {
        "not every interface was captured to the end"
    } else {
        "the capture ended early"
    }
}
