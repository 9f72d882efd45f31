//! Tests that forged frames cause a bounded amount of work, whatever the wire has carried before.
//! Allocated bytes are counted, since time depends on the machine. `bench_forged` measures the
//! time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use hmtt::decode::{Counted, Origin, Wire};
use hmtt_test_support::forged::{Forger, Forgery};

/// An allocator that counts the allocated bytes.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of gaps before the forged frames, larger than the number that is stored.
const GAPS: usize = 11_000;
const FRAMES: usize = 20_000;
/// Maximum number of bytes that a forged frame of 60 bytes causes to be allocated on average.
const MOST: usize = 1500;

fn check(wire: &mut Wire, frames: &[Vec<u8>]) {
    for (at, frame) in (1..).zip(frames) {
        let origin = Origin { packet: at, ..Origin::default() };
        wire.push(origin, frame, &mut Counted(|_, _| {}));
    }
}

/// Returns a wire whose card has lost a frame before each of its frames.
fn wire_with_gaps() -> Wire {
    let (mut wire, mut card) = (Wire::default(), Forger::new(Forgery::Card, 3));
    let frames: Vec<_> = (0..2 * GAPS).map(|_| card.frame()).step_by(2).collect();
    check(&mut wire, &frames);
    wire
}

#[test]
fn forged_frames_allocate_little_after_many_gaps() {
    let allocations = Forgery::ALL.map(|forgery| {
        let (mut wire, mut forger) = (wire_with_gaps(), Forger::new(forgery, 1));
        let forged: Vec<_> = (0..FRAMES).map(|_| forger.frame()).collect();
        let before = ALLOCATED.load(Ordering::Relaxed);
        check(&mut wire, &forged);
        (forgery, (ALLOCATED.load(Ordering::Relaxed) - before) / FRAMES)
    });
    assert!(allocations.iter().all(|(_, bytes)| *bytes <= MOST), "bytes a frame: {allocations:?}");
}
