//! Finds the functions of executed blocks in the files that the program had mapped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::Mapping;
use hmtt_probe::selection::Selection;

use super::code_image::{CodeImage, UNKNOWN};
use super::files::{CodeFiles, Key, key};

/// Functions in files.
#[derive(Default)]
pub struct Names<'s> {
    files: CodeFiles,
    /// Files that were read.
    images: HashMap<Key, CodeImage>,
    /// Which functions are selected; `None` for all.
    rules: Option<&'s Selection>,
}

/// Where a block is in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address in the file's own address space.
    pub address: Option<u64>,
    /// Name of the function, and the offset of the block in it.
    pub function: Option<(String, u64)>,
    /// Whether the function is selected.
    pub is_selected: bool,
}

impl<'s> Names<'s> {
    /// Functions in the files of a process. `rules`: which of them are selected.
    pub fn new(files: CodeFiles, rules: Option<&'s Selection>) -> Self {
        Names { files, rules, ..Names::default() }
    }

    /// What is known of code in no file: it is that of the program.
    pub fn nowhere(&self) -> Place {
        let is_selected = self.rules.is_none_or(|rules| rules.matches(&UNKNOWN, None));
        Place { is_selected, ..Place::default() }
    }

    /// Finds an address of a mapping.
    pub fn find(&mut self, mapping: &Mapping, at: RunAddr) -> Place {
        let Some(key) = key(mapping) else { return self.nowhere() };
        let image = match self.images.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let Some(opened) = self.files.get(new.key()) else { return self.nowhere() };
                let library = (!self.files.is_program(mapping)).then(|| mapping.file_name());
                let (mut image, _) = CodeImage::read(&opened, &new.key().1, library);
                if let Some(rules) = self.rules {
                    image.prepare(rules);
                }
                new.insert(image)
            }
        };
        let address = image.address(at - mapping.start + mapping.offset);
        let is_selected = self.rules.is_none_or(|rules| image.is_selected(address, rules));
        let function = address.and_then(|at| Some((image.function_at(at)?, at)));
        let function = function.map(|(one, at)| (one.name.clone(), at - one.start));
        Place { address, function, is_selected }
    }
}
