//! Runs `hmtt-recv`, which captures the frames of cards. It is the only program of the project that
//! needs a privilege (`CAP_NET_RAW`), and it drops the privilege as soon as its sockets are open.

mod display;
mod json_lines;
mod signals;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use display::{Display, DisplayResources};
use hmtt::pcapng::Description;
use hmtt_format::escape;
use hmtt_host::arguments::Arguments;
use hmtt_host::capture::fallback::Fallback;
use hmtt_host::capture::privileges::{
    User, drop_privileges, drop_remaining_privileges, isolate_process,
};
use hmtt_host::capture::queue::Queue;
use hmtt_host::capture::ring::{BLOCK_BYTES, Ring};
use hmtt_host::capture::{CaptureError, Interface, Source};
use hmtt_host::files::{Stop, WriteError};
use hmtt_host::receive::{Capture, CaptureFiles, Outcome, ReceiveError, Setup, Target, descriptor};

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
            let error = format!("{error:#}");
            let _ = writeln!(std::io::stderr(), "hmtt-recv: {}", escape::message(&error));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Captures until the end. Returns whether anything was lost.
fn run(arguments: &Arguments) -> Result<bool> {
    isolate_process(arguments.write.as_deref().and_then(descriptor))?;
    if arguments.list_interfaces {
        Interface::names()
            .iter()
            .try_for_each(|name| writeln!(std::io::stdout(), "{}", escape::name(name)))?;
        return Ok(false);
    }
    let signals = signals::install_handlers().context("cannot install signal handlers")?;
    let stop: Arc<AtomicBool> = Arc::default();
    let opened =
        open_capture(arguments, Stop::new(vec![Arc::clone(&stop), signals.interruption()]))?;
    let OpenedCapture { interfaces, sources, files, resources } = opened;
    let blocked = signals::BlockedSignals::new().context("cannot block signals")?;
    let mut display = match Display::new(arguments, resources) {
        Ok(display) => display,
        Err(error) => {
            files.into_iter().for_each(CaptureFiles::discard);
            return Err(error);
        }
    };
    let capacity = arguments.queue_mb as usize * (1 << 20) / BLOCK_BYTES;
    let capture = Capture::start(Setup {
        queue: Queue::start(sources, capacity),
        interfaces: interfaces.clone(),
        files,
        limits: arguments.limits(),
        interrupted: signals.interruption(),
        stop,
        observer: display.observer(),
        observer_share: f64::from(arguments.statistics_cpu) / 100.0,
    });
    drop(blocked);
    if !arguments.quiet {
        let _ =
            writeln!(std::io::stderr(), "capturing on {}", escape::name(&interfaces.join(", ")));
    }
    let shown = if arguments.tui { display.open_screen() } else { Ok(()) };
    let shown = shown.and_then(|()| display.run(&capture, &signals));
    if shown.is_err() {
        capture.stop();
    }
    let mut outcome = capture.finish();
    match display.finish(&outcome, &signals) {
        // Standard output has no reader.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        printed => printed.context("cannot print the summary")?,
    }
    shown.context("the capture ended early")?;
    match outcome.error.take() {
        Some(error) => {
            let how = describe_failure(&error, &outcome);
            Err(anyhow!(error).context(how))
        }
        None => Ok(outcome.has_loss()),
    }
}

/// Everything that needs privileges; opened before a second thread starts.
struct OpenedCapture {
    interfaces: Vec<String>,
    sources: Vec<Box<dyn Source>>,
    files: Option<CaptureFiles>,
    resources: DisplayResources,
}

/// Opens the sockets and the first file, and drops all privileges that are not needed after that.
fn open_capture(arguments: &Arguments, stop: Stop) -> Result<OpenedCapture> {
    let become_user = arguments.relinquish_privileges.as_deref();
    let user = become_user.map(User::find).transpose()?;
    let plan = arguments.files();
    let target = plan.as_ref().map(Target::find).transpose()?;
    let interfaces = arguments.interfaces();
    let sources =
        interfaces.iter().map(|name| listen(arguments, name)).collect::<Result<Vec<_>, _>>()?;
    drop_privileges(user.as_ref()).context("cannot give up privileges")?;
    // Before the first file is opened: a capture that cannot be displayed as requested must not
    // replace a file.
    let resources = DisplayResources::take(arguments)?;
    let descriptions: Vec<_> = interfaces.iter().map(|name| Description::new(name)).collect();
    let files = match plan.zip(target) {
        None => None,
        Some((plan, target)) => match CaptureFiles::open(plan, target, &descriptions, stop) {
            Ok(files) => Some(files),
            Err(error) => return Err(not_opened(error, user.as_ref())),
        },
    };
    drop_remaining_privileges(files.as_ref().and_then(CaptureFiles::directory))
        .context("cannot give up privileges")?;
    Ok(OpenedCapture { interfaces, sources, files, resources })
}

/// Adds advice to an error that says that the user of `-Z` may not create files.
fn not_opened(error: WriteError, user: Option<&User>) -> anyhow::Error {
    let is_refused = matches!(&error, WriteError::Create(_, source)
        if source.kind() == std::io::ErrorKind::PermissionDenied);
    match user.filter(|_| is_refused) {
        None => anyhow!(error),
        Some(User { name, .. }) => anyhow!(error).context(format!(
            "user {name} (-Z) may not create files there: make the directory writable for {name}, \
             or choose another"
        )),
    }
}

fn listen(arguments: &Arguments, name: &str) -> Result<Box<dyn Source>, CaptureError> {
    let interface = Interface::find(name)?;
    if arguments.fallback {
        return Ok(Box::new(Fallback::open(interface)?));
    }
    let blocks = arguments.ring_mb as usize * (1 << 20) / BLOCK_BYTES;
    Ok(Box::new(Ring::open(interface, blocks, arguments.when_down())?))
}

/// States whether an error ended the capture, or only the capture of one interface.
fn describe_failure(error: &ReceiveError, outcome: &Outcome) -> &'static str {
    let is_of_interface = matches!(error, ReceiveError::Capture(_));
    if is_of_interface && outcome.links.iter().any(|link| link.failed.is_none()) {
        "not every interface was captured to the end"
    } else {
        "the capture ended early"
    }
}
