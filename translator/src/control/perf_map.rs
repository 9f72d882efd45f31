//! Writes the symbols of the code cache in the form in which perf(1) reads them from
//! `/tmp/perf-PID.map`: address and size in hexadecimal, and a name.

use std::fmt::Write as _;

use hmtt_format::escape;
use hmtt_probe::address::RunAddr;
use hmtt_probe::selection::Selection;

use super::translator::Translation;
use crate::cache::{Contents, Numbered, Side};
use crate::profile::Names;

/// Names of code that belongs to no block.
const STUBS: &str = "[hmtt stubs]";
const ISLAND: &str = "[hmtt jump]";

/// The name of a block by its number: function and offset, or file and address in the file.
fn block_name(translation: &Translation, names: &mut Names<&Selection>, number: u32) -> String {
    let Some((block, files)) = translation.block(number) else { return "[unknown]".into() };
    let contains = |start: RunAddr, end: RunAddr| (start..end).contains(&block.start);
    let Some(mapping) = files.iter().find(|mapping| contains(mapping.start, mapping.end)) else {
        return format!("{:#x}", block.start);
    };
    let place = names.find(mapping, block.start);
    let name = match (place.function, place.address) {
        (Some((function, offset)), _) => format!("{function}+{offset:#x}"),
        (None, Some(address)) => format!("{}+{address:#x}", mapping.file_name()),
        (None, None) => format!("{:#x}", block.start),
    };
    escape::message(&name).to_string()
}

/// Symbols of all code in the cache of a process. The code of a block has the name of its original
/// function.
pub fn text(translation: &Translation) -> String {
    let mut names = Names::new(translation.code_files().clone(), None::<&Selection>);
    let mut text = String::new();
    for (range, contents) in translation.contents() {
        let name = match contents {
            Contents::Free => continue,
            Contents::Stubs => STUBS.into(),
            Contents::Island => ISLAND.into(),
            Contents::Code { number, side } => {
                let (block, kind) = match translation.number(number) {
                    Some(Numbered::Path { blocks, .. }) => (blocks[0], " [superblock]"),
                    _ => (number, ""),
                };
                let side = if side == Side::Cold { " [cold]" } else { "" };
                format!("{}{kind}{side}", block_name(translation, &mut names, block))
            }
        };
        if !range.is_empty() {
            let _ = writeln!(text, "{:x} {:x} {name}", range.start, range.end - range.start);
        }
    }
    text
}
