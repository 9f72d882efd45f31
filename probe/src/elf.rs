//! Reads ELF files and finds their functions.
//!
//! The file's bytes become segments (`layout`), symbols (`symbols`; from a separate file:
//! `debug_file`) and unwind ranges (`frames`). From these, functions are assembled (`functions`)
//! and named (`names`). Invariant: functions do not overlap and lie in executable segments.
//! Rejected: files that are not x86-64 programs or libraries, and files whose headers claim more
//! bytes than the file has.

mod build_id;
pub(crate) mod data_ranges;
mod debug_file;
mod entry_point;
mod exported;
mod frames;
mod functions;
pub(crate) mod go;
mod indirect_targets;
mod layout;
mod names;
pub(crate) mod script;
pub(crate) mod sequences;
mod sources;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File as OpenFile;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::address::FileAddr;
use crate::regular_file;
pub use build_id::build_id;
pub use go::Go;
use layout::{File, Layout};
pub use sequences::{CriticalSection, RestartableSequences, has_signature};

/// Whether a file has unwind information for the instruction at a file offset; `false` if the file
/// cannot be read.
pub(crate) fn has_unwind_information(file: &OpenFile, offset: u64) -> bool {
    let Ok(bytes) = regular_file::contents(file) else { return false };
    let Ok(file) = File::parse(&*bytes) else { return false };
    let Ok(layout) = Layout::read(&file) else { return false };
    let holds = |text: &&Text| {
        offset.checked_sub(text.offset).is_some_and(|at| at < text.bytes.len() as u64)
    };
    let Some(text) = layout.text.iter().find(holds) else { return false };
    let address = text.start + (offset - text.offset);
    frames::read(&file, &layout).iter().any(|frame| frame.range.contains(&address))
}

/// Reason why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file cannot be opened or read.
    #[error("{path}: cannot read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: std::io::Error,
    },
    /// The file is not an x86-64 program or library.
    #[error("{path}: not a 64-bit x86-64 ELF program or library: {reason}")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// Description of what the file is instead, or what is wrong with it.
        reason: String,
    },
}

/// A function: a range of instructions, of which the first one is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Demangled name, as in the source code.
    pub name: String,
    /// All symbols at the function's start. The first one has given the name. Empty in a
    /// stripped file.
    pub symbols: Vec<String>,
    /// Address of the function's first instruction, as an address in the file.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the symbol belongs to an indirect function. The instructions are then its resolver,
    /// which the dynamic linker calls once to choose an implementation.
    pub ifunc: bool,
    /// Source file; `None` if it was not searched for ([`Image::find_sources`]) or not found.
    pub source: Option<String>,
}

impl Function {
    /// Address of the function's first instruction, as the type that a load bias converts.
    pub fn address(&self) -> FileAddr {
        FileAddr(self.start)
    }
}

/// Instructions or data of a file, as they are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first byte, as an address in the file.
    pub start: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Contents of the range.
    pub bytes: Vec<u8>,
}

/// The open file that an image was read from. It is kept to be read again, because its path may
/// lead to another file by then.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackingFile(Option<Arc<OpenFile>>);

