//! Defines the formats of the files that HMTT's probes write, and that readers read: each format
//! once, with its checked view, its meaning, and the functions that parse and emit it.
//!
//! | Module | File | Document |
//! |---|---|---|
//! | [`access_trace`] | accesses of a program, as `hmtt trace` records them | docs/trace.md |
//! | [`tag_log`] | events of tagged functions, as `hmtt tag --sink log` records them | docs/tag-log.md |
//! | [`tag_map`] | what the numbers in a tag log stand for, as a file beside it | docs/tag.md |
//! | [`page_map`] | which process has which frame of memory, from `hmtt pagemap record` | docs/pagemap.md |
//! | [`page_table_record`] | changes of page tables, as a kernel reports them | docs/pagemap.md |
//! | [`profile`] | counts of basic blocks, from `hmtt monitor` | docs/monitor.md |
//! | [`block_list`] | addresses of executed blocks, which shorten the next start of a program | docs/monitor.md |
//! | [`system_call`] | names of system calls | |
//!
//! What crosses the wire between card and receiver is in the crate `hmtt-format`.
//!
//! Invariants: a change of a format increments its version, and older versions stay readable. No
//! input causes a panic; parsing takes time and memory linear in the size of the input.
#![deny(clippy::missing_errors_doc)]

pub mod access_trace;
pub mod block_list;
pub mod page_map;
pub mod page_table_record;
pub mod profile;
pub mod system_call;
pub mod tag_log;
pub mod tag_map;
pub mod varint;

/// CRC-32 of bytes that follow each other (IEEE 802.3 clause 3.2.9, as zlib computes it).
fn crc32(parts: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize()
}
