//! Reads one exported function of a file, which takes much less time than reading all functions.

use std::fs;
use std::path::Path;

use object::elf::{EM_X86_64, PF_X, PT_LOAD, STT_FUNC};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Sym};

use super::layout::{ENDIAN, Header};
use super::{BackingFile, ElfError, Function, Image, Text};
use crate::regular_file;

/// Maximum size of a function that is read, in bytes.
const LONGEST: u64 = 1 << 16;

type File<'a> = ElfFile64<'a, object::LittleEndian>;

impl Image {
    /// Reads an exported function of an open regular file; `None` if the file exports no function
    /// with this name. `path`: path of the file, for messages. The image contains no other
    /// functions and no other bytes, and no information about callers.
    ///
    /// # Errors
    /// [`ElfError`] if the file cannot be read, or is not an x86-64 program or library.
    pub fn read_exported(
        file: fs::File,
        path: &Path,
        symbol: &str,
    ) -> Result<Option<Image>, ElfError> {
        let not_elf =
            |reason: &str| ElfError::NotElf { path: path.into(), reason: reason.to_owned() };
        let bytes = regular_file::contents(&file);
        let bytes = bytes.map_err(|source| ElfError::Read { path: path.into(), source })?;
        let file = File::parse(&*bytes).map_err(|error| not_elf(&error.to_string()))?;
        if file.elf_header().e_machine(ENDIAN) != EM_X86_64 {
            return Err(not_elf("it is for another processor"));
        }
        let Some((start, size)) = find(&file, symbol) else { return Ok(None) };
        let text =
            text(&file, start, size).ok_or_else(|| not_elf("it lacks a function's bytes"))?;
        let (name, symbols) = (symbol.to_owned(), vec![symbol.to_owned()]);
        let function = Function { name, symbols, start, size, ifunc: false, source: None };
        Ok(Some(Image {
            path: path.into(),
            functions: vec![function],
            fragments: Vec::new(),
            text: vec![text],
            data: Vec::new(),
            pointers: Vec::new(),
            indirect_targets: Vec::new(),
            landing_pads: Vec::new(),
            call_sites: Vec::new(),
            entry: 0,
            relocatable: true,
            dynamic: false,
            relocated: Vec::new(),
            differing: Vec::new(),
            sequences: super::RestartableSequences::default(),
            go: None,
            backing_file: BackingFile::default(),
        }))
    }
}

/// Address and size of an exported function.
fn find(file: &File, symbol: &str) -> Option<(u64, u64)> {
    let table = file.elf_dynamic_symbol_table();
    let entry = table.iter().find(|entry| {
        !entry.is_undefined(ENDIAN)
            && entry.st_type() == STT_FUNC
            && table.symbol_name(ENDIAN, entry).is_ok_and(|name| name == symbol.as_bytes())
    })?;
    let size = entry.st_size(ENDIAN);
    (1..=LONGEST).contains(&size).then(|| (entry.st_value(ENDIAN), size))
}

/// The bytes of a function in an executable segment.
fn text(file: &File, start: u64, size: u64) -> Option<Text> {
    let holds = |segment: &&<Header as FileHeader>::ProgramHeader| {
        let from = start.checked_sub(segment.p_vaddr(ENDIAN));
        segment.p_type(ENDIAN) == PT_LOAD
            && segment.p_flags(ENDIAN) & PF_X != 0
            && from.is_some_and(|from| from <= segment.p_filesz(ENDIAN))
    };
    let segment = file.elf_program_headers().iter().find(holds)?;
    let skipped = (start - segment.p_vaddr(ENDIAN)) as usize;
    let bytes = segment.data(ENDIAN, file.data()).ok()?;
    let bytes = bytes.get(skipped..skipped.checked_add(size as usize)?)?.to_vec();
    Some(Text { start, offset: segment.p_offset(ENDIAN) + skipped as u64, bytes })
}
