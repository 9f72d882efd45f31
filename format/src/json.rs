//! Writes JSON with numbers in their shortest form: `1600000000`, not `1600000000.0`.
//!
//! All JSON output of the programs goes through these functions, so a number has one form, whatever
//! its type is.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use serde_json::{Error, Result};

/// Formats numbers in their shortest form, and everything else as the inner formatter does.
struct ShortestNumbers<F>(F);

impl<F: Formatter> Formatter for ShortestNumbers<F> {
    fn write_f32<W: ?Sized + Write>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        let mut text = Vec::new();
        CompactFormatter.write_f32(&mut text, value)?;
        writer.write_all(without_fraction(&text))
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let mut text = Vec::new();
        CompactFormatter.write_f64(&mut text, value)?;
        writer.write_all(without_fraction(&text))
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// Removes a fraction of 0 from a number, and the sign of 0.
fn without_fraction(text: &[u8]) -> &[u8] {
    match text.strip_suffix(b".0").unwrap_or(text) {
        b"-0" => b"0",
        shortest => shortest,
    }
}

/// Writes a value in one line.
///
/// # Errors
/// An error if the value cannot be represented in JSON, or the output cannot be written.
pub fn to_writer(writer: impl Write, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let formatter = ShortestNumbers(CompactFormatter);
    value.serialize(&mut Serializer::with_formatter(writer, formatter))
}

/// Writes a value with a line for each element, indented.
///
/// # Errors
/// As [`to_writer`].
pub fn to_writer_pretty(writer: impl Write, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let formatter = ShortestNumbers(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(writer, formatter))
}

/// Returns a value in one line.
///
/// # Errors
/// An error if the value cannot be represented in JSON.
pub fn to_string(value: &(impl Serialize + ?Sized)) -> Result<String> {
    let mut text = Vec::new();
    to_writer(&mut text, value)?;
    String::from_utf8(text).map_err(|error| Error::io(io::Error::other(error)))
}

/// Returns a value with a line for each element, indented.
///
/// # Errors
/// As [`to_string`].
pub fn to_string_pretty(value: &(impl Serialize + ?Sized)) -> Result<String> {
    let mut text = Vec::new();
    to_writer_pretty(&mut text, value)?;
    String::from_utf8(text).map_err(|error| Error::io(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortest() {
        let numbers = [1.6e9, 0.0, -0.0, 0.1, -2.0, 1e15, 1e300, 1.5e-9, f64::NAN];
        let text = to_string(&numbers).unwrap();
        assert_eq!(text, "[1600000000,0,0,0.1,-2,1000000000000000,1e+300,1.5e-9,null]");
        assert_eq!(to_string(&2f32).unwrap(), "2");
    }

    #[test]
    fn all_else_is_as_usual() {
        let value = serde_json::json!({ "a": [1, "x.0", null, {}], "b": { "c": true }, "d": [] });
        assert_eq!(to_string(&value).unwrap(), value.to_string());
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(to_string_pretty(&value).unwrap(), pretty);
    }
}
