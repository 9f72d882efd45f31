//! Knows which code runs natively because of restartable sequences (rseq(2)).
//!
//! The kernel aborts a critical section if the thread's address is within it. So its instructions
//! are executed at their original addresses, and with them the store before that names its
//! descriptor. Files whose descriptors are made at run time run natively as a whole, and so does
//! other memory in which code is near a signature. Without a thread that has registered restartable
//! sequences there are none.

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

/// How far from code in no file a signature is looked for.
const NEAR: u64 = 64 << 10;

/// The restartable sequences of a process.
#[derive(Default)]
pub struct Sequences {
    /// Registered signatures.
    signatures: BTreeSet<u32>,
    mapped: RefCell<Mapped>,
}

/// Native code of the mappings of one time.
#[derive(Default)]
struct Mapped {
    /// The mappings; `None` if nothing is known of them.
    of: Option<Arc<Vec<Mapping>>>,
    /// Native code, ascending; no range overlaps another.
    native: Vec<Range<RunAddr>>,
    /// Sections with their abort handlers.
    sections: Vec<(Range<RunAddr>, RunAddr)>,
    /// Mappings whose code is in no file that can be read.
    unknown: Vec<Range<RunAddr>>,
    /// Whether a signature is near a page of those. Forgotten after each request.
    pages: HashMap<RunAddr, bool>,
}

/// A file by device, inode, size and time of its last change, and a signature.
type Version = (u64, u64, u64, i64, i64, u32);

/// What was found in files, for all processes: a sampled one is attached to again and again.
static FOUND: Mutex<BTreeMap<Version, Arc<RestartableSequences>>> = Mutex::new(BTreeMap::new());

/// The sequences of a file; `None` if it cannot be read.
fn of_file(file: &File, signature: u32) -> Option<Arc<RestartableSequences>> {
    let status = file.metadata().ok()?;
    let changed = (status.mtime(), status.mtime_nsec());
    let version = (status.dev(), status.ino(), status.size(), changed.0, changed.1, signature);
    let known = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().get(&version) {
        return Some(found.clone());
    }
    let found = Arc::new(RestartableSequences::of_file(file, signature)?);
    known().insert(version, found.clone());
    Some(found)
}

/// The address at which a mapping has the byte at an offset of its file; outside of the mapping,
/// where it would be.
fn at(mapping: &Mapping, offset: u64) -> RunAddr {
    mapping.start.wrapping_add(offset.wrapping_sub(mapping.offset))
}

impl Sequences {
    /// A thread has registered a signature. Returns whether it is new.
    pub fn add_signature(&mut self, signature: u32) -> bool {
        let is_new = self.signatures.insert(signature);
        if is_new {
            self.mapped.borrow_mut().of = None;
        }
        is_new
    }

    /// The contents of mappings may have changed.
    pub fn forget_pages(&self) {
        self.mapped.borrow_mut().pages.clear();
    }

    /// The first address in a range that runs natively. `current`: the executable mappings.
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

    /// The abort handler of the section that contains an address.
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

    /// Finds the sections in the mappings, unless they are known.
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
                    Some(found) => mapped.add(mapping, &found),
                    None => mapped.unknown.push(mapping.start..mapping.end),
                }
            }
        }
        mapped.merge();
    }

    /// Whether a signature is near the page of an address, in memory of which no file is known.
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
            // What cannot be read is not translated.
            memory.read(start, &mut code).is_ok()
                && self.signatures.iter().any(|signature| has_signature(&code, *signature))
        })
    }
}

impl Mapped {
    /// Adds the sequences of the file of a mapping.
    fn add(&mut self, mapping: &Mapping, found: &RestartableSequences) {
        if found.undescribed.is_some() {
            self.native.push(mapping.start..mapping.end);
            return;
        }
        let sections = found.sections.iter().map(|CriticalSection { code, abort }| {
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

    /// Orders the ranges of native code.
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
