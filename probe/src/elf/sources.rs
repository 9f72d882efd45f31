//! Line tables to the source file of each function (DWARF 5, 6.2).

use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};

use super::Function;
use super::layout::File;

type Bytes<'data> = EndianSlice<'data, LittleEndian>;

/// The source file of each function, as the compiler was told it; `None` if the file has no line tables.
/// Compressed ones are none.
pub(super) fn of(file: &File, functions: &[Function]) -> Option<Vec<Option<String>>> {
    let section = |id: SectionId| -> Result<Bytes, gimli::Error> {
        let section = file.section_by_name(id.name());
        let bytes = section.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    let context = Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
    let source = |function: &Function| {
        let location = context.find_location(function.start).ok()??;
        location.file.map(str::to_owned)
    };
    let sources: Vec<Option<String>> = functions.iter().map(source).collect();
    sources.iter().any(Option::is_some).then_some(sources)
}
