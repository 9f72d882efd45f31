//! Finds source lines of instructions in the files that a profile names, if these files still have
//! the code of the profile.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use hmtt_files::profile::Block;
use hmtt_probe::elf::Image;

/// Source lines by object and address in the file, as `FILE:LINE`.
#[derive(Clone, Debug, Default)]
pub struct SourceLines<'p>(HashMap<&'p str, BTreeMap<u64, String>>);

impl<'p> SourceLines<'p> {
    /// Finds the lines of all instructions of some blocks. Blocks have no lines if their file has
    /// changed or has no line table.
    pub fn find(blocks: impl IntoIterator<Item = &'p Block>) -> Self {
        let mut by_object: HashMap<&str, Vec<&Block>> = HashMap::new();
        for block in blocks {
            if block.file_address.is_some() {
                by_object.entry(&block.object).or_default().push(block);
            }
        }
        SourceLines(by_object.into_iter().map(|(name, all)| (name, read(name, &all))).collect())
    }

    /// The source line of an instruction, by its address in the file.
    pub fn get(&self, object: &str, address: u64) -> Option<&str> {
        self.0.get(object)?.get(&address).map(String::as_str)
    }

    /// The source line of the first instruction of a block.
    pub fn of(&self, block: &Block) -> Option<&str> {
        self.get(&block.object, block.file_address?)
    }
}

/// Source lines of the instructions of blocks in one file; none if the file cannot be read.
fn read(object: &str, blocks: &[&Block]) -> BTreeMap<u64, String> {
    // A profile is not trusted: only regular files are read, by absolute path.
    let path = Path::new(object);
    let is_file = path.is_absolute() && path.metadata().is_ok_and(|found| found.is_file());
    let Some(image) = is_file.then(|| Image::read(path).ok()).flatten() else {
        return BTreeMap::new();
    };
    let same = blocks.iter().filter(|block| has_code(&image, block));
    let mut addresses: Vec<u64> =
        same.flat_map(|block| super::disassembly::instructions(block)).map(|(at, _)| at).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let lines = image.find_lines(&addresses).unwrap_or_default();
    addresses.into_iter().zip(lines).filter_map(|(at, line)| Some((at, line?))).collect()
}

/// Whether a file still has the code of a block at the address in the profile.
fn has_code(image: &Image, block: &Block) -> bool {
    let Some(address) = block.file_address else { return false };
    image.text.iter().any(|text| {
        let inside = address.checked_sub(text.start).and_then(|at| usize::try_from(at).ok());
        inside.and_then(|at| text.bytes.get(at..)?.get(..block.code.len())) == Some(&block.code[..])
    })
}
