//! Writes accesses of programs as comma-separated values (RFC 4180).

use std::io::Write;

use hmtt_files::access_trace::Made;
use hmtt_format::escape;

use super::{AccessWriter, Kept, letter};
use crate::access_trace::Executed;
use crate::table::TableError;

/// The first line of a file. The reader recognises a file by it.
pub(super) const HEADING: &str = "thread,pc,direction,address,size_bytes,elements,downwards,conditional,represents,\
     function,object\n";
/// The fields `function` and `object` of accesses of no known function.
const UNKNOWN: &str = ",";

/// A writer of CSV: a heading, and a line for each access.
pub struct CsvWriter<W> {
    output: W,
    names: Kept<String>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the heading.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    pub fn new(mut output: W) -> Result<Self, TableError> {
        output.write_all(HEADING.as_bytes())?;
        Ok(CsvWriter { output, names: Kept { number: 0, text: UNKNOWN.into() } })
    }
}

/// A quoted field with a name, or an empty field. A quote in the name is doubled.
fn field(name: Option<&str>) -> String {
    let quoted = |name| format!("\"{}\"", escape::name(name).to_string().replace('"', "\"\""));
    name.map(quoted).unwrap_or_default()
}

impl<W: Write> AccessWriter for CsvWriter<W> {
    fn access(&mut self, executed: &Executed<'_>, access: &Made) -> Result<(), TableError> {
        let names = self.names.of(executed, |names| names.map(field).join(","));
        let Made { pc, direction, address, size, elements, is_down, conditional, represents } =
            *access;
        write!(self.output, "{},{pc:#x},{},", executed.thread, letter(direction))?;
        if let Some(address) = address {
            write!(self.output, "{address:#x}")?;
        }
        writeln!(self.output, ",{size},{elements},{is_down},{conditional},{represents},{names}")?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TableError> {
        Ok(self.output.flush()?)
    }
}
