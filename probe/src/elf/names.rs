//! Demangles symbols to the names that the sources use.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use super::symbols::Symbol;

/// Longest name in bytes: a hostile symbol can stand for a much longer name than any source
/// contains.
const LONGEST: usize = 1 << 16;

/// Demangles symbols, up to a total size of all names.
#[derive(Debug)]
pub(super) struct Demangler {
    /// Bytes that further names may take.
    pub bytes_left: usize,
}

impl Demangler {
    /// Demangles a symbol and removes its version. Returns the symbol itself if that is not
    /// possible.
    ///
    /// C++ names include parameters but no return types, Rust names no hashes.
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

/// Sort key for the symbols of one address: the first one names the function.
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
    // A compiler's suffix follows the mangled name; with any other rest it is not a mangled name.
    if !rest.is_empty() && !rest.starts_with('.') {
        return None;
    }
    name.structured_demangle(text, &DemangleOptions::new().no_return_type()).ok()?;
    text.write_str(rest).ok()
}

/// Text with a maximum length.
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
