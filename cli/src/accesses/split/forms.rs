//! Prints groups: as a table of text, as a JSON object, and as CSV rows that begin with the group's
//! name.

use std::io::{self, Write};

use hmtt::analysis::split::GroupResult;
use hmtt_format::escape;
use serde_json::{Value, json};

use super::super::figures::share;
use super::super::output::{Printed, line};
use super::Groups;

/// Writes the CSV rows of a group.
type WriteRows<'v, R> = dyn Fn(&GroupResult<R>, &mut dyn Write) -> io::Result<()> + 'v;

/// The form in which a command's results are printed for each group.
pub struct View<'v, R> {
    /// Columns of the table that only this command has.
    pub columns: &'v [&'v str],
    /// The values in these columns.
    pub cells: &'v dyn Fn(&R) -> Vec<String>,
    /// The result as JSON; null if a group has only its sums.
    pub json: &'v dyn Fn(&R) -> Value,
    /// Writes a group's CSV rows.
    pub rows: &'v WriteRows<'v, R>,
}

/// Groups together with the form in which they are printed.
pub struct Forms<'v, R> {
    pub groups: &'v Groups<R>,
    pub view: View<'v, R>,
}

/// A writer that puts a text before each line.
struct Prefixed<'o> {
    output: &'o mut dyn Write,
    prefix: String,
    is_begin: bool,
}

impl Write for Prefixed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_begin {
                self.output.write_all(self.prefix.as_bytes())?;
            }
            self.output.write_all(part)?;
            self.is_begin = part.ends_with(b"\n");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A text as a CSV field, in quotation marks if it needs them.
fn field(text: &str) -> String {
    let text = escape::message(text).to_string();
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// The name of a group, with its file if it has one. Example: `main [libfoo.so]`.
pub fn name<R>(group: &GroupResult<R>) -> String {
    let file = group.object.rsplit('/').next().unwrap_or_default();
    match file {
        "" => escape::message(&group.name).to_string(),
        file => format!("{} [{}]", escape::message(&group.name), escape::message(file)),
    }
}

impl<R> Printed for Forms<'_, R> {
    fn json(&self, name: &str) -> Value {
        let entry = |group: &GroupResult<R>| {
            let object = Some(&group.object).filter(|object| !object.is_empty());
            let mut value = json!({ "group": group.name, "object": object, "stats": group.sums });
            let result = (self.view.json)(&group.result);
            if !result.is_null() {
                value[name] = result;
            }
            value
        };
        let Groups { by, inclusive, groups, notes } = self.groups;
        let groups: Vec<Value> = groups.iter().map(entry).collect();
        json!({ "by": by, "inclusive": inclusive, "notes": notes, "groups": groups })
    }

    fn rows(&self, output: &mut dyn Write) -> io::Result<()> {
        self.groups.groups.iter().try_for_each(|group| {
            let prefix = format!("{},{},", field(&group.name), field(&group.object));
            let mut output = Prefixed { output: &mut *output, prefix, is_begin: true };
            (self.view.rows)(group, &mut output)
        })
    }

    fn notes(&self, output: &mut dyn Write) -> io::Result<()> {
        let Groups { by, inclusive, notes, .. } = self.groups;
        line(output, "split by", by)?;
        if *inclusive {
            line(output, "note", "accesses of a function are also those of its callers")?;
        }
        notes.iter().try_for_each(|note| line(output, "note", note))
    }

    fn text(&self, output: &mut dyn Write) -> io::Result<()> {
        let Groups { inclusive, groups, .. } = self.groups;
        writeln!(output)?;
        self.notes(output)?;
        write!(output, "\n{:>12}  {:>9}  {:>12}  {:>12}", "accesses", "of all", "reads", "writes")?;
        write!(output, "  {:>9}  {:>9}", "pages", "lines")?;
        self.view.columns.iter().try_for_each(|column| write!(output, "  {column:>14}"))?;
        writeln!(output, "  group")?;
        // If some accesses are in several groups, there is no sum to compare with.
        let total =
            if *inclusive { 0 } else { groups.iter().map(|group| group.sums.accesses).sum() };
        for group in groups {
            let sums = &group.sums;
            let part = share(sums.accesses as f64, total);
            let (accesses, reads, writes) = (sums.accesses, sums.reads, sums.writes);
            write!(output, "{accesses:>12}  {part:>9}  {reads:>12}  {writes:>12}")?;
            write!(output, "  {:>9}  {:>9}", sums.pages, sums.lines)?;
            let cells = (self.view.cells)(&group.result);
            cells.iter().try_for_each(|cell| write!(output, "  {cell:>14}"))?;
            writeln!(output, "  {}", name(group))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_prefix_once() {
        let mut written = Vec::new();
        let mut output = Prefixed { output: &mut written, prefix: "g,".into(), is_begin: true };
        write!(output, "{},{}", 1, 2).unwrap();
        write!(output, "\n3\n").unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "g,1,2\ng,3\n");
        assert_eq!(field("operator,\"\""), "\"operator,\"\"\"\"\"");
    }
}
