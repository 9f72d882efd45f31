//! Maps memory for stubs in a process, and marks it so that a later controller recognises it.
//!
//! An area is recorded in the shared memory before it is mapped. Its last [`COOKIE_BYTES`] bytes
//! are a cookie that is also in the header of the shared memory. A later controller accepts a
//! recorded area if it has the cookie, or if it is still empty because the controller was killed
//! before it wrote the cookie.

use std::ops::Range;

use super::TagError;
use super::loaded::{self, LoadedFile};
use super::shared::Shared;
use crate::address::RunAddr;
use crate::ptrace::{Mapping, Stopped, mappings};
use crate::stubs::layout::{MAGIC, PAGE_BYTES};

/// Bytes at the end of an area that hold the cookie.
pub(super) const COOKIE_BYTES: u64 = 16;

/// The last bytes of an area, made from the cookie in the shared memory.
pub(super) fn ending(cookie: u64) -> [u8; COOKIE_BYTES as usize] {
    let mut bytes = [0; COOKIE_BYTES as usize];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..].copy_from_slice(&cookie.to_le_bytes());
    bytes
}

/// Maps an area for `bytes` bytes of code near a program. The process cannot write to it.
///
/// # Errors
/// [`TagError::NoFreeRange`] if there is no free memory near the program. [`TagError::Answer`] if
/// the area is not at the address that the process reports; nothing was written then.
pub(super) fn reserve(
    process: &mut Stopped<'_>,
    shared: &Shared,
    loaded: &LoadedFile,
    bytes: u64,
) -> Result<Range<RunAddr>, TagError> {
    reserve_in(process, shared, |mapped, bytes| loaded.gap(mapped, bytes), bytes)
}

/// Maps an area near an address.
///
/// # Errors
/// The errors of [`reserve`].
pub(super) fn reserve_near(
    process: &mut Stopped<'_>,
    shared: &Shared,
    near: RunAddr,
    bytes: u64,
) -> Result<Range<RunAddr>, TagError> {
    reserve_in(process, shared, |mapped, bytes| loaded::gap(mapped, near, bytes), bytes)
}

fn reserve_in(
    process: &mut Stopped<'_>,
    shared: &Shared,
    gap: impl Fn(&[Mapping], u64) -> Option<RunAddr>,
    bytes: u64,
) -> Result<Range<RunAddr>, TagError> {
    let pid = process.pid;
    let bytes = (bytes + COOKIE_BYTES).next_multiple_of(PAGE_BYTES);
    let no_free_range = TagError::NoFreeRange(pid, bytes);
    let start = gap(&mappings(pid)?, bytes).ok_or(no_free_range)?;
    let area = start..start + bytes;
    let number = shared.record_area(&area)?;
    let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let operation = "map memory for stubs";
    let arguments = [start.0, bytes, protection, flags, u64::MAX, 0];
    let mapped = process.call((libc::SYS_mmap, operation), arguments);
    let mapped = RunAddr(mapped.inspect_err(|_| shared.forget_area(number))?);
    if mapped != start || !mappings(pid)?.iter().any(|mapping| can_be(mapping, &area)) {
        shared.forget_area(number);
        let answer = format!("{mapped:x}, where it is not mapped");
        return Err(TagError::Answer { pid, operation, found: answer });
    }
    process.write(area.end - COOKIE_BYTES, &ending(shared.cookie()))?;
    Ok(area)
}

/// Whether `area` may lie in a mapping: the mapping is anonymous, private, and not writable for the
/// process.
pub(super) fn can_be(mapping: &Mapping, area: &Range<RunAddr>) -> bool {
    mapping.executable
        && !mapping.writable
        && !mapping.shared
        && mapping.file.is_none()
        && mapping.start <= area.start
        && area.end <= mapping.end
}
