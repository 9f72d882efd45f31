//! Shows on standard error how many bytes of a trace were written.
//!
//! On a terminal one line is rewritten, and removed at the end. Otherwise a line is printed every
//! second. The thread that writes the trace also shows the progress. An extra thread cannot do
//! that, because the program must be started while this process has only one thread.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two printed lines.
const INTERVAL: Duration = Duration::from_secs(1);
const SPINNER: &str = "{spinner} {bytes} written in {elapsed}, {bytes_per_sec}";

/// A file that counts the bytes written to it.
pub struct CountedFile {
    file: File,
    written: Arc<AtomicU64>,
}

impl CountedFile {
    /// Counts the bytes written to `file`, for the display `progress`.
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

/// The form of the display.
enum Display {
    Nowhere,
    /// One line of a terminal, which is rewritten; `None` while it is not shown.
    Terminal(Option<ProgressBar>),
    /// Printed lines, with the time of the last one.
    Lines(Instant),
}

/// A display of the bytes that were written.
pub struct Progress {
    begin: Instant,
    written: Arc<AtomicU64>,
    display: Display,
}

impl Progress {
    /// Creates a display. `is_wanted`: whether the user asks for one. If not, there is a display
    /// only on a terminal that the program does not print on. `prints`: whether the program may
    /// print on standard output.
    pub fn new(is_wanted: bool, prints: bool) -> Self {
        // The display would be mixed with the output of the program.
        let is_free = is_wanted || !(prints && io::stdout().is_terminal());
        let display = match (io::stderr().is_terminal() && is_free, is_wanted) {
            (true, _) => Display::Terminal(None),
            (false, true) => Display::Lines(Instant::now()),
            (false, false) => Display::Nowhere,
        };
        Progress { begin: Instant::now(), written: Arc::default(), display }
    }

    /// Updates the display, if it is due.
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

    /// Removes the line from the terminal, so that others can be printed. The next update shows it
    /// again.
    pub fn clear(&mut self) {
        if let Display::Terminal(bar) = &mut self.display {
            bar.take().iter().for_each(ProgressBar::finish_and_clear);
        }
    }
}

/// Creates the line of a terminal. `begin`: time from which the elapsed time is counted.
fn new_bar(begin: Instant) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let bar = bar.with_elapsed(begin.elapsed());
    match ProgressStyle::with_template(SPINNER) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
