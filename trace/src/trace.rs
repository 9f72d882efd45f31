//! Reads one capture, or several merged captures, as a trace: accesses one by one, items of any
//! kind, or batches of columns.
//!
//! ```text
//! file, pipe, reader -> capture_reader -> decode -> runs (runs.rs) -> Trace -> accesses(), items(), next_batch()
//! several files      -> merge          ---------'
//! ```
//!
//! A [`Trace`] reads only as much as the caller asks for, so memory does not grow with the capture.
//! Invariant: everything that could be read is returned before the error that ended the reading. A
//! loss is a [`Gap`](crate::decode::Gap) among the items, and is counted in [`Trace::counts`].

mod input;
mod runs;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use hmtt_format::{Access, Event};

use crate::capture_reader::CaptureReader;
use crate::decode::{Accesses, Item, LinkCounts};
use crate::identity::CardId;
use crate::merge::{Merge, MergeError, Options};
use crate::pcapng::{Interface, ReadError};
use input::{Input, Merged};
use runs::Runs;

/// Accesses of one card in order of time, and the item that follows them.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// let mut trace = hmtt::Trace::from_reader(CAPTURE)?;
/// let mut writes = 0;
/// while let Some(batch) = trace.next_batch()? {
///     writes += batch.accesses.writes.iter().filter(|is_write| **is_write).count();
/// }
/// assert_eq!(writes, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Batch<'a> {
    /// The card to which the accesses and the item belong.
    pub card: CardId,
    /// The interface on which the card's frames arrived, as the capture describes it.
    pub interface: Option<&'a Interface>,
    /// Clocks, addresses and directions, in columns of the same length, which can be 0.
    pub accesses: Accesses<'a>,
    /// The item after these accesses: a gap, a report, a mark or the like. `None` if another access
    /// follows, or nothing.
    pub item: Option<Item>,
    /// Whether the item comes from a frame in frequency mode, so that the accesses of a slice are
    /// in no other record. Always `false` for a merged trace, where the mode is not known.
    pub has_slices_only: bool,
}

/// One capture, or several merged captures, read as a trace.
///
/// `R` is the type of the reader in [`Trace::from_reader`]. Traces of files, which [`Trace::open`]
/// and [`Trace::merged`] return, have the type `Trace`. The capture below is the worked example in
/// `docs/format.md`.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// let mut trace = hmtt::Trace::from_reader(CAPTURE)?;
/// let mut lines = Vec::new();
/// for access in trace.accesses() {
///     lines.push(access?.to_string());
/// }
/// assert_eq!(lines, ["22 R 12348140", "28 W 12348180", "148 R 12348fc0", "154 R 12348fc0"]);
/// // Nothing is missing. If something were, `Trace::items` would return the gaps at their places.
/// assert!(!trace.counts()?.sum().has_loss());
/// # Ok(())
/// # }
/// ```
pub struct Trace<R: Read = File> {
    input: Input<R>,
    runs: Runs,
    /// The only card whose accesses and items are returned; `None` for all cards.
    only: Option<CardId>,
    /// Counts of all cards; `None` until the input has been read to its end.
    counts: Option<LinkCounts>,
    /// The error that ended the reading, until it is returned.
    failure: Option<ReadError>,
}

impl Trace {
    /// Opens a capture. It may be compressed: with zstd, or with gzip or LZ4 if the feature
    /// `compressed-captures` is on.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be opened, or is no capture.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, ReadError> {
        Ok(Trace::new(Input::Capture(Box::new(CaptureReader::open(path.as_ref())?))))
    }

    /// Reads a capture from an open file or pipe, such as standard input.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, is a terminal, or is no capture.
    pub fn from_file(file: File) -> Result<Trace, ReadError> {
        Ok(Trace::new(Input::Capture(Box::new(CaptureReader::stream(file)?))))
    }

    /// Reads a capture from an open file whose first bytes, `begin`, were read already.
    ///
    /// # Errors
    /// [`ReadError`]: the file cannot be read, or is no capture.
    pub fn from_file_after(begin: Vec<u8>, file: File) -> Result<Trace, ReadError> {
        Ok(Trace::new(Input::Capture(Box::new(CaptureReader::stream_after(begin, file)?))))
    }

    /// Opens the captures of several cards and merges them. The clocks of all cards are converted
    /// to the clock of the first card, and accesses and items come in order of time. Cards are
    /// numbered over all captures.
    ///
    /// Each file is read twice: first to relate the clocks, then for its items. The clocks are
    /// related with the default [`Options`]. For other options, use [`Merge::survey`] and
    /// [`Trace::from_merge`]. [`Merge::sessions`] states the error of the times.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let one = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worked.pcapng");
    /// # let other = one.clone();
    /// let mut trace = hmtt::Trace::merged([one, other])?;
    /// assert_eq!(trace.accesses().count(), 2 * 4);
    /// assert_eq!(trace.counts()?.cards.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MergeError`]: a capture cannot be read, there are no cards or too many cards, or the clock
    /// of a card cannot be related to the clock of the first card.
    pub fn merged<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Trace, MergeError> {
        let paths: Vec<_> = paths.into_iter().map(|path| path.as_ref().to_path_buf()).collect();
        Trace::from_merge(&Merge::survey(&paths, &Options::default())?)
    }

    /// Reads captures whose clocks [`Merge::survey`] has related.
    ///
    /// # Errors
    /// [`MergeError::Read`]: a capture cannot be opened again.
    pub fn from_merge(merge: &Merge) -> Result<Trace, MergeError> {
        Ok(Trace::new(Input::Merged(Merged::new(merge)?)))
    }
}

