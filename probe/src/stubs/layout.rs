//! The memory that stubs and the controller share: where in it everything is.
//!
//! ```text
//! memory   header | patches | ... | slot 0 | slot 1 | ... | a page that is only pointed at
//! slot     of counts: 8 bytes a function, whole pages
//!          of a log:  chunk 0, the spare one | chunk 1 | ... | chunk N
//! chunk    guard page | records ...
//! ```
//!
//! `gs` of a thread is the address of its slot. A chunk of a log begins at a multiple of its size, which is a
//! power of two: so a place for a record, which is reserved by an addition, says by itself whether it is one. Behind
//! the last record of a chunk comes a guard page, whose places are none. Chunk 0 takes what is dropped; its
//! guard page has the slot's fields, those of the others have theirs.
//!
//! | header | bytes | |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | [`VERSION`] |
//! | 12 | 4 | number of the controlling process |
//! | 16 | 8 | where the patches are, from the start |
//! | 24 | 8 | how many they are |
//! | 32 | 8 | where the slots are, from the start |
//! | 40 | 8 | bytes of a slot |
//! | 48 | 8 | [`COOKIE`]: what added memory ends with, behind [`MAGIC`] |
//! | 64 | 4 | [`HEARTBEAT`], raised while the controller lives |
//! | 68 | 4 | [`DEAD`]: nobody is to wait for it any more |
//! | 72 | 4 | [`NO_CALLS`]: tags make no system calls: the process has forbidden itself those |
//! | 128 | 4 | [`DOORBELL`], raised when a chunk is handed over |
//! | 132 | 4 | [`SLEEPS`]: the controller waits at the doorbell |
//! | 192 | 4 | [`ASKED`], raised by each thread that waits at a gate |
//! | 196 | 4 | [`GIVEN_UP`]: no thread waits at gates |
//! | 256 | 4 | [`ANSWERED`]: up to which of them the controller has come |
//! | 260 | 4 | [`ALIVE`], raised while the controller looks for threads at gates |
//!
//! | slot of a log | bytes | written by | |
//! |---|---|---|---|
//! | 0 | 8 | thread | [`POINTER`]: the place of its next record |
//! | 64 | 8 | thread | [`NUMBER`]: chunks it has handed over |
//! | 72 | 8 | thread | [`DROPPED`]: records it has filled the spare chunk with and thrown away |
//! | 80 | 4 | thread | [`DROPPING`]: it fills the spare chunk |
//! | 84 | 4 | controller | [`ABANDONED`]: it never waits |
//! | 88 | 8 | controller | [`HEADER`]: where the process has the header |
//! | 96 | 8 | controller | [`SELF`]: where it has the slot |
//! | 128 | 4 | controller | [`FREED`], raised for each chunk that is free again |
//! | 132 | 4 | both | [`WAITING`]: the thread waits for that |
//!
//! | chunk | bytes | |
//! |---|---|---|
//! | 0 | 4 | [`STATE`]: [`FREE`], [`FILLING`], [`FULL`] |
//! | 8 | 8 | [`LOST`]: what the thread had dropped when it took the chunk |
//!
//! | patch | bytes | |
//! |---|---|---|
//! | 0 | 8 | address |
//! | 8 | 8 | how many bytes are overwritten; 0 for memory that was added, which begins there |
//! | 16 | 8 | what stood there; of added memory, how many bytes it is |
//! | 24 | 8 | what stands there now |
//!
//! Added memory is noted before it is mapped; 0 bytes of it are none. Patches are in the order in which they are put in: taken out in the other order, a program is right after
//! each of them.

/// What the memory begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hmtttags");
/// Of this layout.
pub const VERSION: u32 = 3;
/// Of memory.
pub const PAGE_BYTES: u64 = 4096;

/// Places in the header.
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
    pub const HEARTBEAT: u64 = 64;
    pub const DEAD: u64 = 68;
    pub const NO_CALLS: u64 = 72;
    pub const DOORBELL: u64 = 128;
    pub const SLEEPS: u64 = 132;
    pub const ASKED: u64 = 192;
    pub const GIVEN_UP: u64 = 196;
    pub const ANSWERED: u64 = 256;
    pub const ALIVE: u64 = 260;
}

/// Places in the slot of a log.
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

/// Places in a chunk, and its states.
pub mod chunk {
    #![allow(missing_docs)]
    pub const STATE: u64 = 0;
    pub const LOST: u64 = 8;
    /// Before the records.
    pub const GUARD_BYTES: u64 = super::PAGE_BYTES;
    /// All zeros, nobody's.
    pub const FREE: u32 = 0;
    /// The thread's.
    pub const FILLING: u32 = 1;
    /// The controller's.
    pub const FULL: u32 = 2;
}

/// A patch: bytes of it, and of what it may have overwritten.
pub const PATCH_BYTES: u64 = 32;
/// Most bytes that a patch overwrites.
pub const OVERWRITTEN_BYTES: usize = 8;

/// What a thread does that finds no free chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for one, as long as the controller lives.
    Wait,
    /// It goes on, and counts what it drops.
    Drop,
}

/// Sizes of a log's slots and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Whether records have times.
    pub is_timed: bool,
    /// Bytes of a chunk, a power of two: the guard page and as much again at least.
    pub chunk_bytes: u64,
    /// Chunks of a thread beside the spare one, a power of two.
    pub chunks: u64,
    /// What a thread does that finds none free.
    pub when_full: WhenFull,
}

impl LogShape {
    /// Fewest and most bytes of a chunk: the lower half of the address must tell a place from a guard page.
    pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 2 * PAGE_BYTES..=1 << 30;

    /// Of a record.
    pub const fn record_bytes(&self) -> u64 {
        if self.is_timed { 16 } else { 8 }
    }

    /// Where in a record its word is, which is written last.
    pub const fn word_at(&self) -> u64 {
        self.record_bytes() - 4
    }

    /// Where in a record the stack pointer is.
    pub const fn sp_at(&self) -> u64 {
        self.record_bytes() - 8
    }

    /// Records of a chunk.
    pub const fn capacity(&self) -> u64 {
        (self.chunk_bytes - chunk::GUARD_BYTES) / self.record_bytes()
    }

    /// Bits of an address that are all 0 in guard pages only.
    pub const fn place_mask(&self) -> u32 {
        (self.chunk_bytes - chunk::GUARD_BYTES) as u32
    }

    /// Of a thread's slot.
    pub const fn slot_bytes(&self) -> u64 {
        self.chunk_bytes * (self.chunks + 1)
    }

    /// Where in a slot the chunk is that is taken as the `number`th.
    pub const fn chunk_at(&self, number: u64) -> u64 {
        self.chunk_bytes * (1 + number % self.chunks)
    }
}
