//! Reads the original code of a process, and knows what may be translated and from which files it
//! comes.
//!
//! Code may be translated if it is in mappings that the process can execute. If a mapping is also
//! writable or shared, its code may change without a system call of the process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{Mapping, ReadMemory, RunningMemory, mappings};
use hmtt_probe::selection::Selection;
use nix::unistd::Pid;

use super::expected::ExpectedBlocks;
use super::extents::Extents;
use super::sequences::Sequences;
use crate::block_lists::BlockLists;
use crate::code::{CodeBytes, Expected};
use crate::extent::Extent;
use crate::layout::PAGE_BYTES;
use crate::profile::{BlockCount, CodeFiles, Names};

/// Executable mappings of a process at one time.
pub type Files = Arc<Vec<Mapping>>;

/// The code of a running process.
pub struct ProcessCode {
    memory: RunningMemory,
    maps: RefCell<Maps>,
    /// Files of all executable mappings that the process has had.
    files: CodeFiles,
    expected: RefCell<ExpectedBlocks>,
    /// Finds the functions of blocks, if functions differ in how many of their accesses are
    /// recorded.
    functions: Option<RefCell<Names<Arc<Selection>>>>,
    extents: Option<Arc<Extents>>,
    /// Whether blocks record no accesses, because only executions are counted for now.
    counts_only: bool,
    /// Pages of code that were read for the current request.
    pages: RefCell<HashMap<RunAddr, Page>>,
    sequences: Sequences,
}

/// A page of code.
struct Page {
    bytes: Box<[u8]>,
    /// Whether the code may change without a system call of the process.
    may_change: bool,
}

/// The mappings of the process, as far as they are known.
struct Maps {
    /// The current executable mappings; `None` if they must be read again.
    current: Option<Files>,
    /// All different states of the executable mappings in which blocks were translated, in order.
    states: Vec<Files>,
}

impl ProcessCode {
    /// Opens the code of a process that is traced by the controller. `files`: collects the files of
    /// the process. `lists`: lists of blocks that earlier runs executed. `selected`: functions
    /// whose accesses are recorded. `extents`: how many of their accesses are recorded.
    ///
    /// # Errors
    /// The error of opening the memory of the process.
    pub fn open(
        pid: Pid,
        files: CodeFiles,
        lists: Option<Arc<BlockLists>>,
        selected: Option<Arc<Selection>>,
        extents: Option<Arc<Extents>>,
    ) -> io::Result<Self> {
        let maps = RefCell::new(Maps { current: None, states: Vec::new() });
        let memory = RunningMemory::open(pid)?;
        let expected = RefCell::new(ExpectedBlocks::new(lists));
        let differs = selected.is_some() || extents.is_some();
        let functions = differs.then(|| RefCell::new(Names::new(files.clone(), selected)));
        let (pages, sequences) = (RefCell::default(), Sequences::default());
        Ok(ProcessCode {
            memory,
            maps,
            files,
            expected,
            functions,
            extents,
            counts_only: false,
            pages,
            sequences,
        })
    }

    /// Sets whether blocks that are translated from now on record no accesses.
    pub fn set_counts_only(&mut self, counts_only: bool) {
        self.counts_only = counts_only;
    }

    /// Files of all executable mappings at the times when code was read.
    pub fn code_files(&self) -> &CodeFiles {
        &self.files
    }

    /// Writes the lists of executed blocks. `forms`: whether direct transfers, and whether indirect
    /// transfers, lead to a block.
    pub fn write_lists(&self, executed: &[BlockCount], forms: impl Fn(u32) -> [bool; 2]) {
        self.expected.borrow().write(executed, forms);
    }

    /// Adds the signature of restartable sequences that a thread registers. Returns whether the
    /// signature is new.
    pub fn add_signature(&mut self, signature: u32) -> bool {
        self.sequences.add_signature(signature)
    }

    /// The abort handler of the restartable sequence that contains an address.
    pub fn abort_of(&self, address: RunAddr) -> Option<RunAddr> {
        self.sequences.abort_of(address, &self.files, &self.current())
    }

    /// Forgets the executable mappings, because they may have changed.
    pub fn forget(&self) {
        self.maps.borrow_mut().current = None;
        self.forget_pages();
    }

    /// Forgets the code that was read for a request, after the request was answered. Code that was
    /// not translated may change without notice, through another mapping of its file.
    pub fn forget_pages(&self) {
        self.pages.borrow_mut().clear();
        self.sequences.forget_pages();
    }

