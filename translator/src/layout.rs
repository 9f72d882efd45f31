//! Defines the layout of the memory that generated code shares with the controller.
//!
//! ```text
//! lookup table  65,536 cache addresses of 8 bytes | 256 bytes by system call | below 2 GiB, read-only in the program
//! header        one page for the process, read and written by both sides
//! thread area   fields | ... | chunk 0, slack | ... | chunk 1, slack | ... , read and written by both sides
//! ```
//!
//! **Lookup table.** The low 16 bits of an original address are the number of its entry. The entry
//! has an address in the cache: the prefix of a block, or the stub for indirect misses. A thread
//! whose target is the original address continues there. The prefix compares the whole original
//! address. After the entries there is a byte for each value of the low 8 bits of a system call's
//! number: [`ASKED`](lookup::ASKED) or [`AT_ONCE`](lookup::AT_ONCE).
//!
//! **Thread area.** `gs` of a thread is its address, a multiple of
//! [`CHUNK_STRIDE`](ring::CHUNK_STRIDE). The controller sets all fields before the thread enters
//! the cache. A thread writes all fields that are not marked as fields of the controller. The
//! controller trusts no field.
//!
//! **Ring.** Chunk `c` starts at [`chunk_at(c)`](ring::chunk_at) and ends at a multiple of the
//! stride, so a pointer that has passed its end has zeros in bits 16 to 23. These bits are tested
//! before a block number is written, except in a block that is entered forward within a page. Such
//! a block may write to the slack behind the chunk. The slack is longer than everything that a
//! series of such blocks can write.
//!
//! **Notes.** A number with bit 31 set is a note, not a block. Bits 28 to 30 are its kind, and the
//! bits below are its payload.
//!
//! | kind | payload | written | meaning |
//! |---|---|---|---|
//! | [`START`](ring::START) | 0 | by the controller, while the thread is stopped, before it enters the cache | the block before the note does not lead to the block after the note; between them there may have been native code, a signal or nothing |
//! | [`NATIVE`](ring::NATIVE) | 0 | by the controller, behind a start, if accesses are recorded | the thread has executed code that is not translated |
//! | [`CALL`](ring::CALL) | number of a system call | after a block that ends with a system call | the call is made |
//! | [`TIME`](ring::TIME) | duration in units of 64 ticks of the time stamp counter, at most all ones | after that call | the call has returned |
//!
//! | lookup table | bytes | |
//! |---|---|---|
//! | 0 | 524,288 | [`ENTRIES`](lookup::ENTRIES) cache addresses |
//! | 524,288 | 256 | [`CALLS`](lookup::CALLS): for each system call, whether the controller is asked first |
//!
//! | header | bytes | written by | |
//! |---|---|---|---|
//! | 0 | 4 | controller, kernel | [`CONTROLLER`](header::CONTROLLER): robust futex word with the number of the translating thread; no thread waits if the number is 0 or if [`OWNER_DIED`](header::OWNER_DIED) is set |
//! | 64 | 4 | threads | [`REQUESTS`](header::REQUESTS), incremented at each request; futex of the translating thread |
//! | 68 | 4 | controller | [`SLEEPS`](header::SLEEPS): the translating thread waits for a change of `REQUESTS`, and must be woken |
//! | 128 | 4 | threads | [`FILLED`](header::FILLED), incremented at each full chunk; futex of the monitor |
//! | 132 | 4 | controller | [`MONITOR_SLEEPS`](header::MONITOR_SLEEPS): the monitor waits for a change of `FILLED`, and must be woken |
//! | 192 | 4 | kernel | [`ANSWER`](header::ANSWER): whether a thread may read the time stamp counter, before the process is followed |
//!
//! | thread area | bytes | written by | |
//! |---|---|---|---|
//! | 0 | 128 | thread | [`SAVE`](area::SAVE): the program's values of borrowed registers, by register number |
//! | 128 | 4 | thread | [`EXIT`](area::EXIT): number of the exit that was taken, or [`INDIRECT`](area::INDIRECT) |
//! | 132 | 4 | both | [`ASK`](area::ASK): futex of the thread; [`IDLE`](area::IDLE), [`ASKING`](area::ASKING), [`CACHED`](area::CACHED), [`NATIVE`](area::NATIVE) |
//! | 136 | 8 | thread | [`TARGET`](area::TARGET): original address at which the program continues |
//! | 144 | 8 | both | [`CONTINUE`](area::CONTINUE): address at which the thread continues, the answer to a request |
//! | 152 | 8 | thread | [`FLAGS`](area::FLAGS): flags of the program: bits 8 to 15 as `lahf` stores them in `ah`, bit 0 the overflow flag |
//! | 160 | 8 | controller | [`HEADER`](area::HEADER): address of the header in the process |
//! | 168 | 8 | controller | [`SELF`](area::SELF): address of the area in the process |
//! | 176 | 16 | controller | [`TIMEOUT`](area::TIMEOUT): after this time a waiting thread checks whether the controller lives; a `timespec` |
//! | 192 | 4 | controller | [`WHEN_FULL`](area::WHEN_FULL): [`WAIT`](area::WAIT) or [`DROP`](area::DROP), if no chunk is free |
//! | 196 | 4 | controller | [`CHUNK_MASK`](area::CHUNK_MASK): number of chunks minus 1; the number is a power of two |
//! | 200 | 4 | thread | [`CHUNK`](area::CHUNK): number of the chunk that the thread fills |
//! | 204 | 4 | thread | [`WAITING`](area::WAITING): the thread waits for a free chunk, and must be woken |
//! | 208 | 8 | thread | [`HANDED`](area::HANDED): number of chunks that the thread has handed over |
//! | 216 | 8 | thread | [`DROPPED`](area::DROPPED): number of words of 4 bytes that the thread has dropped |
//! | 224 | 8 | thread | [`CALLED_AT`](area::CALLED_AT): time stamp counter before the thread's last system call |
//! | 232 | 4 | thread | [`CALL_NUMBER`](area::CALL_NUMBER): number of that system call |
//! | 240 | 8 | both | [`SINCE`](area::SINCE): time stamp counter when the thread began to fill the chunk, moved on by each pause since then |
//! | 248 | 8 | thread | [`PAUSED_AT`](area::PAUSED_AT): time stamp counter when the thread began to ask the controller, or to wait for a free chunk |
//! | 256 | 64 | both | [`CHUNK_STATE`](area::CHUNK_STATE): 4 bytes a chunk, [`FREE`](ring::FREE) or [`FULL`](ring::FULL); futex of the thread |
//! | 320 | 128 | thread | [`CHUNK_END`](area::CHUNK_END): 8 bytes a chunk: address after the last number of a full chunk |
//! | 448 | 128 | thread | [`CHUNK_TICKS`](area::CHUNK_TICKS): 8 bytes a chunk: ticks of the time stamp counter in which a full chunk was filled, without pauses |
//! | 576 | 128 | thread | [`CHUNK_DROPPED`](area::CHUNK_DROPPED): 8 bytes a chunk: number of words that the thread had dropped in all when the chunk became full; the words that it has dropped since the previous full chunk were directly before this chunk |
//! | 704 | 8 | controller | [`BASE`](area::BASE): the base of the segment `fs` that was noted last in the ring, with records of accesses |
//! | 712 | 8 | thread | [`DROPPED_BASE`](area::DROPPED_BASE): [`BASE`](area::BASE) when words were dropped last |
//! | 720 | 128 | thread | [`CHUNK_BASE`](area::CHUNK_BASE): 8 bytes a chunk: [`DROPPED_BASE`](area::DROPPED_BASE) when it was full |
//! | 848 | 8 | controller | [`SIGNAL_MASK`](area::SIGNAL_MASK): the program's signal mask while signals of the thread are deferred (docs/monitor.md) |
//! | 856 | 4 | both | [`DEFERS`](area::DEFERS): signals are deferred; without a controller the thread sets the mask in `SIGNAL_MASK` |
//!
//! **Pauses** are the times in which a thread does not execute code of the cache: system calls,
//! native code, the delivery of signals by the controller, and waiting for an answer or for a free
//! chunk. [`CALLED_AT`](area::CALLED_AT) is 0 outside of system calls.

