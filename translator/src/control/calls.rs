//! Decides for each system call whether a thread makes it in the cache or natively.
//!
//! | system calls | where they are made | why |
//! |---|---|---|
//! | all others | in the cache, at once | |
//! | that change mappings | in the cache if they do not concern code, otherwise natively | blocks are removed from the cache before |
//! | that start threads or processes, execute programs, return from handlers | natively | registers of the original code are needed |
//! | that lock all memory | natively, as calls that lock the program's memory | memory of the controller is not locked |
//! | that register restartable sequences | natively | code of sequences runs natively from then on |
//! | that use `gs`, restrict system calls, forbid reading the time stamp counter, or change the meaning of code | natively, and all threads leave the cache | the cache would not work any more |

use std::ops::Range;

use hmtt_probe::address::RunAddr;

use crate::layout::PAGE_BYTES;

/// What must be done for a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the call is made in the cache.
    Nothing,
    /// The call changes mappings in a range. Blocks of the range are removed before.
    Mappings {
        /// The range, in whole pages.
        range: Range<RunAddr>,
        /// Whether memory may become executable.
        adds_code: bool,
    },
    /// The call is made in the original code.
    Native,
    /// The call locks all memory, with these flags of mlockall(2).
    LockAll(u64),
    /// The call registers restartable sequences with this signature, and is made in the original
    /// code.
    Sequences(u32),
    /// The process is no longer followed, for this reason.
    Leave(&'static str),
}

/// `ARCH_SET_GS`, `ARCH_GET_GS` (arch_prctl(2)), and the first operation on shadow stacks.
const GS_OPERATIONS: [u64; 2] = [0x1001, 0x1004];
const SHADOW_STACKS: u64 = 0x5001;
/// `ARCH_SET_FS`.
const SET_FS: u64 = 0x1002;
/// `PR_SET_SYSCALL_USER_DISPATCH` (prctl(2)).
const USER_DISPATCH: u64 = 59;
/// `SHM_REMAP` (shmat(2)).
const SHM_REMAP: u64 = 0o40000;
/// All flags of mlockall(2): `MCL_CURRENT`, `MCL_FUTURE`, `MCL_ONFAULT`.
const MLOCKALL_FLAGS: u64 = 7;
/// `RSEQ_FLAG_UNREGISTER` (Linux, `include/uapi/linux/rseq.h`).
const RSEQ_UNREGISTER: u64 = 1;

/// Reason why a process is left if it forbids itself to read the time stamp counter. Generated code
/// reads the counter.
pub const CLOCK_FORBIDDEN: &str = "it forbids itself to read the time stamp counter (PR_SET_TSC)";

/// Decides what must be done for a system call with these arguments.
pub fn need(number: u64, arguments: [u64; 6]) -> Need {
    let [first, second, third, fourth, fifth, _] = arguments;
    let range = |start: u64, bytes: u64| {
        let end = start.saturating_add(bytes).checked_next_multiple_of(PAGE_BYTES);
        RunAddr(start)..RunAddr(end.unwrap_or(u64::MAX))
    };
    let is_code = third & libc::PROT_EXEC as u64 != 0;
    match number as i64 {
        libc::SYS_mmap => {
            let is_fixed = fourth & libc::MAP_FIXED as u64 != 0;
            let range = if is_fixed { range(first, second) } else { range(0, 0) };
            Need::Mappings { range, adds_code: is_code }
        }
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            Need::Mappings { range: range(first, second), adds_code: is_code }
        }
        libc::SYS_munmap => Need::Mappings { range: range(first, second), adds_code: false },
        libc::SYS_mremap if fourth & libc::MREMAP_FIXED as u64 != 0 => {
            let both = range(fifth.min(first), fifth.max(first).saturating_add(second.max(third)));
            Need::Mappings { range: both, adds_code: false }
        }
        libc::SYS_mremap => Need::Mappings { range: range(first, second), adds_code: false },
        libc::SYS_mlockall if first & libc::MCL_CURRENT as u64 != 0 && first <= MLOCKALL_FLAGS => {
            Need::LockAll(first)
        }
        libc::SYS_shmat if third & SHM_REMAP != 0 => Need::Native,
        libc::SYS_rt_sigreturn
        | libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_fork
        | libc::SYS_vfork
        | libc::SYS_execve
        | libc::SYS_execveat => Need::Native,
        libc::SYS_rseq if third & RSEQ_UNREGISTER == 0 => Need::Sequences(fourth as u32),
        libc::SYS_seccomp => Need::Leave("it restricts its system calls by seccomp"),
        libc::SYS_prctl if first == libc::PR_SET_SECCOMP as u64 => {
            Need::Leave("it restricts its system calls by seccomp")
        }
        libc::SYS_prctl
            if first == libc::PR_SET_TSC as u64 && second == libc::PR_TSC_SIGSEGV as u64 =>
        {
            Need::Leave(CLOCK_FORBIDDEN)
        }
        libc::SYS_prctl if first == USER_DISPATCH => Need::Leave("it dispatches its system calls"),
        libc::SYS_modify_ldt => Need::Leave("it changes its segments"),
        // The base of fs is noted when a thread enters the cache.
        libc::SYS_arch_prctl if first == SET_FS => Need::Native,
        libc::SYS_arch_prctl if GS_OPERATIONS.contains(&first) => Need::Leave("it uses gs"),
        libc::SYS_arch_prctl if first >= SHADOW_STACKS => Need::Leave("it uses a shadow stack"),
        _ => Need::Nothing,
    }
}