    /// The executable mappings, which are read if they are not known.
    fn current(&self) -> Files {
        let mut maps = self.maps.borrow_mut();
        if let Some(current) = &maps.current {
            return current.clone();
        }
        let mapped = mappings(self.memory.pid()).unwrap_or_default();
        let code = || mapped.iter().filter(|mapping| mapping.executable);
        if maps.states.last().is_none_or(|last| !last.iter().eq(code())) {
            self.files.add(&self.memory, &mapped);
            maps.states.push(Arc::new(code().cloned().collect()));
        }
        let current = maps.states.last().cloned().unwrap_or_default();
        maps.current = Some(current.clone());
        current
    }

    /// The state of the mappings in which code was read last.
    pub fn files(&self) -> Files {
        self.current()
    }

    /// Whether a range contains addresses that can be executed.
    pub fn is_code(&self, range: &Range<RunAddr>) -> bool {
        self.current().iter().any(|mapping| mapping.start < range.end && range.start < mapping.end)
    }

    /// Passes the code from an address to the end of its page, and whether it may change, to a
    /// function. `None` if the code may not be translated.
    fn with_page<T>(&self, at: RunAddr, use_code: impl FnOnce(&[u8], bool) -> T) -> Option<T> {
        let page = RunAddr(at.0 / PAGE_BYTES * PAGE_BYTES);
        let mut pages = self.pages.borrow_mut();
        let Page { bytes, may_change } = match pages.entry(page) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.read_page(page)?),
        };
        let code = bytes.get((at - page) as usize..).filter(|code| !code.is_empty());
        code.map(|code| use_code(code, *may_change))
    }

    /// Reads a page; `None` if its code may not be translated.
    fn read_page(&self, page: RunAddr) -> Option<Page> {
        let mappings = self.current();
        let mapping =
            mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&page))?;
        let may_change = mapping.writable || mapping.shared;
        // Blocks of such code read their own bytes, to compare them.
        if may_change && !mapping.readable {
            return None;
        }
        let mut code = vec![0; PAGE_BYTES as usize];
        // Pages after the end of a file cannot be read.
        self.memory.read(page, &mut code).ok()?;
        Some(Page { bytes: code.into(), may_change })
    }
}

impl CodeBytes for ProcessCode {
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize {
        let mut read = 0;
        let mut kind = None;
        while read < into.len() {
            let Some(from) = at.checked_add(read as u64) else { break };
            let copied = self.with_page(from, |code, may_change| {
                if *kind.get_or_insert(may_change) != may_change {
                    return 0;
                }
                let length = code.len().min(into.len() - read);
                into[read..read + length].copy_from_slice(&code[..length]);
                length
            });
            let Some(length) = copied.filter(|length| *length > 0) else { break };
            read += length;
        }
        read
    }

    fn may_change(&self, at: RunAddr) -> bool {
        self.with_page(at, |_, may_change| may_change).unwrap_or(false)
    }

    fn extent(&self, at: RunAddr) -> Extent {
        if self.counts_only {
            return Extent::Nothing;
        }
        let Some(names) = &self.functions else { return Extent::Chosen };
        let current = self.current();
        let mut names = names.borrow_mut();
        let mapping = current.iter().find(|mapping| (mapping.start..mapping.end).contains(&at));
        let place = match mapping {
            Some(mapping) => names.find(mapping, at),
            None => names.nowhere(),
        };
        match (&self.extents, mapping) {
            _ if !place.is_selected => Extent::Nothing,
            (Some(extents), Some(mapping)) => {
                let start = place.function.map_or(0, |(_, offset)| at.0.wrapping_sub(offset));
                extents.of(&mapping.original_path(), start)
            }
            _ => Extent::Chosen,
        }
    }

    fn sequence(&self, range: &Range<RunAddr>) -> Option<RunAddr> {
        self.sequences.first_within(range, &self.memory, &self.files, &self.current())
    }

    fn expected(&self, at: RunAddr) -> Vec<Expected> {
        let current = self.current();
        let Some(mapping) =
            current.iter().find(|mapping| (mapping.start..mapping.end).contains(&at))
        else {
            return Vec::new();
        };
        self.expected.borrow_mut().follow(at, mapping, &current, &self.files)
    }
}
