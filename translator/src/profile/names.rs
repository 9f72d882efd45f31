//! Finds the functions of executed blocks in the files that the program had mapped.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::ptrace::{FileId, Mapping};
use hmtt_probe::selection::Selection;

/// End of the target of `/proc/PID/exe` if the file was removed (proc(5)).
const DELETED: &[u8] = b" (deleted)";

/// Stands for a function that is not known.
static UNKNOWN: Function = Function {
    name: String::new(),
    symbols: Vec::new(),
    start: 0,
    size: 0,
    ifunc: false,
    source: None,
};

/// Functions in files.
#[derive(Default)]
pub struct Names<'s> {
    /// Files whose functions were read; `None` for those that cannot be read, or were replaced.
    images: HashMap<(PathBuf, Option<FileId>), Option<Image>>,
    /// Which functions are selected, and the program, whose functions are not those of a library.
    selection: Option<(&'s Selection, &'s Path)>,
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
    /// Names that are selected by rules. `program`: file whose functions are those of the program.
    pub fn selected(selection: &'s Selection, program: &'s Path) -> Self {
        Names { images: HashMap::new(), selection: Some((selection, program)) }
    }

    /// What is known of code in no mapping.
    pub fn nowhere(&self) -> Place {
        let is_selected = self.selection.is_none_or(|(rules, _)| rules.matches(&UNKNOWN, None));
        Place { is_selected, ..Place::default() }
    }

    /// Finds an address of a mapping.
    pub fn find(&mut self, mapping: &Mapping, at: RunAddr) -> Place {
        let selection = self.selection;
        let library = selection.and_then(|(_, program)| library(mapping, program));
        let is_selected = |function: Option<&Function>| {
            let (function, library) = (function.unwrap_or(&UNKNOWN), library.as_deref());
            selection.is_none_or(|(rules, _)| rules.matches(function, library))
        };
        let key = (mapping.original_path(), mapping.file);
        let image = self.images.entry(key).or_insert_with(|| {
            let image = read(mapping, selection.is_some_and(|(rules, _)| rules.has_sources()))?;
            if let Some((rules, _)) = selection {
                rules.record_matches(&image.functions, library.as_deref());
            }
            Some(image)
        });
        let offset = at - mapping.start + mapping.offset;
        let text = image.as_ref().and_then(|image| {
            image.text.iter().find(|text| {
                let inside = offset.checked_sub(text.offset);
                inside.is_some_and(|inside| inside < text.bytes.len() as u64)
            })
        });
        let address = text.map(|text| text.start + (offset - text.offset));
        let function = image.as_ref().zip(address).and_then(|(image, at)| image.function_at(at));
        let is_selected = is_selected(function);
        let named = function.zip(address).map(|(one, at)| (one.name.clone(), at - one.start));
        Place { address, function: named, is_selected }
    }
}

/// The file name of a mapping's library; `None` for the program, and for memory without a file.
fn library(mapping: &Mapping, program: &Path) -> Option<String> {
    // The link to the program's file has the kernel's mark of a file that was removed.
    let program = program.as_os_str().as_bytes();
    let program = program.strip_suffix(DELETED).unwrap_or(program);
    let path = mapping.original_path();
    let is_library = mapping.file.is_some() && path.as_os_str().as_bytes() != program;
    is_library.then(|| mapping.file_name())
}

/// Reads the file of a mapping, if it is still the same. `sources`: with the source files of functions.
fn read(mapping: &Mapping, sources: bool) -> Option<Image> {
    let path = mapping.original_path();
    let id = FileId::from_status(&std::fs::metadata(&path).ok()?);
    let mut image = (mapping.file?.inode == id.inode).then(|| Image::read(&path).ok()).flatten()?;
    if sources {
        // Without them, rules for source files match nothing, which is reported.
        let _ = image.find_sources();
    }
    Some(image)
}
