use std::cell::Cell;

use nix::errno::Errno;

use super::*;

/// Address of a restorer, address of the stacks, and size of all stacks in bytes.
const RESTORER: u64 = 0x40_0000;
const STACKS: u64 = 0x1000_0000;
const BYTES: u64 = 128 << 20;

/// A restorer, and a mapping of zeros with some words, in which some pages may be unreadable.
#[derive(Default)]
struct Memory {
    words: BTreeMap<u64, u64>,
    unreadable: Range<u64>,
    /// Whether a jump has overwritten the restorer.
    is_overwritten: bool,
    bytes_read: Cell<u64>,
}

impl ReadMemory for Memory {
    /// No process: all pages count as touched.
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::MAX)
    }

    fn read(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
        let failed = PtraceError::new(self.pid(), "read its memory");
        let range = address.0..address.0 + bytes.len() as u64;
        if range.start < self.unreadable.end && self.unreadable.start < range.end {
            return Err(failed(Errno::EIO));
        }
        if (RESTORER..RESTORER + 9).contains(&address.0) {
            let mut code = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
            if self.is_overwritten {
                code[..5].copy_from_slice(&[0xe9, 1, 2, 3, 4]);
            }
            let there = &code[(address.0 - RESTORER) as usize..];
            let there = there.get(..bytes.len()).ok_or(failed(Errno::EIO))?;
            bytes.copy_from_slice(there);
            return Ok(());
        }
        if range.start < STACKS || range.end > STACKS + BYTES {
            return Err(failed(Errno::EIO));
        }
        self.bytes_read.set(self.bytes_read.get() + bytes.len() as u64);
        bytes.fill(0);
        for (at, word) in self.words.range(range.clone()) {
            let offset = (at - range.start) as usize;
            if let Some(there) = bytes.get_mut(offset..offset + 8) {
                there.copy_from_slice(&word.to_le_bytes());
            }
        }
        Ok(())
    }
}

impl Memory {
    /// Adds a frame that is interrupted at `rip` with the stack pointer `rsp`.
    fn with_frame(mut self, at: u64, rip: u64, rsp: u64) -> Self {
        let at = STACKS + at;
        let words = [(0, RESTORER), (RIP - RSP_BEFORE, rsp), (RIP, rip)];
        let words = words.into_iter().chain([(RIP + SEGMENTS_BEHIND, u64::from(CS))]);
        self.words.extend(words.map(|(offset, word)| (at + offset as u64, word)));
        self
    }
}

fn mappings() -> Vec<Mapping> {
    let mapping = |start, bytes, executable: bool| Mapping {
        start: RunAddr(start),
        end: RunAddr(start + bytes),
        readable: true,
        writable: !executable,
        executable,
        shared: false,
        offset: 0,
        file: None,
        path: "".into(),
    };
    vec![mapping(RESTORER, 4096, true), mapping(STACKS, BYTES, false)]
}

fn rips(frames: &mut SignalFrames, memory: &Memory, thread: i32, offset: u64) -> Vec<u64> {
    let thread = (Pid::from_raw(thread), (RunAddr(RESTORER + 256), RunAddr(STACKS + offset)));
    let returns = frames.returns(memory, thread, &mappings(), &[]).unwrap();
    returns.iter().map(|handler_return| handler_return.rip.0).collect()
}

#[test]
fn many_threads_in_one_mapping_are_searched_once() {
    let memory = Memory::default().with_frame(80 << 20, 7, 0).with_frame(60 << 20, 8, 0);
    let mut frames = SignalFrames::default();
    for thread in 0..400 {
        let offset = u64::from(thread as u32) % 64 * 4096;
        assert_eq!(rips(&mut frames, &memory, thread, offset), [8]);
    }
    let read = memory.bytes_read.get();
    assert!(read < (64 << 20) + (1 << 20), "{read} bytes");
    // Each thread has the frames of its own stack.
    assert_eq!(rips(&mut frames, &memory, 1000, 70 << 20), [7]);
    assert_eq!(rips(&mut frames, &memory, 1001, 90 << 20), [0; 0]);
    assert!(memory.bytes_read.get() < BYTES + (1 << 20));
}

#[test]
fn a_thread_is_searched_again_when_it_has_run() {
    // A thread is asked for again: the saved address is read anew, the stack is not.
    let mut frames = SignalFrames::default();
    let mut memory = Memory::default().with_frame(0, 7, 0);
    assert_eq!(rips(&mut frames, &memory, 1, 0), [7]);
    let before = memory.bytes_read.get();
    memory.words.insert(STACKS + RIP as u64, 9);
    assert_eq!(rips(&mut frames, &memory, 1, 0), [9]);
    assert_eq!(memory.bytes_read.get(), before + 8);
    memory.words.clear();
    frames.forget_frames();
    assert_eq!(rips(&mut frames, &memory, 1, 0), [0; 0]);
}

#[test]
fn frames_are_found_though_their_restorer_is_overwritten() {
    let mut memory = Memory::default().with_frame(0, 7, 0);
    memory.is_overwritten = true;
    let rips = |rip: u64, rsp: u64, changed: &[RunAddr]| -> Vec<u64> {
        let thread = (Pid::from_raw(1), (RunAddr(rip), RunAddr(STACKS + rsp)));
        let returns = SignalFrames::default().returns(&memory, thread, &mappings(), changed);
        returns.unwrap().iter().map(|handler_return| handler_return.rip.0).collect()
    };
    let changed = [RunAddr(RESTORER)];
    assert_eq!(rips(RESTORER + 256, 0, &[]), [0; 0]);
    assert_eq!(rips(RESTORER + 256, 0, &changed), [7]);
    // The handler has returned, to the jump or to the system call behind it.
    assert_eq!(rips(RESTORER, 8, &changed), [7]);
    assert_eq!(rips(RESTORER + 7, 8, &changed), [7]);
    assert_eq!(rips(RESTORER + 7, 8, &[]), [0; 0]);
}

#[test]
fn a_page_that_cannot_be_read_hides_only_itself() {
    let mut memory = Memory::default().with_frame(4096, 7, 0).with_frame(5 << 20, 8, 0);
    memory.unreadable = STACKS + (2 << 20)..STACKS + (2 << 20) + 4096;
    assert_eq!(rips(&mut SignalFrames::default(), &memory, 1, 0), [7, 8]);
}

#[test]
fn a_process_with_too_much_stack_is_refused_until_it_has_run() {
    let memory = Memory::default().with_frame(0, 7, 0);
    let budget = Some(SearchBudget::new(memory.pid(), "stack", 16 << 20));
    let mut frames = SignalFrames { budget, ..SignalFrames::default() };
    let thread = (Pid::from_raw(1), (RunAddr(RESTORER + 256), RunAddr(STACKS)));
    for _ in 0..3 {
        let refused = frames.returns(&memory, thread, &mappings(), &[]).unwrap_err();
        assert!(
            matches!(refused, PtraceError::TooMuchMemory { limit: 0x100_0000, .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains("more stack to search than 16 MiB; attach refuses"));
    }
    assert!(memory.bytes_read.get() <= 16 << 20);
}
