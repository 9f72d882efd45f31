//! Finds a file in the memory of a process, compares file and memory, and finds free memory nearby.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{Disassembly, FileIndex};
use crate::elf::{Image, Text};
use crate::ptrace::{Mapping, ReadMemory, mappings, open_mapped, program_mapping};
use crate::selection::Selection;
use crate::stubs::layout::PAGE_BYTES;

use super::comparison::differences;
use super::edits::Edit;
use super::{TagError, goroutines};

/// Distance in bytes between the program and memory that is added behind it. The heap of a program
/// at a fixed address begins in this gap.
const DISTANCE: u64 = 64 << 20;
/// Step in bytes between the addresses that are tried below the program. Short distances matter:
/// processors predict jumps of more than about 2 MiB less well.
const STEP: u64 = 64 << 10;
/// Largest distance in bytes of added memory from the program. A jump reaches 2 GiB; the rest is a
/// margin for the sizes of the program and the memory.
const REACH: u64 = 1 << 30;

/// Range of all addresses.
pub(super) const ALL: Range<RunAddr> = RunAddr(0)..RunAddr(u64::MAX);

/// A file that is loaded in the memory of a process.
#[derive(Debug)]
pub(super) struct LoadedFile {
    pub image: Image,
    /// Where the file is loaded.
    pub bias: LoadBias,
    /// One of the mappings of the file.
    pub file: Mapping,
    known: OnceLock<FileIndex>,
}

/// Load bias of a file; `None` if it is not loaded. `file`: a mapping of the file, among `mapped`.
pub fn bias(image: &Image, file: &Mapping, mapped: &[Mapping]) -> Option<LoadBias> {
    let text = image.text.first()?;
    let is_text = |candidate: &&Mapping| {
        let skipped = text.offset.checked_sub(candidate.offset);
        let is_in = skipped.is_some_and(|skipped| skipped < candidate.end - candidate.start);
        // A shared mapping is skipped: a write to the mapping would change the file.
        candidate.executable && !candidate.shared && candidate.is_same_file(file) && is_in
    };
    let mapping = mapped.iter().find(is_text)?;
    let there = mapping.start.wrapping_add(text.offset - mapping.offset);
    Some(LoadBias::between(FileAddr(text.start), there))
}

impl LoadedFile {
    /// Finds the program of a process. `image`: the program's file.
    pub fn find_program(memory: &impl ReadMemory, image: Image) -> Result<Self, TagError> {
        let mapped = mappings(memory.pid())?;
        match program_mapping(memory.pid(), &mapped) {
            Some(program) => LoadedFile::find(memory, image, program, &mapped),
            None => Err(TagError::NotLoaded { pid: memory.pid(), path: image.path }),
        }
    }

