//! Defines the layout of the memory that stubs share with the controller.
//!
//! ```text
//! memory   header | patches | ... | slot 0 | slot 1 | ... | a page that is never accessed
//! slot     of counts: 8 bytes a function, whole pages
//!          of a log:  chunk 0, the spare one | chunk 1 | ... | chunk N
//! chunk    guard page | records ...
//! ```
//!
//! The `gs` of a thread is the address of its slot. The chunks of a log are aligned to their size,
//! which is a power of two. A tag reserves a place for a record by an addition to a pointer. The
//! resulting address itself shows whether the place is valid: the last record of a chunk is
//! followed by a guard page, and no valid place is in a guard page. Chunk 0 takes records that are
//! dropped. Its guard page contains the slot's fields; the guard pages of the other chunks contain
//! the chunk's fields.
//!
//! | header | bytes | |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | [`VERSION`] |
//! | 12 | 4 | process number of the controller |
//! | 16 | 8 | offset of the patches |
//! | 24 | 8 | number of patches |
//! | 32 | 8 | offset of the slots |
//! | 40 | 8 | bytes of a slot |
//! | 48 | 8 | [`COOKIE`](header::COOKIE): ends added memory, after [`MAGIC`] |
//! | 64 | 4 | [`LIVENESS`](header::LIVENESS), incremented while the controller lives |
//! | 68 | 4 | [`DEAD`](header::DEAD): no thread waits for the controller |
//! | 72 | 4 | [`NO_CALLS`](header::NO_CALLS): tags make no system calls, because the process has forbidden itself such calls |
//! | 76 | 4 | [`ANSWER`](header::ANSWER): written by a system call that the controller lets a thread make |
//! | 128 | 4 | [`DOORBELL`](header::DOORBELL), incremented when a chunk is handed over |
//! | 132 | 4 | [`SLEEPS`](header::SLEEPS): the controller waits at the doorbell |
//! | 192 | 4 | [`ASKED`](header::ASKED), incremented by each thread that waits at a breakpoint |
//! | 196 | 4 | [`GIVEN_UP`](header::GIVEN_UP): no thread waits at breakpoints |
//! | 256 | 4 | [`ANSWERED`](header::ANSWERED): number up to which waiting threads are released |
//! | 260 | 4 | [`BREAKPOINT_LIVENESS`](header::BREAKPOINT_LIVENESS), incremented while the controller handles breakpoints |
//!
//! | slot of a log | bytes | written by | |
//! |---|---|---|---|
//! | 0 | 8 | thread | [`POINTER`](slot::POINTER): address of its next record |
//! | 64 | 8 | thread | [`NUMBER`](slot::NUMBER): number of chunks it has handed over |
//! | 72 | 8 | thread | [`DROPPED`](slot::DROPPED): number of records written to full spare chunks, which are lost |
//! | 80 | 4 | thread | [`DROPPING`](slot::DROPPING): it fills the spare chunk |
//! | 84 | 4 | controller | [`ABANDONED`](slot::ABANDONED): the thread never waits |
//! | 88 | 8 | controller | [`HEADER`](slot::HEADER): address of the header in the process |
//! | 96 | 8 | controller | [`SELF`](slot::SELF): address of the slot in the process |
//! | 128 | 4 | controller | [`FREED`](slot::FREED), incremented for each chunk that becomes free |
//! | 132 | 4 | both | [`WAITING`](slot::WAITING): the thread waits for a change of [`FREED`](slot::FREED) |
//!
//! | chunk | bytes | |
//! |---|---|---|
//! | 0 | 4 | [`STATE`](chunk::STATE): [`FREE`](chunk::FREE), [`FILLING`](chunk::FILLING), [`FULL`](chunk::FULL) |
//! | 8 | 8 | [`LOST`](chunk::LOST): the thread's [`DROPPED`](slot::DROPPED) when it took the chunk |
//!
//! | patch | bytes | |
//! |---|---|---|
//! | 0 | 8 | address |
//! | 8 | 8 | number of overwritten bytes; 0 for added memory, which begins at the address |
//! | 16 | 8 | the original bytes; for added memory, its size |
//! | 24 | 8 | the new bytes |
//!
//! Added memory is recorded before it is mapped; a record with size 0 stands for no memory. Patches
//! are listed in the order in which they are written. If they are removed in reverse order, the
//! program is correct after each removal.

