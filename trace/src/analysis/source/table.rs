//! Reads tables of traces, as `hmtt convert` writes them.

use std::fs::File;
use std::io::BufReader;
#[cfg(feature = "access-traces")]
use std::io::{Read, Seek};

use hmtt_format::{Direction, Event};

use super::kind::Kind;
use super::memories::Memories;
use super::{Batch, Ending, Gap, Known, PageRun, Part, SourceError, counted};
#[cfg(all(feature = "access-traces", feature = "parquet"))]
use crate::access_trace::table::parquet::{self, ParquetRows};
#[cfg(feature = "access-traces")]
use crate::access_trace::table::reader::{self, RowReader};
use crate::analysis::AddressSpace;
use crate::decode::Item;
use crate::identity::CardId;
use crate::table::csv::CsvReader;
use crate::table::hmtt6::{Hmtt6Reader, MmioHole};
use crate::table::jsonl::JsonlReader;
#[cfg(feature = "parquet")]
use crate::table::parquet::ParquetReader;
use crate::table::{Card, Entry, Reader, Row};

/// Number of bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Number of first bytes that show whether a table has the accesses of a program. A heading has
/// fewer bytes.
#[cfg(feature = "access-traces")]
const BEGIN_BYTES: u64 = 256;
/// Number of accesses that are passed on at once.
const BATCH: usize = 4096;

/// Accesses of one card that were not passed on yet.
#[derive(Default)]
struct Columns {
    clocks: Vec<u64>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
}

/// The state of passing a table on, with counts of its gaps, of missing accesses and of accesses
/// that are not passed on.
struct Table<'a> {
    memories: Memories<'a>,
    described: Vec<(CardId, Known)>,
    /// The accesses that were not passed on yet, by memory.
    columns: Vec<Columns>,
    gaps: u64,
    lost_accesses: u64,
    tags: u64,
    /// Accesses in rows of slices, which are not passed on.
    slice_accesses: u64,
}

fn known(card: Option<&Card>) -> Known {
    Known {
        address_space: AddressSpace::Physical,
        clocks: true,
        tck_ps: card.map(|card| card.tck_ps),
        unit_bytes: card.map(|card| card.unit_bytes).filter(|bytes| *bytes > 0),
        ..Known::default()
    }
}

/// A table's reader, and the cards that it describes.
type Opened = (Box<dyn Reader>, Vec<(CardId, Known)>);

fn open(kind: Kind, file: File) -> Result<Opened, SourceError> {
    let buffered = |file| BufReader::with_capacity(BUFFER_BYTES, file);
    let reader: Box<dyn Reader> = match kind {
        Kind::Csv => Box::new(CsvReader::new(buffered(file))?),
        Kind::Jsonl => Box::new(JsonlReader::new(buffered(file))),
        Kind::Hmtt6 => Box::new(Hmtt6Reader::new(buffered(file), MmioHole { base: 0 })),
        #[cfg(feature = "parquet")]
        Kind::Parquet => {
            let reader = ParquetReader::new(file)?;
            let cards = reader.cards().map(|(id, card)| (id, known(Some(card)))).collect();
            return Ok((Box::new(reader), cards));
        }
        _ => return Err(SourceError::NotBuilt(kind.feature())),
    };
    Ok((reader, Vec::new()))
}

