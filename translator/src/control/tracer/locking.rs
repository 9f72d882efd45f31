//! Locks the memory of the program, but not the memory of the controller, when the program locks
//! all of its memory (mlockall(2)).
//!
//! The kernel would lock everything that is mapped, and fill it with pages. So the thread makes
//! another call instead, which only sets what happens with memory that is mapped later. Then each
//! mapping of the program is locked (mlock2(2)). The result equals the result of the program's
//! call: in neither case is it an error if memory cannot be filled.
//!
//! If the program may not lock so much memory, it makes its own call, and gets the error of that
//! call.

use hmtt_probe::ptrace::{Mapping, PtraceError, mappings};
use libc::user_regs_struct;
use nix::unistd::Pid;

use super::super::calls::Need;
use super::super::error::ControlError;
use super::Tracer;
use super::growth::with_thread;

/// `MCL_CURRENT`, `MCL_FUTURE`, `MCL_ONFAULT` (mlockall(2)), and `MLOCK_ONFAULT` (mlock2(2)).
const CURRENT: u64 = libc::MCL_CURRENT as u64;
const FUTURE: u64 = libc::MCL_FUTURE as u64;
const ON_FAULT: u64 = 4;
const LOCK_ON_FAULT: u64 = 1;
/// `CAP_IPC_LOCK` (capabilities(7)).
const CAN_LOCK: u32 = 14;

/// Whether the limits and rights of a process let it lock this many bytes. Rights count only in the
/// first user namespace.
fn may_lock(pid: Pid, bytes: u64) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    let limits = read("limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = limit.and_then(|line| line.split_whitespace().next());
    let is_within = match limit {
        Some("unlimited") => true,
        Some(limit) => limit.parse().is_ok_and(|limit: u64| bytes <= limit),
        None => false,
    };
    let status = read("status").unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let map = read("uid_map").unwrap_or_default();
    let is_first_namespace = map.split_whitespace().eq(["0", "0", "4294967295"]);
    is_within || is_first_namespace && rights.is_some_and(|rights| rights >> CAN_LOCK & 1 != 0)
}

/// The registers of a thread that is about to call `mlockall` with these flags, changed so that it
/// makes another call.
fn other_call(flags: u64, registers: &user_regs_struct) -> user_regs_struct {
    match flags & FUTURE {
        // sched_yield(2) has no arguments, and returns 0.
        0 => user_regs_struct { orig_rax: libc::SYS_sched_yield as u64, ..*registers },
        _ => user_regs_struct { rdi: flags & !CURRENT, ..*registers },
    }
}

impl Tracer {
    /// Mappings of the process without the controller's memory.
    fn own_mappings(&self) -> Result<Vec<Mapping>, ControlError> {
        let ranges = self.mapped.ranges();
        let is_shared = |mapping: &Mapping| {
            ranges.iter().any(|(start, bytes)| (*start..*start + *bytes).contains(&mapping.start))
        };
        let mut mappings = mappings(self.process.pid)?;
        mappings.retain(|mapping| !is_shared(mapping) && mapping.path.as_os_str() != "[vsyscall]");
        Ok(mappings)
    }

    /// Called before a thread with these registers makes a system call. If the call locks all
    /// memory, changes it to another call. Returns what must be done for the call that is made.
    pub(super) fn begin_lock(
        &self,
        thread: Pid,
        need: Need,
        registers: &user_regs_struct,
    ) -> Result<Need, ControlError> {
        let Need::LockAll(flags) = need else { return Ok(need) };
        let bytes = |all: Vec<Mapping>| all.iter().map(|one| one.end - one.start).sum();
        if !self.own_mappings().is_ok_and(|all| may_lock(self.process.pid, bytes(all))) {
            // The kernel refuses the program's own call, and the program gets its error.
            return Ok(Need::Native);
        }
        self.process.thread_at_event(thread).set_registers(other_call(flags, registers))?;
        Ok(need)
    }

    /// Called after a thread has made another call than `mlockall`. Locks the program's memory.
    /// Sets and returns the registers that the thread would have after its own call.
    pub(super) fn lock_all(
        &mut self,
        thread: Pid,
        flags: u64,
        registers: user_regs_struct,
    ) -> Result<user_regs_struct, ControlError> {
        if registers.rax == 0 {
            let own = self.own_mappings()?;
            let how = if flags & ON_FAULT != 0 { LOCK_ON_FAULT } else { 0 };
            with_thread(&mut self.process, &mut self.pending, thread, |process| {
                for Mapping { start, end, .. } in own {
                    let call = (libc::SYS_mlock2, "lock the program's memory");
                    let result = process.call(call, [start.0, end - start, how, 0, 0, 0]);
                    // Memory that cannot be filled is locked nevertheless.
                    if matches!(result, Err(PtraceError::Ended(_))) {
                        break;
                    }
                }
                Ok(())
            })?;
        }
        let orig_rax = libc::SYS_mlockall as u64;
        let own = user_regs_struct { orig_rax, rdi: flags, ..registers };
        self.process.thread_at_event(thread).set_registers(own)?;
        Ok(own)
    }
}
