//! Registers a word that the kernel marks when the calling thread dies (set_robust_list(2); Linux,
//! `exit_robust_list`).
//!
//! Memory layout: a `struct robust_list_head`, and a circular list with one `struct robust_list`.
//! Both are in private memory. The word is at the distance `futex_offset` from the list's entry.

use std::sync::atomic::{AtomicU32, Ordering};

/// `struct robust_list_head`.
#[repr(C)]
struct Head {
    first: *const Entry,
    futex_offset: libc::c_long,
    pending: *const Entry,
}

/// `struct robust_list`.
#[repr(C)]
struct Entry {
    next: *const Head,
}

/// The registered list of the calling thread, and the list that the thread had before.
pub struct Robust {
    head: *mut Head,
    entry: *mut Entry,
    before: *const libc::c_void,
}

impl Robust {
    /// Stores the number of the calling thread in a word, which the kernel marks when the thread
    /// dies.
    pub fn register(word: &AtomicU32) -> Self {
        let entry = Box::into_raw(Box::new(Entry { next: std::ptr::null() }));
        let futex_offset = (word.as_ptr() as isize).wrapping_sub(entry as isize) as libc::c_long;
        let head = Box::new(Head { first: entry, futex_offset, pending: std::ptr::null() });
        let head = Box::into_raw(head);
        // SAFETY: the entry was just allocated, and the kernel does not know it yet.
        unsafe { (*entry).next = head };
        let thread = nix::unistd::gettid().as_raw().cast_unsigned();
        let mut before: *const libc::c_void = std::ptr::null();
        let mut bytes = 0usize;
        // SAFETY: the kernel writes two words that outlive the call, and stores the address of the
        // new list, which is freed only after another list is set.
        unsafe {
            libc::syscall(libc::SYS_get_robust_list, 0, &raw mut before, &raw mut bytes);
            libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>());
        }
        word.store(thread | libc::FUTEX_WAITERS, Ordering::SeqCst);
        Robust { head, entry, before }
    }

    /// Clears the word, so that threads see that nobody answers any longer, and restores the
    /// earlier list.
    pub fn unregister(self, word: &AtomicU32) {
        word.store(0, Ordering::SeqCst);
        // SAFETY: the earlier list belongs to the C library, which keeps it as long as the thread
        // lives. The allocations are not used any longer.
        unsafe {
            libc::syscall(libc::SYS_set_robust_list, self.before, size_of::<Head>());
            drop(Box::from_raw(self.head));
            drop(Box::from_raw(self.entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::header::{OWNER, OWNER_DIED};

    #[test]
    fn the_word_is_marked_when_the_thread_ends_without_clearing_it() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        let thread = std::thread::spawn(|| {
            let _never_unregistered = Robust::register(&WORD);
            nix::unistd::gettid().as_raw().cast_unsigned()
        });
        let thread = thread.join().unwrap();
        let after = WORD.load(Ordering::SeqCst);
        assert_ne!(after & OWNER_DIED, 0);
        assert_ne!(after & OWNER, thread, "the kernel clears the number");
        std::thread::spawn(|| Robust::register(&WORD).unregister(&WORD)).join().unwrap();
        assert_eq!(WORD.load(Ordering::SeqCst), 0);
    }
}