/// Bytes of a page of memory.
pub const PAGE_BYTES: u64 = 4096;

/// Sizes and offsets of the lookup table.
pub mod lookup {
    /// Number of cache addresses.
    pub const ENTRIES: u64 = 1 << 16;
    /// Offset of the bytes for system calls.
    pub const CALLS: u64 = ENTRIES * 8;
    /// Bytes of the table, whole pages.
    pub const BYTES: u64 = CALLS + super::PAGE_BYTES;
    /// Byte for a system call: the controller is asked first.
    pub const ASKED: u8 = 0;
    /// Byte for a system call: it is made at once.
    pub const AT_ONCE: u8 = 1;
}

/// Offsets in the header of a process, and values of its fields.
pub mod header {
    #![allow(missing_docs)]
    pub const CONTROLLER: u32 = 0;
    pub const REQUESTS: u32 = 64;
    pub const SLEEPS: u32 = 68;
    pub const FILLED: u32 = 128;
    pub const MONITOR_SLEEPS: u32 = 132;
    pub const ANSWER: u32 = 192;
    /// The kernel sets this bit in the controller's word when the translating thread dies.
    pub const OWNER_DIED: u32 = 0x4000_0000;
    /// Bits of the controller's word that contain the number of the thread.
    pub const OWNER: u32 = 0x3fff_ffff;
    /// Bytes of the header.
    pub const BYTES: u64 = super::PAGE_BYTES;
}