/// First bytes of the memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hmtttags");
/// Version of this layout.
pub const VERSION: u32 = 3;
/// Bytes of a page of memory.
pub const PAGE_BYTES: u64 = 4096;

/// Offsets in the header.
pub mod header {
    #![allow(missing_docs)]
    pub const MAGIC: u64 = 0;
    pub const VERSION: u64 = 8;
    pub const CONTROLLER: u64 = 12;
    pub const PATCHES_AT: u64 = 16;
    pub const PATCHES: u64 = 24;
    pub const SLOTS_AT: u64 = 32;
    pub const SLOT_BYTES: u64 = 40;
    pub const COOKIE: u64 = 48;
    pub const LIVENESS: u64 = 64;
    pub const DEAD: u64 = 68;
    pub const NO_CALLS: u64 = 72;
    pub const ANSWER: u64 = 76;
    pub const DOORBELL: u64 = 128;
    pub const SLEEPS: u64 = 132;
    pub const ASKED: u64 = 192;
    pub const GIVEN_UP: u64 = 196;
    pub const ANSWERED: u64 = 256;
    pub const BREAKPOINT_LIVENESS: u64 = 260;
}

/// Offsets in the slot of a log.
pub mod slot {
    #![allow(missing_docs)]
    pub const POINTER: u64 = 0;
    pub const NUMBER: u64 = 64;
    pub const DROPPED: u64 = 72;
    pub const DROPPING: u64 = 80;
    pub const ABANDONED: u64 = 84;
    pub const HEADER: u64 = 88;
    pub const SELF: u64 = 96;
    pub const FREED: u64 = 128;
    pub const WAITING: u64 = 132;
}

/// Offsets in a chunk, and its states.
pub mod chunk {
    #![allow(missing_docs)]
    pub const STATE: u64 = 0;
    pub const LOST: u64 = 8;
    /// Bytes before the records.
    pub const GUARD_BYTES: u64 = super::PAGE_BYTES;
    /// State: the chunk is all zeros and belongs to nobody.
    pub const FREE: u32 = 0;
    /// State: the chunk belongs to the thread, which fills it.
    pub const FILLING: u32 = 1;
    /// State: the chunk belongs to the controller, which empties it.
    pub const FULL: u32 = 2;
}

/// Bytes of the record of a patch.
pub const PATCH_BYTES: u64 = 32;
/// Maximum number of bytes that a patch overwrites.
pub const OVERWRITTEN_BYTES: usize = 8;

/// Behaviour of a thread when no chunk is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The thread waits for a free chunk, as long as the controller lives.
    Wait,
    /// The thread continues, and counts the dropped records.
    Drop,
}

/// Sizes of a log's slots and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Whether records contain times.
    pub is_timed: bool,
    /// Bytes of a chunk: a power of two, at least twice the guard page.
    pub chunk_bytes: u64,
    /// Number of chunks of a thread without the spare one, a power of two.
    pub chunks: u64,
    /// Behaviour of a thread when no chunk is free.
    pub when_full: WhenFull,
}

impl LogShape {
    /// Smallest and largest size of a chunk, in bytes. The lower 32 bits of an address must
    /// distinguish a record from a guard page.
    pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 2 * PAGE_BYTES..=1 << 30;

    /// Bytes of a record.
    pub const fn record_bytes(&self) -> u64 {
        if self.is_timed { 16 } else { 8 }
    }

    /// Offset of a record's event word, which is written last.
    pub const fn word_at(&self) -> u64 {
        self.record_bytes() - 4
    }

    /// Offset of the stack pointer in a record.
    pub const fn sp_at(&self) -> u64 {
        self.record_bytes() - 8
    }

    /// Number of records in a chunk.
    pub const fn capacity(&self) -> u64 {
        (self.chunk_bytes - chunk::GUARD_BYTES) / self.record_bytes()
    }

    /// Mask of address bits. They are all 0 in guard pages, and not all 0 at any other place of a
    /// chunk.
    pub const fn place_mask(&self) -> u32 {
        (self.chunk_bytes - chunk::GUARD_BYTES) as u32
    }

    /// Bytes of a thread's slot.
    pub const fn slot_bytes(&self) -> u64 {
        self.chunk_bytes * (self.chunks + 1)
    }

    /// Offset in a slot of the chunk that the thread takes as its `number`th. The chunks are taken
    /// in turn.
    pub const fn chunk_at(&self, number: u64) -> u64 {
        self.chunk_bytes * (1 + number % self.chunks)
    }
}
