//! Reads the entries of a process's pages from `/proc/PID/pagemap`
//! (Linux, `Documentation/admin-guide/mm/pagemap.rst`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use hmtt_files::page_map::{Place, Run};
use nix::unistd::Pid;

use crate::address::RunAddr;
use crate::ptrace::{live_thread, present_parts};
use crate::stubs::layout::PAGE_BYTES;

/// Bytes of an entry.
const ENTRY_BYTES: u64 = 8;
/// Maximum number of entries that are read at once.
const ENTRIES: u64 = 1 << 13;
/// Bits of an entry: the page is in memory; it is swapped out; it belongs to a file or shared
/// memory. The number of its frame is in the low bits.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE: u64 = 1 << 61;
const FRAME: u64 = (1 << 55) - 1;

/// Pages of a process that a scan has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Runs of pages with frames.
    pub runs: Vec<Run>,
    /// Number of pages with frames.
    pub present_pages: u64,
    /// Number of pages that were swapped out.
    pub swapped_pages: u64,
    /// Number of pages whose frame the kernel did not show.
    pub hidden_pages: u64,
}

/// The open page map of a process. It belongs to the program that the process executed when the map
/// was opened.
#[derive(Debug)]
pub struct Pages {
    file: File,
    has_scan: bool,
}

impl Pages {
    /// Opens the page map of a process.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let file = File::open(format!("/proc/{}/pagemap", live_thread(pid)))?;
        Ok(Pages { file, has_scan: true })
    }

    /// Reads the pages of an address range, and adds them to `findings`. `mapping`: number of the
    /// mapping.
    pub fn read(
        &mut self,
        range: Range<RunAddr>,
        mapping: u32,
        findings: &mut Found,
    ) -> io::Result<()> {
        let mut rest = range;
        while rest.start < rest.end {
            let step = self.has_scan.then(|| present_parts(&self.file, &rest)).flatten();
            self.has_scan = step.is_some();
            let (parts, next) = step.unwrap_or_else(|| (vec![rest.clone()], rest.end));
            for part in parts {
                let last = part.end.min(rest.end);
                self.entries(
                    part.start.0 / PAGE_BYTES..last.0.div_ceil(PAGE_BYTES),
                    mapping,
                    findings,
                )?;
            }
            rest.start = next;
        }
        Ok(())
    }

    fn entries(&self, pages: Range<u64>, mapping: u32, findings: &mut Found) -> io::Result<()> {
        let mut bytes = vec![0; ((pages.end - pages.start).min(ENTRIES) * ENTRY_BYTES) as usize];
        let mut page = pages.start;
        while page < pages.end {
            let count = (pages.end - page).min(ENTRIES);
            let some = &mut bytes[..(count * ENTRY_BYTES) as usize];
            self.file.read_exact_at(some, page * ENTRY_BYTES)?;
            for (page, entry) in (page..).zip(some.as_chunks::<8>().0) {
                findings.add(page, u64::from_le_bytes(*entry), mapping);
            }
            page += count;
        }
        Ok(())
    }
}

impl Found {
    fn add(&mut self, page: u64, entry: u64, mapping: u32) {
        let frame = entry & FRAME;
        match (entry & PRESENT != 0, entry & SWAPPED != 0) {
            (true, _) if frame == 0 => self.hidden_pages += 1,
            (true, _) => {
                self.present_pages += 1;
                let place = Place { frame, mapping, is_file: entry & FILE != 0 };
                let run = Run { page, count: 1, place };
                if !self.runs.last_mut().is_some_and(|last| last.join(&run)) {
                    self.runs.push(run);
                }
            }
            (false, true) => self.swapped_pages += 1,
            (false, false) => {}
        }
    }
}

/// Whether the kernel shows the numbers of frames to this program. It does if the program has the
/// capability `CAP_SYS_ADMIN`.
///
/// # Errors
/// The entries of this process cannot be read.
pub fn shows_frames() -> io::Result<bool> {
    let here = std::hint::black_box(1u8);
    let address = &raw const here as u64;
    let page = RunAddr(address / PAGE_BYTES * PAGE_BYTES);
    let mut findings = Found::default();
    let mut pages = Pages::open(Pid::this())?;
    pages.read(page..RunAddr(page.0 + PAGE_BYTES), 1, &mut findings)?;
    Ok(findings.present_pages > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_become_runs() {
        let mut findings = Found::default();
        let entries =
            [PRESENT | 7, PRESENT | 8, PRESENT | FILE | 9, SWAPPED | 3, PRESENT, 0, PRESENT | 10];
        for (page, entry) in (100..).zip(entries) {
            findings.add(page, entry, 2);
        }
        let run = |page, count, frame, is_file| Run {
            page,
            count,
            place: Place { frame, mapping: 2, is_file },
        };
        assert_eq!(
            findings.runs,
            [run(100, 2, 7, false), run(102, 1, 9, true), run(106, 1, 10, false)]
        );
        assert_eq!(
            (findings.present_pages, findings.swapped_pages, findings.hidden_pages),
            (4, 1, 1)
        );
    }

    #[test]
    fn both_ways_to_read_find_the_same_pages() {
        let memory = vec![1u8; 1 << 20];
        let start = memory.as_ptr() as u64 / PAGE_BYTES * PAGE_BYTES;
        let range = RunAddr(start)..RunAddr(start + (1 << 20));
        let read = |has_scan| {
            let mut pages = Pages { has_scan, ..Pages::open(Pid::this()).unwrap() };
            let mut findings = Found::default();
            pages.read(range.clone(), 1, &mut findings).unwrap();
            (findings.present_pages + findings.hidden_pages, findings.runs)
        };
        let (count, runs) = read(false);
        assert!(count >= 255 && std::hint::black_box(&memory)[4711] == 1);
        assert_eq!(read(true), (count, runs));
    }
}
