//! Displays a running capture until it ends: status line, JSON lines, metrics, full screen and
//! summary.

use std::io::{self, IsTerminal, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hmtt_format::escape;
use hmtt_host::arguments::Arguments;
use hmtt_host::capture::{Batch, Outages};
use hmtt_host::online::metrics::Metrics;
use hmtt_host::online::tui::{Request, Screen};
use hmtt_host::online::{Activity, Options, Second, Statistics, status};
use hmtt_host::receive::summary::write_outcome;
use hmtt_host::receive::{BatchObserver, Capture, Outcome, Snapshot};

use super::json_lines::JsonLines;
use super::signals::Signals;

/// Longest time until a signal or a key is handled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which the display is updated.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);

/// System resources that the display needs. They are taken early, because each of them may be
/// unavailable.
pub struct DisplayResources {
    listener: Option<TcpListener>,
}

impl DisplayResources {
    /// Checks the terminal and opens the listening socket, before the capture replaces a file.
    /// Starts no thread.
    ///
    /// # Errors
    /// If a resource is not available.
    pub fn take(arguments: &Arguments) -> Result<Self> {
        if arguments.tui {
            Screen::check().context("cannot use the terminal")?;
        }
        Ok(DisplayResources { listener: arguments.metrics.map(Metrics::listen).transpose()? })
    }
}

/// All displays of a capture.
pub struct Display {
    statistics: Option<Arc<Mutex<Statistics>>>,
    status: bool,
    lines: Option<JsonLines>,
    metrics: Option<Metrics>,
    screen: Option<Screen>,
    before: Option<Snapshot>,
    /// The name of each interface, and whether its failure was reported.
    links: Vec<(String, bool)>,
    /// Outages of each interface at the last check. A change is reported.
    outages: Vec<Outages>,
}

impl Display {
    /// Prepares the displays that the command line requests; [`Display::open_screen`] opens the
    /// full screen.
    ///
    /// # Errors
    /// If metrics cannot be served.
    pub fn new(
        arguments: &Arguments,
        DisplayResources { listener }: DisplayResources,
    ) -> Result<Self> {
        let own_line =
            io::stderr().is_terminal() && !(arguments.json && io::stdout().is_terminal());
        let status = own_line && !arguments.quiet && !arguments.tui;
        let metrics = arguments.metrics.zip(listener);
        let metrics = metrics.map(|(address, listener)| Metrics::serve_on(listener, address));
        let metrics = metrics.transpose()?;
        let watched = status || arguments.json || arguments.tui || metrics.is_some();
        let statistics = || Arc::new(Mutex::new(Statistics::new(Options::default())));
        Ok(Display {
            statistics: watched.then(statistics),
            status,
            lines: arguments.json.then(JsonLines::start),
            metrics,
            screen: None,
            before: None,
            links: arguments.interfaces().into_iter().map(|name| (name, false)).collect(),
            outages: vec![Outages::default(); arguments.interfaces().len()],
        })
    }

    /// The function that counts captured frames for the statistics; `None` if no display needs
    /// statistics.
    pub fn observer(&self) -> Option<BatchObserver> {
        let statistics = Arc::clone(self.statistics.as_ref()?);
        Some(Box::new(move |link: usize, batch: &Batch| {
            let mut statistics = statistics.lock().unwrap_or_else(PoisonError::into_inner);
            batch.frames().for_each(|frame| statistics.frame(link, frame.bytes));
        }))
    }

    /// Switches the terminal to the full screen.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn open_screen(&mut self) -> Result<()> {
        self.screen = Some(Screen::open().context("cannot use the terminal")?);
        Ok(())
    }

    /// Displays the capture until it has ended.
    ///
    /// # Errors
    /// If the terminal cannot be read or written.
    pub fn run(&mut self, capture: &Capture, signals: &Signals) -> Result<()> {
        let shown = self.show_until_end(capture, signals);
        // Restores the terminal before anything else is printed.
        self.screen = None;
        if self.status {
            // Fails only if the terminal is gone, and then there is no line to clear.
            let _ = status::clear(&mut io::stderr());
        }
        shown
    }

    fn show_until_end(&mut self, capture: &Capture, signals: &Signals) -> Result<()> {
        self.before = capture.snapshot();
        let mut due = Instant::now() + RENEW_INTERVAL;
        while !capture.is_finished() {
            capture.stop_if_due();
            self.report_failures(capture);
            self.report_outages(capture);
            if signals.asked() && !self.print_summary(capture) {
                signals.ask_again();
            }
            if self.statistics.is_some() && Instant::now() >= due {
                due = (due + RENEW_INTERVAL).max(Instant::now());
                self.show(capture)?;
            }
            self.wait(capture)?;
        }
        Ok(())
    }

    /// Waits for a key if the full screen is open. A terminal that closes ends the capture, whether
    /// or not the kernel sends SIGHUP for it.
    fn wait(&mut self, capture: &Capture) -> io::Result<()> {
        match &mut self.screen {
            None => std::thread::sleep(POLL_INTERVAL),
            Some(screen) if screen.is_gone() => {
                self.screen = None;
                capture.stop();
            }
            Some(screen) => {
                if screen.wait(POLL_INTERVAL)? == Request::Stop {
                    capture.stop();
                }
            }
        }
        Ok(())
    }

    /// Reports interfaces that failed while others continue. The failure of the last interface ends
    /// the capture and is reported as its error.
    fn report_failures(&mut self, capture: &Capture) {
        let failures = capture.failures();
        // The full screen shows failures itself.
        let is_covered = self.screen.is_some() && io::stderr().is_terminal();
        if is_covered || failures.iter().all(Option::is_some) {
            return;
        }
        for ((name, reported), failure) in self.links.iter_mut().zip(failures) {
            let Some(reason) = failure.filter(|_| !std::mem::replace(reported, true)) else {
                continue;
            };
            let mut errors = io::stderr().lock();
            let cleared = if self.status { status::clear(&mut errors) } else { Ok(()) };
            // If standard error is closed, nobody reads the message.
            let (name, reason) = (escape::name(name), escape::message(&reason));
            let _ = cleared.and_then(|()| {
                writeln!(errors, "hmtt-recv: {name}: {reason}; the other interfaces continue")
            });
        }
    }

    /// Reports interfaces that have gone down, or have come up again, since the last call.
    fn report_outages(&mut self, capture: &Capture) {
        let now = capture.outages();
        let is_covered = self.screen.is_some() && io::stderr().is_terminal();
        for ((name, _), (before, now)) in self.links.iter().zip(self.outages.iter().zip(&now)) {
            if is_covered || before == now {
                continue;
            }
            let what = if now.is_down() {
                "is down; the capture continues when it is up again"
            } else {
                "was down, and is up again"
            };
            let mut errors = io::stderr().lock();
            let cleared = if self.status { status::clear(&mut errors) } else { Ok(()) };
            // If standard error is closed, nobody reads the message.
            let name = escape::name(name);
            let _ = cleared.and_then(|()| writeln!(errors, "hmtt-recv: {name} {what}"));
        }
        self.outages = now;
    }

    /// Prints the summary. Waits for the reader of standard output; a signal ends the wait.
    ///
    /// # Errors
    /// If the summary cannot be printed.
    pub fn finish(self, outcome: &Outcome, signals: &Signals) -> io::Result<()> {
        let reported = write_outcome(outcome, &mut io::stderr().lock());
        let silent = outcome.links.iter().filter(|link| link.counts.frames == 0);
        for link in silent.filter(|link| link.failed.is_none()) {
            // If standard error is closed, the error of the summary is reported below.
            let _ = writeln!(
                io::stderr(),
                "no frames of a card arrived on {}",
                escape::name(&link.interface)
            );
        }
        if let Some(lines) = self.lines {
            let before = signals.interrupted();
            lines.finish("summary", outcome, || !before && signals.interrupted())?;
        }
        match reported {
            // The terminal is gone: nobody reads the summary.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(()),
            reported => reported,
        }
    }

    /// Prints the summary so far. Returns false if none was available: a recorder that waits for
    /// the disk does not answer.
    fn print_summary(&self, capture: &Capture) -> bool {
        let Some(snapshot) = capture.snapshot() else { return capture.is_finished() };
        let mut errors = io::stderr().lock();
        let cleared = if self.status { status::clear(&mut errors) } else { Ok(()) };
        // If standard error is closed, nobody reads the summary.
        let _ = cleared.and_then(|()| write_outcome(&Outcome::new(snapshot, None), &mut errors));
        true
    }

    fn show(&mut self, capture: &Capture) -> Result<()> {
        // A recorder that waits for the disk is asked again in the next interval.
        let Some(now) = capture.snapshot() else { return Ok(()) };
        let activity = self.activity();
        if let Some(metrics) = &self.metrics {
            metrics.update(&now, &activity);
        }
        let Some(before) = self.before.replace(now.clone()) else { return Ok(()) };
        let second = Second::new(&before, &now, &activity);
        // A reader that stops reading must not stop the capture.
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
