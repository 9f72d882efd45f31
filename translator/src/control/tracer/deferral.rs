//! Defers signals of timers to a thread that does not get on.
//!
//! To deliver a signal, and to return from its handler, takes the controller some hundred
//! microseconds. If a timer expires in that time, its next signal is delivered before the thread
//! executes an instruction of the interrupted code: a program with a fast timer would execute
//! nothing but its handler. Therefore signals of timers that are pending when a handler has
//! returned are blocked, until the thread has run for as long as the last signal took.
//!
//! Only signals of timers are deferred. A signal that a thread or process sends may have to arrive
//! before something that follows; when a timer expires is not determined.
//!
//! Invariant: no system call of the program sees the mask in which a signal is blocked. Threads of
//! the process ask the controller before each system call as long as there is a deferral, which
//! ends whenever its thread stops. A thread that has asked would get the signal before its call,
//! and not get on, if the controller set its mask then. Therefore it is sent to the system call of
//! the stubs that sets the mask for a thread without a controller ([`crate::stubs`]). Where that
//! call begins, the controller sets the mask, and the registers so that the thread makes the
//! program's call instead, natively. So at each moment a thread that loses its controller sets its
//! mask before its next call, unless that starts a thread or a process.

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

/// Limits of the duration of a deferral.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(2);
/// Longest time after which it is checked whether the thread was given a processor.
const LONGEST_CHECK: Duration = Duration::from_secs(1);
/// Processor time in which a thread executes instructions of the program, and not only those that
/// stop it.
const RUN_NS: u64 = 25_000;
/// `SI_KERNEL` and `SI_TIMER` (sigaction(2)).
const KERNEL: i32 = 0x80;
const TIMER: i32 = -2;
/// The instruction of a system call, and what its prefixes may be (Intel SDM, volume 2,
/// *Instruction Prefixes*).
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const PREFIXES: [u8; 10] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
const REX: std::ops::RangeInclusive<u8> = 0x40..=0x4f;

/// What changes whenever a thread executes a block: `rip`, and `r15` as the ring's pointer.
type Place = (u64, u64);

/// Signals of a thread are deferred.
#[derive(Clone, Copy, Debug)]
pub struct Deferral {
    /// The program's signal mask.
    mask: u64,
    /// In which the deferred signals are blocked, too.
    blocked: u64,
    place: Place,
    /// Processor time of the thread at the start.
    processor_ns: u64,
    lasts: Duration,
    until: Instant,
    /// Whether it is not to be interrupted any more.
    is_interrupted: bool,
    /// Whether the thread was sent to the system call of the stubs.
    is_sent: bool,
    /// Whether it makes a system call that starts a thread or a process.
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
            // An instruction that raises a blocked signal ends the program.
            if is_timer && (1..=64).contains(&signal.0) && !faults.contains(&signal.0) {
                mask |= 1 << (signal.0 - 1);
            }
        }
    }
    Ok(mask)
}

