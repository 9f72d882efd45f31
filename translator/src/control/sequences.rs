//! Finds code that must run natively because of restartable sequences (rseq(2)).
//!
//! The kernel aborts a critical section only if the thread's address is within the section. So the
//! instructions of a section are executed at their original addresses. The store in front of a
//! section, which names the section's descriptor, is executed natively too. If a file makes
//! descriptors at run time, the whole file runs natively. So does memory outside of files if a
//! signature is near its code. As long as no thread has registered restartable sequences, no code
//! runs natively for this reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::{CriticalSection, RestartableSequences, has_signature};
use hmtt_probe::ptrace::{Mapping, ReadMemory, RunningMemory};

use crate::profile::CodeFiles;

/// Distance from code outside of files within which a signature is looked for, in bytes.
const NEAR: u64 = 64 << 10;

/// The restartable sequences of a process.
#[derive(Default)]
pub struct Sequences {
    /// Registered signatures.
    signatures: BTreeSet<u32>,
    mapped: RefCell<Mapped>,
}

/// Native code of one set of mappings.
#[derive(Default)]
struct Mapped {
    /// The mappings; `None` if they must be examined again.
    of: Option<Arc<Vec<Mapping>>>,
    /// Native code, ascending; no range overlaps another.
    native: Vec<Range<RunAddr>>,
    /// Critical sections, each with its abort handler.
    sections: Vec<(Range<RunAddr>, RunAddr)>,
    /// Mappings whose file is not known or cannot be read.
    unknown: Vec<Range<RunAddr>>,
    /// For pages of unknown mappings: whether a signature is near. Cleared after each request.
    pages: HashMap<RunAddr, bool>,
}

/// A file, identified by device, inode, size and time of its last change, and a signature.
type Version = (u64, u64, u64, i64, i64, u32);

/// Sequences that were found in files. All processes share them, because a process that is sampled
/// is attached to again and again.
static FOUND: Mutex<BTreeMap<Version, Arc<RestartableSequences>>> = Mutex::new(BTreeMap::new());

/// The sequences of a file; `None` if the file cannot be read.
fn of_file(file: &File, signature: u32) -> Option<Arc<RestartableSequences>> {
    let status = file.metadata().ok()?;
    let changed = (status.mtime(), status.mtime_nsec());
    let version = (status.dev(), status.ino(), status.size(), changed.0, changed.1, signature);
    let known = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sequences) = known().get(&version) {
        return Some(sequences.clone());
    }
    let sequences = Arc::new(RestartableSequences::of_file(file, signature)?);
    known().insert(version, sequences.clone());
    Some(sequences)
}

/// The address at which a mapping has the byte at an offset of its file. If the byte is outside of
/// the mapping, the address is extrapolated.
fn at(mapping: &Mapping, offset: u64) -> RunAddr {
    mapping.start.wrapping_add(offset.wrapping_sub(mapping.offset))
}

impl Sequences {
    /// Adds a signature that a thread has registered. Returns whether the signature is new.
    pub fn add_signature(&mut self, signature: u32) -> bool {
        let is_new = self.signatures.insert(signature);
        if is_new {
            self.mapped.borrow_mut().of = None;
        }
        is_new
    }

    /// Forgets where signatures are, because the contents of mappings may have changed.
    pub fn forget_pages(&self) {
        self.mapped.borrow_mut().pages.clear();
    }

    /// The first address of a range that runs natively; `None` if the whole range may be
    /// translated. `current`: the executable mappings.
    pub fn first_within(
        &self,
        range: &Range<RunAddr>,
        memory: &RunningMemory,
        files: &CodeFiles,
        current: &Arc<Vec<Mapping>>,
    ) -> Option<RunAddr> {
        if self.signatures.is_empty() {
            return None;
        }
        self.find(files, current);
        let mut mapped = self.mapped.borrow_mut();
        let next = mapped.native.partition_point(|native| native.end <= range.start);
        let next = mapped.native.get(next).filter(|native| native.start < range.end);
        let next = next.map(|native| native.start.max(range.start));
        let unknown = mapped.unknown.iter().find(|one| one.contains(&range.start)).cloned();
        match unknown {
            Some(unknown) if self.is_near(&mut mapped, range.start, &unknown, memory) => {
                Some(range.start)
            }
            _ => next,
        }
    }

    /// The abort handler of the critical section that contains an address; `None` if no section
    /// contains it.
    pub fn abort_of(
        &self,
        address: RunAddr,
        files: &CodeFiles,
        current: &Arc<Vec<Mapping>>,
    ) -> Option<RunAddr> {
        if self.signatures.is_empty() {
            return None;
        }
        self.find(files, current);
        let mapped = self.mapped.borrow();
        let section = mapped.sections.iter().find(|(section, _)| section.contains(&address));
        section.map(|(_, abort)| *abort)
    }

    /// Finds the sections in the mappings, unless the result for these mappings is stored.
    fn find(&self, files: &CodeFiles, current: &Arc<Vec<Mapping>>) {
        let mut mapped = self.mapped.borrow_mut();
        if mapped.of.as_ref() == Some(current) {
            return;
        }
        *mapped = Mapped { of: Some(current.clone()), ..Mapped::default() };
        for mapping in current.iter() {
            let Some(file) = files.file_of(mapping) else {
                mapped.unknown.push(mapping.start..mapping.end);
                continue;
            };
            for signature in &self.signatures {
                match of_file(&file, *signature) {
                    Some(sequences) => mapped.add(mapping, &sequences),
                    None => mapped.unknown.push(mapping.start..mapping.end),
                }
            }
        }
        mapped.merge();
    }

    /// Whether a signature is near an address in a mapping whose file is not known. The result is
    /// stored for each range of [`NEAR`] bytes.
    fn is_near(
        &self,
        mapped: &mut Mapped,
        address: RunAddr,
        within: &Range<RunAddr>,
        memory: &RunningMemory,
    ) -> bool {
        let page = RunAddr(address.0 / NEAR * NEAR);
        *mapped.pages.entry(page).or_insert_with(|| {
            let start = page.saturating_sub(NEAR).max(within.start);
            let end = page.saturating_add(2 * NEAR).min(within.end);
            let mut code = vec![0; (end - start) as usize];
            // Memory that cannot be read is not translated anyway.
            memory.read(start, &mut code).is_ok()
                && self.signatures.iter().any(|signature| has_signature(&code, *signature))
        })
    }
}

impl Mapped {
    /// Adds the sequences of a mapping's file.
    fn add(&mut self, mapping: &Mapping, sequences: &RestartableSequences) {
        if sequences.undescribed.is_some() {
            self.native.push(mapping.start..mapping.end);
            return;
        }
        let sections = sequences.sections.iter().map(|CriticalSection { code, abort }| {
            (at(mapping, code.start)..at(mapping, code.end), at(mapping, *abort))
        });
        let is_inside = |section: &Range<RunAddr>| {
            mapping.start <= section.start
                && section.start < section.end
                && section.end <= mapping.end
        };
        for (section, abort) in sections.filter(|(section, _)| is_inside(section)) {
            self.native.push(section.clone());
            self.sections.push((section, abort));
        }
    }

    /// Sorts the ranges of native code and joins overlapping ranges.
    fn merge(&mut self) {
        self.native.sort_by_key(|native| native.start);
        self.native.dedup_by(|next, before| {
            let overlaps = next.start <= before.end;
            if overlaps {
                before.end = before.end.max(next.end);
            }
            overlaps
        });
    }
}
