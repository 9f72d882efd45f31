//! Signals to flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag::{register, register_conditional_shutdown};

use super::EXIT_ERROR;

/// What was asked for from outside.
pub struct Signals {
    interrupted: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
}

impl Signals {
    /// Whether the capture is to end.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What is set once the capture is to end.
    pub fn interruption(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Asks for the summary again: there was none yet.
    pub fn ask_again(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether, since the last call, a summary was asked for.
    pub fn asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

/// The first SIGHUP, SIGINT or SIGTERM sets the flag; a SIGINT or SIGTERM that finds it set ends the
/// process. SIGHUP never does: of a terminal that goes away both its shell and the kernel tell.
pub fn watch() -> std::io::Result<Signals> {
    let signals = Signals { interrupted: Arc::default(), asked: Arc::default() };
    let flag = || Arc::clone(&signals.interrupted);
    for signal in [SIGINT, SIGTERM] {
        register_conditional_shutdown(signal, EXIT_ERROR.into(), flag())?;
    }
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        register(signal, flag())?;
    }
    register(SIGUSR1, Arc::clone(&signals.asked))?;
    Ok(signals)
}