/// Whether [`need`] returns another value than [`Need::Nothing`] for some arguments of a system
/// call.
fn may_need(number: u64) -> bool {
    let arguments = [
        [0; 6],
        [libc::PR_SET_SECCOMP as u64, 0, SHM_REMAP, 0, 0, 0],
        [USER_DISPATCH, 0, 0, 0, 0, 0],
        [GS_OPERATIONS[0], 0, 0, 0, 0, 0],
        [libc::MCL_CURRENT as u64, 0, 0, 0, 0, 0],
    ];
    arguments.into_iter().any(|arguments| need(number, arguments) != Need::Nothing)
}

/// For each value of the low 8 bits of a number: whether the cache asks the controller before it
/// makes a system call with such a number.
pub fn asked() -> [bool; 256] {
    /// All numbers of Linux are lower. The system calls of the processor's other modes are not
    /// counted.
    const NUMBERS: u64 = 1024;
    let mut table = [false; 256];
    (0..NUMBERS)
        .filter(|number| may_need(*number))
        .for_each(|number| table[number as usize & 255] = true);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_need_the_controller_are_asked_for() {
        let asked = asked();
        let is_asked = |number: i64| asked[number as usize & 255];
        for number in [
            libc::SYS_clone3,
            libc::SYS_execveat,
            libc::SYS_rt_sigreturn,
            libc::SYS_munmap,
            libc::SYS_seccomp,
            libc::SYS_prctl,
            libc::SYS_arch_prctl,
            libc::SYS_shmat,
            libc::SYS_rseq,
            libc::SYS_mlockall,
        ] {
            assert!(is_asked(number), "{number}");
        }
        for number in [libc::SYS_read, libc::SYS_write, libc::SYS_futex, libc::SYS_exit_group] {
            assert!(!is_asked(number), "{number}");
        }
    }

    #[test]
    fn a_process_that_forbids_itself_the_clock_is_left() {
        let prctl = |second: i32| {
            need(libc::SYS_prctl as u64, [libc::PR_SET_TSC as u64, second as u64, 0, 0, 0, 0])
        };
        assert_eq!(prctl(libc::PR_TSC_SIGSEGV), Need::Leave(CLOCK_FORBIDDEN));
        assert_eq!(prctl(libc::PR_TSC_ENABLE), Need::Nothing);
    }

    #[test]
    fn a_mapping_changes_what_was_mapped_at_its_address_only() {
        let fixed = libc::MAP_FIXED as u64;
        let execute = libc::PROT_EXEC as u64;
        let mmap = libc::SYS_mmap as u64;
        let range = RunAddr(0x1000)..RunAddr(0x3000);
        let expected = Need::Mappings { range, adds_code: true };
        assert_eq!(need(mmap, [0x1000, 0x1001, execute, fixed, 0, 0]), expected);
        let nothing = Need::Mappings { range: RunAddr(0)..RunAddr(0), adds_code: false };
        assert_eq!(need(mmap, [0x1000, 0x1001, 1, 2, 0, 0]), nothing);
    }
}
