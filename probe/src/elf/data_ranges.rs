//! Finds the bytes of a file that are data, even within a segment of instructions.
//!
//! Linkers put symbol tables, constants and unwind information into the segment of the instructions
//! (`-z noseparate-code`). These bytes count as data: sections that are not marked executable,
//! tables that the dynamic section and the program headers name, `.eh_frame`, and the objects of
//! symbol tables. Without section headers, constants that no symbol names are not recognized as
//! data.
//!
//! The file may be damaged or hostile, so a range in its headers may have any bounds. Ranges are
//! only compared with each other.

use std::collections::HashMap;
use std::fs::File as OpenFile;
use std::ops::Range;

use object::elf::{
    DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_GNU_HASH, DT_HASH, DT_INIT_ARRAY, DT_INIT_ARRAYSZ,
    DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERNEED,
    DT_VERNEEDNUM, DT_VERSYM, PT_LOAD, SHF_EXECINSTR, SHT_NOBITS, SHT_NULL, STT_OBJECT,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};

use super::layout::{ENDIAN, File};
use super::{frames, indirect_targets};
use crate::regular_file;

/// Tables of the dynamic section whose size is given in bytes, by their tags (generic ABI, "Dynamic
/// Section").
const SIZED: [(u32, u32); 6] = [
    (DT_RELA, DT_RELASZ),
    (DT_JMPREL, DT_PLTRELSZ),
    (indirect_targets::DT_RELR, indirect_targets::DT_RELRSZ),
    (DT_STRTAB, DT_STRSZ),
    (DT_INIT_ARRAY, DT_INIT_ARRAYSZ),
    (DT_FINI_ARRAY, DT_FINI_ARRAYSZ),
];
/// Bytes of `Elf64_Sym` and of an entry of `DT_VERSYM`.
const SYMBOL_BYTES: u64 = 24;
const VERSION_BYTES: u64 = 2;
/// Bytes of `Elf64_Verneed` and of `Elf64_Vernaux`; offsets of the number of `Elf64_Vernaux`
/// entries, and of the distance to the next `Elf64_Verneed`.
const NEED_BYTES: u64 = 16;
const NEED_COUNT: usize = 2;
const NEED_NEXT: usize = 12;

/// Offsets in a file that hold no instructions, ascending and disjoint. Empty if the file cannot be
/// read.
pub(crate) fn of(file: &OpenFile) -> Vec<Range<u64>> {
    let Ok(bytes) = regular_file::contents(file) else { return Vec::new() };
    File::parse(&*bytes).map_or_else(|_| Vec::new(), |file| read(&file))
}

/// Offsets in a parsed file that hold no instructions, ascending and disjoint.
pub(super) fn read(file: &File) -> Vec<Range<u64>> {
    let places = Places { file };
    let mut ranges = places.headers();
    ranges.extend(places.sections());
    ranges.extend(places.dynamic());
    ranges.extend(places.unwind_information());
    ranges.extend(places.objects());
    joined(ranges)
}

/// Sorts ranges, and joins ranges that overlap or touch.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut disjoint: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match disjoint.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => disjoint.push(range),
        }
    }
    disjoint
}

/// Finds the places of a file's data.
struct Places<'a, 'data> {
    file: &'a File<'data>,
}

impl Places<'_, '_> {
    /// The file header, the program headers, and the ranges that these name, except loaded
    /// segments.
    fn headers(&self) -> Vec<Range<u64>> {
        let header = self.file.elf_header();
        let table = |start: u64, entry: u16, count: u16| {
            start..start.saturating_add(u64::from(entry) * u64::from(count))
        };
        let mut ranges = vec![
            0..u64::from(header.e_ehsize(ENDIAN)),
            table(header.e_phoff(ENDIAN), header.e_phentsize(ENDIAN), header.e_phnum(ENDIAN)),
        ];
        let segments = self.file.elf_program_headers().iter();
        let named = segments.filter(|segment| segment.p_type(ENDIAN) != PT_LOAD);
        ranges.extend(named.map(|segment| {
            let (offset, bytes) = segment.file_range(ENDIAN);
            offset..offset.saturating_add(bytes)
        }));
        ranges
    }

    /// Sections that are not executable.
    fn sections(&self) -> Vec<Range<u64>> {
        let is_data = |header: &&object::elf::SectionHeader64<object::LittleEndian>| {
            let kind = header.sh_type(ENDIAN);
            let executable = header.sh_flags(ENDIAN) & u64::from(SHF_EXECINSTR) != 0;
            kind != SHT_NULL && kind != SHT_NOBITS && !executable
        };
        let range = |header: &object::elf::SectionHeader64<object::LittleEndian>| {
            let start = header.sh_offset(ENDIAN);
            start..start.saturating_add(header.sh_size(ENDIAN))
        };
        self.file.elf_section_table().iter().filter(is_data).map(range).collect()
    }

