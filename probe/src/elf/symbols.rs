//! Reads the symbols of functions and labels from the symbol tables.

use object::LittleEndian;
use object::elf::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Sym64};
use object::read::elf::{Sym, SymbolTable};

use super::layout::{ENDIAN, File, Header};

/// Kind of thing that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A function.
    Function,
    /// The resolver of an indirect function.
    Resolver,
    /// A separate part of a function, which is reached by jumps.
    Fragment,
    /// Anything else: the symbol names a function if there is one at its address.
    Label,
}

/// A symbol of a function, a separate part of a function, or a label.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    /// Name as in the file. Invalid UTF-8 is replaced.
    pub name: String,
    /// Address in the file.
    pub address: u64,
    /// Size in bytes; 0 if the file does not state it.
    pub size: u64,
    /// Kind of thing that the symbol names.
    pub kind: Kind,
    /// Whether the symbol is visible to other files, or to other objects of this file.
    pub global: bool,
}

/// Maximum total size of all names, as a multiple of the file's size. Names may share bytes; in a
/// hostile file all names may share the same bytes.
const NAMES: usize = 8;
/// Bytes that are allowed in addition, for small files.
const NAMES_BASE: usize = 1 << 16;

/// Reads the symbols of both symbol tables. The error is a text that states what is wrong with
/// them.
pub(super) fn read(file: &File) -> Result<Vec<Symbol>, String> {
    let mut bytes_left = file.data().len() * NAMES + NAMES_BASE;
    let mut symbols = Vec::new();
    for table in [file.elf_symbol_table(), file.elf_dynamic_symbol_table()] {
        for symbol in table.iter() {
            let Some(kind) = kind(symbol) else { continue };
            let name = name(table, symbol)?;
            bytes_left =
                bytes_left.checked_sub(name.len()).ok_or("its symbols' names share their bytes")?;
            if name.is_empty() {
                continue;
            }
            symbols.push(Symbol {
                kind: if is_cold(&name) { Kind::Fragment } else { kind },
                name,
                address: symbol.st_value(ENDIAN),
                size: symbol.st_size(ENDIAN),
                global: symbol.st_bind() != STB_LOCAL,
            });
        }
    }
    Ok(symbols)
}

fn kind(symbol: &Sym64<LittleEndian>) -> Option<Kind> {
    // An undefined function of a program may have the address of a stub of the linker.
    if symbol.is_undefined(ENDIAN) {
        return None;
    }
    match symbol.st_type() {
        STT_FUNC => Some(Kind::Function),
        STT_GNU_IFUNC => Some(Kind::Resolver),
        STT_NOTYPE => Some(Kind::Label),
        _ => None,
    }
}

fn name(table: &SymbolTable<Header>, symbol: &Sym64<LittleEndian>) -> Result<String, String> {
    let name = table.symbol_name(ENDIAN, symbol).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Whether the symbol names the unlikely part of a function: `f.cold`, `f.cold.3`, `f.part.0.cold`.
/// LLVM's hot-cold splitting, which is off by default, uses such names for functions that are
/// called; their calls are taken for jumps.
fn is_cold(name: &str) -> bool {
    let mut parts = name.rsplit('.').skip_while(|part| part.bytes().all(|b| b.is_ascii_digit()));
    parts.next() == Some("cold") && parts.next().is_some_and(|function| !function.is_empty())
}
