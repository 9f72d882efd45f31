//! Finds a place in a process where a thread can make an injected system call, and generates the
//! code for it.
//!
//! The last page of a file's instructions is mapped and executable up to its end, and the bytes
//! after the instructions are unused. For the duration of a call these bytes hold the code below.
//! (If no file leaves enough bytes, which hardly ever happens, the program's entry point is used.)
//!
//! ```text
//! syscall                          the call; the rest runs only if the tracer has died meanwhile
//! block all signals; restore flags, signal mask, registers
//! jmp                              to the original address
//! flags, rsp, signal mask, ...     saved values
//! text argument of the call, if it has one
//! ```
//!
//! The code needs no stack: flags are loaded from the site itself, while no signal can arrive. If
//! the thread was in a system call, that call is restarted, as the kernel does when a signal has no
//! handler.
//!
//! Invariant: before a call the site has the content of its file. Bytes that a killed controller
//! has left differ from the file, so they are recognized ([`Stopped::clear_sites`]) and replaced by
//! the file's content.

mod resume_code;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::seccomp::Call;
use super::{FileId, Mapping, PtraceError, Stopped, live_thread, mapped, mappings, proc};
use crate::address::RunAddr;

pub(super) use resume_code::ResumeCode;

/// A signal set, as the kernel defines it.
pub(super) type Mask = u64;

/// Space for the code and its saved values, in bytes.
const CODE_BYTES: usize = 288;
/// Bytes of a file's headers that are read.
const HEADERS: usize = 4096;
/// Maximum number of sites that are considered. Threads may be in some of them.
const SITES: usize = 64;
const PAGE: u64 = 4096;
/// Bytes of a signal set, as the kernel defines it.
const SIGNAL_SET_BYTES: u32 = 8;
/// Bytes of a `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// First bytes of the code at a site: `syscall`, then the first change of the signal mask.
const CODE: [u8; 15] = [0x0f, 0x05, 0xb8, 0x0e, 0, 0, 0, 0xbf, 0x02, 0, 0, 0, 0x48, 0x8d, 0x35];

/// A place where system calls are made.
#[derive(Clone, Debug)]
pub(super) struct SyscallSite {
    pub address: RunAddr,
    /// Content of the file at this place; `None` if it cannot be read.
    original: Option<Vec<u8>>,
}

impl SyscallSite {
    /// Maximum length of the text that a call can be given, and size of a site, in bytes.
    pub const TEXT_BYTES: usize = 32;
    pub const BYTES: usize = CODE_BYTES + SyscallSite::TEXT_BYTES;

    /// Address of the text.
    pub fn text(&self) -> RunAddr {
        self.address + CODE_BYTES as u64
    }

    fn range(&self) -> std::ops::Range<RunAddr> {
        self.address..self.address + SyscallSite::BYTES as u64
    }

    /// Content of the site during a call. `present`: its present content, of which unused bytes are
    /// kept.
    pub fn filled(&self, present: &[u8], code: &[u8], text: &[u8]) -> Vec<u8> {
        let mut bytes = present.to_vec();
        bytes[..code.len()].copy_from_slice(code);
        bytes[CODE_BYTES..][..text.len()].copy_from_slice(text);
        bytes
    }

    /// The system calls that the site makes for one call: the call itself, and the call that
    /// restores the signal mask, which is made if the tracer dies.
    pub fn calls(&self, number: libc::c_long, arguments: &[u64; 6]) -> [Call; 2] {
        let how = Some(libc::SIG_SETMASK as u64);
        let size = Some(u64::from(SIGNAL_SET_BYTES));
        let set_mask = [how, None, Some(0), size, None, None];
        [
            Call {
                number,
                arguments: arguments.map(Some),
                instruction_pointer: Some((self.address + SYSCALL_BYTES).0),
            },
            Call {
                number: libc::SYS_rt_sigprocmask,
                arguments: set_mask,
                instruction_pointer: None,
            },
        ]
    }
}

