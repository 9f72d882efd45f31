//! Finds the pages of a process that exist because the process has touched them. A search then does
//! not read untouched memory.
//!
//! Reading an untouched page through `/proc/PID/mem` maps a page of zeros into the process. So a
//! search of a large reservation would take minutes, and would make the process larger.
//! `/proc/PID/pagemap` shows which pages exist (Linux, `Documentation/admin-guide/mm/pagemap.rst`).
//! Its ioctl `PAGEMAP_SCAN` (Linux 6.7) skips holes of any size. On older kernels, 8 bytes are read
//! for each page; these bytes count as bytes that are searched.
//!
//! Only private memory without a file reads as zeros where the process has no page. In all other
//! mappings all pages count as touched. So do all pages if the kernel lacks this file.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use super::search_budget::SearchBudget;
use super::{Mapping, PtraceError, live_thread};
use crate::address::RunAddr;
use crate::stubs::layout::PAGE_BYTES;

/// Maximum number of ranges that the kernel returns at once.
const RANGES: usize = 512;
/// Maximum number of pages whose entries are read at once.
const PAGES: u64 = 1 << 16;
/// Bytes of an entry of `pagemap`, and its bits for pages in memory and in swap space.
const ENTRY_BYTES: u64 = 8;
const EXISTS: u64 = 1 << 63 | 1 << 62;
/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
const SCAN: libc::c_ulong = 0xc060_6610;
/// Categories of pages (`PAGE_IS_PRESENT`, `PAGE_IS_SWAPPED`, `PAGE_IS_PFNZERO`). A page of the
/// last category was only read, so it is zero.
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Shows which pages of a process exist.
#[derive(Debug)]
pub(crate) struct TouchedPages {
    /// The page map; `None`: all pages count as touched.
    file: Option<File>,
    has_scan: bool,
}

impl TouchedPages {
    /// Opens the page map of a process.
    pub fn open(pid: Pid) -> Self {
        let file = File::open(format!("/proc/{}/pagemap", live_thread(pid))).ok();
        TouchedPages { file, has_scan: true }
    }

    /// Treats all pages as touched.
    #[cfg(test)]
    pub fn all() -> Self {
        TouchedPages { file: None, has_scan: false }
    }

    /// Does not use the ioctl, as on older kernels.
    #[cfg(test)]
    pub fn without_scan(mut self) -> Self {
        self.has_scan = false;
        self
    }

    /// Does one step through a range of a mapping. Returns the touched parts that the step has
    /// found, and the address at which the next step begins. For example, if only the second page
    /// of a range of four pages is touched, one step may return this page and the end of the range.
    ///
    /// # Errors
    /// [`PtraceError::TooMuchMemory`] if the budget is exceeded.
    pub fn first_parts(
        &self,
        mapping: &Mapping,
        range: &Range<RunAddr>,
        budget: &mut SearchBudget,
    ) -> Result<(Vec<Range<RunAddr>>, RunAddr), PtraceError> {
        let whole = (vec![range.clone()], range.end);
        let is_zero_where_untouched = !mapping.shared && mapping.file.is_none();
        let Some(file) = self.file.as_ref().filter(|_| is_zero_where_untouched) else {
            return Ok(whole);
        };
        let step = match self.has_scan.then(|| scan(file, range)).flatten() {
            Some(step) => Some(step),
            None => entries(file, range, budget)?,
        };
        let Some((mut parts, rest)) = step else { return Ok(whole) };
        for part in &mut parts {
            *part = part.start.max(range.start)..part.end.min(range.end);
        }
        Ok((parts, rest.min(range.end)))
    }
}

/// Result of one step: touched parts, and the address at which the next step begins.
pub(crate) type Step = (Vec<Range<RunAddr>>, RunAddr);

