//! Reads accesses of programs from comma-separated values and JSON lines, as [`super::csv`] and
//! [`super::jsonl`] write them.

use std::io::BufRead;
use std::rc::Rc;

use hmtt_files::access_trace::Made;
use hmtt_format::{Direction, PhysAddr};
use serde::Deserialize;

use super::csv::HEADING;
use crate::table::TableError;
use crate::table::lines::Lines;

/// First bytes of a file of JSON lines.
const JSONL_BEGIN: &[u8] = br#"{"thread":"#;
/// Number of fields of a CSV line before `function` and `object`.
const PLAIN_FIELDS: usize = 9;

/// A row: an access of a program, with its thread and the names of its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of the thread in the system.
    pub thread: u32,
    /// The access.
    pub made: Made,
    /// Name of the function; `None` if it is not known.
    pub function: Option<Rc<str>>,
    /// Path of the function's file; `None` if it is not known.
    pub object: Option<Rc<str>>,
}

/// Reads rows in the order of a table.
pub trait Rows {
    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, or the next line is not a valid row.
    fn next_row(&mut self) -> Result<Option<Row>, TableError>;
}

/// A reader of CSV and JSON lines. The first line shows which of them a file has.
///
/// ```
/// use hmtt::access_trace::table::reader::{RowReader, Rows};
///
/// let line = r#"{"thread":7,"pc":"4000","direction":"R","address":"1f00","size_bytes":8,"elements":1,
///     "downwards":false,"conditional":false,"represents":1,"function":"main"}"#.replace('\n', "");
/// let row = RowReader::new(line.as_bytes()).next_row()?.unwrap();
/// assert_eq!((row.thread, row.made.address, &*row.function.unwrap()), (7, Some(0x1f00), "main"));
/// # Ok::<(), hmtt::table::TableError>(())
/// ```
pub struct RowReader<R> {
    lines: Lines<R>,
    /// Whether the next line is the first one.
    is_begin: bool,
    /// Whether the lines are JSON objects. Known after the first line was read.
    is_jsonl: bool,
}

/// Whether a file with these first bytes is a table of a program's accesses. `begin` needs at least
/// the bytes of the CSV heading.
pub fn is_of_program(begin: &[u8]) -> bool {
    let heading = HEADING.trim_ascii_end().as_bytes();
    begin.starts_with(JSONL_BEGIN) || begin.starts_with(heading)
}

impl<R: BufRead> RowReader<R> {
    /// A reader of a file's lines.
    pub fn new(input: R) -> Self {
        RowReader { lines: Lines::new(input), is_begin: true, is_jsonl: false }
    }
}

impl<R: BufRead> Rows for RowReader<R> {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        while self.lines.advance()? {
            let line = self.lines.line();
            if std::mem::take(&mut self.is_begin) {
                self.is_jsonl = line.starts_with(JSONL_BEGIN);
                if !self.is_jsonl {
                    continue;
                }
            }
            let row = if self.is_jsonl { object(line) } else { fields(line) };
            return row.map(Some).map_err(|problem| self.lines.error(problem));
        }
        Ok(None)
    }
}

/// Parses a hexadecimal number. Its prefix 0x may be missing, because earlier versions wrote none.
fn hexadecimal(text: &str) -> Result<u64, String> {
    let number =
        PhysAddr::from_hex(text.strip_prefix("0x").unwrap_or(text)).map(|address| address.0);
    number.ok_or_else(|| format!("{text:?} is no hexadecimal number"))
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "R" => Ok(Direction::Read),
        "W" => Ok(Direction::Write),
        _ => Err(format!("direction {text:?} is neither R nor W")),
    }
}

/// The members of a line of JSON.
#[derive(Deserialize)]
struct Object {
    thread: u32,
    pc: String,
    direction: String,
    address: Option<String>,
    size_bytes: u32,
    elements: u64,
    downwards: bool,
    conditional: bool,
    represents: u16,
    function: Option<String>,
    object: Option<String>,
}

/// Parses a line of JSON.
fn object(line: &[u8]) -> Result<Row, String> {
    let record: Object = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let access = Made {
        pc: hexadecimal(&record.pc)?,
        direction: direction(&record.direction)?,
        address: record.address.as_deref().map(hexadecimal).transpose()?,
        size: record.size_bytes,
        represents: record.represents,
        elements: record.elements,
        is_down: record.downwards,
        conditional: record.conditional,
    };
    let [function, object] = [record.function, record.object].map(|name| name.map(Rc::from));
    Ok(Row { thread: record.thread, made: access, function, object })
}

/// Parses a quoted name at the start of a text. Returns the name and the text behind it. Without a
/// quote, returns no name and the whole text.
fn name(text: &str) -> Result<(Option<String>, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else { return Ok((None, text)) };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (part, behind) = rest.split_once('"').ok_or("a quoted field has no end")?;
        name += part;
        match behind.strip_prefix('"') {
            // A doubled quote stands for one quote.
            Some(more) => (name, rest) = (name + "\"", more),
            None => return Ok((Some(name), behind)),
        }
    }
}

/// Parses a line of CSV.
fn fields(line: &[u8]) -> Result<Row, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is no text in UTF-8".to_owned())?;
    let mut fields = line.splitn(PLAIN_FIELDS + 1, ',');
    let mut next = || fields.next().ok_or_else(|| "it has too few fields".to_owned());
    fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
        text.parse().map_err(|_| format!("{text:?} is not what was expected"))
    }
    let (thread, pc) = (number(next()?)?, hexadecimal(next()?)?);
    let direction = direction(next()?)?;
    let address = Some(next()?).filter(|text| !text.is_empty()).map(hexadecimal).transpose()?;
    let (size, elements) = (number(next()?)?, number(next()?)?);
    let (is_down, conditional) = (number(next()?)?, number(next()?)?);
    let represents = number(next()?)?;
    let (function, rest) = name(next()?)?;
    let rest = rest.strip_prefix(',').ok_or("it has too few fields")?;
    let (object, rest) = name(rest)?;
    if !rest.is_empty() {
        return Err("there is something behind its last field".to_owned());
    }
    let access = Made { pc, direction, address, size, elements, is_down, conditional, represents };
    let [function, object] = [function, object].map(|name| name.map(Rc::from));
    Ok(Row { thread, made: access, function, object })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_rows_are_errors_with_their_numbers() {
        let good = "7,40,R,,0,1,false,true,1,\"a\"\"b,c\",\"/x\"";
        let table = format!("{HEADING}{good}\n");
        let row = RowReader::new(table.as_bytes()).next_row().unwrap().unwrap();
        assert_eq!((row.function.as_deref(), row.made.address), (Some("a\"b,c"), None));
        for wrong in [
            "7,40,R",
            "7,40,X,0,8,1,false,false,1,,",
            "7,4g,R,0,8,1,false,false,1,,",
            "7,40,R,0,8,1,false,false,1,\"a,",
            "7,40,R,0,8,1,false,false,1,",
            "7,40,R,0,8,1,0,false,1,,",
            "7,40,R,0,8,1,false,false,1,,,",
        ] {
            let table = format!("{HEADING}{good}\n{wrong}\n");
            let mut reader = RowReader::new(table.as_bytes());
            assert!(reader.next_row().unwrap().is_some());
            let error = reader.next_row().unwrap_err().to_string();
            assert!(error.starts_with("line 3: "), "{wrong}: {error}");
        }
        let mut reader = RowReader::new(&b"{\"thread\":1}\n"[..]);
        assert!(reader.next_row().is_err());
    }
}
