//! A running capture to what is shown of it, until it ends.

use std::io::{self, IsTerminal, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hmtt_format::escape;
use hmtt_host::arguments::Arguments;
use hmtt_host::capture::Batch;
use hmtt_host::online::metrics::Metrics;
use hmtt_host::online::tui::{Request, Screen};
use hmtt_host::online::{Activity, Options, Second, Statistics, status};
use hmtt_host::receive::summary::write_outcome;
use hmtt_host::receive::{Capture, Observe, Outcome, Snapshot};

use super::lines::Lines;
use super::signals::Signals;

/// How long a question or a key may wait.
const TICK: Duration = Duration::from_millis(20);
/// How often what is shown is renewed.
const EVERY: Duration = Duration::from_secs(1);

/// What showing a capture needs of the system, which may not be had.
pub struct Needs {
    listener: Option<TcpListener>,
}

impl Needs {
    /// Takes what is needed, before the capture replaces a file. Starts no thread.
    pub fn take(arguments: &Arguments) -> Result<Self> {
        if arguments.tui {
            Screen::check().context("cannot use the terminal")?;
        }
        Ok(Needs { listener: arguments.metrics.map(Metrics::listen).transpose()? })
    }
}

/// Where a capture is shown.
pub struct Watch {
    statistics: Option<Arc<Mutex<Statistics>>>,
    status: bool,
    lines: Option<Lines>,
    metrics: Option<Metrics>,
    screen: Option<Screen>,
    before: Option<Snapshot>,
    /// The interfaces, and whether it was said that they failed.
    links: Vec<(String, bool)>,
}

impl Watch {
    /// Prepares what was asked for; the screen is taken later, by [`Watch::open_screen`].
    pub fn new(arguments: &Arguments, Needs { listener }: Needs) -> Result<Self> {
        let own_line =
            io::stderr().is_terminal() && !(arguments.json && io::stdout().is_terminal());
        let status = own_line && !arguments.quiet && !arguments.tui;
        let metrics = arguments.metrics.zip(listener);
        let metrics = metrics.map(|(address, listener)| Metrics::serve_on(listener, address));
        let metrics = metrics.transpose()?;
        let watched = status || arguments.json || arguments.tui || metrics.is_some();
        let statistics = || Arc::new(Mutex::new(Statistics::new(Options::default())));
        Ok(Watch {
            statistics: watched.then(statistics),
            status,
            lines: arguments.json.then(Lines::start),
            metrics,
            screen: None,
            before: None,
            links: arguments.interfaces().into_iter().map(|name| (name, false)).collect(),
        })
    }

    /// What sees the frames of the capture, if anybody wants to know.
    pub fn observer(&self) -> Option<Observe> {
        let statistics = Arc::clone(self.statistics.as_ref()?);
        Some(Box::new(move |link: usize, batch: &Batch| {
            let mut statistics = statistics.lock().unwrap_or_else(PoisonError::into_inner);
            batch.frames().for_each(|frame| statistics.frame(link, frame.bytes));
        }))
    }

    /// Takes the terminal.
    pub fn open_screen(&mut self) -> Result<()> {
        self.screen = Some(Screen::open().context("cannot use the terminal")?);
        Ok(())
    }

    /// Shows the capture until it has ended.
    pub fn run(&mut self, capture: &Capture, signals: &Signals) -> Result<()> {
        let shown = self.show_until_end(capture, signals);
        // Whatever comes next is printed on the terminal as it was.
        self.screen = None;
        if self.status {
            // A terminal that is gone has no line to take away.
            let _ = status::clear(&mut io::stderr());
        }
        shown
    }

    fn show_until_end(&mut self, capture: &Capture, signals: &Signals) -> Result<()> {
        self.before = capture.snapshot();
        let mut due = Instant::now() + EVERY;
        while !capture.is_finished() {
            capture.stop_if_due();
            self.tell_failures(capture);
            if signals.asked() && !self.print_summary(capture) {
                signals.ask_again();
            }
            if self.statistics.is_some() && Instant::now() >= due {
                due = (due + EVERY).max(Instant::now());
                self.show(capture)?;
            }
            self.wait(capture)?;
        }
        Ok(())
    }

    /// Waits for a key, if keys are asked for. A terminal that goes away ends the capture, as the
    /// SIGHUP does that it may or may not send.
    fn wait(&mut self, capture: &Capture) -> io::Result<()> {
        match &mut self.screen {
            None => std::thread::sleep(TICK),
            Some(screen) if screen.is_gone() => {
                self.screen = None;
                capture.stop();
            }
            Some(screen) => {
                if screen.wait(TICK)? == Request::Stop {
                    capture.stop();
                }
            }
        }
        Ok(())
    }

    /// Says at once which interfaces failed while others go on. The last one ends the capture, whose
    /// end says why.
    fn tell_failures(&mut self, capture: &Capture) {
        let failures = capture.failures();
        // A screen shows it itself.
        let is_covered = self.screen.is_some() && io::stderr().is_terminal();
        if is_covered || failures.iter().all(Option::is_some) {
            return;
        }
        for ((name, told), failure) in self.links.iter_mut().zip(failures) {
            let Some(reason) = failure.filter(|_| !std::mem::replace(told, true)) else { continue };
            let mut errors = io::stderr().lock();
            let cleared = if self.status { status::clear(&mut errors) } else { Ok(()) };
            // Standard error that is closed loses what nobody reads.
            let (name, reason) = (escape::name(name), escape::message(&reason));
            let _ = cleared
                .and_then(|()| writeln!(errors, "hmtt-recv: {name}: {reason}; the others go on"));
        }
    }

    /// Prints what the capture came to. Who reads standard output may come back for it; a signal
    /// ends the wait.
    pub fn finish(self, outcome: &Outcome, signals: &Signals) -> io::Result<()> {
        let told = write_outcome(outcome, &mut io::stderr().lock());
        let silent = outcome.links.iter().filter(|link| link.counts.frames == 0);
        for link in silent.filter(|link| link.failed.is_none()) {
            // Said to nobody if nobody read the summary.
            let _ =
                writeln!(io::stderr(), "no card was heard on {}", escape::name(&link.interface));
        }
        if let Some(lines) = self.lines {
            let before = signals.interrupted();
            lines.finish("summary", outcome, || !before && signals.interrupted())?;
        }
        match told {
            // A terminal that is gone: nobody reads it.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(()),
            told => told,
        }
    }

    /// Whether there was one; a recorder that waits for the disk has none.
    fn print_summary(&self, capture: &Capture) -> bool {
        let Some(snapshot) = capture.snapshot() else { return capture.is_finished() };
        let mut errors = io::stderr().lock();
        let cleared = if self.status { status::clear(&mut errors) } else { Ok(()) };
        // Standard error that is closed loses what nobody reads.
        let _ = cleared.and_then(|()| write_outcome(&Outcome::new(snapshot, None), &mut errors));
        true
    }

    fn show(&mut self, capture: &Capture) -> Result<()> {
        // A recorder that waits for the disk is asked again the next time.
        let Some(now) = capture.snapshot() else { return Ok(()) };
        let activity = self.activity();
        if let Some(metrics) = &self.metrics {
            metrics.update(&now, &activity);
        }
        let Some(before) = self.before.replace(now.clone()) else { return Ok(()) };
        let second = Second::new(&before, &now, &activity);
        // Who stops looking does not stop the capture.
        if let Some(lines) = &mut self.lines {
            lines.offer("second", &second);
        }
        if self.status && status::rewrite(&mut io::stderr(), &second).is_err() {
            self.status = false;
        }
        match &mut self.screen {
            Some(screen) => Ok(screen.show(second)?),
            None => Ok(()),
        }
    }

    fn activity(&self) -> Activity {
        let Some(statistics) = &self.statistics else { return Activity::default() };
        statistics.lock().unwrap_or_else(PoisonError::into_inner).activity()
    }
}
