//! Reads what shared memory says was overwritten and added, and keeps what is so.
//!
//! The memory may be forged: its process can map any file of such a name and write anything to it. So each file is read
//! once, however often it is mapped; records are read in blocks, up to the first that was never written, and no more
//! than the process's instructions leave room for; and what stands in the instructions is read in address order, for
//! many records at a time. All of it takes time linear in what the process has mapped, and memory in what is so.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::super::TagError;
use super::super::areas::{COOKIE_BYTES, can_be, ending};
use super::super::shared::backing::is_ours;
use crate::ptrace::{FileId, Mapping, Process};
use crate::stubs::layout::{MAGIC, OVERWRITTEN_BYTES, PAGE_BYTES, PATCH_BYTES, VERSION, header};

/// Bytes of the header that are read.
const HEADER_BYTES: usize = 256;
/// Bytes of records that are read at once.
const BLOCK_BYTES: u64 = 1 << 16;
/// Records whose places are looked at together.
const TOGETHER: usize = 1 << 18;
/// Records that are read for each byte of instructions, and beside those: a tag overwrites two bytes at least, but
/// memory of earlier tags may still be there.
const RECORDS_PER_BYTE: u64 = 1;
const RECORDS: u64 = 1 << 12;

/// A place that was overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: u64,
    pub original: Vec<u8>,
}

/// A record of a place, which may be a lie.
struct Claim {
    address: u64,
    length: usize,
    original: [u8; OVERWRITTEN_BYTES],
    new: [u8; OVERWRITTEN_BYTES],
}

/// What there is of tags in a process.
pub struct Records {
    /// Places that are still overwritten, in the order in which they were.
    pub places: Vec<Place>,
    /// Memory for stubs.
    pub areas: Vec<Range<u64>>,
    /// Memory that was shared.
    pub shared: Vec<Range<u64>>,
}

/// What may be in a process.
struct Reader<'a> {
    process: &'a Process,
    mapped: &'a [Mapping],
    /// Where instructions of files are, by address.
    text: Vec<Range<u64>>,
    /// How many records may still be read.
    left: u64,
    /// Records whose places were not looked at yet.
    claims: Vec<Claim>,
    places: Vec<Place>,
    /// Their addresses.
    found: HashSet<u64>,
    areas: Vec<Range<u64>>,
}

impl Records {
    /// Reads them; all threads of the process stand still. `mapped`: what it has mapped.
    pub fn of(process: &Process, mapped: &[Mapping]) -> Result<Self, TagError> {
        // Tags are put into files' instructions that no other process sees change.
        let text = mapped.iter().filter(|one| one.executable && !one.shared && one.file.is_some());
        let text: Vec<Range<u64>> = text.map(|one| one.start..one.end).collect();
        let bytes: u64 = text.iter().map(|one| one.end - one.start).sum();
        let left = bytes.saturating_mul(RECORDS_PER_BYTE).saturating_add(RECORDS);
        let (claims, places, found, areas) = Default::default();
        let mut reader = Reader { process, mapped, text, left, claims, places, found, areas };
        let mut seen = BTreeSet::<Option<FileId>>::new();
        let mut shared = Vec::new();
        let ours = mapped.iter().filter(|one| is_ours(&one.path) && one.offset == 0);
        for mapping in ours.filter(|one| one.shared) {
            if reader.read(mapping, seen.insert(mapping.file))? {
                shared.push(mapping.start..mapping.end);
            }
        }
        reader.look();
        let places = std::mem::take(&mut reader.places);
        Ok(Records { places, areas: reader.areas(), shared })
    }
}

