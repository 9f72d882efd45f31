//! Text that others wrote, as it may stand in a line for people or in a table.
//!
//! Names and comments from files, from the wire and from other processes may hold anything: a line's end that
//! forges the next line of a summary, or a sequence that a terminal obeys. Whatever such text reaches a
//! terminal, text or CSV goes through [`name`] or [`message`]; JSON escapes by itself.

use core::fmt;

/// A name as printable characters on one line. [`unescaped`] gives it back: a backslash is doubled.
pub const fn name(text: &str) -> Escaped<'_> {
    Escaped { text, with_backslash: true }
}

/// A message, in which names may be escaped already, as printable characters on one line.
pub const fn message(text: &str) -> Escaped<'_> {
    Escaped { text, with_backslash: false }
}

/// Text whose unprintable characters are `\n`, `\r`, `\t` or `\u{HEX}`.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    text: &'a str,
    with_backslash: bool,
}

/// Characters that have no picture: control characters, and those that change the order or the end of what is
/// around them (Unicode's `Cf`, `Zl` and `Zp`, as far as text for people does not need them).
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = 0;
        for (at, character) in self.text.char_indices() {
            if !(is_unprintable(character) || self.with_backslash && character == '\\') {
                continue;
            }
            f.write_str(&self.text[written..at])?;
            match character {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                other => write!(f, "\\u{{{:x}}}", u32::from(other))?,
            }
            written = at + character.len_utf8();
        }
        f.write_str(&self.text[written..])
    }
}

/// The characters that [`name`] escaped. What is no such escape stays as it is.
pub fn unescaped(text: &str) -> impl Iterator<Item = char> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let (character, length) = match escape(rest) {
            Some(found) => found,
            None => rest.chars().next().map(|character| (character, character.len_utf8()))?,
        };
        rest = &rest[length..];
        Some(character)
    })
}

/// Hexadecimal digits of the highest character.
const MAX_DIGITS: usize = 6;

/// The escape that a text begins with: what it stands for, and its bytes.
fn escape(text: &str) -> Option<(char, usize)> {
    let escaped = text.strip_prefix('\\')?;
    let simple = match escaped.bytes().next()? {
        b'\\' => '\\',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => {
            let digits = escaped.strip_prefix("u{")?;
            let end = digits.bytes().take(MAX_DIGITS + 1).position(|byte| byte == b'}')?;
            let digits = &digits[..end];
            let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| are_digits)?;
            return Some((char::from_u32(code)?, digits.len() + "\\u{}".len()));
        }
    };
    Some((simple, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_come_back_and_are_printable(text in "(\\PC|[\\\\\n\r\t\u{1b}\u{9b}\u{202e}u{}a-f0-9]){0,40}") {
            let shown = name(&text).to_string();
            prop_assert!(!shown.chars().any(is_unprintable));
            prop_assert_eq!(unescaped(&shown).collect::<String>(), text.clone());
            prop_assert!(!message(&text).to_string().chars().any(is_unprintable));
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        let text = "\u{1b}[31mhello\nmissing frames 0\u{7}\\";
        assert_eq!(name(text).to_string(), "\\u{1b}[31mhello\\nmissing frames 0\\u{7}\\\\");
        assert_eq!(message("\\u{1b}\n").to_string(), "\\u{1b}\\n");
        assert_eq!(
            unescaped("\\x \\u{} \\u{110000} \\").collect::<String>(),
            "\\x \\u{} \\u{110000} \\"
        );
    }
}
