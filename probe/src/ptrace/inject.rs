//! System calls that a process makes because we want them.
//!
//! A thread that stands still gets the registers of the call and `syscall; int3` to run; afterwards both
//! are as before. A call of its own that was interrupted is restarted by the kernel only if the registers
//! say so, hence the -1 while ours runs.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::{Process, PtraceError, Standing, Status, wait};

/// `syscall; int3`.
const CODE: [u8; 3] = [0x0f, 0x05, 0xcc];
/// Results from here on are negative error numbers (x86-64 psABI, A.2.1).
const ERRORS: u64 = -4095i64 as u64;

impl Process {
    /// Whether there is a thread that can make a system call: not while all wait for children that have
    /// their memory.
    pub fn can_call(&self) -> bool {
        self.threads.values().any(|standing| *standing != Standing::InCall)
    }

    /// Makes a system call. `site`: an address with instructions that no thread is at; all threads stand
    /// still.
    pub fn call(
        &mut self,
        site: u64,
        (number, operation): (libc::c_long, &'static str),
        arguments: [u64; 6],
    ) -> Result<u64, PtraceError> {
        let standing = |wanted: fn(&Standing) -> bool| {
            self.threads.iter().find(|(_, standing)| wanted(standing)).map(|(thread, _)| *thread)
        };
        let free = standing(|standing| *standing == Standing::Free);
        let thread = free.or_else(|| standing(|standing| *standing != Standing::InCall));
        let busy =
            || PtraceError::new(self.pid, "find a thread that is in no system call")(Errno::EAGAIN);
        let thread = thread.ok_or_else(busy)?;
        let before = self.registers(thread)?;
        let mut code = [0; CODE.len()];
        self.read(site, &mut code)?;
        self.write(site, &CODE)?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = libc::user_regs_struct {
            rax: number as u64,
            orig_rax: u64::MAX,
            rip: site,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before
        };
        self.set_registers(thread, registers)?;
        let ran = self.undisturbed(thread, |process| process.run_to_trap(thread));
        self.write(site, &code)?;
        ran?;
        let result = self.registers(thread)?.rax;
        self.set_registers(thread, before)?;
        match result {
            ERRORS.. => Err(PtraceError::new(self.pid, operation)(Errno::from_raw(
                (result as i64).wrapping_neg() as i32,
            ))),
            _ => Ok(result),
        }
    }

    fn run_to_trap(&mut self, thread: Pid) -> Result<(), PtraceError> {
        self.go_to_trap(thread, |thread| ptrace::cont(thread, None))
    }

    /// Signals that cannot be kept off wait until the thread goes on, and so do stops that were asked for
    /// before.
    fn go_to_trap(
        &mut self,
        thread: Pid,
        go: impl Fn(Pid) -> nix::Result<()>,
    ) -> Result<(), PtraceError> {
        loop {
            go(thread).map_err(PtraceError::new(thread, "continue"))?;
            let status = wait(Some(thread), WaitPidFlag::__WALL);
            let status = status.map_err(PtraceError::new(thread, "wait"))?;
            match status {
                Status::Stopped(_, signal) if signal == Signal::SIGTRAP => return Ok(()),
                Status::Exited(..) | Status::Signaled(..) => {
                    return Err(PtraceError::Ended(self.pid));
                }
                Status::Stopped(_, signal) => {
                    self.threads.insert(thread, Standing::Signal(signal));
                }
                _ => {}
            }
        }
    }
}

/// A set of signals as the kernel has it.
type Mask = u64;

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

impl Process {
    /// Does something with a thread that stands still, which gets no signals meanwhile but the trap's:
    /// those that come wait in the kernel, all of them and as they are.
    fn undisturbed<T>(
        &mut self,
        thread: Pid,
        something: impl FnOnce(&mut Process) -> Result<T, PtraceError>,
    ) -> Result<T, PtraceError> {
        let before = mask(thread)?;
        set_mask(thread, !(1 << (Signal::SIGTRAP as u64 - 1)))?;
        let result = something(self);
        // A thread that has ended needs none.
        match (result, set_mask(thread, before)) {
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(result), Ok(())) => Ok(result),
        }
    }

    /// Takes a thread that stands still on until it is outside, instruction by instruction. Whether it got
    /// there.
    pub fn step_out(
        &mut self,
        thread: Pid,
        at_most: usize,
        inside: impl Fn(u64) -> bool,
    ) -> Result<bool, PtraceError> {
        if !inside(self.registers(thread)?.rip) {
            return Ok(true);
        }
        if self.threads.get(&thread) == Some(&Standing::InCall) {
            return Ok(false);
        }
        self.undisturbed(thread, |process| {
            for _ in 0..at_most {
                process.go_to_trap(thread, |thread| ptrace::step(thread, None))?;
                if !inside(process.registers(thread)?.rip) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}
