//! Defers signals of timers to a thread that makes no progress.
//!
//! The controller needs some hundred microseconds to deliver a signal and to return from its
//! handler. If a timer expires in that time, its next signal is delivered before the thread
//! executes an instruction of the interrupted code. A program with a fast timer would execute
//! nothing but its handler. Therefore signals of timers that are pending when a handler has
//! returned are blocked, until the thread has run for as long as the last signal took.
//!
//! Only signals of timers are deferred. A signal that a thread or process sends may have to arrive
//! before a later event. For a timer, the program cannot rely on the exact time.
//!
//! Invariant: no system call of the program sees the mask in which a signal is blocked. As long as
//! there is a deferral, threads of the process ask the controller before each system call. A
//! deferral ends whenever its thread stops. But if the controller set the program's mask when the
//! thread asks, the thread would get the signal before its call, and make no progress. Therefore
//! the controller moves the thread to the system call of the stubs that sets the mask for a thread
//! without a controller ([`crate::stubs`]). At the start of that call the controller sets the mask.
//! It also changes the registers so that the thread makes the program's call instead, natively. So
//! at each moment a thread that loses its controller sets its mask before its next call, unless
//! that call starts a thread or a process.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{
    PendingIn, START_EVENTS, SignalNumber, Status, interrupt, pending_signals, resume,
    resume_to_call, started,
};
use libc::user_regs_struct;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::original::NO_CALL;
use super::Tracer;
use super::thread::{MAX_CALL_BYTES, processor_time};
use crate::layout::area;

/// Shortest and longest duration of a deferral.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(2);
/// Longest time between checks whether the thread has run on a processor.
const LONGEST_CHECK: Duration = Duration::from_secs(1);
/// Processor time in which a thread executes instructions of the program, and not only the
/// instructions around a stop.
const RUN_NS: u64 = 25_000;
/// `SI_KERNEL` and `SI_TIMER` (sigaction(2)).
const KERNEL: i32 = 0x80;
const TIMER: i32 = -2;
/// Bytes of the instruction of a system call, and its possible prefixes (Intel SDM, volume 2,
/// *Instruction Prefixes*).
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const PREFIXES: [u8; 10] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
const REX: std::ops::RangeInclusive<u8> = 0x40..=0x4f;

/// Values that show that a thread has executed code if they differ: `rip`, and `r15` as the ring's
/// pointer.
type Place = (u64, u64);

/// A deferral of signals to one thread.
#[derive(Clone, Copy, Debug)]
pub struct Deferral {
    /// The program's signal mask.
    mask: u64,
    /// The mask that is set during the deferral: the program's mask and the deferred signals.
    blocked: u64,
    place: Place,
    /// Processor time of the thread at the start of the deferral.
    processor_ns: u64,
    lasts: Duration,
    until: Instant,
    /// Whether the thread was interrupted to end the deferral, or will stop by itself.
    is_interrupted: bool,
    /// Whether the thread was moved to the system call of the stubs.
    is_sent: bool,
    /// Whether the thread makes a system call that starts a thread or a process.
    is_starting: bool,
}

/// The pending signals of a thread that were raised by timers (setitimer(2), timer_create(2)), as a
/// mask.
fn pending_of_timers(thread: Pid) -> Result<u64, ControlError> {
    let interval = [Signal::SIGALRM, Signal::SIGVTALRM, Signal::SIGPROF];
    let faults =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    let is_interval = |signal: SignalNumber| interval.iter().any(|one| signal == *one);
    let mut mask = 0;
    for place in [PendingIn::Thread, PendingIn::Process] {
        for (signal, code) in pending_signals(thread, place)? {
            let is_timer = code == TIMER || code == KERNEL && is_interval(signal);
            // A blocked signal of an instruction ends the program when the instruction raises it.
            if is_timer && (1..=64).contains(&signal.0) && !faults.contains(&signal.0) {
                mask |= 1 << (signal.0 - 1);
            }
        }
    }
    Ok(mask)
}

