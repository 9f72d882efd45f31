//! Turns signals into flags, which the capture polls.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_shutdown};

use super::EXIT_ERROR;

/// Requests that arrived as signals.
pub struct Signals {
    interrupted: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
}

impl Signals {
    /// Whether a signal has requested the end of the capture.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Flag that a signal sets to request the end of the capture.
    pub fn interruption(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Repeats the request for the summary, because no summary was available yet.
    pub fn ask_again(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether a signal has requested a summary since the last call.
    pub fn asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

/// Installs the handlers. The first SIGHUP, SIGINT or SIGTERM sets the flag; a SIGINT or SIGTERM
/// that finds it set ends the process. SIGHUP never ends the process, because both the shell and
/// the kernel send it when a terminal closes. A SIGHUP that was ignored when the program started
/// (`nohup`) stays ignored. SIGXFSZ is ignored, so that a write beyond the limit on the size of
/// files fails, and is counted, instead of ending the process.
///
/// # Errors
/// If a handler cannot be installed.
pub fn install_handlers() -> io::Result<Signals> {
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

/// Blocks the signals that have handlers, in the calling thread, until the value is dropped.
///
/// Threads that are started in this time keep the signals blocked for ever. If all other threads
/// are started in this time, the first thread gets every signal, and handles two signals that
/// arrive at once one after the other. So the second signal finds the flag set, before the first
/// thread can end the process regularly.
pub struct BlockedSignals {
    before: SigSet,
}

impl BlockedSignals {
    /// Blocks the signals that have handlers.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> io::Result<BlockedSignals> {
        let signals = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1];
        let set: SigSet = signals.into_iter().collect();
        Ok(BlockedSignals { before: set.thread_swap_mask(SigmaskHow::SIG_BLOCK)? })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // The mask was valid before, so setting it cannot fail.
        let _ = self.before.thread_set_mask();
    }
}

/// Whether the inherited disposition of a signal is to ignore it.
fn is_ignored(signal: c_int) -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the current one, to memory of its type.
    if unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `action` was zeroed and then written by the call.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

fn ignore(signal: c_int) -> io::Result<()> {
    // SAFETY: SIG_IGN installs no handler, so no code runs in signal context.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
