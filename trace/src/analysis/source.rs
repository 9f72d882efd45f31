//! Opens a file of any kind that has accesses, and passes the accesses on in the form that analyses
//! take.
//!
//! ```text
//! capture  -> Trace::next_batch ----------.
//! program  -> access_trace::ChunkReader ---+-> Part: Known, Batch, Gap, Restart -> Fold
//! table    -> table::Reader, Rows --------|
//! files of other programs -> imported ----'
//! ```
//!
//! The first bytes of a file, decompressed, decide its kind; the extension decides the kind of a
//! table of text. Memories are numbered from 0 in the order in which the file has their first
//! accesses: each card is a memory, and so is a program. Invariant: memory use does not grow with
//! the file, and all parts before an error are passed on before the error is returned
//! ([`Ending::failure`]).

mod capture;
#[cfg(feature = "tables")]
mod imported;
mod kind;
mod memories;
#[cfg(feature = "access-traces")]
mod program;
#[cfg(all(feature = "access-traces", feature = "tables"))]
mod program_table;
#[cfg(feature = "tables")]
mod table;

use std::fs::File;
use std::io::{IsTerminal, Seek};
use std::path::{Path, PathBuf};

#[cfg(feature = "access-traces")]
use hmtt_files::access_trace::Function;
use serde::Serialize;

use super::{
    Analysis, Batch, CoarseAccesses, ElementRange, Fold, FrequencySlice, Gap, Known, PageRun,
};
use crate::compression::{Begin, Compression};
use crate::decode::Item;
use kind::BEGIN_BYTES;
pub use kind::Kind;
pub use memories::MOST_MEMORIES;

