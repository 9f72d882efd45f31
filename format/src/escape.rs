//! Escapes text from untrusted sources, so that it can be printed in a line of text or in a table.
//!
//! Names and comments from files, from the wire and from other processes may contain anything: a
//! line end that forges the next line of a summary, or a control sequence of the terminal.
//! Invariant: such text is written to terminals, text and CSV only through [`name`] or [`message`];
//! JSON has escapes of its own.

use core::fmt;

/// Escapes a name to printable characters on one line. Backslashes are doubled, so that
/// [`unescaped`] restores the name.
pub const fn name(text: &str) -> Escaped<'_> {
    Escaped { text, with_backslash: true, with_lines: false }
}

/// Escapes a message to printable characters on one line. Backslashes are unchanged, since names in
/// it may be escaped already.
pub const fn message(text: &str) -> Escaped<'_> {
    Escaped { text, with_backslash: false, with_lines: false }
}

/// Escapes a text of several lines, whose line ends are kept. Names in the text must have been
/// escaped by [`name`] or [`message`].
pub const fn lines(text: &str) -> Escaped<'_> {
    Escaped { text, with_backslash: false, with_lines: true }
}

/// Text that prints its unprintable characters as `\n`, `\r`, `\t` or `\u{HEX}`.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    text: &'a str,
    with_backslash: bool,
    with_lines: bool,
}

/// Whether a character has no glyph: control characters, and characters that change the direction
/// or the line of the text around them (Unicode's `Cf`, `Zl` and `Zp`, except the ones that
/// ordinary text needs).
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
            let is_line_end = self.with_lines && character == '\n';
            let is_escaped = is_unprintable(character) && !is_line_end;
            if !(is_escaped || self.with_backslash && character == '\\') {
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

/// Restores the text that [`name`] escaped. Other characters and invalid escapes are unchanged.
pub fn unescaped(text: &str) -> impl Iterator<Item = char> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let (character, length) = match escape(rest) {
            Some(escaped) => escaped,
            None => rest.chars().next().map(|character| (character, character.len_utf8()))?,
        };
        rest = &rest[length..];
        Some(character)
    })
}

/// Maximum number of hexadecimal digits of a character's code.
const MAX_DIGITS: usize = 6;

/// Parses the escape at the start of a text: its character, and its length in bytes.
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
    fn control_sequences_of_terminals_are_escaped() {
        let text = "\u{1b}[31mhello\nmissing frames 0\u{7}\\";
        assert_eq!(name(text).to_string(), "\\u{1b}[31mhello\\nmissing frames 0\\u{7}\\\\");
        assert_eq!(message("\\u{1b}\n").to_string(), "\\u{1b}\\n");
        assert_eq!(lines("a\n\u{1b}\r\n").to_string(), "a\n\\u{1b}\\r\n");
        assert_eq!(
            unescaped("\\x \\u{} \\u{110000} \\").collect::<String>(),
            "\\x \\u{} \\u{110000} \\"
        );
    }
}
