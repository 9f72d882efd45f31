//! A process whose controller has died to one without tags; and who the controller is, if it lives.
//!
//! What was overwritten is in the memory that the process shares with its controller
//! ([`crate::stubs::layout`]). The memory itself stays: nobody knows any more what may lead to the stubs.

use nix::unistd::Pid;

use super::TagError;
use super::shared::NAME;
use crate::ptrace::{Process, PtraceError, mappings};
use crate::stubs::layout::{MAGIC, OVERWRITTEN_BYTES, PATCH_BYTES, VERSION, header};

/// Most places that are believed to be overwritten: more are damage.
const PATCHES: u64 = 1 << 26;
/// Bytes of the header that are read.
const HEADER_BYTES: usize = 256;

/// The process that traces another one; `None` if nobody does.
///
/// # Errors
/// [`PtraceError::Ended`] if there is no such process.
pub fn controller(pid: Pid) -> Result<Option<Pid>, PtraceError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let text = text.map_err(|_| PtraceError::Ended(pid))?;
    let tracer = text.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    let tracer = tracer.and_then(|number| number.trim().parse().ok()).filter(|number| *number != 0);
    Ok(tracer.map(Pid::from_raw))
}

/// A process that still has tags that nobody looks after.
#[derive(Debug)]
pub struct Abandoned {
    process: Process,
    /// Places, and what was there before.
    overwritten: Vec<(u64, Vec<u8>)>,
    /// Where the number of places is kept.
    counts: Vec<u64>,
}

impl Abandoned {
    /// Finds the tags in a process whose threads all stand still.
    pub fn find(process: Process) -> Result<Self, TagError> {
        let name = format!("/memfd:{} (deleted)", NAME.to_string_lossy());
        let mut found = Abandoned { process, overwritten: Vec::new(), counts: Vec::new() };
        for mapping in mappings(found.process.pid)? {
            if mapping.path.as_os_str() == name.as_str() && mapping.offset == 0 {
                found.read(mapping.start, mapping.end)?;
            }
        }
        Ok(found)
    }

    /// How many places are overwritten.
    pub fn places(&self) -> usize {
        self.overwritten.len()
    }

    fn read(&mut self, start: u64, end: u64) -> Result<(), TagError> {
        let mut bytes = [0; HEADER_BYTES];
        self.process.read(start, &mut bytes)?;
        let long = |at: u64| {
            let bytes = bytes.get(at as usize..at as usize + 8);
            bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let version = long(header::VERSION) as u32;
        if long(header::MAGIC) != MAGIC || version != VERSION {
            return Ok(());
        }
        self.counts.push(start + header::PATCHES);
        let first = start.saturating_add(long(header::PATCHES_AT));
        for number in 0..long(header::PATCHES).min(PATCHES) {
            let at = first.saturating_add(number * PATCH_BYTES);
            if at.saturating_add(PATCH_BYTES) > end {
                break;
            }
            let mut patch = [0; PATCH_BYTES as usize];
            self.process.read(at, &mut patch)?;
            let (words, _) = patch.as_chunks::<8>();
            let length = (u64::from_le_bytes(words[1]) as usize).min(OVERWRITTEN_BYTES);
            let bytes = patch[16..16 + length].to_vec();
            self.overwritten.push((u64::from_le_bytes(words[0]), bytes));
        }
        Ok(())
    }

    /// Takes the tags out and lets the process go. Places that are no more, in libraries that have been
    /// unloaded, are left out.
    pub fn restore(self) -> Result<(), TagError> {
        let mapped = mappings(self.process.pid)?;
        // The last that was overwritten is the first to be as it was.
        for (address, bytes) in self.overwritten.iter().rev() {
            let code = |one: &&crate::ptrace::Mapping| one.executable && one.start <= *address;
            if mapped.iter().filter(code).any(|one| address + bytes.len() as u64 <= one.end) {
                self.process.write(*address, bytes)?;
            }
        }
        for count in &self.counts {
            self.process.write(*count, &0u64.to_le_bytes())?;
        }
        Ok(self.process.detach()?)
    }
}
