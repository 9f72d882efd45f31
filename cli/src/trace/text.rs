//! Prints the accesses of a trace as text.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hmtt::access_trace::{Ending, ThreadAccess, read};
use hmtt_format::Direction;
use hmtt_format::access_trace::MAGIC;

/// The file at a path, if it is a trace of accesses.
pub fn open(path: &Path) -> Option<File> {
    let mut file =
        File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    let mut begin = [0; MAGIC.len()];
    file.read_exact(&mut begin).ok()?;
    file.rewind().ok()?;
    (begin == MAGIC).then_some(file)
}

/// Prints a line for each access: `thread pc R|W address size`. A string instruction has a line for each of its operands, with
/// `*elements` after the size, and `-` before it if they are accessed downwards. `?` ends a line if memory may not have been
/// accessed, and stands for an address that is not known. Returns whether something is missing.
pub fn print(file: File, path: &Path, output: impl Write) -> Result<bool> {
    let mut output = BufWriter::with_capacity(1 << 16, output);
    let mut written = Ok(());
    let ending = read(BufReader::with_capacity(1 << 20, file), |access| {
        if written.is_ok() {
            written = line(&mut output, &access);
        }
    });
    let ending = ending.with_context(|| path.display().to_string())?;
    written.and_then(|()| comments(&mut output, &ending)).context("cannot write the accesses")?;
    Ok(ending.has_loss())
}

fn line(output: &mut impl Write, ThreadAccess { thread, made }: &ThreadAccess) -> io::Result<()> {
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
    writeln!(output, "{}", if made.conditional { " ?" } else { "" })
}

fn comments(output: &mut impl Write, ending: &Ending) -> io::Result<()> {
    let Ending { blocks, accesses, unknown, dropped, cut_threads, invalid_chunks, is_cut } = ending;
    writeln!(output, "# {accesses} accesses in {blocks} executed blocks")?;
    if *unknown > 0 {
        writeln!(output, "# {unknown} of them have addresses that are not known")?;
    }
    if *dropped > 0 {
        writeln!(output, "# {dropped} words were dropped because rings were full")?;
    }
    if *cut_threads > 0 {
        writeln!(output, "# the last accesses of {cut_threads} threads are missing")?;
    }
    if *invalid_chunks > 0 {
        writeln!(
            output,
            "# {invalid_chunks} chunks name no block, and were not read to their end"
        )?;
    }
    if *is_cut {
        writeln!(output, "# the file is cut: what follows is missing")?;
    }
    output.flush()
}
