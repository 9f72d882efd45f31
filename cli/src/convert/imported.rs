//! Converts the accesses that other programs have recorded to tables, and to requests for
//! simulators.
//!
//! A file is recognised by its first bytes after decompression ([`Opened`]). Standard input is
//! recognised in the same way. A format that has times and no instructions becomes a table like the
//! table of a card. Any other format becomes a table like the table of a program, which has
//! threads, instructions and sizes, and no times.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::CardId;
#[cfg(feature = "tag")]
use hmtt::access_trace::Executed;
#[cfg(feature = "tag")]
use hmtt::access_trace::table::{AccessWriter, csv, jsonl};
#[cfg(feature = "tag")]
use hmtt::cache::Hierarchy;
use hmtt::compression::{Begin, Compression};
use hmtt::imported::{
    BEGIN_BYTES, Contents, DAMON, ImportedAccess, ImportedFormat, ImportedReader, is_damon,
};
use hmtt::pcapng::is_plain_capture;
use hmtt::table::hmtt6::MmioHole;
use hmtt::table::requests::{LINE_BYTES, Request, RequestOutput, RequestSums, Simulator};
use hmtt::table::{LeftOut, Row, TableError, Writer};
#[cfg(feature = "tag")]
use hmtt_files::access_trace::{BlockAccesses, Made};
use hmtt_format::{Access, Cycles, PhysAddr};

use crate::capture_file::CaptureFile;
use crate::format::{BUFFER_BYTES, EncodingOption, Format};
use crate::output::{cause, open};
use crate::simulator::{ClockUnit, SimulatorFile};
use crate::standard_io::{input, is_standard, name_of_input};

/// Maximum size of an access, in bytes. A larger size cannot be right, because no instruction
/// accesses as many bytes.
const MOST_BYTES: u32 = 1 << 16;
/// An open file, or standard input, with its first bytes, which were already read.
pub struct Opened {
    file: File,
    begin: Begin,
}

impl Opened {
    /// Opens a file, or standard input.
    ///
    /// # Errors
    /// The file cannot be opened or read, or is a terminal.
    pub fn open(path: &Path) -> Result<Opened> {
        let name = name_of_input(path);
        let file = if is_standard(path) { input() } else { File::open(path) };
        let mut file = file.with_context(|| format!("{name}: cannot open"))?;
        if file.is_terminal() {
            bail!("{name}: it is a terminal; pipe or redirect a file to it");
        }
        let begin = Begin::read(&mut file, BEGIN_BYTES).with_context(|| name.clone())?;
        Ok(Opened { file, begin })
    }

    /// The file's format, if another program has written it; `None` otherwise. `from`: the format
    /// that the user states.
    ///
    /// # Errors
    /// The file is compressed with xz, which is not supported, or is a record of DAMON, which has
    /// no accesses.
    pub fn format(&self, from: Option<Format>) -> Result<Option<ImportedFormat>> {
        let Begin { content, compression, .. } = &self.begin;
        if *compression == Some(Compression::Xz) {
            bail!(
                "is compressed with xz, which is not read; decompress it into standard input: xz -dc FILE | hmtt convert - OUT"
            );
        }
        if is_damon(content) {
            bail!(DAMON);
        }
        Ok(match from {
            Some(from) => from.imported().map(|format| format.resolve(content)),
            None => ImportedFormat::of(content),
        })
    }

    /// Whether the file is a capture, or may be a compressed one. The reader of captures reports
    /// errors in it.
    pub fn is_capture(&self) -> bool {
        is_plain_capture(&self.begin.content) || self.begin.compression.is_some()
    }

    /// Continues to read the input as a capture.
    ///
    /// # Errors
    /// The input is no capture.
    pub fn into_capture(self) -> Result<CaptureFile> {
        CaptureFile::stream_after(self.begin.raw, self.file)
    }
}

/// The conversion of a file that another program has written.
pub struct Import<'i> {
    /// Path of the input.
    pub input: &'i Path,
    /// Format of the input.
    pub from: ImportedFormat,
    /// Path of the output.
    pub output: &'i Path,
    /// Format of the output.
    pub to: Format,
    /// Whether an existing file is overwritten.
    pub force: bool,
    /// Encodings of Parquet.
    pub encoding: EncodingOption,
    /// Caches whose misses and write-backs are written in place of accesses.
    #[cfg(feature = "tag")]
    pub caches: Option<Hierarchy>,
}

/// A receiver of accesses.
trait Sink {
    fn access(&mut self, access: &ImportedAccess) -> Result<(), TableError>;

    /// Completes the file. Returns what the file does not hold, and the sums of requests.
    fn finish(self: Box<Self>) -> Result<(LeftOut, Option<RequestSums>), TableError>;
}