/// Bytes of the system call at the start of this code, including its prefixes; `None` if it is no
/// system call.
fn call_bytes(code: &[u8]) -> Option<usize> {
    let is_prefix = |byte: &u8| PREFIXES.contains(byte) || REX.contains(byte);
    let prefixes = code.iter().take_while(|byte| is_prefix(byte)).count();
    code[prefixes..].starts_with(&SYSCALL).then_some(prefixes + SYSCALL.len())
}

impl Tracer {
    fn place(&self, thread: Pid) -> Result<Place, ControlError> {
        let registers = self.process.thread_at_event(thread).registers()?;
        Ok((registers.rip, registers.r15))
    }

    /// Called when a thread has returned from a signal handler, before it continues in the cache.
    /// Defers pending signals of timers, which would be delivered first.
    pub fn defer_signals(&mut self, thread: Pid) -> Result<(), ControlError> {
        let Some(state) = self.threads.get(&thread) else { return Ok(()) };
        let (Some(number), Some(since)) = (state.area, state.signal_at) else { return Ok(()) };
        if state.is_native {
            return Ok(());
        }
        let lasts = since.elapsed().clamp(SHORTEST, LONGEST);
        let mask = self.process.thread_at_event(thread).signal_mask()?;
        let blocked = mask | pending_of_timers(thread)?;
        if blocked == mask {
            return Ok(());
        }
        let deferral = Deferral {
            mask,
            blocked,
            place: self.place(thread)?,
            processor_ns: processor_time(self.process.pid, thread),
            lasts,
            until: Instant::now() + lasts,
            is_interrupted: false,
            is_sent: false,
            is_starting: false,
        };
        self.set_asked(number, Some(mask));
        self.deferrals.insert(thread, deferral);
        Ok(self.process.thread_at_event(thread).set_signal_mask(blocked)?)
    }

    /// Sets whether the thread with an area has a deferral (`mask`: the program's mask). While some
    /// thread has a deferral, all threads ask the controller before each system call.
    fn set_asked(&self, number: usize, mask: Option<u64>) {
        let has_other = !self.deferrals.is_empty();
        self.shared.defers[number].store(mask.is_some(), Ordering::SeqCst);
        let mut translation = self.shared.translation();
        let area = self.shared.rings.areas.area(number);
        match mask {
            Some(mask) => area.begin_deferral(mask),
            None => area.end_deferral(),
        }
        translation.set_calls(mask.is_some() || has_other);
    }

