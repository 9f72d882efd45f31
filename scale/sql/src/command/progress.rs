//! Shows on a terminal how much was read.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use crate::Shared;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

const STEP: Duration = Duration::from_millis(200);

/// A line of progress on standard error. If standard error is no terminal, it shows nothing.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts to show the counts.
    pub fn start(shared: &Arc<Shared>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress { bar: None };
        }
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let (shared, shown) = (Arc::downgrade(shared), bar.clone());
        std::thread::spawn(move || {
            while let Some(shared) = shared.upgrade().filter(|_| !shown.is_finished()) {
                let counts = shared.counts();
                let (read, most) = (HumanBytes(counts.bytes_read), HumanBytes(counts.bytes_chosen));
                shown.set_message(format!("{read} read of at most {most}"));
                shown.tick();
                std::thread::sleep(STEP);
            }
        });
        Progress { bar: Some(bar) }
    }

    /// Removes the line.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
