//! Writes an ELF file with symbols and unwind tables for code that exists only in memory.
//!
//! ```text
//! header | .eh_frame | .symtab | .strtab | .shstrtab | section headers
//! ```
//!
//! Each piece of code has a section without content at its address. The unwind tables of all pieces
//! become one section. The addresses in it are absolute, because a 32-bit distance does not reach
//! from the section to all pieces.

use std::ops::Range;

use object::LittleEndian;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, ET_EXEC, EV_CURRENT, FileHeader64, Ident,
    SHF_ALLOC, SHF_EXECINSTR, SHN_ABS, SHT_NOBITS, SHT_NULL, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB,
    STB_LOCAL, STT_FUNC, SectionHeader64, Sym64,
};
use object::pod::bytes_of;
use object::{U16, U32, U64};

use super::encoder::{CIE_ENCODING_AT, FDE_ROWS_AT, TABLE_AT};
use crate::address::RunAddr;

const ENDIAN: LittleEndian = LittleEndian;
const HEADER_BYTES: usize = size_of::<FileHeader64<LittleEndian>>();
const SYMBOL_BYTES: usize = size_of::<Sym64<LittleEndian>>();
/// Pointer encoding of absolute addresses (`DW_EH_PE_absptr`).
const ABSOLUTE: u8 = 0;

/// Symbols and unwind tables of code, which are to be written to an ELF file.
#[derive(Debug, Default)]
pub struct SymbolFile {
    code: Vec<Range<RunAddr>>,
    symbols: Vec<Sym64<LittleEndian>>,
    names: Vec<u8>,
    frames: Vec<u8>,
}

/// Converts the `.eh_frame` behind an `.eh_frame_hdr` to absolute addresses. [`super::table`] has
/// made both. `at`: address of the `.eh_frame_hdr`. `None` if the table is damaged.
pub fn frames(table: &[u8], at: RunAddr) -> Option<Vec<u8>> {
    let word = |at: usize| table.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let mut next = TABLE_AT.checked_add(word(TABLE_AT)? as usize)?;
    let mut bytes = Vec::new();
    loop {
        let length = word(next)? as usize;
        if length == 0 {
            return Some(bytes);
        }
        let start = next + 4;
        next = start.checked_add(length)?;
        let entry = table.get(start..next)?;
        if word(start)? == 0 {
            let mut cie = entry.to_vec();
            *cie.get_mut(CIE_ENCODING_AT)? = ABSOLUTE;
            // The only CIE is the first entry of the table.
            bytes.extend((length as u32).to_le_bytes());
            bytes.extend(cie);
            continue;
        }
        let distance = i64::from(word(start + 4)?.cast_signed());
        let code = at.wrapping_add(start as u64 + 4).wrapping_add_signed(distance);
        let rows = entry.get(FDE_ROWS_AT..)?;
        let mut fde = ((bytes.len() + 4) as u32).to_le_bytes().to_vec();
        fde.extend(code.0.to_le_bytes());
        fde.extend(u64::from(word(start + 8)?).to_le_bytes());
        fde.extend(rows);
        fde.resize(fde.len().next_multiple_of(4), 0);
        bytes.extend((fde.len() as u32).to_le_bytes());
        bytes.extend(fde);
    }
}

impl SymbolFile {
    /// Adds a piece of code with its symbols and its unwind table, which [`frames`] has converted.
    pub fn add<'a>(
        &mut self,
        code: Range<RunAddr>,
        symbols: impl Iterator<Item = (Range<RunAddr>, &'a str)>,
        frames: &[u8],
    ) {
        // Section 0 is the null section.
        let section = u16::try_from(self.code.len() + 1).unwrap_or(SHN_ABS);
        for (range, name) in symbols {
            let symbol = Sym64 {
                st_name: U32::new(ENDIAN, self.names.len() as u32 + 1),
                st_info: STB_LOCAL << 4 | STT_FUNC,
                st_other: 0,
                st_shndx: U16::new(ENDIAN, section),
                st_value: U64::new(ENDIAN, range.start.0),
                st_size: U64::new(ENDIAN, range.end - range.start),
            };
            self.symbols.push(symbol);
            self.names.extend(name.bytes().filter(|byte| *byte != 0).chain([0]));
        }
        self.code.push(code);
        // An FDE contains its distance to its CIE. Both are moved by the same number of bytes, so
        // the distance stays correct.
        self.frames.extend(frames);
    }