/// Writes rows with the columns of a card.
struct CardRows {
    writer: Box<dyn Writer>,
    /// Number of accesses whose sizes are left out, because these rows have none.
    sizes: u64,
}

impl Sink for CardRows {
    fn access(&mut self, access: &ImportedAccess) -> Result<(), TableError> {
        let ImportedAccess { clock, direction, address, size, .. } = *access;
        self.sizes += u64::from(size != 0);
        let (clock, address) = (Cycles(clock), PhysAddr(address));
        let entry = Access { clock, direction, address }.into();
        self.writer.row(&Row { card: CardId(0), entry })
    }

    fn finish(self: Box<Self>) -> Result<(LeftOut, Option<RequestSums>), TableError> {
        let LeftOut(mut counts) = self.writer.finish()?;
        counts.push(("sizes of accesses", self.sizes));
        Ok((LeftOut(counts), None))
    }
}

/// Writes rows with the columns of a program.
#[cfg(feature = "tag")]
struct ProgramRows {
    writer: Box<dyn AccessWriter>,
    block: BlockAccesses,
    /// Whether the accesses have times, which these rows leave out.
    has_times: bool,
    times: u64,
    /// How many accesses one row represents; 0 if that is not known, as for samples.
    represents: u16,
}

#[cfg(feature = "tag")]
impl Sink for ProgramRows {
    fn access(&mut self, access: &ImportedAccess) -> Result<(), TableError> {
        let ImportedAccess { thread, pc, direction, address, size, .. } = *access;
        self.times += u64::from(self.has_times);
        let access = Made {
            pc,
            direction,
            address: Some(address),
            represents: self.represents,
            size,
            elements: 1,
            is_down: false,
            conditional: false,
        };
        self.writer.access(&Executed::alone(thread, 0, &self.block), &access)
    }

    fn finish(self: Box<Self>) -> Result<(LeftOut, Option<RequestSums>), TableError> {
        self.writer.finish()?;
        Ok((LeftOut(vec![("times of accesses", self.times)]), None))
    }
}

/// Writes a request for each line that an access touches.
struct Requests<W: Write> {
    output: RequestOutput<W>,
    /// Whether accesses have clocks. If not, the clock of a request is the number of accesses
    /// before it.
    has_clocks: bool,
    accesses: u64,
    unsized_accesses: u64,
    tck_ps: Option<u32>,
    #[cfg(feature = "tag")]
    caches: Option<Hierarchy>,
}

