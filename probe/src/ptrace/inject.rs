//! Injects system calls: makes a stopped thread of the process execute them.
//!
//! A stopped thread gets the registers of the call and is resumed at a
//! [`site`](super::syscall_site): a `syscall` instruction, after which it is stopped again. If the
//! tracer dies in between, the thread makes the call and continues after it with code that restores
//! its registers, flags and signal mask and jumps back to its original address. So the death of the
//! tracer does not disturb the program.
//!
//! Invariant: no call is made unless the seccomp filters of the thread are known to allow it
//! ([`seccomp`]). The result of a call comes from the process and is untrusted; the caller must
//! check the result.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::seccomp;
use super::syscall_site::{Mask, ResumeCode, SyscallSite};
use super::wait::{Waited, restart_thread, wait_for_stop};
use super::{Process, PtraceError, SignalNumber, Status, StopState, Stopped, StoppedThread};
use crate::address::RunAddr;

/// The lowest result that is a negative error number (x86-64 psABI, A.2.1).
const ERRORS: u64 = -4095i64 as u64;
/// Status of a thread that stops at the start or end of a system call.
const SYSTEM_CALL: SignalNumber = SignalNumber::SYSTEM_CALL;
/// A set of all signals.
const ALL: Mask = !0;

impl Process {
    /// Whether any thread can make a system call. No thread can while all are blocked by children
    /// that share their memory.
    pub fn can_call(&self) -> bool {
        self.threads.values().any(|standing| *standing != StopState::InSyscall)
    }
}