    /// Tables that the dynamic section names.
    fn dynamic(&self) -> Vec<Range<u64>> {
        let mut values: HashMap<u32, u64> = HashMap::new();
        for entry in indirect_targets::dynamic_entries(self.file) {
            if let Some(tag) = entry.tag32(ENDIAN) {
                values.entry(tag).or_insert(entry.d_val(ENDIAN));
            }
        }
        let value = |tag: u32| values.get(&tag).copied();
        let sized = SIZED.iter().filter_map(|(table, size)| Some((value(*table)?, value(*size)?)));
        let mut tables: Vec<(u64, u64)> = sized.collect();
        let (mut symbols, hash) = (0, value(DT_HASH));
        if let Some((address, counts)) = hash.and_then(|at| Some((at, self.words::<2>(at)?))) {
            let [buckets, chains] = counts.map(u64::from);
            tables.push((address, (2 + buckets + chains) * 4));
            symbols = chains;
        }
        if let Some((address, end, count)) = value(DT_GNU_HASH).and_then(|at| self.gnu_hash(at)) {
            tables.push((address, end - address));
            symbols = symbols.max(count);
        }
        tables.extend(value(DT_SYMTAB).map(|at| (at, symbols * SYMBOL_BYTES)));
        tables.extend(value(DT_VERSYM).map(|at| (at, symbols * VERSION_BYTES)));
        let needed = value(DT_VERNEED).zip(value(DT_VERNEEDNUM));
        tables.extend(needed.into_iter().flat_map(|(at, count)| self.needed_versions(at, count)));
        tables.into_iter().filter_map(|(address, bytes)| self.offsets(address, bytes)).collect()
    }

    /// Address of a hash table, address of its end, and number of its symbols (generic ABI
    /// supplement, "GNU hash section").
    fn gnu_hash(&self, address: u64) -> Option<(u64, u64, u64)> {
        let [buckets, first, blooms, _] = self.words::<4>(address)?.map(u64::from);
        let bucket_table = address.checked_add(16 + 8 * blooms)?;
        let chains = bucket_table.checked_add(4 * buckets)?;
        let bytes = self.bytes(bucket_table)?.get(..usize::try_from(4 * buckets).ok()?)?;
        let words = bytes.as_chunks().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
        let Some(mut last) = words.max().filter(|last| *last >= first) else {
            return Some((address, chains, first));
        };
        // The last word of a chain is odd.
        let chain = self.bytes(chains.checked_add(4 * (last - first))?)?;
        let is_last = |word: &&[u8; 4]| word[0] & 1 == 1;
        last +=
            chain.as_chunks::<4>().0.iter().take_while(|word| !is_last(word)).count() as u64 + 1;
        Some((address, chains + 4 * (last - first), last))
    }

    /// Entries of the table of needed versions. Each is followed by its versions.
    fn needed_versions(&self, mut address: u64, count: u64) -> Vec<(u64, u64)> {
        let mut entries = Vec::new();
        while (entries.len() as u64) < count {
            let Some(entry) =
                self.bytes(address).and_then(|bytes| bytes.get(..NEED_BYTES as usize))
            else {
                break;
            };
            let versions = u16::from_le_bytes([entry[NEED_COUNT], entry[NEED_COUNT + 1]]);
            entries.push((address, NEED_BYTES * (1 + u64::from(versions))));
            let next = &entry[NEED_NEXT..];
            let next = u32::from_le_bytes([next[0], next[1], next[2], next[3]]);
            match address.checked_add(u64::from(next)) {
                Some(next) if next > address => address = next,
                _ => break,
            }
        }
        entries
    }

    /// The entries of `.eh_frame`. They are found even without section headers.
    fn unwind_information(&self) -> Option<Range<u64>> {
        let (address, bytes) = frames::entries_at(self.file)?;
        let mut end = 0usize;
        while let Some(length) = bytes.get(end..).and_then(|rest| rest.first_chunk::<4>()) {
            let length = u32::from_le_bytes(*length) as usize;
            end += 4 + length;
            // This is the terminator, or an entry of more than 4 GiB.
            if length == 0 || length >= 0xffff_fff0 || end > bytes.len() {
                break;
            }
        }
        self.offsets(address, end.min(bytes.len()) as u64)
    }

    /// Ranges of objects in the symbol tables.
    fn objects(&self) -> Vec<Range<u64>> {
        let tables = [self.file.elf_symbol_table(), self.file.elf_dynamic_symbol_table()];
        let symbols = tables.into_iter().flat_map(|table| table.iter());
        let objects = symbols.filter(|symbol| {
            symbol.st_type() == STT_OBJECT
                && !symbol.is_undefined(ENDIAN)
                && !symbol.is_absolute(ENDIAN)
        });
        objects
            .filter_map(|symbol| self.offsets(symbol.st_value(ENDIAN), symbol.st_size(ENDIAN)))
            .collect()
    }

    /// Offsets in the file of `bytes` bytes at an address.
    fn offsets(&self, address: u64, bytes: u64) -> Option<Range<u64>> {
        self.file.elf_program_headers().iter().find_map(|segment| {
            let skipped = address.checked_sub(segment.p_vaddr(ENDIAN))?;
            let (offset, size) = segment.file_range(ENDIAN);
            if segment.p_type(ENDIAN) != PT_LOAD || skipped >= size {
                return None;
            }
            let start = offset.checked_add(skipped)?;
            Some(start..start.checked_add(bytes.min(size - skipped))?)
        })
    }

    /// Bytes from an address to the end of its segment.
    fn bytes(&self, address: u64) -> Option<&[u8]> {
        let range = self.offsets(address, u64::MAX)?;
        self.file.data().get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    fn words<const COUNT: usize>(&self, address: u64) -> Option<[u32; COUNT]> {
        let words = self.bytes(address)?.as_chunks().0.get(..COUNT)?;
        Some(std::array::from_fn(|index| u32::from_le_bytes(words[index])))
    }
}
