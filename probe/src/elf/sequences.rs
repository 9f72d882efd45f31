//! Finds restartable sequences (rseq(2)) in a file.
//!
//! The kernel moves a thread that was preempted in a critical section to the section's abort
//! handler. It compares the thread's address with the section's addresses, so the section must be
//! executed at its original place. A section is known by its descriptor in the file's data: version
//! and flags (zero), start, size, address of the abort handler (Linux,
//! `include/uapi/linux/rseq.h`). A program may also make a descriptor at run time. But the four
//! bytes of code before each abort handler are a signature, which the kernel checks. So a signature
//! that no descriptor leads to shows that the file has sections without a descriptor.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use memchr::memmem;

use super::Text;
use super::indirect_targets::relocations;
use super::layout::{File, Layout};
use crate::regular_file;

/// The signature that the C library and librseq register (rseq(2)).
pub const SIGNATURE: u32 = 0x5305_3053;

/// Bytes of a signature, of a word, and of the fields of a descriptor before the address of the
/// abort handler.
const SIGNATURE_BYTES: u64 = 4;
const WORD: u64 = 8;
const BEFORE_ABORT: u64 = 24;
/// Maximum number of bytes of an instruction before its immediate operand.
const BEFORE_IMMEDIATE: usize = 8;

/// A critical section of a restartable sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalSection {
    /// Addresses at which the kernel aborts the section.
    pub code: Range<u64>,
    /// Address of the abort handler.
    pub abort: u64,
}

/// The restartable sequences of a file. Addresses are addresses in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartableSequences {
    /// Sections with a descriptor in the file, by address.
    pub sections: Vec<CriticalSection>,
    /// Address of a signature that no descriptor leads to.
    pub undescribed: Option<u64>,
    /// Address ranges of the sections, and of the signatures before their abort handlers;
    /// ascending, none overlaps another.
    places: Vec<Range<u64>>,
}

impl RestartableSequences {
    /// Reads an open file. The addresses in the result are offsets in the file. `None` if the file
    /// cannot be read.
    ///
    /// `signature`: the signature that the process has registered.
    pub fn of_file(file: &std::fs::File, signature: u32) -> Option<RestartableSequences> {
        let bytes = regular_file::contents(file).ok()?;
        let file = File::parse(&*bytes).ok()?;
        let layout = Layout::read(&file).ok()?;
        let RestartableSequences { sections, undescribed, .. } = read(&file, &layout, signature);
        let offset = |address: u64| {
            let text = layout.text.iter().rfind(|text| text.start <= address);
            text.map_or(address, |text| address - text.start + text.offset)
        };
        let in_file = |CriticalSection { code, abort }| {
            let start = offset(code.start);
            CriticalSection { code: start..start + (code.end - code.start), abort: offset(abort) }
        };
        let sections = sections.into_iter().map(in_file).collect();
        Some(RestartableSequences::new(sections, undescribed.map(offset)))
    }

    fn new(mut sections: Vec<CriticalSection>, undescribed: Option<u64>) -> Self {
        sections.sort_by_key(|section| (section.code.start, section.code.end));
        sections.dedup();
        let mut ranges: Vec<Range<u64>> = sections
            .iter()
            .flat_map(|CriticalSection { code, abort }| {
                [code.clone(), abort.saturating_sub(SIGNATURE_BYTES)..*abort]
            })
            .collect();
        ranges.sort_by_key(|place| place.start);
        let mut places: Vec<Range<u64>> = Vec::new();
        for place in ranges {
            match places.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => places.push(place),
            }
        }
        RestartableSequences { sections, undescribed, places }
    }

    /// The first address within a range that belongs to a section, or to the signature before its
    /// abort handler.
    pub fn first_within(&self, range: &Range<u64>) -> Option<u64> {
        let place =
            self.places.get(self.places.partition_point(|place| place.end <= range.start))?;
        (place.start < range.end).then_some(place.start.max(range.start))
    }
}

