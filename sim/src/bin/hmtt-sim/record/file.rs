//! Reads the accesses of a program from a file: a trace of `hmtt trace run`, or text.
//!
//! A trace is recognised by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hmtt::access_trace::{ChunkReader, Content, Decoder, EachElement, ElementBudget, Ending};
use hmtt_files::access_trace::MAGIC;
use hmtt_sim::input::{InputError, lines, lines::Lines};
use hmtt_sim::machine::accesses::AccessReader;
use hmtt_sim::machine::cache::AccessKind;

use super::session::Session;

/// Size of the buffers of input.
const BUFFER_BYTES: usize = 1 << 16;

/// The bytes of a file, of which the first ones have been read and are repeated here.
type Bytes = Chain<Cursor<Vec<u8>>, Box<dyn BufRead + Send>>;

/// Accesses of a program in a file.
pub enum Accesses {
    /// Lines of text.
    Text(AccessReader),
    /// A trace of `hmtt trace run`.
    Trace { name: PathBuf, chunks: Box<ChunkReader<Bytes>> },
}

impl Accesses {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        let (name, mut input): (PathBuf, Box<dyn BufRead + Send>) = if path == Path::new("-") {
            let input = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
            ("standard input".into(), Box::new(input))
        } else {
            let opened = File::open(path);
            let file = opened.map_err(|source| InputError::Open { path: path.into(), source })?;
            (path.to_owned(), Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
        };
        let in_file = || name.display().to_string();
        let mut begin = Vec::new();
        let length = MAGIC.len() as u64;
        input.by_ref().take(length).read_to_end(&mut begin).with_context(in_file)?;
        let is_trace = begin == MAGIC;
        let bytes = Cursor::new(begin).chain(input);
        if is_trace {
            let chunks = Box::new(ChunkReader::new(bytes).with_context(in_file)?);
            return Ok(Accesses::Trace { name, chunks });
        }
        let text = lines::decompress(bytes).with_context(in_file)?;
        Ok(Accesses::Text(AccessReader::new(Lines::new(&name, text))))
    }

    /// Whether instruction fetches can be among the accesses.
    pub fn may_have_fetches(&self) -> bool {
        matches!(self, Accesses::Text(_))
    }

    /// Makes the accesses. Returns what the file lacks, a sentence for each reason.
    pub fn make(self, session: &mut Session, is_data_only: bool) -> Result<Vec<String>> {
        match self {
            Accesses::Text(reader) => {
                make_lines(reader, session, is_data_only)?;
                Ok(Vec::new())
            }
            Accesses::Trace { name, chunks } => {
                let mut budget = ElementBudget::of_file();
                let ending = make_trace(*chunks, session, &mut budget)
                    .with_context(|| name.display().to_string())?;
                let mut notes = missing(&ending);
                notes.extend(budget.refused().map(|refused| format!("left out are {refused}")));
                Ok(notes)
            }
        }
    }
}

/// Makes the accesses of a text.
fn make_lines(reader: AccessReader, session: &mut Session, is_data_only: bool) -> Result<()> {
    for access in reader {
        if session.is_over() {
            break;
        }
        let access = access?;
        if !(is_data_only && access.kind == AccessKind::Fetch) {
            session.access(access.kind, access.address, access.size);
        }
    }
    Ok(())
}

/// Makes the accesses of a trace. Returns the trace's sums up to the last chunk that was read.
fn make_trace(
    mut chunks: ChunkReader<Bytes>,
    session: &mut Session,
    budget: &mut ElementBudget,
) -> Result<Ending> {
    let mut decoder = Decoder::default();
    let is_chosen = chunks.is_chosen();
    while !session.is_over() {
        match chunks.next_chunk()? {
            Some(Content::Functions(_) | Content::Gap { .. }) => {}
            Some(Content::Blocks(blocks)) => decoder.add_blocks(blocks),
            Some(Content::Units { thread, fs, bytes }) => {
                decoder.set_base(thread, fs);
                let mut each = EachElement::new(budget, |made| session.make(&made));
                decoder.units(thread, &bytes, &mut each);
            }
            Some(Content::Unrecorded(unrecorded)) => decoder.set_unrecorded(unrecorded),
            Some(Content::Region(region)) => decoder.set_region(region),
            Some(Content::End { dropped, cut_threads }) => {
                let sums = decoder.ending().completed(dropped, cut_threads);
                return Ok(Ending { is_chosen, ..sums });
            }
            None => return Ok(Ending { is_chosen, ..decoder.ending() }),
        }
    }
    // At the limit the rest of the trace is not read. So it is not known whether the trace is cut,
    // or lacks a part of its region, and neither is stated.
    Ok(Ending { is_cut: false, is_chosen, region: None, ..decoder.ending() })
}

fn missing(ending: &Ending) -> Vec<String> {
    let Ending { dropped, cut_threads, invalid_chunks, is_cut, is_chosen, .. } = *ending;
    let mut notes = Vec::new();
    if is_chosen {
        notes.push("the trace has only some of the accesses, as was asked for".into());
    }
    if dropped > 0 {
        notes.push(format!(
            "{dropped} words about accesses were dropped when the trace was recorded"
        ));
    }
    if cut_threads > 0 {
        notes.push(format!("the last accesses of {cut_threads} threads are missing in the trace"));
    }
    if invalid_chunks > 0 {
        notes.push(format!("{invalid_chunks} chunks of the trace could not be read to their end"));
    }
    notes.extend(ending.unrecorded.missing());
    notes.extend(ending.missing_of_region());
    if is_cut {
        notes.push("the trace is cut: what follows is missing".into());
    }
    notes
}
