//! Lets queries contain hexadecimal numbers, such as `0x13000000`, as all other commands print
//! addresses.
//!
//! The engine's SQL reads such a literal as bytes. This module replaces it in the text of the query
//! by the same number in decimal digits: `address >= 0x1000` becomes `address >= 4096`. Literals of
//! bytes (`X'13000000'`), and digits in strings, names and comments, are not changed.

use std::borrow::Cow;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

/// Start of a hexadecimal number.
const PREFIX: &str = "0x";

/// Returns the query with decimal instead of hexadecimal numbers. A number of more than 64 bits is
/// not changed. A text that is not SQL is not changed either: the engine's error states what is
/// wrong.
pub fn decimal(sql: &str) -> Cow<'_, str> {
    // Nearly all queries have no such number. The check saves parsing the text.
    if !sql.contains(PREFIX) {
        return Cow::Borrowed(sql);
    }
    let dialect = GenericDialect {};
    let Ok(tokens) = Tokenizer::new(&dialect, sql).tokenize_with_location() else {
        return Cow::Borrowed(sql);
    };
    let mut numbers = tokens.into_iter().filter_map(|token| match token.token {
        Token::HexStringLiteral(digits) => {
            let number = u64::from_str_radix(&digits, 16).ok()?;
            Some((token.span.start, PREFIX.len() + digits.len(), number))
        }
        _ => None,
    });
    let mut next = numbers.next();
    let (mut result, mut copied) = (String::new(), 0);
    let mut here = Location { line: 1, column: 1 };
    for (at, character) in sql.char_indices() {
        if let Some((start, bytes, number)) = next
            && start == here
        {
            if sql[at..].starts_with(PREFIX) {
                result.push_str(&sql[copied..at]);
                result.push_str(&number.to_string());
                copied = at + bytes;
            }
            next = numbers.next();
        }
        here = match character {
            '\n' => Location { line: here.line + 1, column: 1 },
            _ => Location { column: here.column + 1, ..here },
        };
    }
    result.push_str(&sql[copied..]);
    Cow::Owned(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_numbers_become_decimal() {
        for (sql, expected) in [
            ("select 0x10", "select 16"),
            ("select 0xFf+0x1 -- 0x10", "select 255+1 -- 0x10"),
            (
                "select\n  'ä 0x10', \"0x10\",\n 0x13000000, X'10'",
                "select\n  'ä 0x10', \"0x10\",\n 318767104, X'10'",
            ),
            ("select 0xffffffffffffffff", "select 18446744073709551615"),
            ("select 0x10000000000000000", "select 0x10000000000000000"),
            ("select /* 0x1 */ 0x2/*0x3*/", "select /* 0x1 */ 2/*0x3*/"),
            ("select 10, a0x1 from t", "select 10, a0x1 from t"),
            ("select 0x", "select 0x"),
            ("select '0x1", "select '0x1"),
        ] {
            assert_eq!(decimal(sql), expected, "{sql}");
        }
    }
}
