//! Delivers signals to threads of the process.
//!
//! A handler is called with the original registers in its frame: the thread leaves the cache, the kernel writes the frame,
//! and the thread enters the cache again at the handler's first instruction.

use std::time::Instant;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{
    Delivery, Disposition, SignalNumber, enter_handler, replace_fault_address,
};
use nix::unistd::Pid;

use super::error::ControlError;
use super::tracer::Tracer;

impl Tracer {
    /// A thread is stopped before the delivery of a signal.
    pub(super) fn handle_signal(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
    ) -> Result<(), ControlError> {
        let disposition = self.process.disposition(thread, signal);
        if disposition == Disposition::Harmless {
            return self.continue_thread(thread, Some(signal));
        }
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
            return self.continue_thread(thread, Some(signal));
        }
        self.seen.signals += 1;
        match enter_handler(thread, signal)? {
            Delivery::Entered | Delivery::NotEntered => {
                if let Some(state) = self.threads.get_mut(&thread) {
                    state.call = None;
                }
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
