//! Finds the functions of executed blocks in the files that the program had mapped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Deref;
use std::path::PathBuf;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::Mapping;
use hmtt_probe::selection::Selection;

use super::code_image::{CodeImage, UNKNOWN};
use super::files::{CodeFiles, Key, Reason, key};

/// A file in which code was executed, but whose functions are not known.
#[derive(Clone, Debug)]
pub struct Unread {
    /// Its path when it was mapped.
    pub path: PathBuf,
    /// Its file name if it is a library; `None` for the program.
    pub library: Option<String>,
    /// Why it cannot be opened or read.
    pub why: Reason,
}

/// Finds functions in files. `R`: a reference to rules.
pub struct Names<R> {
    files: CodeFiles,
    /// Files that were read.
    images: HashMap<Key, CodeImage>,
    /// Rules for which functions are selected; `None` selects all.
    rules: Option<R>,
    /// Files that could not be read.
    unread: Vec<Unread>,
}

/// Where a block is in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address in the file's own address space; `None` if it is not known.
    pub address: Option<u64>,
    /// Name of the function, and the offset of the block in it.
    pub function: Option<(String, u64)>,
    /// Number of bytes of the function; 0 if it is not known.
    pub function_bytes: u64,
    /// Whether the function is selected.
    pub is_selected: bool,
}

impl<R> Default for Names<R> {
    fn default() -> Self {
        let (files, images, unread) = Default::default();
        Names { files, images, rules: None, unread }
    }
}

impl<R: Deref<Target = Selection>> Names<R> {
    /// Functions in the files of a process. `rules`: select functions; `None` selects all.
    pub fn new(files: CodeFiles, rules: Option<R>) -> Self {
        Names { files, rules, ..Names::default() }
    }

    /// Files in which an address was searched for, but which could not be read.
    pub fn into_unread(self) -> Vec<Unread> {
        self.unread
    }

    /// The place of code in no file. It counts as code of the program.
    pub fn nowhere(&self) -> Place {
        let is_selected = self.rules.as_ref().is_none_or(|rules| rules.matches(&UNKNOWN, None));
        Place { is_selected, ..Place::default() }
    }

    /// Finds the place of an address in the file of a mapping.
    pub fn find(&mut self, mapping: &Mapping, at: RunAddr) -> Place {
        let Some(key) = key(mapping) else { return self.nowhere() };
        let image = match self.images.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let Some(opened) = self.files.get(new.key()) else { return self.nowhere() };
                let library = (!self.files.is_program(mapping)).then(|| mapping.file_name());
                let path = new.key().1.clone();
                let (mut image, why) = CodeImage::read(&opened, &path, library.clone());
                if let Some(rules) = &self.rules {
                    image.prepare(rules);
                }
                self.unread.extend(why.map(|why| Unread { path, library, why }));
                new.insert(image)
            }
        };
        let address = image.address(at - mapping.start + mapping.offset);
        let is_selected = self.rules.as_ref().is_none_or(|rules| image.is_selected(address, rules));
        let function = address.and_then(|at| Some((image.function_at(at)?, at)));
        let function_bytes = function.map_or(0, |(one, _)| one.size);
        let function = function.map(|(one, at)| (one.name.clone(), at - one.start));
        Place { address, function, function_bytes, is_selected }
    }
}
