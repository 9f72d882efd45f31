//! Writes row groups of accesses.
//!
//! The columns are packed directly into Parquet pages, because each row has a value in each column.
//! The column `page` (pages of memory) gets a Bloom filter, so that a query for one page skips row
//! groups without it. A row group with too many different pages has no filter, because the filter
//! would contain nearly every page. Invariant: the clocks of a row group ascend.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use hmtt::table::parquet::Encodings;
use hmtt::table::parquet::column_chunk::ConstantChunk;
use hmtt::table::parquet::packed::{PackedChunks, PackedColumn};
use parquet::basic::Encoding;
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;

use crate::schema::{ENCODINGS, Table};

/// log2 of the bytes of a page of memory.
pub const PAGE_LOG2: u32 = hmtt_format::memory::PAGE_LOG2 as u32;
/// Level of zstd: as fast as level 1, and the files are smaller. Level 3 would take longer than
/// decoding.
const ZSTD_LEVEL: i32 = 2;
/// Maximum size of a row group's filter, in bytes: 4 % of the size of the row group.
const MAX_FILTER_BYTES: usize = 1 << 17;
/// Share of absent pages that a filter may report as present.
const FALSE_SHARE: f64 = 0.01;
/// Number of absent pages that a full filter is tested with.
const PROBES: i64 = 1000;
/// Maximum number of these pages that a filter may report as present. A filter that reports more
/// excludes hardly any page, and is dropped.
const MAX_FALSE_PROBES: usize = 100;
/// log2 of the entries in the table of pages that were recently added to a filter.
const RECENT_LOG2: u32 = 15;
/// Maximum number of additions to a filter; a filter with more is dropped. Half as many different
/// pages already fill a filter. The rest allows for repeated additions of pages that share an entry
/// of the table.
const MAX_ADDITIONS: usize = 400_000;

/// Accesses of one card in one session and one hour. All columns have the same length.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Hash of the capture, as text.
    pub capture: &'a str,
    /// Number of the session in its capture.
    pub session: i64,
    /// Clocks; ascending.
    pub clocks: &'a [i64],
    /// Times of arrival in milliseconds since the Unix epoch.
    pub arrivals: &'a [i64],
    /// Physical addresses: all 64 bits, as signed numbers.
    pub addresses: &'a [i64],
    /// Whether each access is a write.
    pub writes: &'a [bool],
}

/// Writes row groups of accesses. The writer keeps its memory for the next group, whatever the file
/// of that group.
pub struct AccessWriter {
    properties: WriterPropertiesPtr,
    chunks: PackedChunks,
    captures: ConstantChunk<String>,
    sessions: ConstantChunk<i64>,
    columns: HashMap<&'static str, PackedColumn>,
    pages: Vec<i64>,
    recent: Vec<i64>,
}

impl AccessWriter {
    /// Creates a writer. `properties`: properties of the files, made with the same `encodings`.
    ///
    /// # Errors
    /// zstd cannot allocate its memory.
    pub fn new(properties: WriterPropertiesPtr, encodings: Encodings) -> Result<Self> {
        let schema = Table::Accesses.schema();
        let column = |(name, smallest): (&'static str, Encoding)| {
            let encoding = encodings.of_column(smallest);
            let descriptor = schema.column(Table::Accesses.index(name).unwrap_or_default());
            (name, PackedColumn { descriptor, encoding, is_ascending: name == "clock" })
        };
        Ok(AccessWriter {
            properties,
            chunks: PackedChunks::new(ZSTD_LEVEL, encodings)?,
            captures: ConstantChunk::new(schema.column(0)),
            sessions: ConstantChunk::new(schema.column(1)),
            columns: ENCODINGS.into_iter().map(column).collect(),
            pages: Vec::new(),
            recent: Vec::new(),
        })
    }

    /// Adds a row group to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        group: &Group<'_>,
    ) -> Result<()> {
        let rows = group.clocks.len();
        self.pages.clear();
        self.pages.extend(group.addresses.iter().map(|address| address >> PAGE_LOG2));
        let filter = filter(&self.pages, &mut self.recent);
        let mut output = file.next_row_group()?;
        let (properties, capture) = (&self.properties, group.capture.to_owned());
        let text = ByteArray::from(group.capture);
        self.captures.append(&mut output, properties, (capture, rows), |column| {
            constant::<ByteArrayType>(column, text, rows)
        })?;
        self.sessions.append(&mut output, properties, (group.session, rows), |column| {
            constant::<Int64Type>(column, group.session, rows)
        })?;
        let AccessWriter { chunks, columns, pages, .. } = self;
        let column = |name: &str| {
            columns.get(name).ok_or_else(|| ParquetError::General("no such column".into()))
        };
        chunks.numbers(&mut output, column("clock")?, group.clocks, None)?;
        chunks.numbers(&mut output, column("arrival")?, group.arrivals, None)?;
        chunks.booleans(&mut output, column("is_write")?, group.writes)?;
        chunks.numbers(&mut output, column("address")?, group.addresses, None)?;
        chunks.numbers(&mut output, column("page")?, pages, filter)?;
        output.close().map(drop)
    }
}

fn constant<T: DataType>(column: &mut ColumnWriter<'_>, value: T::T, rows: usize) -> Result<()>
where
    T::T: Clone,
{
    let typed = T::get_column_writer_mut(column);
    let typed = typed.ok_or_else(|| ParquetError::General("a column of another type".into()))?;
    typed.write_batch(&vec![value; rows], None, None).map(drop)
}

/// Makes the Bloom filter of a row group's pages; `None` if it would exclude hardly any page.
/// `recent`: memory for the table of recent pages, which is reused.
fn filter(pages: &[i64], recent: &mut Vec<i64>) -> Option<Sbbf> {
    recent.clear();
    recent.resize(1 << RECENT_LOG2, -1);
    let mut filter = Sbbf::new_with_num_of_bytes(MAX_FILTER_BYTES);
    let mut additions = 0;
    for page in pages {
        // Most accesses are to a page that was added recently. The table is indexed by the highest
        // bits of the product, which depend on all bits of the page.
        let place = (*page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_LOG2);
        let added = &mut recent[place as usize];
        if *added != *page {
            *added = *page;
            filter.insert(page);
            additions += 1;
            if additions > MAX_ADDITIONS {
                return None;
            }
        }
    }
    // The numbers are negative, and no address has a negative page.
    let stated = (1..=PROBES).filter(|number| filter.check(&-number)).count();
    if stated > MAX_FALSE_PROBES {
        return None;
    }
    filter.fold_to_target_fpp(FALSE_SHARE);
    Some(filter)
}

/// A time of arrival as the columns store it, in milliseconds since the Unix epoch.
pub fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_every_page_and_few_others() {
        let mut recent = Vec::new();
        let pages: Vec<i64> = (0..1 << 20).map(|at| (at * at + 7 * at) % 5000 * 3).collect();
        let filter = filter(&pages, &mut recent).unwrap();
        assert!(pages.iter().all(|page| filter.check(page)));
        let false_ones = (0..15_000).filter(|page| page % 3 != 0 && filter.check(page)).count();
        assert!(false_ones < 300, "{false_ones} of 10,000");
        assert!(filter.num_blocks() * 32 <= 1 << 14, "{} blocks", filter.num_blocks());
    }

    #[test]
    fn groups_of_all_pages_have_no_filter() {
        let pages: Vec<i64> = (0..1 << 20).collect();
        assert!(filter(&pages, &mut Vec::new()).is_none());
    }
}