impl Table<'_> {
    /// Passes on the accesses of a memory.
    fn flush(&mut self, memory: usize) {
        let Some(columns) = self.columns.get_mut(memory) else { return };
        let unit = self.memories.now(memory).unit_bytes;
        let batch = Batch::new(&columns.addresses, &columns.writes);
        self.memories.batch(memory, batch.with_clocks(&columns.clocks).with_unit(unit));
        columns.clocks.clear();
        columns.addresses.clear();
        columns.writes.clear();
    }

    fn row(&mut self, row: &Row) -> Result<(), SourceError> {
        let Table { memories, described, .. } = self;
        let memory = memories.of(row.card, || {
            let described = described.iter().find(|(card, _)| *card == row.card);
            described.map_or_else(|| known(None), |(_, known)| *known)
        })?;
        if self.columns.len() <= memory {
            self.columns.resize_with(memory + 1, Columns::default);
        }
        match &row.entry {
            Entry::Event(Event::Access(access)) => {
                let columns = &mut self.columns[memory];
                columns.clocks.push(access.clock.0);
                columns.addresses.push(access.address.0);
                columns.writes.push(access.direction == Direction::Write);
                if columns.addresses.len() == BATCH {
                    self.flush(memory);
                }
            }
            Entry::Gap(gap) if gap.is_loss() => {
                self.flush(memory);
                self.gaps += 1;
                let lost = gap.accesses.unwrap_or(0);
                self.lost_accesses = self.lost_accesses.saturating_add(lost);
                let [after_clock, before_clock] =
                    [gap.after, gap.before].map(|clock| clock.map(|clock| clock.0));
                let gap = Gap { lost_accesses: gap.accesses, after_clock, before_clock };
                self.memories.gap(memory, gap);
            }
            Entry::Restart => {
                self.flush(memory);
                self.memories.restart(memory);
            }
            Entry::Event(Event::Page { clock, address, reads, writes, duration }) => {
                self.flush(memory);
                let (clock, address) = (clock.0, address.0);
                let (reads, writes) = (u64::from(*reads), u64::from(*writes));
                let duration_clocks = u64::from(*duration);
                let run =
                    PageRun { clock, duration_clocks, address, reads, writes, burst_bytes: None };
                self.memories.page_run(memory, run);
            }
            // The table does not state whether other rows have the same accesses.
            Entry::Event(Event::Slice { reads, writes, .. }) => {
                let accesses = u64::from(*reads) + u64::from(*writes);
                self.slice_accesses = self.slice_accesses.saturating_add(accesses);
            }
            Entry::Event(event @ (Event::Tag { .. } | Event::Mark { .. })) => {
                self.tags += u64::from(matches!(event, Event::Tag { .. }));
                self.flush(memory);
                self.memories.item(memory, &Item::Event(*event));
            }
            Entry::Event(
                Event::Fault { .. }
                | Event::Interval { .. }
                | Event::Count { .. }
                | Event::HotPage { .. },
            )
            | Entry::Gap(_)
            | Entry::DdrClock(_)
            | Entry::NoEnd => {}
        }
        Ok(())
    }

    fn rows(&mut self, reader: &mut dyn Reader) -> Result<(), SourceError> {
        while let Some(row) = reader.next_row()? {
            self.row(&row)?;
        }
        Ok(())
    }
}

/// Whether a table has the accesses of a program. Rewinds the file.
#[cfg(feature = "access-traces")]
fn is_of_program(file: &mut File) -> std::io::Result<bool> {
    let mut begin = Vec::new();
    file.by_ref().take(BEGIN_BYTES).read_to_end(&mut begin)?;
    file.rewind()?;
    Ok(reader::is_of_program(&begin))
}

/// Reads a table of a capture or of a program. `with_functions`: whether a program's accesses get
/// their functions.
pub fn read(
    kind: Kind,
    mut file: File,
    with_functions: bool,
    add: &mut dyn FnMut(usize, Part<'_>),
) -> Result<Ending, SourceError> {
    #[cfg(not(feature = "access-traces"))]
    let _ = (with_functions, &mut file);
    #[cfg(feature = "access-traces")]
    if matches!(kind, Kind::Csv | Kind::Jsonl) && is_of_program(&mut file)? {
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        return super::program_table::read(&mut RowReader::new(input), with_functions, add);
    }
    #[cfg(all(feature = "access-traces", feature = "parquet"))]
    if kind == Kind::Parquet && parquet::is_of_program(&file)? {
        return super::program_table::read(&mut ParquetRows::new(file)?, with_functions, add);
    }
    let (mut reader, described) = open(kind, file)?;
    let memories = Memories::new(add);
    let columns = Vec::new();
    let (gaps, lost_accesses, tags, slice_accesses) = (0, 0, 0, 0);
    let mut table =
        Table { memories, described, columns, gaps, lost_accesses, tags, slice_accesses };
    let failure = table.rows(&mut *reader).err();
    (0..table.columns.len()).for_each(|memory| table.flush(memory));
    let Table { memories, gaps, lost_accesses, tags, slice_accesses, .. } = table;
    let mut ending = memories.finish();
    ending.coarse.unread_accesses = slice_accesses;
    if gaps > 0 {
        let accesses = counted(lost_accesses, "access is", "accesses are");
        ending.missing.push(format!("{accesses} missing in {}", counted(gaps, "gap", "gaps")));
    }
    if tags > 0 {
        ending.notes.push(counted(
            tags,
            "access is to the tag window, and left out",
            "accesses are to the tag window, and left out",
        ));
    }
    Ok(Ending { failure, ..ending })
}
