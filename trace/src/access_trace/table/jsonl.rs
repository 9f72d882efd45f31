//! Writes accesses of programs as JSON lines. A value that is not known has no key.

use std::io::Write;

use hmtt_files::access_trace::Made;

use super::{AccessWriter, Kept, letter};
use crate::access_trace::Executed;
use crate::table::TableError;

/// A writer of JSON lines: an object for each access.
pub struct JsonlWriter<W> {
    output: W,
    names: Kept<String>,
}

impl<W: Write> JsonlWriter<W> {
    /// Starts a file.
    pub fn new(output: W) -> Self {
        JsonlWriter { output, names: Kept::default() }
    }
}

/// The members `function` and `object`, each after a comma, as far as they are known.
fn members([function, object]: [Option<&str>; 2]) -> String {
    let member = |key, name: Option<&str>| {
        name.map(|name| format!(",\"{key}\":{}", serde_json::Value::from(name))).unwrap_or_default()
    };
    member("function", function) + &member("object", object)
}

impl<W: Write> AccessWriter for JsonlWriter<W> {
    fn access(&mut self, executed: &Executed<'_>, access: &Made) -> Result<(), TableError> {
        let names = self.names.of(executed, members);
        let Made { pc, direction, address, size, elements, is_down, conditional, represents } =
            *access;
        let (output, direction) = (&mut self.output, letter(direction));
        write!(
            output,
            r#"{{"thread":{},"pc":"{pc:#x}","direction":"{direction}""#,
            executed.thread
        )?;
        if let Some(address) = address {
            write!(output, r#","address":"{address:#x}""#)?;
        }
        write!(output, r#","size_bytes":{size},"elements":{elements}"#)?;
        write!(output, r#","downwards":{is_down},"conditional":{conditional}"#)?;
        writeln!(output, r#","represents":{represents}{names}}}"#)?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TableError> {
        Ok(self.output.flush()?)
    }
}
