//! A program and its process to where the one is in the other, and to free room beside it.

use std::ops::Range;
use std::sync::OnceLock;

use crate::disassembly::{Disassembly, Known};
use crate::elf::{Image, Text};
use crate::ptrace::{Mapping, Process, mappings};
use crate::stubs::layout::PAGE_BYTES;

use super::TagError;

/// Left between the program and what we add behind it: the heap begins there if it is not relocatable.
const DISTANCE: u64 = 64 << 20;
/// Between places that are tried before it. Near is what counts: processors foresee jumps of more than about
/// 2 MiB less well.
const STEP: u64 = 64 << 10;
/// How far a jump from any function must reach, with room to spare (2 GiB it could).
const REACH: u64 = 1 << 30;

/// A program in the memory of a process.
#[derive(Debug)]
pub(super) struct Loaded {
    pub image: Image,
    /// Added to all addresses of the image.
    pub bias: u64,
    known: OnceLock<Known>,
}

impl Loaded {
    /// Finds the program.
    pub fn find(process: &Process, image: Image) -> Result<Self, TagError> {
        let not_loaded = || TagError::NotLoaded { pid: process.pid, path: image.path.clone() };
        let text = image.text.first().ok_or_else(not_loaded)?;
        // Mappings begin with whole pages of the file.
        let page = text.offset / PAGE_BYTES * PAGE_BYTES;
        let is_text = |mapping: &&Mapping| {
            mapping.executable && mapping.path == image.path && mapping.offset == page
        };
        let mappings = mappings(process.pid)?;
        let mapping = mappings.iter().find(is_text).ok_or_else(not_loaded)?;
        let bias = mapping.start.wrapping_sub(text.start - (text.offset - page));
        Ok(Loaded { image, bias, known: OnceLock::new() })
    }

    /// Its instructions, which are read once.
    pub fn disassembly(&self) -> Disassembly<'_> {
        Disassembly::new(&self.image, self.known.get_or_init(|| Known::of(&self.image)))
    }

    /// Whether it has an address.
    pub fn holds(&self, address: u64) -> bool {
        let address = address.wrapping_sub(self.bias);
        let range = |text: &Text| text.start..text.start + text.bytes.len() as u64;
        self.image.text.iter().any(|text| range(text).contains(&address))
    }

    /// Maps memory for instructions near it, not writable.
    pub fn reserve(&self, process: &mut Process, bytes: u64) -> Result<Range<u64>, TagError> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let mappings = mappings(process.pid)?;
        let no_room = TagError::NoRoom(process.pid, bytes);
        let start = self.gap(&mappings, bytes).ok_or(no_room)?;
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let call = (libc::SYS_mmap, "map memory for stubs");
        let arguments = [start, bytes, protection, flags, u64::MAX, 0];
        let start = process.call(call, arguments)?;
        Ok(start..start + bytes)
    }

    /// A gap below the program, or else above it.
    fn gap(&self, mappings: &[Mapping], bytes: u64) -> Option<u64> {
        let first = self.image.text.first()?.start.wrapping_add(self.bias);
        let is_free = |start: &u64| {
            let end = start + bytes;
            *start >= PAGE_BYTES * 16
                && !mappings.iter().any(|mapping| mapping.start < end && *start < mapping.end)
        };
        let below = (0..REACH / STEP).map(|n| n * STEP + bytes);
        let below = below.map_while(|away| first.checked_sub(away));
        let above = (1..REACH / DISTANCE).rev().map(|n| first + n * DISTANCE);
        // Then whatever is left between mappings.
        let end = |mapping: &Mapping| mapping.end;
        let start = |mapping: &Mapping| mapping.start.checked_sub(bytes);
        let beside = mappings.iter().map(end).chain(mappings.iter().filter_map(start));
        let beside = beside.filter(|start| start.abs_diff(first) < REACH);
        let coarse = below.chain(above).map(|start| start / PAGE_BYTES * PAGE_BYTES);
        coarse.chain(beside).find(is_free)
    }
}