impl Stopped<'_> {
    /// Returns the site for injected system calls. It is searched for once.
    ///
    /// # Errors
    /// [`PtraceError`] if there is no site, or the process cannot be read.
    pub(super) fn site(&mut self) -> Result<SyscallSite, PtraceError> {
        if let Some(site) = &self.site {
            return Ok(site.clone());
        }
        let (sites, _) = self.free_sites()?;
        let site = sites.into_iter().next();
        let none = || PtraceError::new(self.pid, "find space for a system call")(Errno::EAGAIN);
        let site = site.ok_or_else(none)?;
        self.process.site = Some(site.clone());
        Ok(site)
    }

    /// Lets threads make the system calls that a killed controller has prepared, and removes its
    /// code from the sites. Returns whether no thread is in a site or will return to one. A thread
    /// that remains has signals to handle first, or is stopped, and may make its call later.
    ///
    /// # Errors
    /// [`PtraceError`] if the process cannot be read or written.
    pub fn clear_sites(&mut self) -> Result<bool, PtraceError> {
        self.free_sites().map(|(_, are_all_left)| are_all_left)
    }

    /// Returns the sites that have the content of their files and that no thread is in or will
    /// return to. Also returns whether no thread is in any site or will return to one.
    fn free_sites(&mut self) -> Result<(Vec<SyscallSite>, bool), PtraceError> {
        let mappings = mappings(self.pid)?;
        // A file may be mapped more than once. The headers for a mapping are in the nearest mapping
        // of the file's beginning at a lower address.
        let mut firsts: HashMap<(Option<FileId>, &Path), &Mapping> = HashMap::new();
        let with_first = mappings.iter().map(|mapping| {
            let key = (mapping.file, mapping.path.as_path());
            if mapping.offset == 0 && !mapping.writable && mapping.file.is_some() {
                firsts.insert(key, mapping);
            }
            (mapping, firsts.get(&key).copied())
        });
        let code = with_first.filter(|(mapping, _)| mapping.executable && !mapping.shared);
        let candidates =
            code.filter_map(|(mapping, first)| self.site_after_code(mapping, first, &mappings));
        let mut sites: Vec<SyscallSite> = candidates.take(SITES).collect();
        let entry = self.entry().filter(|_| sites.is_empty());
        sites.extend(entry.map(|address| SyscallSite { address, original: None }));
        // A thread whose controller has died may be executing the code of a site.
        let ranges: Vec<_> = sites.iter().map(SyscallSite::range).collect();
        self.run_until_outside(|rip| ranges.iter().any(|range| range.contains(&rip)))?;
        let mut places = Vec::new();
        for thread in self.threads.keys() {
            places.push(RunAddr(self.registers(*thread)?.rip));
            places.extend(self.handler_returns(*thread, &mappings)?.iter().map(|one| one.rip));
        }
        let count = sites.len();
        sites.retain(|site| !places.iter().any(|place| site.range().contains(place)));
        let are_all_left = sites.len() == count;
        let mut free = Vec::new();
        for site in sites {
            if self.is_as_its_file(&site)? {
                free.push(site);
            }
        }
        Ok((free, are_all_left))
    }

    /// Whether a site has the content of its file. Code of an earlier controller is removed before.
    fn is_as_its_file(&self, site: &SyscallSite) -> Result<bool, PtraceError> {
        let Some(original) = &site.original else { return Ok(true) };
        let mut present = vec![0; SyscallSite::BYTES];
        self.read(site.address, &mut present)?;
        if present.starts_with(&CODE) && present != *original {
            self.write(site.address, original)?;
            present.clone_from(original);
        }
        // Other content that differs from the file belongs to the program.
        Ok(present == *original)
    }

    /// The site behind a file's instructions; `None` if they end too late in their last page. The
    /// headers are read from memory, because the file's path may lead to another file. `first`: the
    /// mapping of the file's beginning.
    fn site_after_code(
        &self,
        mapping: &Mapping,
        first: Option<&Mapping>,
        mappings: &[Mapping],
    ) -> Option<SyscallSite> {
        let is_vdso = mapping.path.as_os_str() == "[vdso]";
        let first = if is_vdso { mapping } else { first? };
        let mut headers = vec![0; HEADERS];
        self.read(first.start, &mut headers).ok()?;
        let inside = end(&headers, mapping)?;
        let address = mapping.start.checked_add(inside)?;
        if address > mapping.end || mapping.end - address < SyscallSite::BYTES as u64 {
            return None;
        }
        let mut original = vec![0; SyscallSite::BYTES];
        if is_vdso {
            original = own_vdso(&headers, inside)?;
        } else {
            let read = |address, bytes: &mut [u8]| self.read(address, bytes).is_ok();
            let file = mapped::open(self.pid, mapping, mappings, read).ok()?;
            // Behind the end of the file the kernel maps zeros.
            read_at(&file, mapping.offset + inside, &mut original).ok()?;
        }
        Some(SyscallSite { address, original: Some(original) })
    }

    /// The program's entry point. It has already been executed, and the bytes behind it are needed
    /// only when the program ends.
    fn entry(&self) -> Option<RunAddr> {
        let values = proc::read(live_thread(self.pid), "auxv").ok()?;
        let (words, _) = values.as_chunks::<8>();
        let mut pairs = words
            .chunks_exact(2)
            .map(|pair| (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1])));
        pairs.find_map(|(kind, value)| (kind == libc::AT_ENTRY).then_some(RunAddr(value)))
    }
}

/// Offset in a mapping of the end of the file's instructions, if the mapping is a whole segment
/// without uninitialized data.
fn end(headers: &[u8], mapping: &Mapping) -> Option<u64> {
    use object::elf::{FileHeader64, PF_X, PT_LOAD};
    use object::read::elf::{FileHeader, ProgramHeader};
    let endian = object::Endianness::Little;
    let header = FileHeader64::<object::Endianness>::parse(headers).ok()?;
    let segments = header.program_headers(endian, headers).ok()?;
    segments.iter().find_map(|segment| {
        let (offset, bytes) = (segment.p_offset(endian), segment.p_filesz(endian));
        let start = offset / PAGE * PAGE;
        let is_code = segment.p_type(endian) == PT_LOAD
            && segment.p_flags(endian) & PF_X != 0
            && segment.p_memsz(endian) == bytes
            && start == mapping.offset;
        let end = (offset - start).checked_add(bytes)?;
        let is_all = end.next_multiple_of(PAGE) == mapping.end - mapping.start;
        (is_code && is_all).then_some(end)
    })
}

/// Reads a file from an offset up to its end. Returns the number of bytes that were read.
fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}

/// The bytes at an offset in this program's vDSO. `None` if its headers differ from the headers in
/// the other process.
fn own_vdso(headers: &[u8], inside: u64) -> Option<Vec<u8>> {
    let mappings = mappings(Pid::this()).ok()?;
    let own = mappings.iter().find(|mapping| mapping.path.as_os_str() == "[vdso]")?;
    let size = (own.end - own.start) as usize;
    // SAFETY: the kernel has mapped that many readable bytes there, for the lifetime of this
    // process.
    let bytes = unsafe { std::slice::from_raw_parts(own.start.0 as *const u8, size) };
    let present = inside as usize..(inside as usize).checked_add(SyscallSite::BYTES)?;
    bytes.starts_with(headers).then(|| bytes.get(present).map(<[u8]>::to_vec)).flatten()
}
