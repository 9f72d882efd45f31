//! Aborts the restartable sequences (rseq(2)) in which threads are stopped.
//!
//! A thread that was preempted in a critical section must not continue there. Before it continues,
//! the kernel moves it to the section's abort handler. Each stop preempts a thread. But the kernel
//! checks the address at which the thread continues: if the thread was moved to other code, outside
//! the section, the kernel forgets the section and never aborts it. Therefore a thread is moved to
//! the abort handler as soon as it is stopped, exactly as the kernel would do (Linux,
//! `rseq_ip_fixup`). Values from the process are checked as the kernel checks them.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::{Process, PtraceError};
use crate::address::RunAddr;

/// `PTRACE_GET_RSEQ_CONFIGURATION` (ptrace(2)), since Linux 5.13.
const GET_CONFIGURATION: libc::c_uint = 0x420f;
/// Offset of the address of the descriptor in the registered area, and bytes of a descriptor
/// (Linux, `include/uapi/linux/rseq.h`).
const DESCRIPTOR_AT: u64 = 8;
const DESCRIPTOR_BYTES: usize = 32;
const SIGNATURE_BYTES: u64 = 4;

/// The area for restartable sequences that a thread has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceArea {
    /// Address of the area in the process.
    pub address: RunAddr,
    /// Value of the 4 bytes before each abort handler.
    pub signature: u32,
}

/// Answer of `PTRACE_GET_RSEQ_CONFIGURATION` (Linux, `include/uapi/linux/ptrace.h`).
#[repr(C)]
#[derive(Default)]
struct Configuration {
    address: u64,
    size: u32,
    signature: u32,
    flags: u32,
    padding: u32,
}

/// The area that a stopped thread has registered; `None` if it has registered none, or if the
/// kernel does not support the request.
pub fn sequence_area(thread: Pid) -> Option<SequenceArea> {
    let mut configuration = Configuration::default();
    let size = size_of::<Configuration>();
    // SAFETY: the kernel writes a structure of the given size.
    let result = Errno::result(unsafe {
        libc::ptrace(GET_CONFIGURATION, thread.as_raw(), size, &raw mut configuration)
    });
    let is_registered = result.is_ok() && configuration.address != 0;
    let (address, signature) = (RunAddr(configuration.address), configuration.signature);
    is_registered.then_some(SequenceArea { address, signature })
}

impl Process {
    /// Moves a stopped thread to the abort handler if it is in a critical section.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn abort_sequence(&self, thread: Pid) -> Result<(), PtraceError> {
        let Some(area) = sequence_area(thread) else { return Ok(()) };
        let Some(field) = area.address.checked_add(DESCRIPTOR_AT) else { return Ok(()) };
        let descriptor = RunAddr(self.word(field).unwrap_or(0));
        let mut bytes = [0; DESCRIPTOR_BYTES];
        if descriptor.0 == 0 || self.read_memory(descriptor, &mut bytes).is_err() {
            return Ok(());
        }
        let [head, start, length, abort] =
            std::array::from_fn(|at| u64::from_le_bytes(bytes.as_chunks().0[at]));
        let at_event = self.thread_at_event(thread);
        let registers = at_event.registers()?;
        let is_within = |address: u64| address.wrapping_sub(start) < length;
        if head != 0 || !is_within(registers.rip) || is_within(abort) {
            return Ok(());
        }
        self.go_to_abort(thread, area, RunAddr(abort)).map(drop)
    }

    /// Moves a stopped thread to an abort handler if the handler has the signature, and ends the
    /// thread's critical section. Returns whether the thread was moved.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn go_to_abort(
        &self,
        thread: Pid,
        area: SequenceArea,
        abort: RunAddr,
    ) -> Result<bool, PtraceError> {
        let mut signature = [0; SIGNATURE_BYTES as usize];
        let at = abort.wrapping_sub(SIGNATURE_BYTES);
        // If the signature differs, the kernel ends the process when the thread continues.
        if self.read_memory(at, &mut signature).is_err()
            || u32::from_le_bytes(signature) != area.signature
        {
            return Ok(false);
        }
        let registers = self.thread_at_event(thread).registers()?;
        self.write_memory(area.address + DESCRIPTOR_AT, &[0; 8])?;
        let moved = libc::user_regs_struct { rip: abort.0, ..registers };
        self.thread_at_event(thread).set_registers(moved)?;
        Ok(true)
    }

    fn word(&self, at: RunAddr) -> Result<u64, PtraceError> {
        let mut bytes = [0; 8];
        self.read_memory(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
