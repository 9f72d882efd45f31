//! Reads the headers of a file and copies its segments.

use std::ops::Range;

use object::LittleEndian;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_X, PT_INTERP, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR,
    SHT_NOBITS,
};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};

use super::Text;

/// A parsed x86-64 ELF file.
pub(super) type File<'data> = ElfFile64<'data, LittleEndian>;
/// File header of an x86-64 ELF file.
pub(super) type Header = FileHeader64<LittleEndian>;
/// Byte order of the file.
pub(super) const ENDIAN: LittleEndian = LittleEndian;

/// Segments and sections of a file. Addresses are addresses in the file.
#[derive(Debug)]
pub(super) struct Layout {
    /// Executable segments by address; none overlaps another.
    pub text: Vec<Text>,
    /// Other loaded segments by address; none overlaps another.
    pub data: Vec<Text>,
    /// Executable sections by address. Empty sections are left out.
    pub sections: Vec<Section>,
    /// Address of the entry point.
    pub entry: u64,
    /// Whether the file's type is `ET_DYN`.
    pub relocatable: bool,
    /// Whether the file names a dynamic linker.
    pub dynamic: bool,
}

/// An executable section.
#[derive(Debug)]
pub(super) struct Section {
    /// Address range.
    pub range: Range<u64>,
    /// Whether the section contains the linker's stubs.
    pub stubs: bool,
}

impl Layout {
    /// Reads the headers. The error is the reason why the file is not an x86-64 program or library.
    pub(super) fn read(file: &File) -> Result<Layout, String> {
        let header = file.elf_header();
        let kind = header.e_type(ENDIAN);
        if header.e_machine(ENDIAN) != EM_X86_64 {
            return Err("it is for another processor".into());
        }
        if kind != ET_EXEC && kind != ET_DYN {
            return Err("it is an object file, a core dump or something else".into());
        }
        let mut segments = file.elf_program_headers().iter();
        Ok(Layout {
            text: segments_of(file, PF_X)?,
            data: segments_of(file, 0)?,
            sections: sections(file)?,
            entry: header.e_entry(ENDIAN),
            relocatable: kind == ET_DYN,
            dynamic: segments.any(|segment| segment.p_type(ENDIAN) == PT_INTERP),
        })
    }

    /// The executable segment that contains an address.
    pub(super) fn segment_at(&self, address: u64) -> Option<Range<u64>> {
        let after = self.text.partition_point(|text| text.start <= address);
        let text = self.text.get(after.checked_sub(1)?)?;
        let range = text.start..text.start + text.bytes.len() as u64;
        range.contains(&address).then_some(range)
    }

    /// The executable section that contains an address. If sections overlap, the last one that
    /// starts before the address.
    pub(super) fn section_at(&self, address: u64) -> Option<&Section> {
        let after = self.sections.partition_point(|section| section.range.start <= address);
        let section = self.sections.get(after.checked_sub(1)?)?;
        section.range.contains(&address).then_some(section)
    }

    /// Whether a function may begin at an address: it is executable and not in the linker's stubs.
    pub(super) fn is_code(&self, address: u64) -> bool {
        let stub = self.section_at(address).is_some_and(|section| section.stubs);
        self.segment_at(address).is_some() && !stub
    }
}

/// Copies the segments that are executable, or the segments that are not. Overlapping segments are
/// refused: otherwise a hostile file could claim many segments that together are far larger than
/// the file.
fn segments_of(file: &File, executable: u32) -> Result<Vec<Text>, String> {
    let mut segments = Vec::new();
    for header in file.elf_program_headers() {
        if header.p_type(ENDIAN) != PT_LOAD || header.p_flags(ENDIAN) & PF_X != executable {
            continue;
        }
        let (start, (offset, size)) = (header.p_vaddr(ENDIAN), header.file_range(ENDIAN));
        let bytes = header.data(ENDIAN, file.data());
        let bytes = bytes.map_err(|()| format!("the segment at {start:#x} is cut off"))?;
        let end = start.checked_add(size);
        let end = end.ok_or_else(|| format!("the segment at {start:#x} has no end"))?;
        segments.push((start..end, offset, bytes));
    }
    segments.sort_by_key(|(range, ..)| range.start);
    let overlap = segments.windows(2).find(|pair| pair[0].0.end > pair[1].0.start);
    if let Some([_, (range, ..)]) = overlap {
        return Err(format!("the segment at {:#x} overlaps another", range.start));
    }
    // Segments that are disjoint in memory may still share bytes in the file.
    let bytes: u64 = segments.iter().map(|(.., bytes)| bytes.len() as u64).sum();
    if bytes > file.data().len() as u64 {
        return Err("its segments are larger than the file".into());
    }
    let text = |(range, offset, bytes): (Range<u64>, u64, &[u8])| Text {
        start: range.start,
        offset,
        bytes: bytes.to_vec(),
    };
    Ok(segments.into_iter().map(text).collect())
}

fn sections(file: &File) -> Result<Vec<Section>, String> {
    const CODE: u64 = (SHF_ALLOC | SHF_EXECINSTR) as u64;
    let (table, mut sections) = (file.elf_section_table(), Vec::new());
    for header in table.iter() {
        let (start, size) = (header.sh_addr(ENDIAN), header.sh_size(ENDIAN));
        let code = header.sh_flags(ENDIAN) & CODE == CODE;
        if !code || size == 0 || header.sh_type(ENDIAN) == SHT_NOBITS {
            continue;
        }
        let end = start.checked_add(size);
        let end = end.ok_or_else(|| format!("the section at {start:#x} has no end"))?;
        let name = table.section_name(ENDIAN, header).map_err(|error| error.to_string())?;
        let stubs = name.starts_with(b".plt") || name == b".iplt";
        sections.push(Section { range: start..end, stubs });
    }
    sections.sort_by_key(|section| section.range.start);
    Ok(sections)
}