/// The reason why a file cannot be analysed, or cannot be analysed to its end.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("cannot be read")]
    File(#[from] std::io::Error),
    /// The file has no accesses.
    #[error("{0}")]
    NoAccesses(&'static str),
    /// The capture has no frame of a card.
    #[error(
        "no frame of a card is in it: it is the capture of another wire, or no card has sent anything"
    )]
    NoFrames,
    /// Neither the first bytes nor the extension of the file state its kind.
    #[error(
        "is neither a capture, nor a trace of a program, nor a table: Parquet, or text with the extension \
         csv, jsonl or trace; nor a file of lackey, drmemtrace, gem5, perf, DRAMsim3, DRAMSys, Ramulator, ChampSim or libCacheSim"
    )]
    Unknown,
    /// The file is compressed, and its content is read only uncompressed.
    #[error("{}", compressed(*.0))]
    Compressed(Compression),
    /// The file comes from a pipe, and its kind is not read from begin to end.
    #[error("is a {0}, which is not read from a pipe: name a file")]
    NoStream(&'static str),
    /// This program was built without a reader for this kind of file.
    #[error("this program was built without the cargo feature `{0}`, which reads such files")]
    NotBuilt(&'static str),
    /// A capture cannot be read further.
    #[error(transparent)]
    Capture(#[from] crate::pcapng::ReadError),
    /// A trace of a program cannot be read further.
    #[cfg(feature = "access-traces")]
    #[error(transparent)]
    Program(#[from] crate::access_trace::ReadError),
    /// A table cannot be read further.
    #[cfg(feature = "tables")]
    #[error(transparent)]
    Table(#[from] crate::table::TableError),
    /// A source that another crate reads cannot be read further.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// The file has too many cards.
    #[error("has accesses of more than {MOST_MEMORIES} cards")]
    Memories,
}

/// The message for a file that is read only uncompressed, with advice.
fn compressed(compression: Compression) -> String {
    match compression {
        Compression::Xz => {
            "is compressed with xz, which is not read: decompress it, also into standard input: xz -dc FILE | hmtt stats -"
                .to_owned()
        }
        other => format!(
            "is compressed with {other}, and is neither a capture nor what another program has recorded; if it is a table or a \
             trace of a program, decompress it"
        ),
    }
}

/// A part of the content of a source, for one memory.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The facts that are known of the memory's accesses. Passed on before the first access, and
    /// again when more is known.
    Known(&'a Known),
    /// The next accesses.
    Batch(Batch<'a>),
    /// Elements of a string instruction, which are too many to be passed on one by one.
    Elements(ElementRange),
    /// Consecutive accesses to one page, of a card in page mode.
    PageRun(PageRun),
    /// Accesses in a slice of time, of a card in frequency mode.
    FrequencySlice(FrequencySlice),
    /// Accesses of which too little is known for the analysis. They are a gap in the analysis,
    /// although no record is missing.
    LeftOut(Gap),
    /// Accesses are missing here.
    Gap(Gap),
    /// The clock begins again at 0.
    Restart,
    /// The end of a piece of the accesses, which is analysed separately. [`Part::Known`] follows
    /// again.
    PieceEnd,
    /// A record of a card between accesses: a mark, a tag, a report.
    Item(&'a Item),
    /// The next functions of a program. Batches refer to functions by their number in this order,
    /// from 1 on.
    #[cfg(feature = "access-traces")]
    Functions(&'a [Function]),
}

/// Facts and counts that are known at the end of a source.
#[derive(Debug, Default, Serialize)]
pub struct Ending {
    /// Accesses that were passed on, including the accesses of page runs and slices.
    pub accesses: u64,
    /// Accesses whose addresses are not known.
    pub coarse: CoarseAccesses,
    /// Whether a card was in analysis mode, in which it records no accesses.
    pub has_analysis_mode: bool,
    /// The last known facts of each memory.
    pub memories: Vec<Known>,
    /// Losses, as texts for people; empty if nothing is missing.
    pub missing: Vec<String>,
    /// Accesses that are a loss for analyses that need each access, but not for sums
    /// ([`Part::Elements`]), as texts for people.
    pub only_summed: Vec<String>,
    /// Other facts that limit the results, as texts for people.
    pub notes: Vec<String>,
    /// The reason why reading ended early.
    #[serde(skip)]
    pub failure: Option<SourceError>,
}

/// An open file.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hmtt::analysis::{Fold, source::Source, summary::Summary};
///
/// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng");
/// let mut fold = Fold::new(Summary::default());
/// let ending = Source::open(path)?.fold(0, &mut fold);
/// assert!(ending.failure.is_none() && ending.missing.is_empty());
/// let sums = hmtt::analysis::Analysis::result(&fold.finish());
/// assert_eq!((sums.accesses, sums.writes, sums.duration_clocks), (4, 1, Some(132)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Source {
    kind: Kind,
    path: PathBuf,
    file: File,
    /// The first bytes of a stream, which are already read; empty for a file, which was rewound.
    begin: Begin,
    with_functions: bool,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// [`SourceError`]: the file cannot be opened, or has no accesses.
    pub fn open(path: impl AsRef<Path>) -> Result<Source, SourceError> {
        let path = path.as_ref().to_path_buf();
        let mut file = File::open(&path)?;
        if !file.metadata()?.is_file() {
            return Source::stream(file);
        }
        let begin = Begin::read(&mut file, BEGIN_BYTES)?;
        file.rewind()?;
        let kind = Kind::of(&path, &begin)?.check()?;
        let begin = Begin { compression: begin.compression, ..Begin::default() };
        Ok(Source { kind, path, file, begin, with_functions: false })
    }

    /// Reads from an open file that cannot be rewound, such as standard input: a capture, or a file
    /// of another program.
    ///
    /// # Errors
    /// [`SourceError`]: the file cannot be read, is a terminal, or is of a kind that cannot be read
    /// from a pipe.
    pub fn stream(mut file: File) -> Result<Source, SourceError> {
        if file.is_terminal() {
            return Err(SourceError::NoAccesses(
                "it is a terminal; pipe or redirect a capture to it",
            ));
        }
        let begin = Begin::read(&mut file, BEGIN_BYTES)?;
        let kind = Kind::of_stream(&begin)?.check()?;
        Ok(Source { kind, path: PathBuf::new(), file, begin, with_functions: false })
    }

    /// Also passes on the functions of instructions, if the file states them.
    pub fn with_functions(self) -> Source {
        Source { with_functions: true, ..self }
    }

    /// The kind of the file, decided by its first bytes or its name.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Reads the file to its end, and passes on its parts with the numbers of their memories.
    pub fn read(self, add: &mut dyn FnMut(usize, Part<'_>)) -> Ending {
        let Source { kind, path, file, begin, with_functions } = self;
        // Without readers of programs and tables, nothing has functions.
        let _ = with_functions;
        let read = match kind {
            Kind::Capture => capture::read(capture::open(&path), add),
            Kind::Stream => capture::read(crate::Trace::from_file_after(begin.raw, file), add),
            #[cfg(feature = "access-traces")]
            Kind::Program => program::read(file, with_functions, add),
            #[cfg(feature = "tables")]
            Kind::Csv | Kind::Jsonl | Kind::Hmtt6 | Kind::Parquet => {
                table::read(kind, file, with_functions, add)
            }
            #[cfg(feature = "tables")]
            Kind::Imported(format) => imported::read(format, begin, file, add),
            _ => Err(SourceError::NotBuilt(kind.feature())),
        };
        read.unwrap_or_else(|error| Ending { failure: Some(error), ..Ending::default() })
    }

    /// Reads the file to its end into an analysis. `first`: the number of the file's first memory
    /// in the fold, which is the number of memories in the files before.
    pub fn fold<A: Analysis + Clone>(self, first: usize, fold: &mut Fold<A>) -> Ending {
        self.read(&mut |memory, part| fold.part(first + memory, part))
    }
}

impl<A: Analysis + Clone> Fold<A> {
    /// Passes on a part of a source.
    pub fn part(&mut self, memory: usize, part: Part<'_>) {
        match part {
            Part::Known(known) => self.known(memory, known),
            Part::Batch(batch) => self.add(memory, &batch),
            Part::Elements(range) => self.elements(memory, &range),
            Part::PageRun(run) => self.page_run(memory, &run),
            Part::FrequencySlice(slice) => self.frequency_slice(memory, &slice),
            Part::LeftOut(gap) | Part::Gap(gap) => self.gap(memory, &gap),
            Part::Restart => self.restart(memory),
            Part::PieceEnd => self.end_piece(memory),
            _ => {}
        }
    }
}

/// Texts for people on the losses that the counts of cards show, and notes on other limits of the
/// results. `accesses`: number of accesses that were passed on.
pub fn losses_and_notes(
    counts: &crate::decode::Counts,
    accesses: u64,
) -> (Vec<String>, Vec<String>) {
    capture::in_words(counts, accesses)
}

/// A count and its noun as text for people: the noun is `singular` for a count of 1, else `plural`.
fn counted(count: u64, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}
