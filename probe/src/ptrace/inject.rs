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
        let ran = self.run_to_trap(thread);
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

    /// Signals that come meanwhile wait until the thread goes on.
    fn run_to_trap(&mut self, thread: Pid) -> Result<(), PtraceError> {
        loop {
            ptrace::cont(thread, None).map_err(PtraceError::new(thread, "continue"))?;
            let status = wait(Some(thread), WaitPidFlag::__WALL);
            match status.map_err(PtraceError::new(thread, "wait"))? {
                Status::Stopped(_, signal) if signal == Signal::SIGTRAP => return Ok(()),
                Status::Stopped(_, signal) => {
                    self.threads.insert(thread, Standing::Signal(signal));
                }
                Status::Exited(..) | Status::Signaled(..) => {
                    return Err(PtraceError::Ended(self.pid));
                }
                _ => {}
            }
        }
    }
}