/// Does one step with the ioctl: finds parts of the range that are in memory or swapped out, except
/// pages of zeros. `None` if the kernel lacks the ioctl.
pub(crate) fn scan(file: &File, range: &Range<RunAddr>) -> Option<Step> {
    let mut regions = [Region::default(); RANGES];
    let mut arguments = Arguments {
        size: size_of::<Arguments>() as u64,
        start: range.start.0 / PAGE_BYTES * PAGE_BYTES,
        end: range.end.0.checked_next_multiple_of(PAGE_BYTES)?,
        regions: regions.as_mut_ptr() as u64,
        regions_len: RANGES as u64,
        category_inverted: ZERO,
        category_mask: ZERO,
        category_anyof_mask: PRESENT | SWAPPED,
        ..Arguments::default()
    };
    // SAFETY: the kernel reads and writes the arguments and writes as many regions as they say;
    // both outlive the call.
    let count = unsafe { libc::ioctl(file.as_raw_fd(), SCAN, &raw mut arguments) };
    let count = usize::try_from(count).ok()?.min(RANGES);
    let parts =
        regions[..count].iter().map(|region| RunAddr(region.start)..RunAddr(region.end)).collect();
    let rest = RunAddr(arguments.walk_end);
    (rest > range.start).then_some((parts, rest))
}

/// Does one step by the entries of single pages. `None` if the entries cannot be read.
fn entries(
    file: &File,
    range: &Range<RunAddr>,
    budget: &mut SearchBudget,
) -> Result<Option<Step>, PtraceError> {
    let first = range.start.0 / PAGE_BYTES;
    let count = (range.end.0.div_ceil(PAGE_BYTES) - first).min(PAGES);
    budget.take(count * ENTRY_BYTES)?;
    let mut bytes = vec![0; (count * ENTRY_BYTES) as usize];
    if file.read_exact_at(&mut bytes, first * ENTRY_BYTES).is_err() {
        return Ok(None);
    }
    let mut parts: Vec<Range<RunAddr>> = Vec::new();
    for (page, entry) in (first..).zip(bytes.as_chunks::<8>().0) {
        if u64::from_le_bytes(*entry) & EXISTS == 0 {
            continue;
        }
        let (start, end) = (RunAddr(page * PAGE_BYTES), RunAddr((page + 1) * PAGE_BYTES));
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    Ok(Some((parts, RunAddr((first + count) * PAGE_BYTES))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::mappings;

    /// Bytes of a reservation, and of the pages in it that are written to.
    const RESERVED: usize = 1 << 30;
    const WRITTEN: [usize; 3] = [0, 5 << 20, RESERVED - 4096];

    #[test]
    fn only_pages_that_were_written_to_are_touched() {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the mapping is new.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), RESERVED, protection, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        let start = memory as usize;
        for at in WRITTEN {
            // SAFETY: the offset is within the mapping, which is used only here.
            unsafe { memory.cast::<u8>().add(at).write_volatile(1) };
        }
        let whole = RunAddr(start as u64)..RunAddr((start + RESERVED) as u64);
        let mapped = mappings(Pid::this()).unwrap();
        let mapping =
            mapped.iter().find(|mapping| mapping.start <= whole.start && whole.start < mapping.end);
        let find = |pages: TouchedPages| -> Vec<u64> {
            let (mut offsets, mut rest) = (Vec::new(), whole.clone());
            let mut budget = SearchBudget::new(Pid::this(), "pages", RESERVED as u64);
            while rest.start < rest.end {
                let (parts, next) =
                    pages.first_parts(mapping.unwrap(), &rest, &mut budget).unwrap();
                offsets.extend(parts.iter().map(|part| part.start.0 - start as u64));
                rest.start = next;
            }
            offsets
        };
        let pages = || TouchedPages::open(Pid::this());
        // A kernel may use large pages, which begin before.
        if pages().file.is_some() {
            for offsets in [find(pages()), find(pages().without_scan())] {
                let is_before = |(offset, at): (&u64, &usize)| *at as u64 - offset < 2 << 20;
                assert_eq!(offsets.len(), WRITTEN.len(), "{offsets:?}");
                assert!(offsets.iter().zip(&WRITTEN).all(is_before), "{offsets:?}");
            }
        }
        assert_eq!(find(TouchedPages::all()), [0]);
        // SAFETY: nothing refers to the mapping any more.
        assert_eq!(unsafe { libc::munmap(memory, RESERVED) }, 0);
    }
}
