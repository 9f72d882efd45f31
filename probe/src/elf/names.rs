//! Demangles symbols: finds the names that the source code uses.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use super::symbols::Symbol;

/// Maximum length of a name in bytes. A hostile symbol can stand for a much longer name than any
/// source code contains.
const LONGEST: usize = 1 << 16;

/// Demangles symbols. The total size of all names is limited.
#[derive(Debug)]
pub(super) struct Demangler {
    /// Bytes that further names may take.
    pub bytes_left: usize,
}

impl Demangler {
    /// Removes the version of a symbol and demangles it. A symbol that cannot be demangled is
    /// returned without its version.
    ///
    /// C++ names include parameters but no return types; Rust names include no hashes. For example,
    /// `_Z3addii` becomes `add(int, int)`, and `memcpy@@GLIBC_2.14` becomes `memcpy`.
    pub(super) fn name(&mut self, symbol: &str) -> String {
        let symbol = unversioned(symbol);
        let mut text = BoundedText { text: String::new(), longest: self.bytes_left.min(LONGEST) };
        let is_name = match rustc_demangle::try_demangle(symbol) {
            Ok(name) => write!(text, "{name:#}").is_ok(),
            Err(_) => cpp(symbol, &mut text).is_some(),
        };
        // A failed attempt counts as well, because it took time.
        self.bytes_left -= text.text.len();
        if is_name { text.text } else { symbol.into() }
    }
}

/// Sort key for the symbols of one address. The first symbol names the function.
///
/// Versions and leading underscores mark duplicates for the C library's own use. A global symbol is
/// better known than a local alias.
pub(super) fn rank(symbol: &Symbol) -> impl Ord + use<> {
    let name = &symbol.name;
    let mangled = name.starts_with("_Z") || name.starts_with("_R");
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
    let underscores = if mangled { 0 } else { underscores };
    (!symbol.global, name.contains('@'), underscores, name.len(), name.clone())
}

fn unversioned(symbol: &str) -> &str {
    match symbol.split_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        _ => symbol,
    }
}

fn cpp(symbol: &str, text: &mut BoundedText) -> Option<()> {
    // The library demangles more than compilers generate: a C function `i` would become `int`.
    if !symbol.starts_with("_Z") {
        return None;
    }
    let (name, rest) = BorrowedSymbol::with_tail(symbol.as_bytes()).ok()?;
    let rest = std::str::from_utf8(rest).ok()?;
    // A suffix of the compiler may follow the mangled name. With any other rest the symbol is no
    // mangled name.
    if !rest.is_empty() && !rest.starts_with('.') {
        return None;
    }
    name.structured_demangle(text, &DemangleOptions::new().no_return_type()).ok()?;
    text.write_str(rest).ok()
}

/// A text with a maximum length in bytes.
struct BoundedText {
    text: String,
    longest: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if more.len() > self.longest - self.text.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}
