//! `hmtt-recv`: captures the frames of cards. The only program here that needs a privilege.

mod lines;
mod signals;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use hmtt::pcapng::Description;
use hmtt_format::escape;
use hmtt_host::arguments::Arguments;
use hmtt_host::capture::fallback::Fallback;
use hmtt_host::capture::privileges::{User, give_up, give_up_the_rest, shut_out};
use hmtt_host::capture::queue::Queue;
use hmtt_host::capture::ring::{BLOCK_BYTES, Ring};
use hmtt_host::capture::{CaptureError, Interface, Source};
use hmtt_host::files::{Stop, WriteError};
use hmtt_host::receive::{Capture, CaptureFiles, Outcome, ReceiveError, Setup, Target, descriptor};
use watch::{Needs, Watch};

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

/// Whether anything was lost.
fn run(arguments: &Arguments) -> Result<bool> {
    shut_out(arguments.write.as_deref().and_then(descriptor))?;
    if arguments.list_interfaces {
        Interface::names()
            .iter()
            .try_for_each(|name| writeln!(std::io::stdout(), "{}", escape::name(name)))?;
        return Ok(false);
    }
    let signals = signals::watch().context("cannot watch for signals")?;
    let stop: Arc<AtomicBool> = Arc::default();
    let begun = begin(arguments, Stop::new(vec![Arc::clone(&stop), signals.interruption()]))?;
    let Begun { interfaces, sources, files, needs } = begun;
    let mut watch = match Watch::new(arguments, needs) {
        Ok(watch) => watch,
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
        observer: watch.observer(),
        observer_share: f64::from(arguments.statistics_cpu) / 100.0,
    });
    if !arguments.quiet {
        let _ =
            writeln!(std::io::stderr(), "capturing on {}", escape::name(&interfaces.join(", ")));
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

/// What needs privileges, and is done before other threads are started.
struct Begun {
    interfaces: Vec<String>,
    sources: Vec<Box<dyn Source>>,
    files: Option<CaptureFiles>,
    needs: Needs,
}

/// Opens sockets and the first file, and gives up all privileges that are not needed any more.
fn begin(arguments: &Arguments, stop: Stop) -> Result<Begun> {
    let become_user = arguments.relinquish_privileges.as_deref();
    let user = become_user.map(User::find).transpose()?;
    let plan = arguments.files();
    let target = plan.as_ref().map(Target::find).transpose()?;
    let interfaces = arguments.interfaces();
    let sources =
        interfaces.iter().map(|name| listen(arguments, name)).collect::<Result<Vec<_>, _>>()?;
    give_up(user.as_ref()).context("cannot give up privileges")?;
    // A capture that cannot be shown as asked for does not begin, and replaces no file.
    let needs = Needs::take(arguments)?;
    let descriptions: Vec<_> = interfaces.iter().map(|name| Description::new(name)).collect();
    let files = match plan.zip(target) {
        None => None,
        Some((plan, target)) => match CaptureFiles::open(plan, target, &descriptions, stop) {
            Ok(files) => Some(files),
            Err(error) => return Err(not_opened(error, user.as_ref())),
        },
    };
    give_up_the_rest(files.as_ref().and_then(CaptureFiles::directory))
        .context("cannot give up privileges")?;
    Ok(Begun { interfaces, sources, files, needs })
}

/// Says what to do where a user of `-Z` may not create files.
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