impl PartialEq for BackingFile {
    /// Always true, because images are compared by their contents.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for BackingFile {}

/// A parsed file: functions, code and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Path of the file.
    pub path: PathBuf,
    /// Functions by address; none overlaps another. The linker's stubs (`.plt`) are left out. In a
    /// file without symbols, functions are named `fn_` and their address, and the function at the
    /// entry point is named `_start`; code without unwind information is missing then.
    pub functions: Vec<Function>,
    /// Separate parts of functions, which are reached by jumps: `.cold` parts, code of a function
    /// behind another function within it, and unwind ranges that begin with a frame already set up.
    /// By address; none overlaps another or a function.
    pub fragments: Vec<Range<u64>>,
    /// Executable segments, by address.
    pub text: Vec<Text>,
    /// Loaded segments that are not executable, without uninitialized data, by address.
    pub data: Vec<Text>,
    /// Places in data that hold an address of an instruction (pointers and relocations), with this
    /// address; by place.
    pub pointers: Vec<(u64, u64)>,
    /// Addresses of instructions that pointers and relocations in data hold, ascending.
    pub indirect_targets: Vec<u64>,
    /// Landing pads: addresses at which the unwinder continues after an exception, ascending.
    pub landing_pads: Vec<u64>,
    /// Ranges of instructions, each with the address of its landing pad; by address.
    pub call_sites: Vec<(Range<u64>, u64)>,
    /// Address of the entry point.
    pub entry: u64,
    /// Whether the file can be loaded at any address.
    pub relocatable: bool,
    /// Whether the file names a dynamic linker. Dynamic programs do; most libraries do not.
    pub dynamic: bool,
    /// Places in instructions that the dynamic linker changes when it loads the file (text
    /// relocations), ascending.
    pub relocated: Vec<Range<u64>>,
    /// Places in instructions that differ in the memory of a process, ascending. Empty unless file
    /// and memory were compared.
    pub differing: Vec<Range<u64>>,
    /// Restartable sequences with the signature of the C library.
    pub sequences: RestartableSequences,
    pub(crate) backing_file: BackingFile,
    /// The Go runtime's function table, if it is a Go program.
    pub go: Option<Go>,
}

impl Image {
    /// Reads a file, and the symbols of its separate debug file if there is one.
    ///
    /// # Errors
    /// [`ElfError`]; a hostile file has no other effect than a damaged one.
    pub fn read(path: &Path) -> Result<Image, ElfError> {
        let read = |source| ElfError::Read { path: path.into(), source };
        let file = regular_file::open(path).map_err(read)?;
        Image::from_file(file, path)
    }

    /// Reads an open file, and the symbols of its separate debug file if there is one. `path`: path
    /// of the file, for messages and for finding the debug file. The path may lead to another file.
    ///
    /// # Errors
    /// [`ElfError`]; a hostile file has no other effect than a damaged one.
    pub fn from_file(file: OpenFile, path: &Path) -> Result<Image, ElfError> {
        let read = |source| ElfError::Read { path: path.into(), source };
        let bytes = regular_file::contents(&file).map_err(read)?;
        let mut image = Image::from_bytes(&bytes, path, Some(Path::new(debug_file::ROOT)))?;
        image.backing_file = BackingFile(Some(Arc::new(file)));
        Ok(image)
    }

