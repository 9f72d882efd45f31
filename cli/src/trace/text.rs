//! Prints the accesses of a trace as text.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hmtt::access_trace::{Ending, Executed, Gap, ThreadAccess, Visitor};
use hmtt_format::Direction;

use super::file::{CHOSEN, gap_text, read_to_end, shown, what_is_missing};

/// A visitor that prints a line for each access.
struct Lines<W> {
    output: W,
    /// Whether each line states how many accesses it represents.
    weighted: bool,
    written: io::Result<()>,
    /// Numbers of executed blocks, of accesses, and of accesses with unknown addresses.
    counts: [u64; 3],
    /// Number of the current function, and the text that ends the lines of its accesses.
    function: (u32, String),
}

/// Prints a line for each access: `thread pc R|W address size in function`. A string instruction
/// has one line for each operand. Its size is followed by `*elements`, and is preceded by `-` if
/// the elements are accessed downwards. A `?` after the size means that memory may not have been
/// accessed. A `?` in place of the address means that the address is not known. Returns whether
/// accesses are missing.
///
/// `weighted`: each line also has `xN`, where N is how many accesses of its block it represents.
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
    ThreadAccess { thread, made: access }: &ThreadAccess,
    function: &str,
) -> io::Result<()> {
    let mut line = Line::default();
    line.decimal((*thread).into());
    line.text(b" ");
    line.hexadecimal(access.pc);
    line.text(if access.direction == Direction::Write { b" W " } else { b" R " });
    match access.address {
        Some(address) => line.hexadecimal(address),
        None => line.text(b"?"),
    }
    line.text(if access.is_down { b" -" } else { b" " });
    line.decimal(access.size.into());
    if access.elements != 1 {
        line.text(b"*");
        line.decimal(access.elements);
    }
    line.text(if access.conditional { b" ?" } else { b"" });
    if weighted {
        line.text(b" x");
        line.decimal(access.represents.into());
    }
    output.write_all(line.bytes())?;
    output.write_all(function.as_bytes())?;
    output.write_all(b"\n")
}

/// Maximum length of a line without its function, in bytes: five numbers of at most 20 digits each,
/// and the text between them.
const MOST_LINE_BYTES: usize = 128;

/// A line under construction. The formatter of the standard library would take several times as
/// long as decoding.
struct Line {
    bytes: [u8; MOST_LINE_BYTES],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Line { bytes: [0; MOST_LINE_BYTES], length: 0 }
    }
}

impl Line {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn text(&mut self, text: &[u8]) {
        self.bytes[self.length..][..text.len()].copy_from_slice(text);
        self.length += text.len();
    }

    /// Appends `number` in base `base`, with exactly `digits` digits.
    fn digits(&mut self, digits: usize, mut number: u64, base: u64) {
        for place in self.bytes[self.length..][..digits].iter_mut().rev() {
            *place = b"0123456789abcdef"[(number % base) as usize];
            number /= base;
        }
        self.length += digits;
    }

    fn hexadecimal(&mut self, number: u64) {
        self.digits(number.checked_ilog2().unwrap_or(0) as usize / 4 + 1, number, 16);
    }

    fn decimal(&mut self, number: u64) {
        self.digits(number.checked_ilog10().unwrap_or(0) as usize + 1, number, 10);
    }
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
    if let Some(region) = ending.region {
        writeln!(output, "# {}", region.request_text())?;
    }
    what_is_missing(ending).iter().try_for_each(|what| writeln!(output, "# {what}"))?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use hmtt_files::access_trace::Made;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_those_of_the_formatter(
            numbers in [any::<u64>(), any::<u64>(), any::<u64>()],
            shift in 0..64u32,
            (thread, size, represents) in any::<(u32, u32, u16)>(),
            flags in any::<[bool; 5]>(),
        ) {
            let [pc, address, elements] = numbers.map(|number| number >> shift);
            let [writes, is_known, is_down, conditional, weighted] = flags;
            let direction = if writes { Direction::Write } else { Direction::Read };
            let address = is_known.then_some(address);
            let access =
                Made { pc, direction, address, size, represents, elements, is_down, conditional };
            let mut written = Vec::new();
            let access = ThreadAccess { thread, made: access };
            line(&mut written, weighted, &access, " in main").unwrap();
            let address = address.map_or("?".into(), |address| format!("{address:x}"));
            let sign = if is_down { "-" } else { "" };
            let times = if elements == 1 { String::new() } else { format!("*{elements}") };
            let letter = if writes { 'W' } else { 'R' };
            let maybe = if conditional { " ?" } else { "" };
            let weight = if weighted { format!(" x{represents}") } else { String::new() };
            let expected = format!(
                "{thread} {pc:x} {letter} {address} {sign}{size}{times}{maybe}{weight} in main\n"
            );
            prop_assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
