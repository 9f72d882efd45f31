//! Prints the accesses of a trace as text.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hmtt::access_trace::{Ending, Executed, Gap, ThreadAccess, Visitor};
use hmtt_format::Direction;

use super::file::{CHOSEN, gap_text, read_to_end, shown, what_is_missing};

/// Prints lines.
struct Lines<W> {
    output: W,
    /// Whether each line states how many accesses it represents.
    weighted: bool,
    written: io::Result<()>,
    /// Executed blocks, accesses and those with unknown addresses.
    counts: [u64; 3],
    /// Number of a function, and the end of lines of its accesses.
    function: (u32, String),
}

/// Prints a line for each access: `thread pc R|W address size in function`. A string instruction has a line for each of its
/// operands, with `*elements` after the size, and `-` before it if they are accessed downwards. `?` follows the size if memory
/// may not have been accessed, and stands for an address that is not known. Returns whether something is missing.
///
/// `weighted`: whether `xN` follows, if an access represents N of its block.
pub fn print(
    file: File,
    path: &Path,
    thread: Option<u32>,
    weighted: bool,
    output: impl Write,
) -> Result<bool> {
    let output = BufWriter::with_capacity(1 << 16, output);
    let mut lines =
        Lines { output, weighted, written: Ok(()), counts: [0; 3], function: (0, String::new()) };
    let ending = read_to_end(file, path, thread, &mut lines)?;
    let Lines { mut output, written, counts, .. } = lines;
    written
        .and_then(|()| comments(&mut output, counts, &ending))
        .context("cannot write the accesses")?;
    Ok(ending.has_loss())
}

impl<W: Write> Visitor for Lines<W> {
    fn block(&mut self, executed: &Executed<'_>) {
        self.counts[0] += 1;
        let number = executed.block.function;
        if self.function.0 != number {
            let name = shown(executed.function);
            self.function = (number, name.map(|name| format!(" in {name}")).unwrap_or_default());
        }
    }

    fn access(&mut self, _: &Executed<'_>, access: ThreadAccess) {
        self.counts[1] = self.counts[1].saturating_add(access.made.elements);
        self.counts[2] += u64::from(access.made.address.is_none());
        if self.written.is_ok() {
            self.written = line(&mut self.output, self.weighted, &access, &self.function.1);
        }
    }

    fn gap(&mut self, gap: Gap) {
        if self.written.is_ok() {
            self.written = writeln!(self.output, "# {}", gap_text(gap));
        }
    }
}

fn line(
    output: &mut impl Write,
    weighted: bool,
    ThreadAccess { thread, made }: &ThreadAccess,
    function: &str,
) -> io::Result<()> {
    let direction = if made.direction == Direction::Write { 'W' } else { 'R' };
    write!(output, "{thread} {:x} {direction} ", made.pc)?;
    match made.address {
        Some(address) => write!(output, "{address:x} ")?,
        None => write!(output, "? ")?,
    }
    write!(output, "{}{}", if made.is_down { "-" } else { "" }, made.size)?;
    if made.elements != 1 {
        write!(output, "*{}", made.elements)?;
    }
    write!(output, "{}", if made.conditional { " ?" } else { "" })?;
    if weighted {
        write!(output, " x{}", made.represents)?;
    }
    writeln!(output, "{function}")
}

fn comments(output: &mut impl Write, counts: [u64; 3], ending: &Ending) -> io::Result<()> {
    let [blocks, accesses, unknown] = counts;
    writeln!(output, "# {accesses} accesses in {blocks} executed blocks")?;
    if unknown > 0 {
        writeln!(output, "# {unknown} of them have addresses that are not known")?;
    }
    if ending.is_chosen {
        writeln!(output, "# {CHOSEN}")?;
    }
    what_is_missing(ending).iter().try_for_each(|what| writeln!(output, "# {what}"))?;
    output.flush()
}
