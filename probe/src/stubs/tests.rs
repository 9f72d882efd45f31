//! Runs tags in this process, with `gs` of the thread set to memory of the test.

mod blocks;

mod random;
mod single;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hmtt_files::tag_log::FunctionId;

use super::layout::{LogShape, PAGE_BYTES, WhenFull, chunk, header, slot};
use super::tags::LOG_BYTES;
use super::{Sink, TagPlace, Tags};

const CODE_BYTES: usize = 1 << 17;
const BUFFER: LogShape =
    LogShape { is_timed: true, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Drop };

/// Memory for code, a header and a slot. `gs` of the thread is the slot's address.
struct Bench {
    start: *mut u8,
    shape: LogShape,
}

impl Bench {
    fn new(shape: LogShape) -> Self {
        let bytes = Self::bytes(&shape);
        // SAFETY: the kernel chooses an address at which nothing is mapped.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0).cast::<u8>()
        };
        assert_ne!(start.cast(), libc::MAP_FAILED);
        let bench = Bench { start, shape };
        bench.long(bench.slot() + slot::SELF).store(bench.slot(), Ordering::SeqCst);
        bench.long(bench.slot() + slot::HEADER).store(bench.header(), Ordering::SeqCst);
        bench.set_pointer(bench.records(0));
        bench.word(bench.chunk(0) + chunk::STATE).store(chunk::FILLING, Ordering::SeqCst);
        // SAFETY: nothing else of this thread uses gs.
        unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1001, bench.slot()) };
        bench
    }

    fn bytes(shape: &LogShape) -> usize {
        CODE_BYTES + (shape.slot_bytes() + shape.chunk_bytes + 2 * PAGE_BYTES) as usize
    }

    fn code(&self) -> u64 {
        self.start as u64
    }

    fn header(&self) -> u64 {
        self.code() + CODE_BYTES as u64
    }

    fn slot(&self) -> u64 {
        (self.header() + PAGE_BYTES).next_multiple_of(self.shape.chunk_bytes)
    }

    fn chunk(&self, number: u64) -> u64 {
        self.slot() + self.shape.chunk_at(number)
    }

    fn records(&self, number: u64) -> u64 {
        self.chunk(number) + chunk::GUARD_BYTES
    }

    fn word(&self, address: u64) -> &AtomicU32 {
        // SAFETY: within our memory, aligned; only this thread writes to it.
        unsafe { AtomicU32::from_ptr(address as *mut u32) }
    }

    fn long(&self, address: u64) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }
    }

    fn set_pointer(&self, place: u64) {
        self.long(self.slot() + slot::POINTER).store(place, Ordering::SeqCst);
    }

    fn pointer(&self) -> u64 {
        self.long(self.slot() + slot::POINTER).load(Ordering::SeqCst)
    }

    /// Puts a tag and a return instruction into memory, and calls it a number of times.
    fn run(&self, place: TagPlace, times: usize) {
        let mut tags = Tags::new(Sink::Log(self.shape), self.code(), 1).unwrap();
        let at = self.code() + (tags.prelude_bytes() as u64).next_multiple_of(16);
        let code = tags.code(&place, at).unwrap();
        assert!(code.len() + 12 <= LOG_BYTES, "{} bytes", code.len());
        let prelude = tags.prelude();
        // SAFETY: all of it fits into the memory for code.
        unsafe {
            std::ptr::copy_nonoverlapping(prelude.as_ptr(), self.start, prelude.len());
            std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len());
            *((at + code.len() as u64) as *mut u8) = 0xc3;
        }
        for _ in 0..times {
            checked_call(at, place);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: nothing of the memory is used any longer, not by gs either.
        unsafe {
            libc::syscall(libc::SYS_arch_prctl, 0x1001, 0);
            libc::munmap(self.start.cast(), Self::bytes(&self.shape));
        }
    }
}

/// Calls code and checks that it keeps registers, and flags and the red zone if the place requires
/// it.
fn checked_call(at: u64, place: TagPlace) {
    let registers: [u64; 6] = [1, 2, 3, 4, 5, 6].map(|n| n * 0x1111_1111_1111_1111);
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5] = registers;
    let (carry, below): (u64, u64);
    // SAFETY: the code returns, and touches the stack only in the reserved space.
    unsafe {
        std::arch::asm!(
            "lea rsp, [rsp-1024]",
            "mov qword ptr [rsp-16], 77", // below the return address, in the red zone
            "stc",
            "call {at}",
            "setc byte ptr [rsp]",
            "mov {below}, [rsp-16]",
            "movzx {carry}, byte ptr [rsp]",
            "lea rsp, [rsp+1024]",
            at = in(reg) at,
            below = lateout(reg) below,
            carry = lateout(reg) carry,
            inout("rax") r0, inout("rdx") r1, inout("r11") r2,
            inout("rcx") r3, inout("rdi") r4, inout("r10") r5,
        );
    }
    assert_eq!([r0, r1, r2, r3, r4, r5], registers, "{place:?}");
    assert!(!place.flags || carry == 1, "{place:?}");
    assert!(!place.red_zone || below == 77, "{place:?}");
}

