//! Reads the declarations of a VCD, and finds the signals that a pin map names.
//!
//! Only scopes, variables and the end of the declarations are used. Other declarations of IEEE
//! 1364, IEEE 1800 or a program are skipped: date, version, time scale, comments, attributes, and
//! kinds of scopes and variables.

use std::collections::HashMap;

use hmtt_format::escape;

use super::tokens::Tokens;
use crate::input::InputError;

/// Longest part of a signal's path in a message, in characters. A longer path is cut at its start.
const SHOWN: usize = 200;

/// A signal that the file declares.
#[derive(Clone)]
pub struct Variable {
    /// Width in bits.
    pub bits: u32,
    /// Identifier code, which stands for the signal in changes.
    pub code: Vec<u8>,
}

/// The declarations that match one name of the pin map.
#[derive(Default)]
struct Wanted {
    /// The signal whose full path equals the name.
    exact: Option<Variable>,
    /// The first signal whose path ends in the name, with its path for messages.
    fitting: Option<(Variable, String)>,
    /// The path of a second signal that ends in the name.
    other: Option<String>,
    /// Why a variable whose path ends in the name is no signal.
    unusable: Option<String>,
}

/// The declarations read so far. Only signals that the pin map names are kept, so memory does not
/// grow with the number of signals times the depth of their scopes.
pub struct DeclaredSignals<'a> {
    wanted: HashMap<&'a str, Wanted>,
    /// The open scopes, each followed by a dot.
    scopes: String,
    /// Start of each open scope in `scopes`.
    begins: Vec<usize>,
}

impl<'a> DeclaredSignals<'a> {
    fn new(names: impl Iterator<Item = &'a str>) -> Self {
        let wanted = names.map(|name| (name, Wanted::default())).collect();
        DeclaredSignals { wanted, scopes: String::new(), begins: Vec::new() }
    }

    fn open_scope(&mut self, name: &str) {
        self.begins.push(self.scopes.len());
        self.scopes.extend([name, "."]);
    }

    fn close_scope(&mut self) {
        self.scopes.truncate(self.begins.pop().unwrap_or(0));
    }

    /// Adds a variable. `names`: its name, with and without the range of its bits.
    fn declare(&mut self, names: [&str; 2], variable: &Result<Variable, String>) {
        for (wanted, candidates) in &mut self.wanted {
            let before = names.iter().find_map(|name| without_end(&self.scopes, name, wanted));
            let Some(before) = before else { continue };
            let variable = match variable {
                Ok(variable) => variable,
                Err(reason) => {
                    candidates.unusable.get_or_insert_with(|| reason.clone());
                    continue;
                }
            };
            if before == 0 {
                candidates.exact.get_or_insert_with(|| variable.clone());
            }
            let path = || shown(&self.scopes, names[1]);
            match (&candidates.fitting, &candidates.other) {
                (None, _) => candidates.fitting = Some((variable.clone(), path())),
                (Some(_), None) => candidates.other = Some(path()),
                _ => {}
            }
        }
    }

    /// Returns the signal with this name. A name that is not a full path must match only one
    /// signal.
    pub fn find(&self, pin: &str, name: &str) -> Result<&Variable, String> {
        match self.wanted.get(name) {
            Some(Wanted { exact: Some(variable), .. }) => Ok(variable),
            Some(Wanted { fitting: Some((_, first)), other: Some(second), .. }) => {
                Err(format!("{pin}: `{name}` may be `{first}` or `{second}`"))
            }
            Some(Wanted { fitting: Some((variable, _)), .. }) => Ok(variable),
            Some(Wanted { unusable: Some(reason), .. }) => {
                Err(format!("{pin}: `{name}` is no signal with levels ({reason})"))
            }
            _ => Err(format!("{pin}: there is no signal `{name}`")),
        }
    }

    /// Returns the signal with this name, which must have one bit.
    pub fn scalar(&self, pin: &str, name: &str) -> Result<&Variable, String> {
        let variable = self.find(pin, name)?;
        if variable.bits == 1 {
            Ok(variable)
        } else {
            Err(format!("{pin}: signal `{name}` has {} bits, 1 expected", variable.bits))
        }
    }
}

/// If the path of scopes and name ends in `wanted` at a separator, returns the length of the rest
/// of the path. Example: for the scopes `top.card.`, the name `clk` and `wanted` = `card.clk` the
/// rest is `top.`, of length 4.
fn without_end(scopes: &str, name: &str, wanted: &str) -> Option<usize> {
    let Some(left) = wanted.len().checked_sub(name.len()) else {
        // A name may itself contain dots.
        let before = name.strip_suffix(wanted)?;
        return before.ends_with('.').then_some(scopes.len() + before.len());
    };
    let left = wanted.strip_suffix(name).map(|rest| &rest[..left])?;
    let before = scopes.strip_suffix(left)?;
    (before.is_empty() || before.ends_with('.')).then_some(before.len())
}