/// Bytes of a system call with its prefixes, at the start of this code.
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

    /// A thread has returned from a signal handler, and is about to continue in the cache: defers
    /// the signals of timers that would be delivered to it before.
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

    /// Sets that the thread with an area has a deferral, with the program's mask, or has none. All
    /// threads ask before each system call while one of them has a deferral.
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

    /// Handles an event of a thread that has a deferral: ends that, unless the thread has executed
    /// nothing, or is about to make a system call. Returns whether the event is handled.
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
            // Until here, a thread that loses its controller sets its mask itself.
            self.end_deferral(thread)?;
        }
        if let Some((now, original)) = sent {
            let call = original.rip;
            self.become_native_for_call(thread, &now, in_call.unwrap_or(original), call)?;
            if is_at_call && in_call.is_none() {
                // It makes no call, and stops again before the instruction that is there now.
                interrupt(thread)?;
                resume(thread, None)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends a thread to the system call of the stubs, if it was stopped to make a system call
    /// natively. Returns whether it is sent.
    fn is_sent_to_call(&mut self, thread: Pid) -> Result<bool, ControlError> {
        let Some(state) = self.threads.get(&thread) else { return Ok(false) };
        let Some(number) = state.area.filter(|_| state.request == Some(true)) else {
            return Ok(false);
        };
        let stopped = self.process.thread_at_event(thread);
        let registers = stopped.registers()?;
        {
            // The translator answers only while it has the cache.
            let translation = self.shared.translation();
            let area = self.shared.rings.areas.area(number);
            let alone = translation.alone(RunAddr(registers.rip));
            let Some(alone) = alone.filter(|_| area.is_asking()) else { return Ok(false) };
            // It does not complete the call of the stubs in which it was stopped.
            let sent = user_regs_struct { rip: alone.0, orig_rax: NO_CALL, ..registers };
            stopped.set_registers(sent)?;
            area.word(area::ASK).store(area::IDLE, Ordering::SeqCst);
        }
        self.take_request(thread);
        if let Some(deferral) = self.deferrals.get_mut(&thread) {
            // It stops soon by itself.
            (deferral.is_sent, deferral.is_interrupted) = (true, true);
        }
        resume_to_call(thread, None)?;
        Ok(true)
    }

    /// Resumes a thread whose deferral is over, and defers signals for longer, if it has not
    /// executed anything, or waits for the translator. Returns whether it does.
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
    /// does not wait for the translator. In loops that write nothing to the ring, it may be at the
    /// same place.
    fn has_run(&self, thread: Pid, deferral: &Deferral) -> Result<bool, ControlError> {
        let area = self.threads.get(&thread).and_then(|one| one.area);
        if area.is_some_and(|number| self.shared.rings.areas.area(number).is_asking()) {
            return Ok(false);
        }
        let used = processor_time(self.process.pid, thread).saturating_sub(deferral.processor_ns);
        Ok(used >= RUN_NS || self.place(thread)? != deferral.place)
    }

    /// The registers of a thread that is about to make a system call, with these original
    /// registers, as they are where the call begins. `None` if there is no system call any more.
    fn in_call(&self, thread: Pid, original: &user_regs_struct) -> Option<user_regs_struct> {
        let mut code = [0; MAX_CALL_BYTES as usize];
        let stopped = self.process.thread_at_event(thread);
        let at = RunAddr(original.rip);
        // What follows a call may not be mapped.
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

    /// Whether a thread with these registers makes a system call that starts a thread or a process
    /// which is reported. The kernel makes no such call while a signal is to be delivered (Linux,
    /// `copy_process`), so the signal stays blocked, and what is started gets the program's mask at
    /// its first stop.
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

    /// A thread that starts another one, or a process, while its signals are deferred.
    pub fn starter(&self) -> Option<Pid> {
        self.deferrals.iter().find(|(_, one)| one.is_starting).map(|(thread, _)| *thread)
    }

    /// Ends the deferrals of a process whose threads were stopped, and corrects what threads have
    /// started meanwhile.
    pub fn end_deferrals(&mut self) -> Result<(), ControlError> {
        let deferrals = self.deferrals.clone();
        for (thread, deferral) in deferrals {
            // The number of one that has ended may be that of a thread which has executed another
            // program.
            match self.process.threads.contains_key(&thread) {
                true => super::unless_ended(self.end_deferral(thread))?,
                false => self.forget_deferral(thread),
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

    /// When the next deferral is over that has not been interrupted yet.
    pub fn next_deferral_end(&self) -> Option<Instant> {
        let deferrals = self.deferrals.values();
        deferrals.filter(|one| !one.is_interrupted).map(|one| one.until).min()
    }

    /// Stops threads whose deferral is over, to end it.
    pub fn interrupt_deferrals(&mut self) {
        let now = Instant::now();
        for (thread, deferral) in &mut self.deferrals {
            if !deferral.is_interrupted && deferral.until <= now {
                deferral.is_interrupted = true;
                // It fails if the thread has ended.
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
