//! Gives access to stopped threads. Only a guard that exists while threads are stopped can read and
//! write their state.
//!
//! | guard | what is stopped | access |
//! |---|---|---|
//! | [`Stopped`] | all threads of a process | memory, registers, injected system calls |
//! | [`StoppedThread`] | one thread, which has reported an event | its registers, the memory that it uses |
//! | [`RunningMemory`](super::RunningMemory) | nothing | reads memory |
//!
//! A [`Stopped`] borrows its [`Process`] mutably, so the process cannot be resumed while the guard
//! is in use.

use std::ops::Deref;

use nix::sys::ptrace;
use nix::unistd::Pid;

use super::{Process, PtraceError};
use crate::address::RunAddr;

/// Memory of a process that can be read.
pub trait ReadMemory {
    /// Process number.
    fn pid(&self) -> Pid;

    /// Reads memory.
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if the process has ended; [`PtraceError::System`] if not all bytes
    /// are mapped.
    fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError>;

    /// Whether a signal to this program ends a long search of the memory.
    fn may_be_interrupted(&self) -> bool {
        false
    }
}

/// A process whose threads are all stopped.
#[derive(Debug)]
pub struct Stopped<'p> {
    pub(super) process: &'p mut Process,
}

impl Deref for Stopped<'_> {
    type Target = Process;

    fn deref(&self) -> &Process {
        self.process
    }
}

impl ReadMemory for Stopped<'_> {
    fn pid(&self) -> Pid {
        self.process.pid
    }

    fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
        self.process.read_memory(address, bytes)
    }

    fn may_be_interrupted(&self) -> bool {
        self.process.may_be_interrupted
    }
}

impl Stopped<'_> {
    /// Reads memory.
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if the process has ended; [`PtraceError::System`] if not all bytes
    /// are mapped.
    pub fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
        self.process.read_memory(address, bytes)
    }

    /// Writes memory, regardless of its protection.
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if the process has ended; [`PtraceError::System`] if not all bytes
    /// are mapped.
    pub fn write(&self, address: RunAddr, bytes: &[u8]) -> Result<(), PtraceError> {
        self.process.write_memory(address, bytes)
    }

    /// Reads the registers of a thread.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn registers(&self, thread: Pid) -> Result<libc::user_regs_struct, PtraceError> {
        self.thread(thread).registers()
    }

    /// Sets the registers of a thread.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn set_registers(
        &self,
        thread: Pid,
        registers: libc::user_regs_struct,
    ) -> Result<(), PtraceError> {
        self.thread(thread).set_registers(registers)
    }

    /// The guard of one of the threads.
    pub fn thread(&self, thread: Pid) -> StoppedThread<'_> {
        StoppedThread { process: self.process, thread }
    }

    /// Records that the restorer at an address is changed. Its bytes no longer identify it.
    pub(crate) fn record_restorer(&mut self, address: RunAddr) {
        self.process.restorers.push(address);
    }

    /// Forgets all changed restorers, because they are as in their files again. Signal frames are
    /// searched for anew.
    pub(crate) fn forget_restorers(&mut self) {
        if !self.process.restorers.is_empty() {
            self.process.restorers.clear();
            self.process.signal_frames.get_mut().forget_frames();
        }
    }
}

/// A thread that has reported an event and is stopped; other threads of its process may run.
#[derive(Clone, Copy, Debug)]
pub struct StoppedThread<'p> {
    process: &'p Process,
    thread: Pid,
}

impl StoppedThread<'_> {
    /// Number of the thread.
    pub fn id(&self) -> Pid {
        self.thread
    }

    /// Number of the process.
    pub fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Reads the registers.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn registers(&self) -> Result<libc::user_regs_struct, PtraceError> {
        ptrace::getregs(self.thread).map_err(PtraceError::new(self.thread, "read its registers"))
    }

    /// Sets the registers.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn set_registers(&self, registers: libc::user_regs_struct) -> Result<(), PtraceError> {
        let set = ptrace::setregs(self.thread, registers);
        set.map_err(PtraceError::new(self.thread, "set its registers"))
    }

    /// Reads memory that other threads do not change: code, and the thread's own stack and slot.
    ///
    /// # Errors
    /// As [`Stopped::read`].
    pub fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
        self.process.read_memory(address, bytes)
    }

    /// Writes memory that other threads do not use: the thread's own stack and slot.
    ///
    /// # Errors
    /// As [`Stopped::write`].
    pub fn write(&self, address: RunAddr, bytes: &[u8]) -> Result<(), PtraceError> {
        self.process.write_memory(address, bytes)
    }
}

impl Process {
    /// Returns the guard of a process whose threads are all stopped and were not resumed since.
    ///
    /// The process cannot be resumed while the guard is in use:
    ///
    /// ```compile_fail,E0499
    /// use hmtt_probe::address::RunAddr;
    /// use hmtt_probe::ptrace::{Process, PtraceError};
    ///
    /// fn change(process: &mut Process) -> Result<(), PtraceError> {
    ///     let stopped = process.stopped()?;
    ///     process.resume()?;
    ///     stopped.write(RunAddr(0x1000), &[0xcc])
    /// }
    /// ```
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if no thread is stopped: the process has ended, or its threads were
    /// resumed.
    pub fn stopped(&mut self) -> Result<Stopped<'_>, PtraceError> {
        if self.threads.is_empty() {
            Err(PtraceError::Ended(self.pid))
        } else {
            Ok(Stopped { process: self })
        }
    }

    /// Returns the guard of a thread that has reported an event and was not resumed since.
    pub fn thread_at_event(&self, thread: Pid) -> StoppedThread<'_> {
        StoppedThread { process: self, thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_stopped_threads_gives_no_guard() {
        let mut process = Process::from_traced(Pid::this()).unwrap();
        assert!(process.stopped().is_ok());
        process.threads.clear();
        assert!(matches!(process.stopped(), Err(PtraceError::Ended(pid)) if pid == Pid::this()));
    }
}
