//! Maps memory for stubs in a process, so that whoever finds it later knows whose it is.
//!
//! An area is noted in the shared memory before it is mapped, and its last [`COOKIE_BYTES`] bytes are a cookie that
//! the header of the shared memory has as well. A later controller takes for ours what is noted and either has the
//! cookie or, if the controller died before it was written, is still empty.

use std::ops::Range;

use super::TagError;
use super::loaded::{self, Loaded};
use super::shared::Shared;
use crate::ptrace::{Mapping, Process, mappings};
use crate::stubs::layout::{MAGIC, PAGE_BYTES};

/// Bytes of an area that are no room for stubs.
pub(super) const COOKIE_BYTES: u64 = 16;

/// What an area of the shared memory with this cookie ends with.
pub(super) fn ending(cookie: u64) -> [u8; COOKIE_BYTES as usize] {
    let mut bytes = [0; COOKIE_BYTES as usize];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..].copy_from_slice(&cookie.to_le_bytes());
    bytes
}

/// Maps memory for so many bytes of instructions near a program, not writable.
///
/// # Errors
/// [`TagError::Answer`] if the process does not have it where it says; nothing was written there.
pub(super) fn reserve(
    process: &mut Process,
    shared: &Shared,
    loaded: &Loaded,
    bytes: u64,
) -> Result<Range<u64>, TagError> {
    reserve_in(process, shared, |mapped, bytes| loaded.gap(mapped, bytes), bytes)
}

/// The same near an address.
///
/// # Errors
/// As of [`reserve`].
pub(super) fn reserve_near(
    process: &mut Process,
    shared: &Shared,
    near: u64,
    bytes: u64,
) -> Result<Range<u64>, TagError> {
    reserve_in(process, shared, |mapped, bytes| loaded::gap(mapped, near, bytes), bytes)
}

fn reserve_in(
    process: &mut Process,
    shared: &Shared,
    gap: impl Fn(&[Mapping], u64) -> Option<u64>,
    bytes: u64,
) -> Result<Range<u64>, TagError> {
    let pid = process.pid;
    let bytes = (bytes + COOKIE_BYTES).next_multiple_of(PAGE_BYTES);
    let no_room = TagError::NoRoom(pid, bytes);
    let start = gap(&mappings(pid)?, bytes).ok_or(no_room)?;
    let area = start..start + bytes;
    let number = shared.note_area(&area)?;
    let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let operation = "map memory for stubs";
    let arguments = [start, bytes, protection, flags, u64::MAX, 0];
    let mapped = process.call((libc::SYS_mmap, operation), arguments);
    let mapped = mapped.inspect_err(|_| shared.forget_area(number))?;
    if mapped != start || !mappings(pid)?.iter().any(|one| can_be(one, &area)) {
        shared.forget_area(number);
        let found = format!("{mapped:x}, where it is not");
        return Err(TagError::Answer { pid, operation, found });
    }
    process.write(area.end - COOKIE_BYTES, &ending(shared.cookie()))?;
    Ok(area)
}

/// Whether an area may be in a mapping: of nobody's file, private, and not writable for the process.
pub(super) fn can_be(mapping: &Mapping, area: &Range<u64>) -> bool {
    mapping.executable
        && !mapping.writable
        && !mapping.shared
        && mapping.file.is_none()
        && mapping.start <= area.start
        && area.end <= mapping.end
}