fn places() -> impl Iterator<Item = TagPlace> {
    let combinations = (0..4).map(|bits| (bits & 1 != 0, bits & 2 != 0));
    combinations.map(|(red_zone, flags)| TagPlace { event: 40, red_zone, flags })
}

#[test]
fn a_record_contains_time_stack_pointer_and_word() {
    for place in places() {
        let bench = Bench::new(BUFFER);
        bench.run(place, 2);
        let first = bench.records(0);
        let record = |at: u64| {
            let word = |offset| bench.word(at + offset).load(Ordering::SeqCst);
            (bench.long(at).load(Ordering::SeqCst), word(8), word(12))
        };
        let [(before, sp, word), (after, sp_again, word_again)] = [first, first + 16].map(record);
        assert!(before != 0 && before < after);
        assert_eq!((sp, word), (sp_again, word_again), "the same frame");
        assert_eq!(word, 41);
        assert!(sp != 0 && sp % 8 == 0, "{sp:x}");
        assert_eq!(bench.pointer(), first + 32);
    }
}

#[test]
fn records_of_all_forms_contain_the_same_stack_pointer() {
    for is_timed in [true, false] {
        let shape = LogShape { is_timed, ..BUFFER };
        let bench = Bench::new(shape);
        places().for_each(|place| bench.run(place, 1));
        let sp = |n: u64| {
            let at = bench.records(0) + n * shape.record_bytes() + shape.sp_at();
            bench.word(at).load(Ordering::SeqCst)
        };
        assert_eq!([1, 2, 3].map(sp), [sp(0); 3]);
    }
}

#[test]
fn a_full_chunk_is_handed_over_and_the_next_one_taken() {
    let bench = Bench::new(BUFFER);
    let capacity = BUFFER.capacity() as usize;
    bench.run(TagPlace::entry(FunctionId(20)), capacity + 3);
    let state = |number| bench.word(bench.chunk(number) + chunk::STATE).load(Ordering::SeqCst);
    assert_eq!((state(0), state(1)), (chunk::FULL, chunk::FILLING));
    assert_eq!(bench.pointer(), bench.records(1) + 3 * 16);
    let words = (0..capacity as u64).map(|n| bench.word(bench.records(0) + n * 16 + 12));
    assert!(words.into_iter().all(|word| word.load(Ordering::SeqCst) == 41));
}

#[test]
fn records_without_a_free_chunk_are_dropped_and_counted() {
    let bench = Bench::new(BUFFER);
    let capacity = BUFFER.capacity() as usize;
    bench.run(TagPlace::exit(FunctionId(20)), 4 * capacity + 1);
    let of_slot = |offset| bench.word(bench.slot() + offset).load(Ordering::SeqCst);
    assert_eq!(of_slot(slot::DROPPING), 1);
    assert_eq!(of_slot(slot::DROPPED), 2 * capacity as u32);
    assert_eq!(bench.pointer(), bench.slot() + chunk::GUARD_BYTES + 16);
    bench.word(bench.chunk(2) + chunk::STATE).store(chunk::FREE, Ordering::SeqCst);
    bench.run(TagPlace::exit(FunctionId(20)), capacity);
    assert_eq!(of_slot(slot::DROPPING), 0);
    let lost = bench.long(bench.chunk(2) + chunk::LOST).load(Ordering::SeqCst);
    assert_eq!(lost, 3 * capacity as u64);
    assert_eq!(bench.pointer(), bench.records(2) + 16);
}

#[test]
fn threads_do_not_wait_for_a_dead_controller() {
    let bench = Bench::new(LogShape { when_full: WhenFull::Wait, ..BUFFER });
    let dead = || bench.word(bench.header() + header::DEAD).load(Ordering::SeqCst);
    bench.run(TagPlace::entry(FunctionId(20)), 2 * BUFFER.capacity() as usize);
    assert_eq!(dead(), 0);
    // The first wait lasts until the liveness counter counts as stopped; later ones return at once.
    bench.run(TagPlace::entry(FunctionId(20)), 20 * BUFFER.capacity() as usize);
    assert_eq!(dead(), 1);
}

#[test]
fn a_card_sees_an_address_for_each_event() {
    let mut tags = Tags::new(Sink::Card, 0x1000, 1).unwrap();
    let code = tags.code(&TagPlace::exit(FunctionId(2)), 0x1000).unwrap();
    // mov dword gs:[0x140], 6
    assert_eq!(code, [0x65, 0xc7, 0x04, 0x25, 0x40, 0x01, 0, 0, 6, 0, 0, 0]);
    assert_eq!(tags.prelude_bytes(), 0);
}

#[test]
fn counters_count_entries_only() {
    let mut tags = Tags::new(Sink::Count, 0x1000, 1).unwrap();
    let entry = tags.code(&TagPlace::entry(FunctionId(2)), 0x1000).unwrap();
    // inc qword gs:[0x10]
    assert_eq!(entry, [0x65, 0x48, 0xff, 0x04, 0x25, 0x10, 0, 0, 0]);
    assert!(tags.code(&TagPlace::exit(FunctionId(2)), 0x1000).unwrap().is_empty());
}
