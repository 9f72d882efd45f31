//! Finds the functions of executed blocks in the files that the program had mapped.

use std::collections::HashMap;
use std::path::PathBuf;

use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::{FileId, Mapping};

/// Files whose functions were read; `None` for those that cannot be read, or were replaced.
#[derive(Default)]
pub struct Names(HashMap<(PathBuf, Option<FileId>), Option<Image>>);

/// Where a block is in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address in the file's own address space.
    pub address: Option<u64>,
    /// Name of the function, and the offset of the block in it.
    pub function: Option<(String, u64)>,
}

impl Names {
    /// Finds an address of a mapping.
    pub fn find(&mut self, mapping: &Mapping, at: RunAddr) -> Place {
        let key = (mapping.original_path(), mapping.file);
        let image = self.0.entry(key).or_insert_with(|| read(mapping));
        let Some(image) = image else { return Place::default() };
        let offset = at - mapping.start + mapping.offset;
        let text = image.text.iter().find(|text| {
            offset.checked_sub(text.offset).is_some_and(|inside| inside < text.bytes.len() as u64)
        });
        let Some(text) = text else { return Place::default() };
        let address = text.start + (offset - text.offset);
        let function = image.function_at(address);
        let function = function.map(|one| (one.name.clone(), address - one.start));
        Place { address: Some(address), function }
    }
}

/// Reads the file of a mapping, if it is still the same.
fn read(mapping: &Mapping) -> Option<Image> {
    let path = mapping.original_path();
    let id = FileId::from_status(&std::fs::metadata(&path).ok()?);
    (mapping.file?.inode == id.inode).then(|| Image::read(&path).ok()).flatten()
}
