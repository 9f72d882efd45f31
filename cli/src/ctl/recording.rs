//! Writes commands for a card into a new recording of the memory bus, or appends them to an
//! existing recording.
//!
//! An existing recording is copied with a new last clock. The copy replaces the recording when the
//! copy is complete. The use of memory does not depend on the size of the recording.
//!
//! Rejected: compressed recordings, recordings whose columns have another order, recordings with a
//! line for each clock, and recordings that end with a rank in power-down or self refresh. Such a
//! rank accepts no access.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hmtt_format::control::{Control, Registers};
use hmtt_format::header::{END, HeaderParser, HeaderText, LAST_CLOCK, VectorHeader};
use hmtt_format::record::CLOCK_MASK;
use hmtt_format::{MemoryDescription, toml_memory};

use super::bus::Bus;

/// Maximum number of bytes in a line of a recording.
const LINE_BYTES: u64 = 1 << 12;
/// Maximum number of bytes in a header.
const HEADER_BYTES: usize = 1 << 16;

/// Reads a memory description in TOML.
pub fn read_memory(path: &Path) -> Result<MemoryDescription> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml_memory::parse(&text).with_context(|| format!("{}", path.display()))
}

/// Writes the register accesses of commands into a recording, which is created if it does not
/// exist. `memory`: required for a new recording.
pub fn write(path: &Path, memory: Option<&MemoryDescription>, controls: &[Control]) -> Result<()> {
    let name = path.display();
    ensure!(
        path.extension().is_some_and(|extension| extension == "cmd"),
        "{name}: the name of a recording ends in .cmd here; decompress one that ends in .cmd.gz"
    );
    match fs::metadata(path) {
        Ok(about) => {
            ensure!(about.is_file(), "{name} is no regular file");
            append(path, about.permissions(), memory, controls).with_context(|| format!("{name}"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let memory = memory.context("a new recording requires --memory FILE.toml")?;
            create(path, memory, controls)
        }
        Err(error) => Err(error).with_context(|| format!("cannot open {name}")),
    }
}

fn create(path: &Path, memory: &MemoryDescription, controls: &[Control]) -> Result<()> {
    let (lines, last_clock) = commands(memory, None, controls)?;
    let header = HeaderText { memory, page_policy: "closed page", last_clock };
    let mut copy = Copy::new(path.into(), None)?;
    copy.write(header.to_string().as_bytes())?;
    copy.write(&lines)?;
    copy.finish()
}

fn append(
    path: &Path,
    permissions: Permissions,
    memory: Option<&MemoryDescription>,
    controls: &[Control],
) -> Result<()> {
    // A symbolic link is resolved first, so that it stays and leads to the new file.
    let path = fs::canonicalize(path).context("cannot find it")?;
    let mut old = BufReader::new(File::open(&path).context("cannot open it")?);
    let (text, header) = read_header(&mut old, memory)?;
    let memory = &header.memory;
    check_columns(&text, &header)?;
    let (lines, last_clock) = commands(memory, Some(header.last_clock), controls)?;
    let mut copy = Copy::new(path, Some(permissions))?;
    for line in &text {
        if line.trim_start().starts_with(LAST_CLOCK) {
            copy.write(format!("{LAST_CLOCK}{last_clock}\n").as_bytes())?;
        } else {
            copy.write(line.as_bytes())?;
        }
    }
    // Find the last command. Blank lines and comments may follow it.
    let mut last = Vec::new();
    let (mut line, mut is_ended) = (Vec::new(), true);
    while read_line(&mut old, &mut line)? {
        copy.write(&line)?;
        is_ended = line.ends_with(b"\n");
        if line.trim_ascii().first().is_some_and(|first| *first != b'#') {
            std::mem::swap(&mut last, &mut line);
        }
    }
    let last = String::from_utf8_lossy(&last);
    if let Some(cke) = last.split_ascii_whitespace().nth(1) {
        let expected = (1u8 << memory.ranks()) - 1;
        ensure!(
            u8::from_str_radix(cke, 16) == Ok(expected),
            "it ends with CKE low or a damaged line"
        );
    }
    if !is_ended {
        copy.write(b"\n")?;
    }
    copy.write(&lines)?;
    copy.finish()
}

/// Makes the commands' accesses on a bus. `after`: last clock of an existing recording. Returns the
/// lines to append, and the new last clock.
fn commands(
    memory: &MemoryDescription,
    after: Option<u64>,
    controls: &[Control],
) -> Result<(Vec<u8>, u64)> {
    ensure!(after.is_none_or(|clock| clock <= CLOCK_MASK), "its last clock is 2^48 or later");
    let registers = Registers::of(memory);
    let capacity = memory.capacity();
    ensure!(
        registers.bytes() <= capacity,
        "the memory has {capacity} bytes, and the registers of a card need {}",
        registers.bytes()
    );
    let mut bus = Bus::after(memory, after);
    let word = |offset: u64| offset >> memory.bus_log2 << memory.bus_log2;
    let map = &memory.map;
    for access in controls.iter().flat_map(|control| registers.accesses(*control)) {
        let offset = access.offset;
        let has_offset =
            word(offset) == offset && map.to_address(map.to_coordinates(offset)) == offset;
        ensure!(
            has_offset,
            "the memory does not have the address {offset:x}, by which a card knows a register: it would take it for another"
        );
        bus.access(access);
    }
    let (lines, last_clock) = bus.finish();
    ensure!(last_clock <= CLOCK_MASK, "the recording would be longer than 2^48 clocks");
    Ok((lines, last_clock))
}

/// Reads a header up to its last line. Returns its lines, and their parsed content.
fn read_header(
    from: &mut impl BufRead,
    memory: Option<&MemoryDescription>,
) -> Result<(Vec<String>, VectorHeader)> {
    let (mut parser, mut lines, mut bytes) = (HeaderParser::default(), Vec::new(), 0);
    let mut line = Vec::new();
    loop {
        ensure!(read_line(from, &mut line)?, "its header has no end");
        bytes += line.len();
        ensure!(bytes <= HEADER_BYTES, "its header is longer than {HEADER_BYTES} bytes");
        let text = String::from_utf8(line.clone()).context("its header is no text")?;
        let is_end = text.trim() == END;
        if !is_end {
            parser
                .line(&text)
                .with_context(|| format!("line {} of its header", lines.len() + 1))?;
        }
        lines.push(text);
        if is_end {
            break;
        }
    }
    let header = match memory {
        Some(memory) => parser.finish_with(memory.clone())?,
        None => parser.finish()?,
    };
    Ok((lines, header))
}

/// Checks that a recording has the same columns as the lines that are appended.
fn check_columns(header: &[String], parsed: &VectorHeader) -> Result<()> {
    ensure!(!parsed.all_clocks_listed, "it has a line for each clock");
    let memory = &parsed.memory;
    let is_same = (parsed.generation, parsed.ranks) == (memory.generation, memory.ranks());
    ensure!(is_same, "it has another generation or other ranks than the memory description");
    let own = HeaderText { memory, page_policy: "", last_clock: 0 }.to_string();
    let columns = |text: &str| text.strip_prefix("columns=").map(|names| names.trim().to_owned());
    let own = own.lines().find_map(columns);
    let Some(heading) = header.iter().find_map(|line| columns(line)) else { return Ok(()) };
    if Some(&heading) != own.as_ref() {
        bail!("it has the columns {heading}, not {}", own.unwrap_or_default());
    }
    Ok(())
}

/// Reads a line with its line end. Returns false at the end of the file.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    from.by_ref().take(LINE_BYTES).read_until(b'\n', line).context("cannot read it")?;
    let is_long = line.len() as u64 == LINE_BYTES && line.last() != Some(&b'\n');
    ensure!(!is_long, "a line is longer than {LINE_BYTES} bytes");
    Ok(!line.is_empty())
}

/// A file that has a temporary name until it is complete.
struct Copy {
    path: PathBuf,
    partial: PathBuf,
    writer: BufWriter<File>,
}

impl Copy {
    /// Creates the file under its temporary name.
    fn new(path: PathBuf, permissions: Option<Permissions>) -> Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let file = hmtt_paths::create(&partial, crate::output::MODE)
            .with_context(|| format!("cannot create {}", partial.display()))?;
        let copy = Copy { path, partial, writer: BufWriter::new(file) };
        if let Some(permissions) = permissions {
            copy.writer.get_ref().set_permissions(permissions).context("cannot set permissions")?;
        }
        Ok(copy)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = || format!("cannot write {}", self.partial.display());
        self.writer.write_all(bytes).with_context(failed)
    }

    fn finish(mut self) -> Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        self.writer.flush().with_context(failed)?;
        fs::rename(&self.partial, &self.path).with_context(failed)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // After the renaming there is no file with the temporary name.
        let _ = fs::remove_file(&self.partial);
    }
}
