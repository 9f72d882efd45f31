//! Finds the instruction addresses in a file's data, where control may arrive from anywhere.
//!
//! Such addresses are in pointers, in relocations and in the unwinder's landing pads. Every value
//! that looks like a pointer counts as a pointer: a wrong address only prevents a jump there.
//! Damaged data end the reading of their table.

use std::ops::Range;

use gimli::{EndianSlice, LittleEndian, Reader};
use object::elf::{
    DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, Dyn64, PT_DYNAMIC, R_X86_64_64, R_X86_64_GLOB_DAT,
    R_X86_64_RELATIVE,
};
use object::read::elf::{Dyn, ProgramHeader, Sym};

use super::Text;
use super::layout::{ENDIAN, File, Layout};

type Bytes<'data> = EndianSlice<'data, LittleEndian>;

/// Tags of packed relative relocations (generic ABI, "Dynamic Section").
pub(super) const DT_RELR: u32 = 36;
pub(super) const DT_RELRSZ: u32 = 35;
/// Words of `Elf64_Rela`: place, type and symbol, addend.
const RELA_WORDS: usize = 3;
/// Maximum number of call sites for each byte of data. An entry has at least 4 bytes, and a
/// function may be listed several times.
const SHARED: usize = 2;
/// The encoding for "no value", and masks and values of the fields of other encodings (Linux
/// Standard Base, "DWARF Exception Header Encoding").
const OMITTED: u8 = 0xff;
const FORMAT: u8 = 0x0f;
const APPLICATION: u8 = 0x70;
const PC_RELATIVE: u8 = 0x10;

/// Finds pointers to instructions in data. Returns the place of each pointer and the address that
/// it holds, by place.
pub(super) fn pointers(file: &File, layout: &Layout) -> Vec<(u64, u64)> {
    // In a relocatable file all pointers are in relocations. Other words are numbers, such as
    // characters in tables of a static program. Only packed relocations leave the pointers in
    // place.
    let is_plain = !layout.relocatable || dynamic_value(file, DT_RELR).is_some();
    // Segments of instructions may contain data (`-z noseparate-code`).
    let segments = [&layout.data[..], &layout.text];
    let mut pointers = if is_plain { words(layout, segments) } else { Vec::new() };
    pointers.extend(relocations(file, segments));
    pointers.retain(|(_, address)| layout.segment_at(*address).is_some());
    pointers.sort_unstable();
    pointers.dedup();
    pointers
}