impl Reader<'_> {
    /// Reads what some memory says, unless that was read already. Whether the memory is of tags.
    fn read(&mut self, mapping: &Mapping, is_new: bool) -> Result<bool, TagError> {
        let mut bytes = [0; HEADER_BYTES];
        // A file that has not got its size yet has no header.
        if self.process.read(mapping.start, &mut bytes).is_err() {
            return Ok(true);
        }
        let long = |at: u64| {
            let bytes = bytes.get(at as usize..at as usize + 8);
            bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let version = long(header::VERSION) as u32;
        let is_empty = long(header::MAGIC) == 0;
        if !is_empty && (long(header::MAGIC) != MAGIC || version != VERSION) {
            return Ok(false);
        }
        if is_new && !is_empty {
            let first = mapping.start.saturating_add(long(header::PATCHES_AT));
            let room = mapping.end.saturating_sub(first) / PATCH_BYTES;
            let count = long(header::PATCHES).min(room);
            self.records(first, count, long(header::COOKIE))?;
        }
        Ok(true)
    }

    /// Reads so many records.
    fn records(&mut self, first: u64, count: u64, cookie: u64) -> Result<(), TagError> {
        let count = count.min(self.left);
        let per_block = BLOCK_BYTES / PATCH_BYTES;
        for block in (0..count).step_by(per_block as usize) {
            let records = per_block.min(count - block);
            let mut bytes = vec![0; (records * PATCH_BYTES) as usize];
            // What is not there says nothing.
            if self.process.read(first + block * PATCH_BYTES, &mut bytes).is_err() {
                return Ok(());
            }
            self.left -= records;
            for record in bytes.as_chunks::<{ PATCH_BYTES as usize }>().0 {
                // Records are written before they are counted, and none is of nothing.
                if *record == [0; PATCH_BYTES as usize] {
                    return Ok(());
                }
                self.record(record, cookie)?;
            }
            if self.claims.len() >= TOGETHER {
                self.look();
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &[u8; PATCH_BYTES as usize], cookie: u64) -> Result<(), TagError> {
        let (words, _) = record.as_chunks::<8>();
        let [address, length, ..] = [0, 1].map(|at| u64::from_le_bytes(words[at]));
        let (original, new) = (words[2], words[3]);
        match length as usize {
            0 if length == 0 => self.area(address, u64::from_le_bytes(original), cookie),
            length @ 1..=OVERWRITTEN_BYTES if self.is_text(address, length) => {
                self.claims.push(Claim { address, length, original, new });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether instructions of a file are there.
    fn is_text(&self, address: u64, length: usize) -> bool {
        let next = self.text.partition_point(|one| one.start <= address);
        let Some(end) = address.checked_add(length as u64) else { return false };
        next.checked_sub(1).is_some_and(|at| end <= self.text[at].end)
    }

    /// Keeps memory that was added, if what is there is ours: nobody's file, with our cookie at its end, or with
    /// nothing in its first and last page.
    fn area(&mut self, start: u64, bytes: u64, cookie: u64) -> Result<(), TagError> {
        let is_whole = [start, bytes].iter().all(|one| one.is_multiple_of(PAGE_BYTES));
        let end = start.checked_add(bytes).filter(|_| is_whole && bytes != 0);
        let Some(area) = end.map(|end| start..end) else { return Ok(()) };
        let next = self.mapped.partition_point(|one| one.start <= start);
        let mapping = next.checked_sub(1).map(|at| &self.mapped[at]);
        if !mapping.is_some_and(|one| can_be(one, &area)) {
            return Ok(());
        }
        let mut last = [0; COOKIE_BYTES as usize];
        self.process.read(area.end - COOKIE_BYTES, &mut last)?;
        let is_empty = || {
            [area.start, area.end - PAGE_BYTES].iter().all(|at| {
                let mut page = [1; PAGE_BYTES as usize];
                self.process.read(*at, &mut page).is_ok() && page.iter().all(|byte| *byte == 0)
            })
        };
        if last == ending(cookie) || is_empty() {
            self.areas.push(area);
        }
        Ok(())
    }

    /// The areas, none of which is in another.
    fn areas(mut self) -> Vec<Range<u64>> {
        self.areas.sort_by_key(|area| (area.start, area.end));
        let mut end = 0;
        self.areas.retain(|area| {
            let is_apart = area.start >= end;
            end = end.max(area.end);
            is_apart
        });
        self.areas
    }

    /// Keeps the places that are as was claimed, in the order of their records.
    fn look(&mut self) {
        let claims = std::mem::take(&mut self.claims);
        let mut order: Vec<usize> = (0..claims.len()).collect();
        order.sort_by_key(|at| claims[*at].address);
        let mut there = Vec::new();
        let mut block = Block { start: 0, bytes: Vec::new() };
        for at in order {
            let claim = &claims[at];
            if block.get(claim).is_none() {
                block = self.block(claim.address);
            }
            if block.get(claim).is_some_and(|bytes| claim.is_there(bytes)) {
                there.push(at);
            }
        }
        there.sort_unstable();
        for claim in there.into_iter().map(|at| &claims[at]) {
            if self.found.insert(claim.address) {
                let original = claim.original[..claim.length].to_vec();
                self.places.push(Place { address: claim.address, original });
            }
        }
    }

    /// Instructions from an address on, as far as they are of one mapping.
    fn block(&self, start: u64) -> Block {
        let next = self.text.partition_point(|one| one.start <= start);
        let end = next.checked_sub(1).map_or(start, |at| self.text[at].end);
        let mut bytes = vec![0; end.saturating_sub(start).min(PAGE_BYTES) as usize];
        // A file that was cut short has nothing there.
        if self.process.read(start, &mut bytes).is_err() {
            bytes.fill(0);
        }
        Block { start, bytes }
    }
}

/// Instructions of the process.
struct Block {
    start: u64,
    bytes: Vec<u8>,
}

impl Block {
    fn get(&self, claim: &Claim) -> Option<&[u8]> {
        let at = claim.address.checked_sub(self.start)? as usize;
        self.bytes.get(at..at.checked_add(claim.length)?)
    }
}

impl Claim {
    /// Whether that stands there: one that was being written when the controller died may be half there.
    fn is_there(&self, there: &[u8]) -> bool {
        let mut all = there.iter().zip(&self.new).zip(&self.original);
        *there != self.original[..self.length]
            && all.all(|((there, new), old)| there == new || there == old)
    }
}

#[cfg(test)]
mod tests;