impl<W: Write> Requests<W> {
    fn write(&mut self, request: Request, size: u32) -> io::Result<()> {
        let bytes = if size > MOST_BYTES { 1 } else { u64::from(size.max(1)) };
        #[cfg(feature = "tag")]
        if let Some(caches) = &mut self.caches {
            let (mut written, output) = (Ok(()), &mut self.output);
            let is_write = request.direction == hmtt_format::Direction::Write;
            let kind = if is_write {
                hmtt::cache::AccessKind::Write
            } else {
                hmtt::cache::AccessKind::Read
            };
            caches.access(kind, request.address, bytes as u32, &mut |transfer| {
                let (direction, lines) =
                    (transfer.direction, u64::from(transfer.bytes).div_ceil(LINE_BYTES));
                for line in 0..lines {
                    let address = transfer.address.saturating_add(line * LINE_BYTES);
                    if written.is_ok() {
                        written = output.write(Request { direction, address, ..request });
                    }
                }
            });
            return written;
        }
        let last = request.address.saturating_add(bytes - 1) / LINE_BYTES;
        self.output.write(request)?;
        for line in request.address / LINE_BYTES + 1..=last {
            self.output.write(Request { address: line * LINE_BYTES, ..request })?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Requests<W> {
    fn access(&mut self, access: &ImportedAccess) -> Result<(), TableError> {
        let ImportedAccess { direction, address, size, .. } = *access;
        let clock = if self.has_clocks { access.clock } else { self.accesses };
        self.accesses += 1;
        self.unsized_accesses += u64::from(size == 0);
        Ok(self.write(Request { clock, direction, address }, size)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(LeftOut, Option<RequestSums>), TableError> {
        self.output.finish()?;
        let (unsized_accesses, tck_ps) = (self.unsized_accesses, self.tck_ps);
        let sums = RequestSums { unsized_accesses, tck_ps, ..self.output.sums() };
        Ok((LeftOut(self.output.left_out().to_vec()), Some(sums)))
    }
}

impl Import<'_> {
    /// Converts the open file. Returns whether accesses are missing in it, such as the accesses
    /// between two samples.
    ///
    /// # Errors
    /// The file cannot be read, or has a line that is not understood. Or the output cannot be
    /// written.
    pub fn run(mut self, opened: Opened) -> Result<bool> {
        let name = name_of_input(self.input);
        if self.to.has_instructions() || self.to == Format::Pcapng {
            bail!("a {} has not all that {} holds", self.from.name(), self.to.name());
        }
        let Opened { file, begin } = opened;
        let input = begin.decompress(file).with_context(|| name.clone())?;
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        let mut reader = ImportedReader::new(self.from, input);
        // The first access is read before the output is created, so that an unreadable file leaves
        // no output.
        let mut first = reader.next_access().with_context(|| name.clone())?;
        let (output, file) = open(Some(self.output), self.to, self.force)?;
        let cannot_write = || format!("cannot write to {}", output.name);
        let mut sink = self.sink(file, reader.contents()).with_context(cannot_write)?;
        let mut written = Ok(());
        let read = loop {
            match first.take().map_or_else(|| reader.next_access(), |access| Ok(Some(access))) {
                Ok(Some(access)) if written.is_ok() => written = sink.access(&access),
                Ok(_) => break Ok(()),
                Err(error) => break Err(anyhow::Error::from(error).context(name.clone())),
            }
        };
        let finished = written.and_then(|()| sink.finish());
        let (left_out, sums) = finished.map_err(cause).with_context(cannot_write)?;
        if !left_out.is_nothing() {
            report!("hmtt: warning: {} does not hold: {left_out}", output.name);
        }
        output.end(read)?;
        for note in reader.notes() {
            report!("hmtt: {name}: {note}");
        }
        let missing = reader.missing();
        for what in &missing {
            report!("hmtt: warning: {name}: {what}");
        }
        self.state(sums);
        Ok(!missing.is_empty())
    }

    fn state(&self, sums: Option<RequestSums>) {
        let Some(sums) = sums else { return };
        let path = Some(self.output);
        let has_caches = self.has_caches();
        let has_clocks = self.from.contents().clocks;
        let clock = if has_clocks { ClockUnit::Imported } else { ClockUnit::Accesses };
        SimulatorFile { format: self.to, path, sums, clock, has_caches }.report();
    }

    #[cfg(feature = "tag")]
    fn has_caches(&self) -> bool {
        self.caches.is_some()
    }

    #[cfg(not(feature = "tag"))]
    fn has_caches(&self) -> bool {
        false
    }

    fn sink(&mut self, file: Box<dyn Write + Send>, contents: Contents) -> Result<Box<dyn Sink>> {
        if let Some(simulator) = self.to.simulator() {
            return Ok(self.requests(file, simulator, contents));
        }
        if contents.clocks && !contents.instructions {
            let writer = self.to.writer(file, MmioHole { base: 0 }, self.encoding);
            return Ok(Box::new(CardRows { writer: writer.map_err(cause)?, sizes: 0 }));
        }
        self.program_rows(file)
    }

    fn requests(
        &mut self,
        file: Box<dyn Write + Send>,
        simulator: Simulator,
        contents: Contents,
    ) -> Box<dyn Sink> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Box::new(Requests {
            output: RequestOutput::new(file, simulator),
            has_clocks: contents.clocks,
            accesses: 0,
            unsized_accesses: 0,
            tck_ps: contents.tck_ps,
            #[cfg(feature = "tag")]
            caches: self.caches.clone(),
        })
    }

    #[cfg(feature = "tag")]
    fn program_rows(&self, file: Box<dyn Write + Send>) -> Result<Box<dyn Sink>> {
        let buffered = |file| BufWriter::with_capacity(BUFFER_BYTES, file);
        let writer: Box<dyn AccessWriter> = match self.to {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                use hmtt::access_trace::table::parquet::ParquetWriter;
                let encodings = self.encoding.encodings();
                Box::new(ParquetWriter::with_encodings(file, encodings).map_err(cause)?)
            }
            Format::Csv => Box::new(csv::CsvWriter::new(buffered(file)).map_err(cause)?),
            Format::Jsonl => Box::new(jsonl::JsonlWriter::new(buffered(file))),
            other => bail!(
                "a {} has no clocks of a bus, which {} needs; write csv, jsonl, parquet or requests",
                self.from.name(),
                other.name()
            ),
        };
        let contents = self.from.contents();
        let (has_times, represents) = (contents.clocks, u16::from(!contents.are_samples));
        let block = BlockAccesses::default();
        Ok(Box::new(ProgramRows { writer, block, has_times, times: 0, represents }))
    }

    #[cfg(not(feature = "tag"))]
    fn program_rows(&self, _: Box<dyn Write + Send>) -> Result<Box<dyn Sink>> {
        bail!(
            "this hmtt was built without tables of programs; build it with the cargo feature `tag`"
        )
    }
}