impl Stopped<'_> {
    /// Makes any suitable thread execute a system call, and returns the result.
    ///
    /// # Errors
    /// [`PtraceError::Forbidden`] if seccomp might not allow it; the process is unchanged then.
    pub fn call(
        &mut self,
        call: (libc::c_long, &'static str),
        arguments: [u64; 6],
    ) -> Result<u64, PtraceError> {
        self.call_with_text(call, &[], |_| arguments)
    }

    /// Makes a system call with a text of at most `SyscallSite::TEXT_BYTES`. `arguments`: computes
    /// the arguments of the call from the address of the text.
    ///
    /// # Errors
    /// As [`Stopped::call`].
    pub fn call_with_text(
        &mut self,
        (number, operation): (libc::c_long, &'static str),
        text: &[u8],
        arguments: impl FnOnce(RunAddr) -> [u64; 6],
    ) -> Result<u64, PtraceError> {
        let site = self.site()?;
        let arguments = arguments(site.text());
        let (thread, before) = self.caller((number, operation), &arguments, &site)?;
        self.call_at(&site, thread, before, (number, operation), (arguments, text))
    }

    /// Makes this particular thread execute a system call. `None` if the thread cannot or may not.
    ///
    /// # Errors
    /// [`PtraceError`] as for [`Stopped::call`], but not [`PtraceError::Forbidden`].
    pub(crate) fn call_of_thread(
        &mut self,
        thread: Pid,
        (number, operation): (libc::c_long, &'static str),
        arguments: [u64; 6],
    ) -> Result<Option<u64>, PtraceError> {
        let can_call = [StopState::AtInstruction, StopState::GroupStop];
        if !self.threads.get(&thread).is_some_and(|state| can_call.contains(state)) {
            return Ok(None);
        }
        let site = self.site()?;
        let calls = site.calls(number, &arguments);
        if seccomp::check(thread, &calls, self.risk_policy.known_filters)?.is_err() {
            return Ok(None);
        }
        let before = self.registers(thread)?;
        self.call_at(&site, thread, before, (number, operation), (arguments, &[])).map(Some)
    }

    /// Makes a thread with the registers `before` execute a system call, with its arguments and a
    /// text.
    fn call_at(
        &mut self,
        site: &SyscallSite,
        thread: Pid,
        before: libc::user_regs_struct,
        (number, operation): (libc::c_long, &'static str),
        (arguments, text): ([u64; 6], &[u8]),
    ) -> Result<u64, PtraceError> {
        let mask = mask(thread)?;
        let mut original_bytes = vec![0; SyscallSite::BYTES];
        self.read(site.address, &mut original_bytes)?;
        let code = ResumeCode { registers: before, mask }.code();
        self.write(site.address, &site.filled(&original_bytes, &code, text))?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = libc::user_regs_struct {
            rax: number as u64,
            orig_rax: u64::MAX,
            rip: site.address.0,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before
        };
        // Changes are undone in reverse order. A thread that is still at the site is restored by
        // the site's code if the tracer dies.
        self.set_registers(thread, registers)?;
        let result = set_signal_mask(thread, ALL).and_then(|()| self.result_of_call(thread));
        set_signal_mask(thread, mask)?;
        self.set_registers(thread, before)?;
        self.write(site.address, &original_bytes)?;
        match result? {
            result @ ERRORS.. => Err(PtraceError::new(self.pid, operation)(Errno::from_raw(
                (result as i64).wrapping_neg() as i32,
            ))),
            result => Ok(result),
        }
    }

    /// Chooses a thread that can and may make a call, and reads its registers. A thread that is in
    /// no system call is preferred, because otherwise the kernel would have to restart the thread's
    /// own call.
    fn caller(
        &self,
        (number, operation): (libc::c_long, &'static str),
        arguments: &[u64; 6],
        site: &SyscallSite,
    ) -> Result<(Pid, libc::user_regs_struct), PtraceError> {
        let mut candidates = Vec::new();
        for (thread, standing) in &self.threads {
            let rank = match standing {
                StopState::AtInstruction => 0,
                StopState::GroupStop => 1,
                StopState::PendingSignal(_) => 2,
                StopState::InSyscall => continue,
            };
            let registers = self.registers(*thread)?;
            let is_in_call = i32::from(registers.orig_rax.cast_signed() >= 0);
            candidates.push((rank + is_in_call, *thread, registers));
        }
        candidates.sort_by_key(|(rank, ..)| *rank);
        let mut refused = None;
        for (_, thread, registers) in candidates {
            match seccomp::check(
                thread,
                &site.calls(number, arguments),
                self.risk_policy.known_filters,
            )? {
                Ok(()) => return Ok((thread, registers)),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        let pid = self.pid;
        Err(match refused {
            Some(why) => PtraceError::Forbidden { pid, operation, number, why },
            None => PtraceError::new(pid, "find a thread that is in no system call")(Errno::EAGAIN),
        })
    }

    /// Lets a thread make one system call and waits for the result. Afterwards the thread is at an
    /// interruption stop: only from such a stop does the kernel restart an earlier, interrupted
    /// system call.
    fn result_of_call(&mut self, thread: Pid) -> Result<u64, PtraceError> {
        for _entry_and_exit in 0..2 {
            self.resume_until(thread, libc::PTRACE_SYSCALL, |status| {
                matches!(status, Status::Stopped(_, SYSTEM_CALL))
            })?;
        }
        let result = self.registers(thread)?.rax;
        ptrace::interrupt(thread).map_err(PtraceError::new(thread, "stop it"))?;
        let stop = self.resume_until(thread, libc::PTRACE_CONT, |status| {
            matches!(status, Status::Event(_, _, libc::PTRACE_EVENT_STOP))
        })?;
        // A group-stop may have begun or ended during the call.
        self.process.threads.insert(thread, StopState::reported(stop));
        Ok(result)
    }

    /// Resumes a thread until `is_reached` accepts a stop, and returns that stop. A pending signal
    /// is blocked by the mask and remains pending (signal(7)). `SIGSTOP` cannot be blocked: it
    /// stops the process, and only this thread is resumed. `SIGSTOP` is not sent again after the
    /// call, because `SIGCONT` may have come in between.
    fn resume_until(
        &mut self,
        thread: Pid,
        request: libc::c_uint,
        is_reached: impl Fn(&Status) -> bool,
    ) -> Result<Status, PtraceError> {
        loop {
            let signal = self.threads.get(&thread).and_then(|state| state.signal());
            restart_thread(request, thread, signal)
                .map_err(PtraceError::new(thread, "continue"))?;
            if signal.is_some() {
                self.process.signal_frames.get_mut().forget_frames();
                self.process.threads.insert(thread, StopState::AtInstruction);
            }
            let waited = wait_for_stop(thread).map_err(PtraceError::new(thread, "wait"))?;
            let status = match waited {
                Waited::Status(status) => status,
                Waited::Dead => return Err(PtraceError::Ended(self.pid)),
                Waited::Unstopped => return Err(PtraceError::Unstopped(thread)),
            };
            match status {
                status if is_reached(&status) => return Ok(status),
                status @ (Status::Exited(..) | Status::Signaled(..)) => {
                    self.process.threads.remove(&thread);
                    self.process.queued_events.push(status);
                    return Err(PtraceError::Ended(self.pid));
                }
                Status::Stopped(_, signal) if signal != SYSTEM_CALL => {
                    self.process.threads.insert(thread, StopState::PendingSignal(signal));
                }
                _ => {}
            }
        }
    }
}

impl StoppedThread<'_> {
    /// The signal mask: bit 0 is signal 1.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn signal_mask(&self) -> Result<u64, PtraceError> {
        mask(self.id())
    }

    /// Sets the signal mask.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn set_signal_mask(&self, mask: u64) -> Result<(), PtraceError> {
        set_signal_mask(self.id(), mask)
    }
}

/// The signal mask of a thread.
fn mask(thread: Pid) -> Result<Mask, PtraceError> {
    let mut mask: Mask = 0;
    let place = (&raw mut mask).cast::<libc::c_void>();
    // SAFETY: the kernel writes a set of the given size to one that outlives the call.
    let result =
        unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK, thread.as_raw(), size_of::<Mask>(), place) };
    Errno::result(result).map_err(PtraceError::new(thread, "read its signal mask"))?;
    Ok(mask)
}

/// Sets the signal mask of a stopped thread.
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub fn set_signal_mask(thread: Pid, mask: u64) -> Result<(), PtraceError> {
    let place = (&raw const mask).cast::<libc::c_void>();
    // SAFETY: the kernel reads a set of the given size.
    let result =
        unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, thread.as_raw(), size_of::<Mask>(), place) };
    Errno::result(result).map(drop).map_err(PtraceError::new(thread, "set its signal mask"))
}
