//! Describes blocks for a record of accesses: their accesses, their code, and their functions.
//!
//! Functions are found while the program runs, in the files that were mapped when a block was
//! translated. So a record names the functions of its blocks even if the recording process is
//! killed.

use std::collections::HashMap;
use std::path::PathBuf;

use hmtt_files::access_trace::{BlockAccesses, Function, Part};
use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::build_id;
use hmtt_probe::ptrace::{FileId, Mapping};
use hmtt_probe::selection::Selection;

use super::Shared;
use crate::cache::{BlockInfo, Numbered};
use crate::monitor::accesses::AccessBlocks;
use crate::monitor::code::Blocks;
use crate::profile::{CodeFiles, Names};
use crate::recorded::Recorded;

/// Identity of a file. The path is needed because a number may be used again for another file.
type File = (Option<FileId>, PathBuf);

/// Describes each block of a process once.
pub struct DescribedBlocks<'s> {
    shared: &'s Shared,
    /// The highest number of a block that was described.
    known: u32,
    functions: Functions,
}

impl<'s> DescribedBlocks<'s> {
    /// Creates the state in which no block has been described.
    pub fn new(shared: &'s Shared) -> Self {
        let files = shared.translation().code_files().clone();
        let names = Names::new(files.clone(), None);
        let functions =
            Functions { names, files, build_ids: HashMap::new(), numbers: HashMap::new() };
        DescribedBlocks { shared, known: 0, functions }
    }
}

impl AccessBlocks for DescribedBlocks<'_> {
    fn describe_new(&mut self) -> (Vec<Function>, Vec<BlockAccesses>) {
        let translation = self.shared.translation();
        let (mut next, last) = (self.known + 1, translation.last_number());
        let mut copied = Vec::new();
        while next <= last {
            // Each block of a path has a number. The last number is the number of the whole path.
            let length = match translation.number(next) {
                Some(Numbered::Path { blocks, .. }) => blocks.len() as u32,
                _ => 1,
            };
            let block = translation.block(next).map(|(info, files)| {
                let contains =
                    |mapping: &&Mapping| (mapping.start..mapping.end).contains(&info.start);
                (info.clone(), files.iter().find(contains).cloned())
            });
            copied.push((translation.recorded(next + length - 1), block, length as usize));
            next += length;
        }
        drop(translation);
        self.known = last;
        let mut new = Vec::new();
        let blocks = copied.into_iter().map(|(recorded, block, length)| {
            let Some((Recorded { accesses, .. }, _)) = recorded else {
                // An empty description keeps the numbers after it unchanged.
                let none = Part { block: 0, instructions: 0, slots: 0 };
                return BlockAccesses { parts: vec![none; length], ..BlockAccesses::default() };
            };
            let Some((BlockInfo { start, bytes, .. }, mapping)) = block else { return accesses };
            let function =
                mapping.map_or(0, |mapping| self.functions.number(&mapping, start, &mut new));
            BlockAccesses { function, code: bytes.into_vec(), ..accesses }
        });
        let blocks = blocks.collect();
        (new, blocks)
    }

    fn record_accesses(&mut self) -> u32 {
        self.shared.translation().record_accesses()
    }

    fn leave(&mut self) {
        self.shared.leave();
    }

    fn code(&self) -> &dyn Blocks {
        self.shared
    }
}

/// Functions of a process. They are numbered from 1 on.
struct Functions {
    names: Names<&'static Selection>,
    files: CodeFiles,
    /// Build identifiers of files.
    build_ids: HashMap<File, Vec<u8>>,
    /// Numbers of functions, by file, start and name; the function is `None` for code outside of
    /// all known functions.
    numbers: HashMap<(File, Option<(RunAddr, String)>), u32>,
}

impl Functions {
    /// The number of the function at an address of a mapping; 0 for code in no file. A new function
    /// is appended to `new`.
    fn number(&mut self, mapping: &Mapping, at: RunAddr, new: &mut Vec<Function>) -> u32 {
        let place = self.names.find(mapping, at);
        let function =
            place.function.map(|(name, offset)| (RunAddr(at.0.wrapping_sub(offset)), name));
        let file = (mapping.file, mapping.original_path());
        if function.is_none() && file.1.as_os_str().is_empty() {
            return 0;
        }
        let next = self.numbers.len() as u32 + 1;
        let number = *self.numbers.entry((file.clone(), function.clone())).or_insert(next);
        if number == next {
            let (start, name) = function.unwrap_or((RunAddr(0), String::new()));
            let path = file.1.to_string_lossy().into_owned();
            let build_id = self.build_ids.entry(file).or_insert_with(|| {
                self.files.file_of(mapping).and_then(|file| build_id(&file)).unwrap_or_default()
            });
            let (bytes, build_id) = (place.function_bytes, build_id.clone());
            new.push(Function { start: start.0, bytes, name, path, build_id });
        }
        number
    }
}