impl<R: Read> Trace<R> {
    /// Reads a capture from any reader, such as a socket or memory. The capture may be compressed,
    /// as in [`Trace::open`]. The reader may be borrowed. Its bytes are buffered.
    ///
    /// # Errors
    /// [`ReadError`]: the reader fails, or its content is no capture.
    pub fn from_reader(reader: R) -> Result<Self, ReadError> {
        Ok(Trace::new(Input::Capture(Box::new(CaptureReader::from_reader(reader)?))))
    }

    fn new(input: Input<R>) -> Self {
        Trace { input, runs: Runs::default(), only: None, counts: None, failure: None }
    }

    /// Returns only accesses and items of one card from now on. The other cards are still read and
    /// counted.
    pub fn only(self, card: CardId) -> Self {
        Trace { only: Some(card), ..self }
    }

    /// Returns the remaining accesses of all cards, one by one. They come in the order in which
    /// their frames arrived, or in order of time for a merged trace.
    ///
    /// Gaps and all other items are left out: [`Trace::counts`] states whether accesses are
    /// missing. If reading fails, the last item of the iterator is the error.
    pub fn accesses(&mut self) -> impl Iterator<Item = Result<Access, ReadError>> {
        std::iter::from_fn(move || {
            loop {
                if let Some(access) = self.runs.next_access() {
                    return Some(Ok(access));
                }
                match self.next_run() {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// Returns the remaining items of all cards, one by one, with their cards: accesses
    /// ([`Event::Access`]), tags, faults, gaps, reports and all other items of a trace.
    pub fn items(&mut self) -> impl Iterator<Item = Result<(CardId, Item), ReadError>> {
        std::iter::from_fn(move || {
            loop {
                let card = self.runs.card();
                if let Some(access) = self.runs.next_access() {
                    return Some(Ok((card, Item::Event(Event::Access(access)))));
                }
                if let Some(item) = self.runs.take_item() {
                    return Some(Ok((card, item)));
                }
                match self.next_run() {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// Returns the next accesses as columns, with the item that follows them; `None` at the end.
    /// This is the fastest way to read: nothing is copied, and a batch fits into a processor's
    /// second-level cache. In a merged trace, a batch ends before an access of another card.
    ///
    /// # Errors
    /// [`ReadError`], after everything that could be read was returned.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, ReadError> {
        if self.runs.is_empty() && !self.next_run()? {
            return Ok(None);
        }
        let has_slices_only = self.runs.has_slices_only();
        let (card, accesses, item) = self.runs.take_batch();
        let counted = || self.counts.as_ref()?.cards.get(card.0).map(|counts| counts.link);
        let link = self.input.link_of(card).or_else(counted);
        let interface = link.and_then(|link| self.input.interfaces().get(link.index()));
        Ok(Some(Batch { card, interface, accesses, item, has_slices_only }))
    }

    /// Reads the rest of the trace, without returning its items. Returns the counts of each card:
    /// frames, accesses and all losses.
    ///
    /// # Errors
    /// [`ReadError`]: the rest of the trace cannot be read.
    pub fn counts(&mut self) -> Result<&LinkCounts, ReadError> {
        while self.next_run()? {}
        Ok(self.counts.get_or_insert_default())
    }

    /// The interfaces that the capture describes, as far as it has been read. For a merged trace,
    /// the interfaces of all captures.
    pub fn interfaces(&self) -> &[Interface] {
        self.input.interfaces()
    }

    /// The byte offset at which an incomplete last block begins; `None` if the file ends with a
    /// whole block. For a merged trace, the offset in the first capture that has such a block.
    pub fn truncated_at(&self) -> Option<u64> {
        self.input.truncated_at()
    }

    /// Counts of the blocks and packets of unknown types that were skipped, as far as the capture
    /// has been read. All 0 for a merged trace, where they are not known.
    pub fn unread(&self) -> crate::capture_reader::Unread {
        self.input.unread()
    }

    /// Advances to the next run of a wanted card. Returns `false` at the end.
    fn next_run(&mut self) -> Result<bool, ReadError> {
        loop {
            if self.runs.advance(self.only) {
                return Ok(true);
            }
            if self.counts.is_some() {
                return self.failure.take().map_or(Ok(false), Err);
            }
            self.read();
        }
    }

    /// Reads until there are runs, or the input has ended.
    fn read(&mut self) {
        self.runs.clear();
        match self.input.fill(&mut self.runs) {
            Ok(counts) => self.counts = counts,
            Err((error, counts)) => (self.failure, self.counts) = (Some(error), Some(counts)),
        }
        self.runs.close();
    }
}

impl<R: Read> fmt::Debug for Trace<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("only", &self.only).finish_non_exhaustive()
    }
}
