//! System calls that a process makes because we want them.
//!
//! A thread that stands still gets the registers of the call and goes on at a [`site`](super::site): a
//! `syscall`, where it is stopped right behind. Should we die before, it makes the call and goes on behind it,
//! where it takes back its registers, flags and signals and goes on where it was. So whatever happens to us, it
//! does not notice.
//!
//! Invariant: no call is made that seccomp filters might answer in any other way than by letting it through
//! ([`seccomp`]). What a call returns is only what the process says: who uses it checks it.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::seccomp;
use super::site::{Mask, Return, Site};
use super::wait::{resume, wait_unless_dead};
use super::{Process, PtraceError, SignalNumber, Standing, Status};

/// Results from here on are negative error numbers (x86-64 psABI, A.2.1).
const ERRORS: u64 = -4095i64 as u64;
/// How a thread stops that begins or ends a system call (ptrace(2), `PTRACE_O_TRACESYSGOOD`): no signal, so
/// that it gets none if we die then.
const SYSTEM_CALL: SignalNumber = SignalNumber(Signal::SIGTRAP as i32 | 0x80);
/// A set of all signals.
const ALL: Mask = !0;

impl Process {
    /// Whether there is a thread that can make a system call: not while all wait for children that have
    /// their memory.
    pub fn can_call(&self) -> bool {
        self.threads.values().any(|standing| *standing != Standing::InCall)
    }

    /// Makes a system call; all threads stand still.
    ///
    /// # Errors
    /// [`PtraceError::Forbidden`] if seccomp might not let it through; nothing has happened then.
    pub fn call(
        &mut self,
        call: (libc::c_long, &'static str),
        arguments: [u64; 6],
    ) -> Result<u64, PtraceError> {
        self.call_with_text(call, &[], |_| arguments)
    }

    /// Makes a system call that takes a text, at most [`Site::TEXT_BYTES`] of it. `arguments`: those of the call,
    /// by the address of the text.
    ///
    /// # Errors
    /// As [`Process::call`].
    pub fn call_with_text(
        &mut self,
        (number, operation): (libc::c_long, &'static str),
        text: &[u8],
        arguments: impl FnOnce(u64) -> [u64; 6],
    ) -> Result<u64, PtraceError> {
        let site = self.site()?;
        let arguments = arguments(site.text());
        let (thread, before) = self.caller((number, operation), &arguments, &site)?;
        let mask = mask(thread)?;
        let mut there = vec![0; Site::BYTES];
        self.read(site.address, &mut there)?;
        let code = Return { registers: before, mask }.code();
        self.write(site.address, &site.filled(&there, &code, text))?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = libc::user_regs_struct {
            rax: number as u64,
            orig_rax: u64::MAX,
            rip: site.address,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before
        };
        // What is changed last is taken back first: a thread that is at the site recovers from all of it.
        self.set_registers(thread, registers)?;
        let result = set_mask(thread, ALL).and_then(|()| self.result_of_call(thread));
        set_mask(thread, mask)?;
        self.set_registers(thread, before)?;
        self.write(site.address, &there)?;
        match result? {
            result @ ERRORS.. => Err(PtraceError::new(self.pid, operation)(Errno::from_raw(
                (result as i64).wrapping_neg() as i32,
            ))),
            result => Ok(result),
        }
    }

    /// A thread that can make a call, and may, and its registers: best one that makes none itself, since the kernel
    /// would have to make that again.
    fn caller(
        &self,
        (number, operation): (libc::c_long, &'static str),
        arguments: &[u64; 6],
        site: &Site,
    ) -> Result<(Pid, libc::user_regs_struct), PtraceError> {
        let mut all = Vec::new();
        for (thread, standing) in &self.threads {
            let rank = match standing {
                Standing::Free => 0,
                Standing::Halted => 1,
                // These cannot wait as others do.
                Standing::Signal(signal) if *signal == Signal::SIGSTOP => 4,
                Standing::Signal(_) => 2,
                Standing::InCall => continue,
            };
            let registers = self.registers(*thread)?;
            let is_in_call = i32::from(registers.orig_rax.cast_signed() >= 0);
            all.push((rank + is_in_call, *thread, registers));
        }
        all.sort_by_key(|(rank, ..)| *rank);
        let mut refused = None;
        for (_, thread, registers) in all {
            match seccomp::check(
                thread,
                &site.calls(number, arguments),
                self.treatment.known_filters,
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

    /// Lets a thread make the one call that it is about to make. It stands as after any interruption then:
    /// only there the kernel makes calls again that were interrupted before.
    fn result_of_call(&mut self, thread: Pid) -> Result<u64, PtraceError> {
        for _begins_and_ends in 0..2 {
            self.go_to(thread, libc::PTRACE_SYSCALL, |status| {
                matches!(status, Status::Stopped(_, SYSTEM_CALL))
            })?;
        }
        let result = self.registers(thread)?.rax;
        ptrace::interrupt(thread).map_err(PtraceError::new(thread, "stop it"))?;
        self.go_to(thread, libc::PTRACE_CONT, |status| {
            matches!(status, Status::Event(_, _, libc::PTRACE_EVENT_STOP))
        })?;
        Ok(result)
    }

    /// Continues a thread until it stands where it is to. A signal that it was about to get goes back to those
    /// that wait for it, since it gets none for now (signal(7)); one that cannot wait is kept here.
    fn go_to(
        &mut self,
        thread: Pid,
        request: libc::c_uint,
        is_there: impl Fn(&Status) -> bool,
    ) -> Result<(), PtraceError> {
        loop {
            let signal = match self.threads.get(&thread) {
                Some(Standing::Signal(signal)) if *signal != Signal::SIGSTOP => Some(*signal),
                _ => None,
            };
            resume(request, thread, signal).map_err(PtraceError::new(thread, "continue"))?;
            if signal.is_some() {
                self.threads.insert(thread, Standing::Free);
            }
            let status = wait_unless_dead(thread).map_err(PtraceError::new(thread, "wait"))?;
            match status.ok_or(PtraceError::Ended(self.pid))? {
                status if is_there(&status) => return Ok(()),
                status @ (Status::Exited(..) | Status::Signaled(..)) => {
                    self.threads.remove(&thread);
                    self.heard.push(status);
                    return Err(PtraceError::Ended(self.pid));
                }
                Status::Stopped(_, signal) if signal != SYSTEM_CALL => {
                    self.threads.insert(thread, Standing::Signal(signal));
                }
                _ => {}
            }
        }
    }
}

/// The signals that a thread does not get for now.
fn mask(thread: Pid) -> Result<Mask, PtraceError> {
    let mut mask: Mask = 0;
    let place = (&raw mut mask).cast::<libc::c_void>();
    // SAFETY: the kernel writes a set, whose size it is told, to one that outlives the call.
    let result =
        unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK, thread.as_raw(), size_of::<Mask>(), place) };
    Errno::result(result).map_err(PtraceError::new(thread, "read its signal mask"))?;
    Ok(mask)
}

fn set_mask(thread: Pid, mask: Mask) -> Result<(), PtraceError> {
    let place = (&raw const mask).cast::<libc::c_void>();
    // SAFETY: the kernel reads a set, whose size it is told.
    let result =
        unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, thread.as_raw(), size_of::<Mask>(), place) };
    Errno::result(result).map(drop).map_err(PtraceError::new(thread, "set its signal mask"))
}