/// Offsets in a thread area, and values of its fields.
pub mod area {
    #![allow(missing_docs)]
    pub const SAVE: u32 = 0;
    pub const EXIT: u32 = 128;
    pub const ASK: u32 = 132;
    pub const TARGET: u32 = 136;
    pub const CONTINUE: u32 = 144;
    pub const FLAGS: u32 = 152;
    pub const HEADER: u32 = 160;
    pub const SELF: u32 = 168;
    pub const TIMEOUT: u32 = 176;
    pub const WHEN_FULL: u32 = 192;
    pub const CHUNK_MASK: u32 = 196;
    pub const CHUNK: u32 = 200;
    pub const WAITING: u32 = 204;
    pub const HANDED: u32 = 208;
    pub const DROPPED: u32 = 216;
    pub const CALLED_AT: u32 = 224;
    pub const CALL_NUMBER: u32 = 232;
    pub const SINCE: u32 = 240;
    pub const PAUSED_AT: u32 = 248;
    pub const CHUNK_STATE: u32 = 256;
    pub const CHUNK_END: u32 = 320;
    pub const CHUNK_TICKS: u32 = 448;
    pub const CHUNK_DROPPED: u32 = 576;
    pub const BASE: u32 = 704;
    pub const DROPPED_BASE: u32 = 712;
    pub const CHUNK_BASE: u32 = 720;
    pub const SIGNAL_MASK: u32 = 848;
    pub const DEFERS: u32 = 856;
    /// Bytes of the fields, before the chunks.
    pub const FIELD_BYTES: u64 = super::PAGE_BYTES;

    /// Exit: an indirect transfer to the target in the area.
    pub const INDIRECT: u32 = 0;

    /// Request: none.
    pub const IDLE: u32 = 0;
    /// Request: the thread waits for an answer.
    pub const ASKING: u32 = 1;
    /// Answer: an address of the cache.
    pub const CACHED: u32 = 2;
    /// Answer: an address of the original code.
    pub const NATIVE: u32 = 3;

    /// If no chunk is free: wait, as long as the controller lives.
    pub const WAIT: u32 = 0;
    /// If no chunk is free: drop the numbers of the chunk that was filled, and count them.
    pub const DROP: u32 = 1;

    /// Offset of the saved value of a register, by its number in encodings.
    pub const fn save(register: u8) -> u32 {
        SAVE + 8 * register as u32
    }
}

/// Sizes and notes of the ring of a thread.
pub mod ring {
    /// Maximum number of chunks of a ring.
    pub const MAX_CHUNKS: u64 = 16;
    /// Distance between chunks, and alignment of a thread area.
    pub const CHUNK_STRIDE: u64 = 1 << 24;
    /// Bytes of a chunk before its slack.
    pub const CHUNK_BYTES: u64 = 1 << 20;
    /// Bytes after a chunk that unchecked blocks may write to.
    pub const SLACK_BYTES: u64 = 1 << 16;
    /// Address bits that are all 0 at any address in the slack, and never all 0 in a chunk.
    pub const PLACE_MASK: u32 = 0x00ff_0000;
    /// Notes in the ring. They are also the notes in a trace of accesses.
    pub use hmtt_files::access_trace::{
        CALL, CUT, FS_BASE, KIND_SHIFT, NATIVE, NOTE, PAYLOAD, START, TIME, note,
    };
    /// Binary logarithm of the ticks of the time stamp counter in a unit of the payload of
    /// [`TIME`].
    pub const TIME_SHIFT: u32 = 6;
    /// State of a chunk: the thread fills it or may fill it.
    pub const FREE: u32 = 0;
    /// State of a chunk: the monitor reads it.
    pub const FULL: u32 = 1;

    /// Offset of a chunk in the thread area.
    pub const fn chunk_at(number: u64) -> u64 {
        (number + 1) * CHUNK_STRIDE - CHUNK_BYTES
    }

    /// Bytes of a thread area with this many chunks, most of which are never accessed.
    pub const fn area_bytes(chunks: u64) -> u64 {
        chunks * CHUNK_STRIDE + SLACK_BYTES
    }
}
