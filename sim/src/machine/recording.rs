//! Writes commands as a recording in the vectors' text format, and the list of its accesses beside
//! it.
//!
//! Both files are written while the commands are issued, under temporary names, and renamed when
//! they are complete. The list is renamed first, so that a recording is never without its list. The
//! header states the last clock, which is known only at the end. So the header is written with room
//! for any number, and replaced at the end. In a gzip file the header is a member of its own (RFC
//! 1952, 2.2), stored without compression, so that its length does not depend on the number.
//!
//! Rejected: clocks of 2^48 and more, which readers of recordings reject.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use hmtt_format::header::{HeaderText, Line};
use hmtt_format::record::CLOCK_MASK;
use hmtt_format::{Cycles, MemoryDescription};

use crate::output::OutputError;
use crate::output::partial::Partial;

use super::controller::{CommandSink, Issued, PagePolicy};

#[cfg(test)]
mod tests;

/// First line of a list of accesses.
const LIST_HEADER: &str = "# clock R|W physical_byte_address_hex\n";
/// Size of the buffers of files.
const BUFFER_BYTES: usize = 1 << 16;

/// Why a recording could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RecordingError {
    #[error("{}: the name of a recording ends in .cmd or .cmd.gz", path.display())]
    Name { path: PathBuf },
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("clock {clock} is beyond the 2^48 clocks of a recording")]
    TooLong { clock: u64 },
}

/// The names of the files of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingPaths {
    /// The commands, `NAME.cmd` or `NAME.cmd.gz`.
    pub commands: PathBuf,
    /// The accesses, `NAME.truth` or `NAME.truth.gz`.
    pub truth: PathBuf,
    compressed: bool,
}

impl RecordingPaths {
    /// Derives the names from the name of the commands.
    ///
    /// # Errors
    /// [`RecordingError::Name`] for a name without one of the two endings.
    pub fn new(commands: &Path) -> Result<Self, RecordingError> {
        let refuse = || RecordingError::Name { path: commands.into() };
        let name = commands.file_name().and_then(|name| name.to_str()).ok_or_else(refuse)?;
        let (stem, ending, compressed) = match name.strip_suffix(".cmd.gz") {
            Some(stem) => (stem, ".truth.gz", true),
            None => (name.strip_suffix(".cmd").ok_or_else(refuse)?, ".truth", false),
        };
        let truth = commands.with_file_name(format!("{stem}{ending}"));
        Ok(RecordingPaths { commands: commands.into(), truth, compressed })
    }
}

/// A file that is being written, plain or compressed.
struct TextFile {
    partial: Partial,
    writer: Encoder,
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl Encoder {
    fn write(&mut self) -> &mut dyn Write {
        match self {
            Encoder::Plain(writer) => writer,
            Encoder::Gzip(writer) => writer,
        }
    }
}

/// Encodes the header of a file. Its length does not depend on the digits in it.
fn encode_header(text: &str, compressed: bool) -> std::io::Result<Vec<u8>> {
    if !compressed {
        return Ok(text.as_bytes().to_vec());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

impl TextFile {
    fn create(
        path: &Path,
        header: &str,
        compressed: bool,
        overwrite: bool,
    ) -> Result<Self, OutputError> {
        let (partial, file) = Partial::create(path, overwrite)?;
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        encode_header(header, compressed)
            .and_then(|header| file.write_all(&header))
            .map_err(partial.failed("write"))?;
        let writer = if compressed {
            Encoder::Gzip(GzEncoder::new(file, Compression::fast()))
        } else {
            Encoder::Plain(file)
        };
        Ok(TextFile { partial, writer })
    }

    fn write(&mut self, text: &[u8]) -> Result<(), OutputError> {
        self.writer.write().write_all(text).map_err(self.partial.failed("write"))
    }

    /// Ends the file, and replaces its header if one is given. The file keeps its temporary name.
    fn end(self, header: Option<&str>) -> Result<Partial, OutputError> {
        let TextFile { partial, writer } = self;
        let ended = || -> std::io::Result<()> {
            let (file, compressed) = match writer {
                Encoder::Plain(writer) => (writer, false),
                Encoder::Gzip(encoder) => (encoder.finish()?, true),
            };
            let mut file = file.into_inner().map_err(|error| error.into_error())?;
            if let Some(header) = header {
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&encode_header(header, compressed)?)?;
            }
            Ok(())
        };
        ended().map_err(partial.failed("write"))?;
        Ok(partial)
    }
}

/// Writes a recording.
pub struct RecordingWriter {
    memory: MemoryDescription,
    policy: PagePolicy,
    commands: TextFile,
    truth: TextFile,
}

impl RecordingWriter {
    /// Creates both files under temporary names. Existing files are replaced only with `overwrite`.
    ///
    /// # Errors
    /// [`RecordingError::Output`] if a file exists or cannot be created.
    pub fn create(
        paths: &RecordingPaths,
        memory: &MemoryDescription,
        policy: PagePolicy,
        overwrite: bool,
    ) -> Result<Self, RecordingError> {
        let compressed = paths.compressed;
        let header = header(memory, policy, CLOCK_MASK);
        Ok(RecordingWriter {
            memory: memory.clone(),
            policy,
            commands: TextFile::create(&paths.commands, &header, compressed, overwrite)?,
            truth: TextFile::create(&paths.truth, LIST_HEADER, compressed, overwrite)?,
        })
    }

    /// Ends both files and gives them their names. `clocks`: length of the recording.
    ///
    /// # Errors
    /// [`RecordingError`] if a file cannot be written or renamed, or if the recording is too long.
    /// Then no file is left. Exception: if only the second file cannot be renamed, the first one
    /// stays.
    pub fn finish(self, clocks: Cycles) -> Result<(), RecordingError> {
        let last = clocks.0.saturating_sub(1);
        within_range(last)?;
        let header = header(&self.memory, self.policy, last);
        let truth = self.truth.end(None)?;
        let commands = self.commands.end(Some(&header))?;
        truth.finish()?;
        Ok(commands.finish()?)
    }
}

const fn within_range(clock: u64) -> Result<(), RecordingError> {
    if clock > CLOCK_MASK { Err(RecordingError::TooLong { clock }) } else { Ok(()) }
}

impl CommandSink for RecordingWriter {
    type Error = RecordingError;

    fn issue(&mut self, issued: Issued) -> Result<(), RecordingError> {
        let Issued { clock, pins, access } = issued;
        within_range(clock.0)?;
        self.commands.write(Line::of_command(&self.memory, clock.0, &pins).as_bytes())?;
        if let Some(access) = access {
            self.truth.write(Line::of_access(&access).as_bytes())?;
        }
        Ok(())
    }
}

/// Returns the header of a recording.
fn header(memory: &MemoryDescription, policy: PagePolicy, last_clock: u64) -> String {
    let page_policy = format!("{} page, precharge-all before refresh", policy.name());
    HeaderText { memory, page_policy: &page_policy, last_clock }.to_string()
}