/// Formats a path for a message. Of a long path only the end is shown.
fn shown(scopes: &str, name: &str) -> String {
    let path = scopes.chars().rev().take(SHOWN).collect::<Vec<_>>();
    let left_out = path.len() == SHOWN && scopes.chars().nth(SHOWN).is_some();
    let path: String = path.into_iter().rev().collect();
    let start = if left_out { "..." } else { "" };
    let path: String = path.chars().chain(name.chars().take(SHOWN)).collect();
    format!("{start}{}", escape::name(&path))
}

/// Returns the name of a variable without spaces, and the name without the range of its bits. For
/// `a [12:0]` these are `a[12:0]` and `a`. A single bit is no range: for `a [3]` both are `a[3]`.
fn reference(text: &str) -> (String, String) {
    let compact: String = text.split(' ').collect();
    let bits = compact.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let alone = match bits {
        Some((name, bits)) if !name.is_empty() && is_range(bits) => name.to_owned(),
        _ => compact.clone(),
    };
    (compact, alone)
}

/// Whether a text is two numbers with a colon between them.
fn is_range(text: &str) -> bool {
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    text.split_once(':').is_some_and(|(high, low)| is_number(high) && is_number(low))
}

/// Parses the declaration of a variable: type, size, identifier code and name. Returns its names,
/// and the variable or the reason why it has no levels.
fn variable(text: &str) -> Option<([String; 2], Result<Variable, String>)> {
    let mut words = text.splitn(4, ' ');
    let (kind, size, code, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (full, alone) = reference(name);
    let has_levels =
        !matches!(kind, "real" | "realtime" | "real_parameter" | "shortreal" | "string" | "port");
    let bits = size.parse().ok().filter(|_| has_levels);
    let variable = bits.map(|bits| Variable { bits, code: code.as_bytes().to_vec() });
    let reason = || {
        let [kind, size] = [kind, size].map(|word| word.chars().take(SHOWN).collect::<String>());
        format!("type `{}`, size `{}`", escape::name(&kind), escape::name(&size))
    };
    Some(([full, alone], variable.ok_or_else(reason)))
}

/// Reads the declarations of a VCD, up to `$enddefinitions`.
pub fn read<'a>(
    tokens: &mut Tokens,
    names: impl Iterator<Item = &'a str>,
) -> Result<DeclaredSignals<'a>, InputError> {
    let mut declared = DeclaredSignals::new(names);
    while tokens.advance()? {
        match tokens.token() {
            b"$enddefinitions" => return Ok(declared),
            b"$scope" => {
                let text = tokens.declaration("$scope")?;
                // A scope without a type has only a name.
                declared.open_scope(text.split_once(' ').map_or(&text[..], |(_, name)| name));
            }
            b"$upscope" | b"$unscope" => declared.close_scope(),
            b"$var" => {
                let line = tokens.line();
                let text = tokens.declaration("$var")?;
                let expected = "type, size, identifier code and name after $var";
                let parsed = variable(&text);
                let (names, variable) =
                    parsed.ok_or_else(|| tokens.malformed_at(line, expected, &text))?;
                declared.declare([&names[0], &names[1]], &variable);
            }
            b"$end" => {}
            [b'$', ..] => tokens.skip_text()?,
            _ => return Err(tokens.unexpected("a declaration such as $var")),
        }
    }
    Err(tokens.fail("the file ends before $enddefinitions"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the result of `without_end` by joining the whole path.
    fn by_joining(scopes: &[String], name: &str, wanted: &str) -> Option<usize> {
        let path = [scopes, &[name.to_owned()]].concat().join(".");
        let fits = path == wanted || path.ends_with(&format!(".{wanted}"));
        fits.then(|| path.len() - wanted.len())
    }

    proptest! {
        #[test]
        fn names_fit_the_ends_of_paths(
            scopes in prop::collection::vec("[ab.]{1,3}", 0..4),
            name in "[ab.]{1,4}",
            wanted in "[ab.]{1,6}",
        ) {
            let joined: String = scopes.iter().map(|scope| format!("{scope}.")).collect();
            prop_assert_eq!(without_end(&joined, &name, &wanted), by_joining(&scopes, &name, &wanted));
        }
    }
}