/// Finds the sequences of a file.
pub(super) fn read(file: &File, layout: &Layout, signature: u32) -> RestartableSequences {
    let aborts: BTreeSet<u64> =
        signatures(&layout.text, signature).map(|at| at + SIGNATURE_BYTES).collect();
    let (Some(first), Some(last)) = (aborts.first(), aborts.last()) else {
        return RestartableSequences::default();
    };
    let is_abort = |word: &u64| (first..=last).contains(&word) && aborts.contains(word);
    let relative: HashMap<u64, u64> =
        relocations(file, [&layout.data, &layout.text]).into_iter().collect();
    let pointers = relative.iter().map(|(place, word)| (*place, *word));
    let data = || layout.data.iter().chain(&layout.text);
    let pointers = pointers.chain(data().flat_map(words)).filter(|(_, word)| is_abort(word));
    let pointer = |at: u64| {
        let plain = || data().find_map(|data| word(data, at));
        relative.get(&at).copied().or_else(plain)
    };
    let described = |(place, abort): (u64, u64)| {
        let at = place.checked_sub(BEFORE_ABORT)?;
        let (start, bytes) = (pointer(at + WORD)?, pointer(at + 2 * WORD)?);
        let code = start..start.checked_add(bytes)?;
        let is_code = layout.segment_at(start).is_some_and(|text| code.end <= text.end);
        let is_section = pointer(at)? == 0 && is_code && !code.is_empty() && !code.contains(&abort);
        is_section.then_some(CriticalSection { code, abort })
    };
    let sections: Vec<CriticalSection> = pointers.filter_map(described).collect();
    let known: HashSet<u64> = sections.iter().map(|section| section.abort).collect();
    let undescribed = aborts.iter().find(|abort| !known.contains(abort));
    RestartableSequences::new(sections, undescribed.map(|abort| abort - SIGNATURE_BYTES))
}

/// Aligned words of a segment, with their addresses.
fn words(data: &Text) -> impl Iterator<Item = (u64, u64)> {
    let skipped = data.start.wrapping_neg() % WORD;
    let words = data.bytes.get(skipped as usize..).unwrap_or_default().as_chunks().0;
    let places = (data.start + skipped..).step_by(WORD as usize);
    places.zip(words.iter().map(|word| u64::from_le_bytes(*word)))
}

/// The word at an address; `None` if the segment does not contain it.
fn word(data: &Text, at: u64) -> Option<u64> {
    let skipped = usize::try_from(at.checked_sub(data.start)?).ok()?;
    data.bytes.get(skipped..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Addresses of signatures in code. Operands of the code that registers a thread are left out.
fn signatures(text: &[Text], signature: u32) -> impl Iterator<Item = u64> {
    let addresses = move |text: &Text| {
        let bytes = signature.to_le_bytes();
        let positions = memmem::find_iter(&text.bytes, &bytes);
        let positions = positions.filter(|at| !is_operand(&text.bytes, *at));
        positions.map(|at| text.start + at as u64).collect::<Vec<_>>()
    };
    text.iter().flat_map(addresses)
}

/// Whether code contains a signature that is not an operand.
pub fn has_signature(code: &[u8], signature: u32) -> bool {
    memmem::find_iter(code, &signature.to_le_bytes()).any(|at| !is_operand(code, at))
}

/// Whether the four bytes at an offset in code are an operand: the value that an instruction moves,
/// pushes or compares.
fn is_operand(code: &[u8], at: usize) -> bool {
    (1..=BEFORE_IMMEDIATE.min(at)).any(|before| {
        let mut decoder = Decoder::new(64, &code[at - before..], DecoderOptions::NONE);
        let instruction = decoder.decode();
        let offsets = decoder.get_constant_offsets(&instruction);
        // The byte `3d` before the four bytes may also be the end of `ud1`, which disassemblers are
        // to see before an abort handler.
        let is_known = match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Push => true,
            Mnemonic::Cmp => before > 1,
            _ => false,
        };
        is_known && offsets.immediate_size() == 4 && offsets.immediate_offset() == before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_told_from_an_operand() {
        let sequence = |before: &[u8]| {
            let code = [&[0x90; 8], before, &SIGNATURE.to_le_bytes(), &[0xc3]].concat();
            is_operand(&code, 8 + before.len())
        };
        // mov r10d, mov dword [rsp+8], cmp eax, push
        for operand in [&[0x41, 0xba][..], &[0xc7, 0x44, 0x24, 8], &[0x81, 0xf8], &[0x68]] {
            assert!(sequence(operand), "{operand:x?}");
        }
        // ud1, nop, and none
        for signature in [&[0x0f, 0xb9, 0x3d][..], &[0x0f, 0x1f, 0x05], &[]] {
            assert!(!sequence(signature), "{signature:x?}");
        }
    }

    #[test]
    fn a_range_is_compared_with_code_and_signature() {
        let section = CriticalSection { code: 0x100..0x120, abort: 0x204 };
        let sequences = RestartableSequences::new(vec![section], None);
        assert_eq!(sequences.first_within(&(0x80..0x101)), Some(0x100));
        assert_eq!(sequences.first_within(&(0x110..0x300)), Some(0x110));
        assert_eq!(sequences.first_within(&(0x120..0x201)), Some(0x200));
        assert_eq!(sequences.first_within(&(0x120..0x200)), None);
        assert_eq!(sequences.first_within(&(0x204..0x300)), None);
    }
}