    /// Parses the bytes of a file. No debug file is read. `path`: path of the file, for messages.
    ///
    /// # Errors
    /// [`ElfError::NotElf`] if the bytes are not an x86-64 program or library.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Image, ElfError> {
        Image::from_bytes(bytes, path, None)
    }

    /// Parses the bytes of a file. A separate debug file is searched for if `debug_root` is given:
    /// beside the file and below `debug_root`.
    fn from_bytes(bytes: &[u8], path: &Path, debug_root: Option<&Path>) -> Result<Image, ElfError> {
        let not_elf = |reason| ElfError::NotElf { path: path.into(), reason };
        if let Some(reason) = foreign(bytes) {
            return Err(not_elf(reason));
        }
        let file = File::parse(bytes).map_err(|error| not_elf(error.to_string()))?;
        let layout = Layout::read(&file).map_err(not_elf)?;
        let mut symbols = symbols::read(&file).map_err(not_elf)?;
        if let Some(root) = debug_root {
            symbols.extend(debug_file::symbols(&file, path, root));
        }
        let go = go::read(&file, &layout);
        let unnamed = go.as_ref().map(|go| go.symbols(&layout, &symbols));
        symbols.extend(unnamed.into_iter().flatten());
        let frames = frames::read(&file, &layout);
        let (functions, fragments) = functions::assemble(&layout, symbols, &frames);
        let tables: Vec<(u64, u64)> = frames
            .iter()
            .filter_map(|frame| Some((frame.range.start, frame.landing_pads?)))
            .collect();
        let pointers = indirect_targets::pointers(&file, &layout);
        let indirect_targets = indirect_targets::targets(&pointers);
        let relocated = indirect_targets::relocated(&file, &layout);
        let sequences = sequences::read(&file, &layout, sequences::SIGNATURE);
        let call_sites =
            indirect_targets::call_sites([&layout.data, &layout.text], &tables).map_err(not_elf)?;
        let landing_pads = indirect_targets::landing_pads(&call_sites);
        let Layout { text, data, entry, relocatable, dynamic, .. } = layout;
        let path = path.into();
        Ok(Image {
            path,
            functions,
            fragments,
            text,
            data,
            pointers,
            indirect_targets,
            landing_pads,
            call_sites,
            entry,
            relocatable,
            dynamic,
            relocated,
            differing: Vec::new(),
            sequences,
            backing_file: BackingFile::default(),
            go,
        })
    }

    /// Finds the source file of each function in the line tables of the file or its separate debug
    /// file.
    ///
    /// # Errors
    /// [`ElfError`] if the file can no longer be read.
    pub fn find_sources(&mut self) -> Result<(), ElfError> {
        let locations = self.in_line_tables(|file| sources::find(file, &self.functions))?;
        for (function, source) in self.functions.iter_mut().zip(locations) {
            function.source = source;
        }
        Ok(())
    }

    /// Finds the source file and line of each address, in the line tables of the file or its
    /// separate debug file. Returns an empty list if there are no line tables.
    ///
    /// # Errors
    /// [`ElfError`] if the file can no longer be read.
    pub fn find_lines(&self, addresses: &[u64]) -> Result<Vec<Option<String>>, ElfError> {
        self.in_line_tables(|file| sources::lines(file, addresses))
    }

    fn in_line_tables<T: Default>(&self, find: impl Fn(&File) -> Option<T>) -> Result<T, ElfError> {
        let path = &self.path;
        let read = |source| ElfError::Read { path: path.clone(), source };
        let not_elf = |reason| ElfError::NotElf { path: path.clone(), reason };
        let bytes = match &self.backing_file.0 {
            Some(file) => regular_file::contents(file),
            None => regular_file::read(path),
        };
        let bytes = bytes.map_err(read)?;
        let file = File::parse(&*bytes).map_err(|error| not_elf(error.to_string()))?;
        let root = Path::new(debug_file::ROOT);
        let separate = || debug_file::read(&file, path, root, &find);
        Ok(find(&file).or_else(separate).unwrap_or_default())
    }

    /// Address of a program's `main`: the value of the symbol. Without a symbol, the address that
    /// the code at the entry point passes to the C library.
    pub fn main(&self) -> Option<u64> {
        let named = |function: &&Function| function.symbols.iter().any(|symbol| symbol == "main");
        let main = self.functions.iter().find(named).map(|function| function.start);
        main.or_else(|| entry_point::main(self))
    }

    /// Address of an instruction that the pointer at a place in data holds when the program starts.
    pub(crate) fn pointer_at(&self, place: u64) -> Option<u64> {
        let first = self.pointers.partition_point(|(other, _)| *other < place);
        self.pointers.get(first).filter(|(other, _)| *other == place).map(|(_, address)| *address)
    }

    /// Index of the first call site that does not end before an address.
    pub(crate) fn call_sites_from(&self, address: u64) -> usize {
        self.call_sites.partition_point(|(site, _)| site.end <= address)
    }

    /// The function that contains an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address - function.start < function.size).then_some(function)
    }
}

/// Position and value of the ELF class of 32-bit files (ELF, "ELF Identification").
const CLASS: usize = 4;
const CLASS_32: u8 = 1;

/// Describes a file of another well-known kind; `None` for all other files.
fn foreign(bytes: &[u8]) -> Option<String> {
    if let Some(interpreter) = script::interpreter(bytes) {
        return Some(format!(
            "it is a script for {interpreter}, which is the program with functions"
        ));
    }
    let is_elf = bytes.starts_with(b"\x7fELF");
    (is_elf && bytes.get(CLASS) == Some(&CLASS_32))
        .then(|| "it is a 32-bit program; only 64-bit programs can be tagged".into())
}