    /// Opens and reads a file that a process has mapped, and compares it with memory. `mapped`: all
    /// mappings of the process; `ours`: edits that tags have made in its memory.
    pub fn open<'a>(
        memory: &impl ReadMemory,
        file: &Mapping,
        mapped: &[Mapping],
        selection: &Selection,
        ours: impl Iterator<Item = &'a Edit>,
    ) -> Result<Self, TagError> {
        let read = |address, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        let opened = open_mapped(memory.pid(), file, mapped, read)?;
        let mut image = Image::from_file(opened, &file.original_path())?;
        if selection.has_sources() {
            image.find_sources()?;
        }
        let mut loaded = LoadedFile::find(memory, image, file, mapped)?;
        loaded.image.differing = loaded.differences(memory, &ALL, ours);
        Ok(loaded)
    }

    /// Opens a file as [`LoadedFile::open`] does, with one exported function only; `None` if the
    /// file exports no function of this name.
    pub fn open_exporting<'a>(
        memory: &impl ReadMemory,
        file: &Mapping,
        mapped: &[Mapping],
        symbol: &str,
        ours: impl Iterator<Item = &'a Edit>,
    ) -> Result<Option<Self>, TagError> {
        let read = |address, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        let opened = open_mapped(memory.pid(), file, mapped, read)?;
        let image = Image::read_exported(opened, &file.original_path(), symbol)?;
        let Some(image) = image else { return Ok(None) };
        let mut loaded = LoadedFile::find(memory, image, file, mapped)?;
        loaded.image.differing = loaded.differences(memory, &ALL, ours);
        Ok(Some(loaded))
    }

    /// Compares the program with memory again, in the range `within`, and returns it with the
    /// differences. `ours`: edits that tags have made in that range.
    pub fn compare_again<'a>(
        self: &Arc<Self>,
        memory: &impl ReadMemory,
        within: &Range<RunAddr>,
        ours: impl Iterator<Item = &'a Edit>,
    ) -> Arc<Self> {
        let differing = self.differences(memory, within, ours);
        if differing == self.image.differing {
            return Arc::clone(self);
        }
        // A new difference is rare, so the image is copied and disassembled again.
        let image = Image { differing, ..self.image.clone() };
        let (bias, file, known) = (self.bias, self.file.clone(), OnceLock::new());
        Arc::new(LoadedFile { image, bias, file, known })
    }

    /// Address ranges of the file that differ in memory.
    fn differences<'a>(
        &self,
        memory: &impl ReadMemory,
        within: &Range<RunAddr>,
        ours: impl Iterator<Item = &'a Edit>,
    ) -> Vec<Range<u64>> {
        let read = |address, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        differences(&self.image, self.bias, within, ours, read)
    }

    /// Finds a file in the memory of a process. `file`: a mapping of the file, among `mapped`.
    fn find(
        memory: &impl ReadMemory,
        mut image: Image,
        file: &Mapping,
        mapped: &[Mapping],
    ) -> Result<Self, TagError> {
        let Some(bias) = bias(&image, file, mapped) else {
            return Err(TagError::NotLoaded { pid: memory.pid(), path: image.path });
        };
        if image.go.is_some() {
            let resumed = goroutines::resume_addresses(memory, &image, bias)?;
            image.indirect_targets.extend(resumed.into_iter().map(|address| address.0));
            image.indirect_targets.sort_unstable();
        }
        Ok(LoadedFile { image, bias, file: file.clone(), known: OnceLock::new() })
    }

    /// The disassembly of the file. The first call computes its index.
    pub fn disassembly(&self) -> Disassembly<'_> {
        Disassembly::new(&self.image, self.known.get_or_init(|| FileIndex::new(&self.image)))
    }

    /// Whether the file's code is at an address in memory.
    pub fn contains(&self, address: RunAddr) -> bool {
        let FileAddr(address) = self.bias.to_file(address);
        let range = |text: &Text| text.start..text.start + text.bytes.len() as u64;
        self.image.text.iter().any(|text| range(text).contains(&address))
    }

    /// Address of a free range of `bytes` bytes near the program; `None` if there is none.
    pub fn gap(&self, mappings: &[Mapping], bytes: u64) -> Option<RunAddr> {
        let first = FileAddr(self.image.text.first()?.start);
        gap(mappings, self.bias.to_run(first), bytes)
    }
}

/// Address of a free range of `bytes` bytes below an address, or else above it.
pub(super) fn gap(mappings: &[Mapping], first: RunAddr, bytes: u64) -> Option<RunAddr> {
    let is_free = |start: &RunAddr| {
        let end = *start + bytes;
        *start >= RunAddr(PAGE_BYTES * 16)
            && !mappings.iter().any(|mapping| mapping.start < end && *start < mapping.end)
    };
    let below = (0..REACH / STEP).map(|n| n * STEP + bytes);
    let below = below.map_while(|away| first.checked_sub(away));
    let above = (1..REACH / DISTANCE).rev().map(|n| first + n * DISTANCE);
    // Otherwise, ranges directly beside a mapping are tried.
    let end = |mapping: &Mapping| mapping.end;
    let start = |mapping: &Mapping| mapping.start.checked_sub(bytes);
    let beside = mappings.iter().map(end).chain(mappings.iter().filter_map(start));
    let beside = beside.filter(|start| start.0.abs_diff(first.0) < REACH);
    let coarse = below.chain(above).map(|start| RunAddr(start.0 / PAGE_BYTES * PAGE_BYTES));
    coarse.chain(beside).find(is_free)
}
