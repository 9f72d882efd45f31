//! Symbols to the names that sources have.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use super::symbols::Symbol;

/// Longest name, in bytes: a mangled one can stand for far more than any source has.
const LONGEST: usize = 1 << 16;

/// Turns symbols to names as long as the names of all are no larger than `room`, in bytes.
#[derive(Debug)]
pub(super) struct Names {
    /// Bytes left.
    pub room: usize,
}

impl Names {
    /// A symbol's name: demangled, without its version; as it is if that cannot be done.
    ///
    /// C++ names have parameters but no return types, Rust names no hashes.
    pub(super) fn name(&mut self, symbol: &str) -> String {
        let symbol = unversioned(symbol);
        let mut text = Bounded { text: String::new(), longest: self.room.min(LONGEST) };
        let is_name = match rustc_demangle::try_demangle(symbol) {
            Ok(name) => write!(text, "{name:#}").is_ok(),
            Err(_) => cpp(symbol, &mut text).is_some(),
        };
        // What came to nothing took its time as well.
        self.room -= text.text.len();
        if is_name { text.text } else { symbol.into() }
    }
}

/// Orders symbols of one address: the first names the function.
///
/// Versions and leading underscores mark duplicates that the C library's own code uses; a local alias is
/// known to fewer than a global one.
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

fn cpp(symbol: &str, text: &mut Bounded) -> Option<()> {
    // The library takes more for mangled than compilers make: a C function `i` would be an `int`.
    if !symbol.starts_with("_Z") {
        return None;
    }
    let (name, rest) = BorrowedSymbol::with_tail(symbol.as_bytes()).ok()?;
    let rest = std::str::from_utf8(rest).ok()?;
    // A suffix of the compiler's is no part of the mangled name; anything else is no mangled name.
    if !rest.is_empty() && !rest.starts_with('.') {
        return None;
    }
    name.structured_demangle(text, &DemangleOptions::new().no_return_type()).ok()?;
    text.write_str(rest).ok()
}

/// Text that gets no longer than it may.
struct Bounded {
    text: String,
    longest: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if more.len() > self.longest - self.text.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}
