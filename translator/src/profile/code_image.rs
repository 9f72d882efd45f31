//! Finds the functions of a file of code, and which of them rules select.
//!
//! A file that is no ELF file, such as one that a JIT compiler maps, has no functions and is not a
//! library: its code counts as code of the program. A library that cannot be read is still a
//! library, and its code belongs to no known function.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hmtt_probe::disassembly::FileIndex;
use hmtt_probe::elf::{ElfError, Function, Image};
use hmtt_probe::selection::Selection;

use super::files::{Opened, Reason};

/// Stands for the function of code whose function is not known.
pub static UNKNOWN: Function = Function {
    name: String::new(),
    symbols: Vec::new(),
    start: 0,
    size: 0,
    ifunc: false,
    source: None,
};

/// A file of code.
#[derive(Default)]
pub struct CodeImage {
    /// Its functions. `None` if it has none, or if they cannot be read.
    image: Option<Image>,
    /// Whether its functions cannot be read.
    is_unread: bool,
    /// Its file name if it is a library.
    library: Option<String>,
    /// Separate parts of functions, such as `.cold` parts, by address, with the start of the
    /// function of each. `None` until they are needed, because finding them takes decoding all
    /// instructions.
    parts: Option<Vec<(Range<u64>, u64)>>,
    /// Whether functions are selected, by their starts. The key `None` is for code of no known
    /// function.
    selected: HashMap<Option<u64>, bool>,
}

impl CodeImage {
    /// Reads a file. `library`: its name, `None` for the program. The result has the reason if its
    /// functions cannot be read.
    pub fn read(opened: &Opened, path: &Path, library: Option<String>) -> (Self, Option<Reason>) {
        let opened = opened.as_ref().map_err(Reason::clone);
        let read = opened.and_then(|file| file.as_ref().map(|file| read(file, path)).transpose());
        let image = match read {
            Ok(image) => image,
            Err(why) => {
                let unread = CodeImage { is_unread: true, library, ..CodeImage::default() };
                return (unread, Some(why));
            }
        };
        let library = library.filter(|_| image.is_some());
        (CodeImage { image, library, ..CodeImage::default() }, None)
    }

    /// Prepares for rules: finds source files if rules for this file need them, and records in the
    /// rules which of them match a function.
    pub fn prepare(&mut self, rules: &Selection) {
        let library = self.library.as_deref();
        let Some(image) = &mut self.image else {
            if self.is_unread {
                rules.record_unknown(library);
            }
            return;
        };
        if rules.needs_sources(library) {
            // Without source files, rules for them match nothing, which is reported.
            let _ = image.find_sources();
        }
        rules.record_matches(&image.functions, library);
    }

    /// The address of code in the file's own address space, by its offset in the file. `None` if
    /// the offset is not in code.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let text = self.image.as_ref()?.text.iter().find(|text| {
            let inside = offset.checked_sub(text.offset);
            inside.is_some_and(|inside| inside < text.bytes.len() as u64)
        })?;
        Some(text.start + (offset - text.offset))
    }

    /// The function that contains an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        self.image.as_ref()?.function_at(address)
    }

    /// The start of the function to which the code at an address belongs: the function that
    /// contains the address, or from which the code was moved out.
    fn owner(&mut self, address: u64) -> Option<u64> {
        let image = self.image.as_ref()?;
        if let Some(function) = image.function_at(address) {
            return Some(function.start);
        }
        let after = image.fragments.partition_point(|part| part.start <= address);
        if !image.fragments.get(after.checked_sub(1)?)?.contains(&address) {
            return None;
        }
        let parts = self.parts.get_or_insert_with(|| FileIndex::new(image).parts());
        let after = parts.partition_point(|(part, _)| part.start <= address);
        let (part, function) = parts.get(after.checked_sub(1)?)?;
        part.contains(&address).then_some(*function)
    }

    /// Whether rules select the code at an address; `None` stands for an address that is not known.
    /// Separate parts of a function are selected with it.
    pub fn is_selected(&mut self, address: Option<u64>, rules: &Selection) -> bool {
        let start = address.and_then(|at| self.owner(at));
        if let Some(known) = self.selected.get(&start) {
            return *known;
        }
        let function = start.and_then(|at| self.function_at(at)).unwrap_or(&UNKNOWN);
        let is_selected = rules.matches(function, self.library.as_deref());
        self.selected.insert(start, is_selected);
        is_selected
    }
}

fn read(file: &File, path: &Path) -> Result<Image, Reason> {
    let copy = file.try_clone();
    let copy = copy.map_err(|source| ElfError::Read { path: path.into(), source });
    let image = copy.and_then(|file| Image::from_file(file, path));
    image.map_err(|error| Arc::new(error) as Reason)
}
