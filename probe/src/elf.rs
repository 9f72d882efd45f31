//! ELF files to their functions.
//!
//! A file's bytes become its segments (`layout`), symbols (`symbols`, of a separate file as well:
//! `debug_file`) and unwind ranges (`frames`); those become functions (`functions`), which get names
//! (`names`). Functions never overlap and lie in executable segments. Refused: what is no x86-64 program
//! or library, and what claims more than it holds.

mod debug_file;
mod exported;
mod frames;
mod functions;
pub(crate) mod go;
mod layout;
mod names;
mod reached;
pub(crate) mod script;
mod sources;
mod start;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File as OpenFile;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::regular;
pub use go::Go;
use layout::{File, Layout};

/// Whether a file has unwind information for the instruction at an offset; not if it cannot be read.
pub(crate) fn has_unwind_information(file: &OpenFile, offset: u64) -> bool {
    let Ok(bytes) = regular::contents(file) else { return false };
    let Ok(file) = File::parse(&*bytes) else { return false };
    let Ok(layout) = Layout::of(&file) else { return false };
    let holds = |text: &&Text| {
        offset.checked_sub(text.offset).is_some_and(|at| at < text.bytes.len() as u64)
    };
    let Some(text) = layout.text.iter().find(holds) else { return false };
    let address = text.start + (offset - text.offset);
    frames::of(&file, &layout).iter().any(|frame| frame.range.contains(&address))
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It cannot be opened or read.
    #[error("{path}: cannot read")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no x86-64 program or library.
    #[error("{path}: not a 64-bit x86-64 ELF program or library: {reason}")]
    NotElf {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A function: some instructions that are called by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name as the source has it: demangled.
    pub name: String,
    /// All its symbols, as the file has them, the one that named it first; none in a stripped file.
    pub symbols: Vec<String>,
    /// Address of its first instruction, in the file's own address space.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Whether the symbol is an indirect function's: this is its resolver, which the dynamic linker
    /// calls once to learn which function is meant.
    pub ifunc: bool,
    /// The file that its source is in, if that was looked for ([`Image::find_sources`]) and is known.
    pub source: Option<String>,
}

/// Instructions or data of a file, as they are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first byte, in the file's own address space.
    pub start: u64,
    /// Where that is in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The open file that an image was read from, to be read again: its path may lead to another one by then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin(Option<Arc<OpenFile>>);

impl PartialEq for Origin {
    /// Images are compared by what they say.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// Its functions by address; none overlaps another. The linker's stubs (`.plt`) are none. Without
    /// symbols they are named `fn_` and their address, the one at the entry point `_start`; then code
    /// that has no unwind information is missing.
    pub functions: Vec<Function>,
    /// Instructions that are reached by jumps from functions: `.cold` parts, what lies behind a function
    /// inside another one, and unwind ranges that begin with a frame already set up. By address; none
    /// overlaps another or a function.
    pub fragments: Vec<Range<u64>>,
    /// Executable segments by address.
    pub text: Vec<Text>,
    /// What is loaded and not executable, as far as the file has it, by address.
    pub data: Vec<Text>,
    /// Addresses of instructions that data hold, ascending: pointers, relocations.
    pub reached: Vec<u64>,
    /// Where the unwinder goes on, ascending.
    pub landing_pads: Vec<u64>,
    /// Instructions from which the unwinder goes on at a landing pad, and that; by address.
    pub call_sites: Vec<(Range<u64>, u64)>,
    /// Where the program starts.
    pub entry: u64,
    /// Whether it is loaded wherever the kernel or the linker likes.
    pub relocatable: bool,
    /// Whether it names a dynamic linker: dynamic programs do, libraries mostly do not.
    pub dynamic: bool,
    /// Places in the instructions that the dynamic linker changes when it loads the file (text relocations), ascending.
    pub relocated: Vec<Range<u64>>,
    /// Places in the instructions that differ in the memory of a process, ascending; none unless that was compared.
    pub differing: Vec<Range<u64>>,
    pub(crate) origin: Origin,
    /// What Go's runtime knows of it, if it is a program of Go.
    pub go: Option<Go>,
}

impl Image {
    /// Reads a file, and the symbols of its separate debug file if there is one.
    ///
    /// # Errors
    /// [`ElfError`]; a hostile file is no worse than a damaged one.
    pub fn read(path: &Path) -> Result<Image, ElfError> {
        let read = |source| ElfError::Read { path: path.into(), source };
        let file = regular::open(path).map_err(read)?;
        Image::from_file(file, path)
    }

    /// Reads an open file, and the symbols of its separate debug file if there is one; `path` is what the file is
    /// called, which may lead to another one.
    ///
    /// # Errors
    /// [`ElfError`]; a hostile file is no worse than a damaged one.
    pub fn from_file(file: OpenFile, path: &Path) -> Result<Image, ElfError> {
        let read = |source| ElfError::Read { path: path.into(), source };
        let bytes = regular::contents(&file).map_err(read)?;
        let mut image = Image::from_bytes(&bytes, path, Some(Path::new(debug_file::ROOT)))?;
        image.origin = Origin(Some(Arc::new(file)));
        Ok(image)
    }

    /// Reads a file's bytes, and nothing else; `path` is what they are called.
    ///
    /// # Errors
    /// [`ElfError::NotElf`]
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Image, ElfError> {
        Image::from_bytes(bytes, path, None)
    }

    /// With separate debug files beside the file and below `debug_root`, or without.
    fn from_bytes(bytes: &[u8], path: &Path, debug_root: Option<&Path>) -> Result<Image, ElfError> {
        let not_elf = |reason| ElfError::NotElf { path: path.into(), reason };
        if let Some(reason) = foreign(bytes) {
            return Err(not_elf(reason));
        }
        let file = File::parse(bytes).map_err(|error| not_elf(error.to_string()))?;
        let layout = Layout::of(&file).map_err(not_elf)?;
        let mut symbols = symbols::of(&file).map_err(not_elf)?;
        if let Some(root) = debug_root {
            symbols.extend(debug_file::symbols(&file, path, root));
        }
        let go = go::of(&file, &layout);
        let unnamed = go.as_ref().map(|go| go.symbols(&layout, &symbols));
        symbols.extend(unnamed.into_iter().flatten());
        let frames = frames::of(&file, &layout);
        let (functions, fragments) = functions::assemble(&layout, symbols, &frames);
        let tables: Vec<(u64, u64)> = frames
            .iter()
            .filter_map(|frame| Some((frame.range.start, frame.landing_pads?)))
            .collect();
        let reached = reached::of(&file, &layout);
        let relocated = reached::relocated(&file, &layout);
        let call_sites = reached::call_sites(&layout.data, &tables).map_err(not_elf)?;
        let landing_pads = reached::landing_pads(&call_sites);
        let Layout { text, data, entry, relocatable, dynamic, .. } = layout;
        let path = path.into();
        Ok(Image {
            path,
            functions,
            fragments,
            text,
            data,
            reached,
            landing_pads,
            call_sites,
            entry,
            relocatable,
            dynamic,
            relocated,
            differing: Vec::new(),
            origin: Origin::default(),
            go,
        })
    }

    /// Finds out which source file each function is of, from the line tables of the file or of its
    /// separate debug file.
    ///
    /// # Errors
    /// [`ElfError`] if the file cannot be read any more.
    pub fn find_sources(&mut self) -> Result<(), ElfError> {
        let found = self.in_line_tables(|file| sources::of(file, &self.functions))?;
        for (function, source) in self.functions.iter_mut().zip(found) {
            function.source = source;
        }
        Ok(())
    }

    /// The source file and line of each address, from the line tables of the file or of its separate debug
    /// file; nothing if there are none.
    ///
    /// # Errors
    /// [`ElfError`] if the file cannot be read any more.
    pub fn find_lines(&self, addresses: &[u64]) -> Result<Vec<Option<String>>, ElfError> {
        self.in_line_tables(|file| sources::lines(file, addresses))
    }

    fn in_line_tables<T: Default>(&self, find: impl Fn(&File) -> Option<T>) -> Result<T, ElfError> {
        let path = &self.path;
        let read = |source| ElfError::Read { path: path.clone(), source };
        let not_elf = |reason| ElfError::NotElf { path: path.clone(), reason };
        let bytes = match &self.origin.0 {
            Some(file) => regular::contents(file),
            None => regular::read(path),
        };
        let bytes = bytes.map_err(read)?;
        let file = File::parse(&*bytes).map_err(|error| not_elf(error.to_string()))?;
        let root = Path::new(debug_file::ROOT);
        let separate = || debug_file::read(&file, path, root, &find);
        Ok(find(&file).or_else(separate).unwrap_or_default())
    }

    /// Address of a program's `main`: of the symbol, or, without one, what the code at the entry point
    /// passes to the C library first.
    pub fn main(&self) -> Option<u64> {
        let named = |function: &&Function| function.symbols.iter().any(|symbol| symbol == "main");
        let main = self.functions.iter().find(named).map(|function| function.start);
        main.or_else(|| start::main(self))
    }

    /// The number of the first call site that does not end before an address.
    pub(crate) fn call_sites_from(&self, address: u64) -> usize {
        self.call_sites.partition_point(|(site, _)| site.end <= address)
    }

    /// The function that has an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address - function.start < function.size).then_some(function)
    }
}

/// Where an ELF file says how wide its addresses are, and what it says then (ELF, "ELF Identification").
const CLASS: usize = 4;
const CLASS_32: u8 = 1;

/// What kind of file some bytes are, if that is a well-known other one.
fn foreign(bytes: &[u8]) -> Option<String> {
    if let Some(interpreter) = script::interpreter(bytes) {
        return Some(format!(
            "it is a script, which {interpreter} runs: that is the program with functions"
        ));
    }
    let is_elf = bytes.starts_with(b"\x7fELF");
    (is_elf && bytes.get(CLASS) == Some(&CLASS_32))
        .then(|| "it is a 32-bit program; only 64-bit programs can be tagged".into())
}
