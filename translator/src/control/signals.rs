//! Delivers signals to threads of the process.
//!
//! A handler must get the original registers in its frame. So the thread leaves the cache, the
//! kernel writes the frame, and the thread enters the cache again at the handler's first
//! instruction.

use std::time::Instant;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{
    Delivery, Disposition, SignalNumber, StopState, enter_handler, replace_fault_address,
    signal_code,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::calls::CLOCK_FORBIDDEN;
use super::error::ControlError;
use super::tracer::Tracer;

/// `si_code` of a fault whose cause is not known (Linux, `uapi/asm-generic/siginfo.h`). A forbidden
/// `rdtsc` raises such a fault.
const KERNEL: i32 = 0x80;
/// Bytes of `rdtsc`, and the numbers of the registers that it changes.
const READ_CLOCK: [u8; 2] = [0x0f, 0x31];
const CHANGED: [u8; 2] = [0, 2];

impl Tracer {
    /// Whether an `rdtsc` of generated code has raised the signal, because the thread may not read
    /// the time stamp counter. Generated code saves the registers that `rdtsc` changes; at an
    /// `rdtsc` of the program these registers have the program's values.
    fn is_own_clock_fault(&self, thread: Pid, signal: SignalNumber) -> Result<bool, ControlError> {
        if signal != Signal::SIGSEGV || signal_code(thread).ok() != Some(KERNEL) {
            return Ok(false);
        }
        let at_event = self.process.thread_at_event(thread);
        let at = RunAddr(at_event.registers()?.rip);
        let Some(point) = self.shared.translation().state_at(at) else { return Ok(false) };
        let mut code = [0; READ_CLOCK.len()];
        let is_read = at_event.read(at, &mut code).is_ok();
        let is_own = CHANGED.iter().all(|register| point.borrowed.contains(*register));
        Ok(is_read && is_own && code == READ_CLOCK)
    }

    /// Handles a thread that is stopped before the delivery of a signal.
    pub(super) fn handle_signal(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
    ) -> Result<(), ControlError> {
        if self.is_own_clock_fault(thread, signal)? {
            self.left = Some(CLOCK_FORBIDDEN);
            // The signal is dropped, because the program did not cause it.
            self.process.threads.insert(thread, StopState::AtInstruction);
            return Ok(());
        }
        let disposition = self.process.disposition(thread, signal);
        if disposition == Disposition::Harmless {
            return self.continue_thread(thread, Some(signal));
        }
        let raised = self.raised_at(thread)?;
        if let Some(state) = self.threads.get_mut(&thread) {
            state.signal_at = Some(Instant::now());
        }
        if let Some((now, original)) = self.original_registers(thread)? {
            let shared = self.shared.clone();
            let in_cache = |address: RunAddr| shared.translation().contains(address);
            let at = RunAddr(original.rip);
            replace_fault_address(thread, signal, |address| in_cache(address).then_some(at))?;
            self.become_native(thread, &now, original)?;
        }
        if disposition == Disposition::Fatal {
            self.discount_raised(thread, raised);
            return self.continue_thread(thread, Some(signal));
        }
        self.seen.signals += 1;
        match enter_handler(thread, signal)? {
            Delivery::Entered | Delivery::NotEntered => {
                if let Some(state) = self.threads.get_mut(&thread) {
                    state.call = None;
                }
                self.discount_raised(thread, raised);
                self.enter(thread)?;
                self.continue_thread(thread, None)
            }
            Delivery::OtherEvent(status) => {
                self.pending.push_front(status);
                Ok(())
            }
            Delivery::Ended => Ok(()),
        }
    }
}
