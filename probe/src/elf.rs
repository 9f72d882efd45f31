//! ELF files to their functions.

use std::path::{Path, PathBuf};

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
    #[error("{path}: not an x86-64 ELF program or library: {reason}")]
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
    /// All its symbols, as the file has them; none in a stripped file.
    pub symbols: Vec<String>,
    /// Address of its first instruction, in the file's own address space.
    pub start: u64,
    /// Bytes.
    pub size: u64,
}

/// Instructions of a file, as they are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first byte, in the file's own address space.
    pub start: u64,
    /// Where that is in the file.
    pub offset: u64,
    /// The instructions.
    pub bytes: Vec<u8>,
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// Its functions by address; none overlaps another.
    pub functions: Vec<Function>,
    /// Executable segments by address.
    pub text: Vec<Text>,
    /// Where the program starts.
    pub entry: u64,
    /// Whether it is loaded wherever the kernel or the linker likes.
    pub relocatable: bool,
    /// Whether it has a dynamic linker.
    pub dynamic: bool,
}

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ElfError`]; a hostile file is no worse than a damaged one.
    pub fn read(path: &Path) -> Result<Image, ElfError> {
        use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
        let bytes =
            std::fs::read(path).map_err(|source| ElfError::Read { path: path.into(), source })?;
        let not_elf = |error: object::Error| ElfError::NotElf {
            path: path.into(),
            reason: error.to_string(),
        };
        let file = object::File::parse(&*bytes).map_err(not_elf)?;
        let mut functions: Vec<Function> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() != 0
            })
            .map(|symbol| {
                let name = symbol.name().unwrap_or_default().to_owned();
                Function {
                    symbols: vec![name.clone()],
                    name,
                    start: symbol.address(),
                    size: symbol.size(),
                }
            })
            .collect();
        functions.sort_by_key(|function| function.start);
        functions.dedup_by_key(|function| function.start);
        let mut text = Vec::new();
        for segment in file.segments() {
            let object::SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
            if p_flags & 1 != 0 {
                text.push(Text {
                    start: segment.address(),
                    offset: segment.file_range().0,
                    bytes: segment.data().map_err(not_elf)?.to_vec(),
                });
            }
        }
        let _ = file.sections().next().map(|section| section.address());
        Ok(Image {
            path: path.into(),
            functions,
            text,
            entry: file.entry(),
            relocatable: file.kind() == object::ObjectKind::Dynamic,
            dynamic: true,
        })
    }

    /// The function that has an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address - function.start < function.size).then_some(function)
    }
}
