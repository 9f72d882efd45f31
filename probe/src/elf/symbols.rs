//! Symbol tables to the symbols that say something about instructions.

use object::LittleEndian;
use object::elf::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Sym64};
use object::read::elf::{Sym, SymbolTable};

use super::layout::{ENDIAN, File, Header};

/// What a symbol is put at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A function.
    Function,
    /// The resolver of an indirect function.
    Resolver,
    /// A part of a function, apart from it and reached by jumps.
    Fragment,
    /// Anything: it names a function that is known otherwise.
    Label,
}

/// A symbol.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    /// As the file has it; what is no UTF-8 is replaced.
    pub name: String,
    /// In the file's own address space.
    pub address: u64,
    /// Bytes; 0 if the file does not say.
    pub size: u64,
    /// What is there.
    pub kind: Kind,
    /// Whether other files can see it, or other objects of this one.
    pub global: bool,
}

/// Longest all names may be together, as a multiple of the file: names may share bytes, and a hostile
/// file's all share the same ones.
const NAMES: usize = 8;
/// Beyond that multiple, in bytes: for small files.
const NAMES_BASE: usize = 1 << 16;

/// Symbols of both tables. An error says what is wrong with them.
pub(super) fn of(file: &File) -> Result<Vec<Symbol>, String> {
    let mut room = file.data().len() * NAMES + NAMES_BASE;
    let mut all = Vec::new();
    for table in [file.elf_symbol_table(), file.elf_dynamic_symbol_table()] {
        for symbol in table.iter() {
            let Some(kind) = kind(symbol) else { continue };
            let name = name(table, symbol)?;
            room = room.checked_sub(name.len()).ok_or("its symbols' names share their bytes")?;
            if name.is_empty() {
                continue;
            }
            all.push(Symbol {
                kind: if is_cold(&name) { Kind::Fragment } else { kind },
                name,
                address: symbol.st_value(ENDIAN),
                size: symbol.st_size(ENDIAN),
                global: symbol.st_bind() != STB_LOCAL,
            });
        }
    }
    Ok(all)
}

fn kind(symbol: &Sym64<LittleEndian>) -> Option<Kind> {
    // A program's undefined functions may have an address: that of a stub.
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

/// Whether the compiler put the unlikely part of a function here: `f.cold`, `f.cold.3`, `f.part.0.cold`.
/// LLVM's hot-cold splitting, off by default, calls what it names so; those calls are taken for jumps.
fn is_cold(name: &str) -> bool {
    let mut parts = name.rsplit('.').skip_while(|part| part.bytes().all(|b| b.is_ascii_digit()));
    parts.next() == Some("cold") && parts.next().is_some_and(|function| !function.is_empty())
}
