//! Finds the source file of functions and the source line of instructions in line tables (DWARF 5,
//! 6.2).

use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};

use super::Function;
use super::layout::File;

type Bytes<'data> = EndianSlice<'data, LittleEndian>;

/// Finds the source file of each function, as it was given to the compiler. `None` if the file has
/// no line tables. Compressed tables are not read.
pub(super) fn find(file: &File, functions: &[Function]) -> Option<Vec<Option<String>>> {
    let context = context(file)?;
    let source = |function: &Function| {
        let location = context.find_location(function.start).ok()??;
        location.file.map(str::to_owned)
    };
    let sources: Vec<Option<String>> = functions.iter().map(source).collect();
    sources.iter().any(Option::is_some).then_some(sources)
}

/// Finds the source file and line of each address, as `FILE:LINE`. `None` if the file has no line
/// tables.
pub(super) fn lines(file: &File, addresses: &[u64]) -> Option<Vec<Option<String>>> {
    let context = context(file)?;
    let line = |address: &u64| {
        let location = context.find_location(*address).ok()??;
        Some(format!("{}:{}", location.file?, location.line?))
    };
    let lines: Vec<Option<String>> = addresses.iter().map(line).collect();
    lines.iter().any(Option::is_some).then_some(lines)
}

fn context<'data>(file: &File<'data>) -> Option<Context<Bytes<'data>>> {
    let section = |id: SectionId| -> Result<Bytes<'data>, gimli::Error> {
        let section = file.section_by_name(id.name());
        let bytes = section.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}