    /// Encodes the file.
    pub fn finish(self) -> Vec<u8> {
        let SymbolFile { code, symbols, names, mut frames } = self;
        frames.extend([0; 4]);
        let mut table = vec![0; SYMBOL_BYTES];
        symbols.iter().for_each(|symbol| table.extend(bytes_of(symbol)));
        let strings = [&[0], names.as_slice()].concat();
        let mut titles = vec![0];
        let mut headers = vec![section(SHT_NULL, 0)];
        for (number, range) in code.iter().enumerate() {
            let title = if number == 0 { ".text".into() } else { format!(".text.{number}") };
            let mut header = section(SHT_NOBITS, title_at(&mut titles, &title));
            header.sh_flags = U64::new(ENDIAN, u64::from(SHF_ALLOC | SHF_EXECINSTR));
            header.sh_addr = U64::new(ENDIAN, range.start.0);
            header.sh_size = U64::new(ENDIAN, range.end - range.start);
            headers.push(header);
        }
        let first = headers.len() as u32;
        let mut bytes = vec![0; HEADER_BYTES];
        let rest = [".eh_frame", ".symtab", ".strtab", ".shstrtab"];
        let places = rest.map(|title| title_at(&mut titles, title));
        let kinds = [SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_STRTAB];
        let contents = [frames, table, strings, titles];
        for ((title, kind), content) in places.into_iter().zip(kinds).zip(&contents) {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let mut header = section(kind, title);
            header.sh_offset = U64::new(ENDIAN, bytes.len() as u64);
            header.sh_size = U64::new(ENDIAN, content.len() as u64);
            if kind == SHT_PROGBITS {
                header.sh_flags = U64::new(ENDIAN, u64::from(SHF_ALLOC));
            }
            if kind == SHT_SYMTAB {
                header.sh_link = U32::new(ENDIAN, first + 2);
                header.sh_info = U32::new(ENDIAN, symbols.len() as u32 + 1);
                header.sh_entsize = U64::new(ENDIAN, SYMBOL_BYTES as u64);
            }
            headers.push(header);
            bytes.extend(content);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let header = file_header(bytes.len() as u64, headers.len() as u16);
        bytes[..HEADER_BYTES].copy_from_slice(bytes_of(&header));
        headers.iter().for_each(|header| bytes.extend(bytes_of(header)));
        bytes
    }
}

fn title_at(titles: &mut Vec<u8>, title: &str) -> u32 {
    let at = titles.len() as u32;
    titles.extend(title.bytes().chain([0]));
    at
}

fn section(kind: u32, name: u32) -> SectionHeader64<LittleEndian> {
    let (word, long) = (U32::new(ENDIAN, 0), U64::new(ENDIAN, 0));
    SectionHeader64 {
        sh_name: U32::new(ENDIAN, name),
        sh_type: U32::new(ENDIAN, kind),
        sh_flags: long,
        sh_addr: long,
        sh_offset: long,
        sh_size: long,
        sh_link: word,
        sh_info: word,
        sh_addralign: U64::new(ENDIAN, 1),
        sh_entsize: long,
    }
}

/// Makes the file header. `sections_at`: offset of the section headers in the file. The last
/// section contains the names of the sections.
fn file_header(sections_at: u64, sections: u16) -> FileHeader64<LittleEndian> {
    let (short, long) = (U16::new(ENDIAN, 0), U64::new(ENDIAN, 0));
    FileHeader64 {
        e_ident: Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: 0,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(ENDIAN, ET_EXEC),
        e_machine: U16::new(ENDIAN, EM_X86_64),
        e_version: U32::new(ENDIAN, EV_CURRENT.into()),
        e_entry: long,
        e_phoff: long,
        e_shoff: U64::new(ENDIAN, sections_at),
        e_flags: U32::new(ENDIAN, 0),
        e_ehsize: U16::new(ENDIAN, HEADER_BYTES as u16),
        e_phentsize: short,
        e_phnum: short,
        e_shentsize: U16::new(ENDIAN, size_of::<SectionHeader64<LittleEndian>>() as u16),
        e_shnum: U16::new(ENDIAN, sections),
        e_shstrndx: U16::new(ENDIAN, sections - 1),
    }
}