/// The addresses that the pointers hold, ascending.
pub(super) fn targets(pointers: &[(u64, u64)]) -> Vec<u64> {
    let mut addresses: Vec<u64> = pointers.iter().map(|(_, address)| *address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Finds the places in instructions that the dynamic linker writes to, ascending (text relocations,
/// ld(1): `-z notext`).
pub(super) fn relocated(file: &File, layout: &Layout) -> Vec<Range<u64>> {
    // Old linkers put these tables into the segment of the instructions.
    let contents = |address| bytes_at([&layout.data, &layout.text], address);
    let mut places: Vec<u64> = Vec::new();
    for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
        let table = dynamic_value(file, table).zip(dynamic_value(file, size));
        let bytes =
            table.and_then(|(address, size)| contents(address)?.get(..usize::try_from(size).ok()?));
        let entries = bytes.unwrap_or_default().as_chunks::<{ RELA_WORDS * size_of::<u64>() }>().0;
        places.extend(entries.iter().map(|entry| u64::from_le_bytes(entry.as_chunks().0[0])));
    }
    let packed = dynamic_value(file, DT_RELR).zip(dynamic_value(file, DT_RELRSZ));
    let packed =
        packed.and_then(|(address, size)| contents(address)?.get(..usize::try_from(size).ok()?));
    places.extend(unpacked(packed.unwrap_or_default()));
    // No relocation writes more than one word.
    let word = size_of::<u64>() as u64;
    places.retain(|place| {
        let last = place.saturating_add(word - 1);
        layout.segment_at(*place).is_some() || layout.segment_at(last).is_some()
    });
    places.sort_unstable();
    places.dedup();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for place in places {
        let end = place.saturating_add(word);
        match ranges.last_mut() {
            Some(last) if place <= last.end => last.end = end,
            _ => ranges.push(place..end),
        }
    }
    ranges
}

/// Unpacks relative relocations. An even word is the address of a place. An odd word is a bit map
/// of the next 63 words (generic ABI, "Relative Relocation Table"). For example, the words 0x1000
/// and 0b101 stand for the places 0x1000 and 0x1010.
fn unpacked(bytes: &[u8]) -> Vec<u64> {
    let word = size_of::<u64>() as u64;
    let (mut places, mut next) = (Vec::new(), 0u64);
    for entry in bytes.as_chunks().0.iter().map(|entry| u64::from_le_bytes(*entry)) {
        if entry & 1 == 0 {
            places.push(entry);
            next = entry.wrapping_add(word);
            continue;
        }
        let is_set = |bit: &u64| entry >> (bit + 1) & 1 == 1;
        places.extend((0..63).filter(is_set).map(|bit| next.wrapping_add(bit * word)));
        next = next.wrapping_add(63 * word);
    }
    places
}

/// Reads ranges of instructions with the addresses of their landing pads, by address. `tables`: for
/// each range of unwind information, its start and the address of its landing pad table.
/// `segments`: data, and instructions, which may contain such tables too.
///
/// # Errors
/// A text which states that tables share their bytes: together they could be far larger than the
/// file.
pub(super) fn call_sites(
    segments: [&[Text]; 2],
    tables: &[(u64, u64)],
) -> Result<Vec<(Range<u64>, u64)>, String> {
    let mut sites = Vec::new();
    let mut entries_left =
        SHARED * segments.iter().copied().flatten().map(|text| text.bytes.len()).sum::<usize>();
    for (start, table) in tables {
        // Damage in one table does not affect the next.
        let _ = pads(segments, *start, *table, (&mut sites, &mut entries_left));
        if entries_left == 0 {
            return Err("its tables of landing pads share their bytes".into());
        }
    }
    sites.sort_unstable_by_key(|(site, pad)| (site.start, site.end, *pad));
    sites.dedup();
    Ok(sites)
}

/// Addresses of the landing pads, ascending.
pub(super) fn landing_pads(sites: &[(Range<u64>, u64)]) -> Vec<u64> {
    let mut addresses: Vec<u64> = sites.iter().map(|(_, pad)| *pad).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Aligned words in data that are addresses of instructions, each with its place.
fn words(layout: &Layout, segments: [&[Text]; 2]) -> Vec<(u64, u64)> {
    let first = layout.text.first().map_or(0, |text| text.start);
    let last = layout.text.last().map_or(0, |text| text.start + text.bytes.len() as u64);
    let mut pointers = Vec::new();
    for segment in segments.into_iter().flatten() {
        let skipped = segment.start.wrapping_neg() as usize % size_of::<u64>();
        let words = segment.bytes.get(skipped..).unwrap_or_default().as_chunks().0;
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let places = (segment.start + skipped as u64..).step_by(size_of::<u64>());
        pointers.extend(places.zip(words).filter(|(_, word)| (first..last).contains(word)));
    }
    pointers
}

/// Places in data, with the values that relocations write there when the file is loaded. Symbols
/// have the values that this file gives them.
pub(super) fn relocations(file: &File, segments: [&[Text]; 2]) -> Vec<(u64, u64)> {
    let bytes = rela(file).and_then(|(address, size)| bytes_at(segments, address)?.get(..size));
    let entries = bytes.unwrap_or_default().as_chunks::<{ RELA_WORDS * size_of::<u64>() }>().0;
    let symbols = file.elf_dynamic_symbol_table();
    let symbol = |number: u32| {
        let symbol = symbols.symbol(object::SymbolIndex(number as usize)).ok()?;
        (!symbol.is_undefined(ENDIAN)).then(|| symbol.st_value(ENDIAN))
    };
    let value = |entry: &[u8; RELA_WORDS * size_of::<u64>()]| {
        let (words, _) = entry.as_chunks::<{ size_of::<u64>() }>();
        let [place, kind, addend] = [0, 1, 2].map(|word: usize| u64::from_le_bytes(words[word]));
        let base = match kind as u32 {
            R_X86_64_RELATIVE => 0,
            R_X86_64_64 | R_X86_64_GLOB_DAT => symbol((kind >> 32) as u32)?,
            _ => return None,
        };
        Some((place, base.wrapping_add(addend)))
    };
    entries.iter().filter_map(value).collect()
}

/// The value that a relative relocation writes to a place when the file is loaded; `None` if there
/// is no such relocation.
pub(super) fn pointer_at(file: &File, data: &[Text], place: u64) -> Option<u64> {
    let (address, size) = rela(file)?;
    let entries = bytes_at([data, &[]], address)?.get(..size)?;
    entries.as_chunks::<{ RELA_WORDS * size_of::<u64>() }>().0.iter().find_map(|entry| {
        let (words, _) = entry.as_chunks::<{ size_of::<u64>() }>();
        let [at, kind, value] = [0, 1, 2].map(|word: usize| u64::from_le_bytes(words[word]));
        (at == place && kind as u32 == R_X86_64_RELATIVE).then_some(value)
    })
}

/// Address and size in bytes of the relocation table.
fn rela(file: &File) -> Option<(u64, usize)> {
    let size = dynamic_value(file, DT_RELASZ)?;
    Some((dynamic_value(file, DT_RELA)?, usize::try_from(size).ok()?))
}

/// The value of a tag in the dynamic section.
fn dynamic_value(file: &File, tag: u32) -> Option<u64> {
    let entry = dynamic_entries(file).iter().find(|entry| entry.tag32(ENDIAN) == Some(tag))?;
    Some(entry.d_val(ENDIAN))
}

/// The entries of the dynamic section; empty if there is no such section.
pub(super) fn dynamic_entries<'data>(file: &File<'data>) -> &'data [Dyn64<object::LittleEndian>] {
    let segments = file.elf_program_headers();
    let header = segments.iter().find(|header| header.p_type(ENDIAN) == PT_DYNAMIC);
    let entries = header.and_then(|header| header.dynamic(ENDIAN, file.data()).ok()?);
    entries.unwrap_or_default()
}

/// The bytes from an address to the end of its segment: a segment of data, or else of instructions.
fn bytes_at(segments: [&[Text]; 2], address: u64) -> Option<&[u8]> {
    segments.into_iter().find_map(|segments| {
        let after = segments.partition_point(|segment| segment.start <= address);
        let segment = segments.get(after.checked_sub(1)?)?;
        let skipped = usize::try_from(address - segment.start).ok()?;
        segment.bytes.get(skipped..).filter(|bytes| !bytes.is_empty())
    })
}

/// Reads the landing pads of one range (Itanium C++ ABI, "Exception Handling Tables").
fn pads(
    segments: [&[Text]; 2],
    start: u64,
    table: u64,
    (pads, entries_left): (&mut Vec<(Range<u64>, u64)>, &mut usize),
) -> gimli::Result<()> {
    let bytes = bytes_at(segments, table).unwrap_or_default();
    let mut reader = Bytes::new(bytes, LittleEndian);
    let position = |reader: &Bytes| table + (bytes.len() - reader.len()) as u64;
    let base = match reader.read_u8()? {
        OMITTED => start,
        encoding => encoded(&mut reader, encoding, position)?,
    };
    if reader.read_u8()? != OMITTED {
        reader.read_uleb128()?;
    }
    let encoding = reader.read_u8()?;
    let length = reader.read_uleb128()?;
    let mut sites = reader.split(usize::try_from(length).unwrap_or(usize::MAX))?;
    while !sites.is_empty() && *entries_left > 0 {
        *entries_left -= 1;
        let at = |_: &Bytes| 0;
        let first = start.wrapping_add(encoded(&mut sites, encoding, at)?);
        let bytes = encoded(&mut sites, encoding, at)?;
        let pad = encoded(&mut sites, encoding, at)?;
        sites.read_uleb128()?;
        if pad != 0 {
            pads.push((first..first.saturating_add(bytes), base.wrapping_add(pad)));
        }
    }
    Ok(())
}

/// Reads a pointer in one of the encodings. `position`: address of the next byte of the reader.
fn encoded(
    reader: &mut Bytes,
    encoding: u8,
    position: impl Fn(&Bytes) -> u64,
) -> gimli::Result<u64> {
    let at = position(reader);
    let value = match encoding & FORMAT {
        0x00 | 0x04 | 0x0c => reader.read_u64()?,
        0x01 => reader.read_uleb128()?,
        0x02 => reader.read_u16()?.into(),
        0x03 => reader.read_u32()?.into(),
        0x09 => reader.read_sleb128()?.cast_unsigned(),
        0x0a => i64::from(reader.read_i16()?).cast_unsigned(),
        0x0b => i64::from(reader.read_i32()?).cast_unsigned(),
        _ => return Err(gimli::Error::UnknownPointerEncoding(gimli::DwEhPe(encoding))),
    };
    Ok(if encoding & APPLICATION == PC_RELATIVE { value.wrapping_add(at) } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with this number of call sites without padding, each with a landing pad.
    fn table(sites: usize) -> Text {
        let site = [[1, 0, 0, 0], [2, 0, 0, 0], [9, 0, 0, 0]];
        let sites = [&site.concat()[..], &[0]].concat().repeat(sites);
        let length = [sites.len() as u8 & 127 | 128, (sites.len() >> 7) as u8];
        let head = [OMITTED, OMITTED, 0x03, length[0], length[1]];
        Text { start: 0x1000, offset: 0, bytes: [&head[..], &sites].concat() }
    }

    #[test]
    fn shared_landing_pad_tables_are_limited_by_the_size_of_the_data() {
        let data = [table(1000)];
        let sites = call_sites([&data, &[]], &[(0x40_0000, 0x1000)]).unwrap();
        assert_eq!(sites, [(0x40_0001..0x40_0003, 0x40_0009)]);
        let many: Vec<(u64, u64)> = (0..10_000).map(|at| (0x40_0000 + 16 * at, 0x1000)).collect();
        assert!(call_sites([&data, &[]], &many).is_err());
    }
}
