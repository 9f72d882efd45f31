//! Signals to flags.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
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
/// process. SIGHUP never does: of a terminal that goes away both its shell and the kernel tell. One that
/// was ignored when the program was started (`nohup`) stays ignored. SIGXFSZ is ignored, so that a write
/// beyond the limit on the size of files fails, and is counted, instead of ending the process.
pub fn watch() -> io::Result<Signals> {
    let signals = Signals { interrupted: Arc::default(), asked: Arc::default() };
    let flag = || Arc::clone(&signals.interrupted);
    for signal in [SIGINT, SIGTERM] {
        register_conditional_shutdown(signal, EXIT_ERROR.into(), flag())?;
    }
    for signal in [SIGINT, SIGTERM] {
        register(signal, flag())?;
    }
    if !is_ignored(SIGHUP)? {
        register(SIGHUP, flag())?;
    }
    ignore(SIGXFSZ)?;
    register(SIGUSR1, Arc::clone(&signals.asked))?;
    Ok(signals)
}

/// Whether a signal is ignored, as its disposition was inherited.
fn is_ignored(signal: c_int) -> io::Result<bool> {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one, to memory of its type.
    if unsafe { libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then written by the call.
    Ok(unsafe { found.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

fn ignore(signal: c_int) -> io::Result<()> {
    // SAFETY: no handler is installed, so none has to be safe to run.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