    /// Handles an event of a thread with a deferral. Ends the deferral, unless the thread has not
    /// executed anything, or is about to make a system call. Returns whether the event is
    /// completely handled.
    pub fn handle_deferral(&mut self, thread: Pid, status: Status) -> Result<bool, ControlError> {
        let Some(deferral) = self.deferrals.get(&thread).copied() else { return Ok(false) };
        if matches!(status, Status::Exited(..) | Status::Signaled(..)) {
            self.forget_deferral(thread);
            return Ok(false);
        }
        if matches!(status, Status::Event(_, signal, libc::PTRACE_EVENT_STOP) if signal == Signal::SIGTRAP)
            && (self.is_sent_to_call(thread)? || self.is_prolonged(thread, &deferral)?)
        {
            return Ok(true);
        }
        let is_at_call = matches!(status, Status::Stopped(_, SignalNumber::SYSTEM_CALL));
        let is_at_exit = matches!(status, Status::Event(_, _, libc::PTRACE_EVENT_EXIT));
        let sent = deferral.is_sent && !is_at_exit;
        let sent = if sent { self.original_registers(thread)? } else { None };
        let in_call = sent.filter(|_| is_at_call);
        let in_call = in_call.and_then(|(_, original)| self.in_call(thread, &original));
        if in_call.is_some_and(|registers| self.starts(thread, &registers)) {
            let deferral = Deferral { is_sent: false, is_starting: true, ..deferral };
            self.deferrals.insert(thread, deferral);
        } else {
            if let Status::Event(_, _, event) = status
                && START_EVENTS.contains(&event)
            {
                self.started.push((started(thread, event)?, deferral.mask));
            }
            // Until this call, a thread that loses its controller sets its mask itself.
            self.end_deferral(thread)?;
        }
        if let Some((now, original)) = sent {
            let call = original.rip;
            self.become_native_for_call(thread, &now, in_call.unwrap_or(original), call)?;
            if is_at_call && in_call.is_none() {
                // The thread makes no call. It stops again before the instruction that replaced the
                // call.
                interrupt(thread)?;
                resume(thread, None)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves a thread to the system call of the stubs, if it was stopped to make a system call
    /// natively. Returns whether the thread was moved.
    fn is_sent_to_call(&mut self, thread: Pid) -> Result<bool, ControlError> {
        let Some(state) = self.threads.get(&thread) else { return Ok(false) };
        let Some(number) = state.area.filter(|_| state.request == Some(true)) else {
            return Ok(false);
        };
        let stopped = self.process.thread_at_event(thread);
        let registers = stopped.registers()?;
        {
            // The translator answers only while it holds this lock.
            let translation = self.shared.translation();
            let area = self.shared.rings.areas.area(number);
            let alone = translation.alone(RunAddr(registers.rip));
            let Some(alone) = alone.filter(|_| area.is_asking()) else { return Ok(false) };
            // The thread does not complete the system call of the stubs in which it was stopped.
            let sent = user_regs_struct { rip: alone.0, orig_rax: NO_CALL, ..registers };
            stopped.set_registers(sent)?;
            area.word(area::ASK).store(area::IDLE, Ordering::SeqCst);
        }
        self.take_request(thread);
        if let Some(deferral) = self.deferrals.get_mut(&thread) {
            // The thread soon stops by itself.
            (deferral.is_sent, deferral.is_interrupted) = (true, true);
        }
        resume_to_call(thread, None)?;
        Ok(true)
    }

    /// Prolongs a deferral whose time is over, and resumes the thread, if the thread has not
    /// executed anything or waits for the translator. Returns whether it does that.
    fn is_prolonged(&mut self, thread: Pid, deferral: &Deferral) -> Result<bool, ControlError> {
        let state = self.threads.get(&thread);
        let has_request = state.is_some_and(|one| one.request.is_some());
        if has_request || !deferral.is_interrupted || self.has_run(thread, deferral)? {
            return Ok(false);
        }
        if let Some(deferral) = self.deferrals.get_mut(&thread) {
            deferral.lasts = (deferral.lasts * 2).min(LONGEST_CHECK);
            deferral.until = Instant::now() + deferral.lasts;
            deferral.is_interrupted = false;
        }
        resume(thread, None)?;
        Ok(true)
    }

    /// Whether a stopped thread has executed instructions of the program during a deferral, and
    /// does not wait for the translator. The place alone does not tell: in a loop that writes
    /// nothing to the ring, the thread may be at the same place again.
    fn has_run(&self, thread: Pid, deferral: &Deferral) -> Result<bool, ControlError> {
        let area = self.threads.get(&thread).and_then(|one| one.area);
        if area.is_some_and(|number| self.shared.rings.areas.area(number).is_asking()) {
            return Ok(false);
        }
        let used = processor_time(self.process.pid, thread).saturating_sub(deferral.processor_ns);
        Ok(used >= RUN_NS || self.place(thread)? != deferral.place)
    }

    /// The registers that a thread has at the start of its next system call. `original`: original
    /// registers before the call. `None` if there is no system call at this address any longer.
    fn in_call(&self, thread: Pid, original: &user_regs_struct) -> Option<user_regs_struct> {
        let mut code = [0; MAX_CALL_BYTES as usize];
        let stopped = self.process.thread_at_event(thread);
        let at = RunAddr(original.rip);
        // The page after a call may not be mapped.
        let lengths = [code.len(), SYSCALL.len()];
        let length =
            lengths.into_iter().find(|bytes| stopped.read(at, &mut code[..*bytes]).is_ok())?;
        let next = original.rip.wrapping_add(call_bytes(&code[..length])? as u64);
        Some(user_regs_struct {
            orig_rax: original.rax,
            rax: i64::from(-libc::ENOSYS).cast_unsigned(),
            rip: next,
            rcx: next,
            r11: original.eflags,
            ..*original
        })
    }

    /// Whether a thread with these registers makes a system call that starts a thread or process of
    /// which the kernel reports an event. The kernel refuses such a call while a signal is to be
    /// delivered (Linux, `copy_process`). So the signal stays blocked, and the new thread or
    /// process gets the program's mask at its first stop.
    fn starts(&self, thread: Pid, registers: &user_regs_struct) -> bool {
        let flags = match registers.orig_rax.cast_signed() {
            libc::SYS_fork | libc::SYS_vfork => 0,
            libc::SYS_clone => registers.rdi,
            libc::SYS_clone3 => {
                let mut flags = [0; 8];
                let stopped = self.process.thread_at_event(thread);
                if stopped.read(RunAddr(registers.rdi), &mut flags).is_err() {
                    return false;
                }
                u64::from_le_bytes(flags)
            }
            _ => return false,
        };
        flags & libc::CLONE_UNTRACED as u64 == 0
    }

    /// A thread that is starting a thread or process while its signals are deferred.
    pub fn starter(&self) -> Option<Pid> {
        self.deferrals.iter().find(|(_, one)| one.is_starting).map(|(thread, _)| *thread)
    }

    /// Ends all deferrals of a process whose threads are stopped, and sets the program's mask of
    /// threads and children that were started meanwhile.
    pub fn end_deferrals(&mut self) -> Result<(), ControlError> {
        let deferrals = self.deferrals.clone();
        for (thread, deferral) in deferrals {
            // If the thread has ended, its number may belong to a thread that has executed another
            // program. So the mask is set only for threads that are stopped here.
            if self.process.threads.contains_key(&thread) {
                super::unless_ended(self.end_deferral(thread))?
            } else {
                self.forget_deferral(thread)
            }
            if !deferral.is_starting {
                continue;
            }
            let children = self.process.forked.iter().filter(|child| child.parent == thread);
            self.started.extend(children.map(|child| (child.pid, deferral.mask)));
            let is_new = |one: &&Pid| !self.threads.contains_key(*one);
            for new in self.process.threads.keys().filter(is_new) {
                let stopped = self.process.thread_at_event(*new);
                if stopped.signal_mask()? == deferral.blocked {
                    stopped.set_signal_mask(deferral.mask)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the deferral of a stopped thread, if it has one.
    pub fn end_deferral(&mut self, thread: Pid) -> Result<(), ControlError> {
        if let Some(deferral) = self.deferrals.get(&thread) {
            self.process.thread_at_event(thread).set_signal_mask(deferral.mask)?;
            self.forget_deferral(thread);
        }
        Ok(())
    }

    fn forget_deferral(&mut self, thread: Pid) {
        self.deferrals.remove(&thread);
        if let Some(number) = self.threads.get(&thread).and_then(|one| one.area) {
            self.set_asked(number, None);
        }
    }

    /// Time of the end of the next deferral whose thread has not been interrupted yet.
    pub fn next_deferral_end(&self) -> Option<Instant> {
        let deferrals = self.deferrals.values();
        deferrals.filter(|one| !one.is_interrupted).map(|one| one.until).min()
    }

    /// Interrupts threads whose deferral is over, to end it.
    pub fn interrupt_deferrals(&mut self) {
        let now = Instant::now();
        for (thread, deferral) in &mut self.deferrals {
            if !deferral.is_interrupted && deferral.until <= now {
                deferral.is_interrupted = true;
                // This fails if the thread has ended.
                let _ = interrupt(*thread);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_is_recognised_behind_prefixes_only() {
        assert_eq!(call_bytes(&[0x0f, 0x05, 0x90]), Some(2));
        assert_eq!(call_bytes(&[0x66, 0x48, 0x0f, 0x05]), Some(4));
        for code in [&[0xb8, 1, 0, 0, 0, 0x0f, 0x05][..], &[0x0f], &[0x48], &[], &[0x0f, 0x34]] {
            assert_eq!(call_bytes(code), None, "{code:x?}");
        }
    }
}
