//! Shows on standard error how much of a trace was written.
//!
//! On a terminal one line is rewritten, and removed at the end; otherwise there is a line each
//! second. The thread that writes the trace shows it, because the program is started while this
//! process has one thread.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);
const SPINNER: &str = "{spinner} {bytes} written in {elapsed}, {bytes_per_sec}";

/// A file whose written bytes are counted.
pub struct CountedFile {
    file: File,
    written: Arc<AtomicU64>,
}

impl CountedFile {
    /// Counts the bytes that are written to a file, for a display.
    pub fn new(file: File, progress: &Progress) -> Self {
        CountedFile { file, written: progress.written.clone() }
    }
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where a trace's progress is shown.
enum Display {
    Nowhere,
    /// A line of a terminal; `None` while it is not shown.
    Terminal(Option<ProgressBar>),
    /// Lines; the time of the last one.
    Lines(Instant),
}

/// A display of how much was written.
pub struct Progress {
    begin: Instant,
    written: Arc<AtomicU64>,
    display: Display,
}

impl Progress {
    /// A display. `is_wanted`: whether the user asks for it; otherwise there is one on a terminal
    /// on which the program does not print: `prints` says whether it may print on standard output.
    pub fn new(is_wanted: bool, prints: bool) -> Self {
        // A line would be mixed with what the program prints.
        let is_free = is_wanted || !(prints && io::stdout().is_terminal());
        let display = match (io::stderr().is_terminal() && is_free, is_wanted) {
            (true, _) => Display::Terminal(None),
            (false, true) => Display::Lines(Instant::now()),
            (false, false) => Display::Nowhere,
        };
        Progress { begin: Instant::now(), written: Arc::default(), display }
    }

    /// Shows how much was written up to now, if it is time.
    pub fn show(&mut self) {
        let written = self.written.load(Ordering::Relaxed);
        match &mut self.display {
            Display::Nowhere => {}
            Display::Terminal(bar) => {
                bar.get_or_insert_with(|| new_bar(self.begin)).set_position(written)
            }
            Display::Lines(last) if last.elapsed() >= INTERVAL => {
                *last = Instant::now();
                let seconds = self.begin.elapsed().as_secs();
                report!("hmtt: {} written in {seconds} s", HumanBytes(written));
            }
            Display::Lines(_) => {}
        }
    }

    /// Removes the line, so that others can be printed. It is shown again when more is written.
    pub fn clear(&mut self) {
        if let Display::Terminal(bar) = &mut self.display {
            bar.take().iter().for_each(ProgressBar::finish_and_clear);
        }
    }
}

/// A line of a terminal. `begin`: from when on the time is counted.
fn new_bar(begin: Instant) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let bar = bar.with_elapsed(begin.elapsed());
    match ProgressStyle::with_template(SPINNER) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
