//! Packs columns that have a value in every row directly into the pages of their chunk.
//!
//! The library checks for each row whether it has a value, and compares the value with the least and the
//! greatest so far. Where every row has a value, a page is one run of levels and one packed block, which takes
//! a fraction of the time. Layout: Apache Parquet's data pages, version 2 (levels uncompressed, values
//! compressed if that makes them smaller). Invariant: bounds and offsets of pages are written in the same form
//! as by the library.

use std::io::Write;
use std::ops::Range;

use ::parquet::basic::{BoundaryOrder, Compression, Encoding, ZstdLevel};
use ::parquet::column::page::{CompressedPage, Page, PageWriter};
use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::errors::Result;
use ::parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use bytes::Bytes;

use super::{COLUMNS, Column, PAGE_ROWS, SCHEMA, pack};

/// Compression level of a row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// As fast as level 1, and 4 % smaller on recorded traces; level 3 and above take at least 1.5 times as long.
    Quick = 2,
    /// A quarter smaller. At 2 MB/s too slow for a long trace; a quarter of a second for a short one.
    Hard = 19,
}

/// Most rows of a short trace.
const SHORT_ROWS: usize = 1 << 16;
/// Definition level of a present value in an optional column: 1 bit, stored in one byte for a run.
const PRESENT: u8 = 1;

/// A writer of chunks of such columns; it uses its memory again for each chunk.
pub(super) struct Pages {
    compressor: zstd::bulk::Compressor<'static>,
    effort: Effort,
    /// Number of row groups started.
    groups: u64,
    values: Vec<u8>,
    compressed: Vec<u8>,
    chunk: Vec<u8>,
}

/// Least and greatest value of a page, compared as unsigned numbers.
type Bounds = (u64, u64);

impl Pages {
    /// Creates a writer.
    pub fn new() -> Result<Self> {
        let effort = Effort::Quick;
        let compressor = zstd::bulk::Compressor::new(effort as i32)?;
        let [values, compressed, chunk] = [const { Vec::new() }; 3];
        Ok(Pages { compressor, effort, groups: 0, values, compressed, chunk })
    }

    /// Starts a group of `rows` rows. If the first group is short, it is the whole of a short trace.
    pub fn group(&mut self, rows: usize) -> Result<()> {
        let is_short = self.groups == 0 && rows <= SHORT_ROWS;
        self.effort = if is_short { Effort::Hard } else { Effort::Quick };
        self.groups += 1;
        Ok(self.compressor.set_compression_level(self.effort as i32)?)
    }

    /// Adds the column `clock`; the values ascend and are not negative.
    pub fn clocks<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        clocks: &[i64],
    ) -> Result<()> {
        let encoding = COLUMNS[Column::Clock as usize].4;
        self.append(group, (Column::Clock, encoding, clocks.len()), |rows, page| {
            let clocks = &clocks[rows];
            pack::differences(clocks, page);
            let bound = |clock: Option<&i64>| clock.map_or(0, |clock| *clock as u64);
            (bound(clocks.first()), bound(clocks.last()))
        })
    }

    /// Adds the column `is_write`.
    pub fn directions<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        writes: &[bool],
    ) -> Result<()> {
        let encoding = COLUMNS[Column::IsWrite as usize].4;
        self.append(group, (Column::IsWrite, encoding, writes.len()), |rows, page| {
            let writes = &writes[rows];
            pack::bits(writes, page);
            (u64::from(!writes.contains(&false)), u64::from(writes.contains(&true)))
        })
    }

    /// Adds the column `address`.
    pub fn addresses<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        addresses: &[i64],
    ) -> Result<()> {
        // Split bytes compress faster; whole addresses compress smaller at a high level.
        let encoding = match self.effort {
            Effort::Quick => COLUMNS[Column::Address as usize].4,
            Effort::Hard => Encoding::PLAIN,
        };
        self.append(group, (Column::Address, encoding, addresses.len()), |rows, page| {
            let addresses = &addresses[rows];
            let (mut least, mut greatest) = (u64::MAX, 0);
            for address in addresses {
                (least, greatest) = (least.min(*address as u64), greatest.max(*address as u64));
            }
            match encoding {
                Encoding::PLAIN => pack::plain(addresses, page),
                _ => pack::split_bytes(addresses, greatest, page),
            }
            (least, greatest)
        })
    }

    /// Adds a column. `pack`: packs a range of rows and returns their bounds.
    fn append<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        (column, encoding, rows): (Column, Encoding, usize),
        pack: impl Fn(Range<usize>, &mut Vec<u8>) -> Bounds,
    ) -> Result<()> {
        let mut bounds = ColumnIndexBuilder::new(COLUMNS[column as usize].1);
        bounds.set_boundary_order(match column {
            Column::Clock => BoundaryOrder::ASCENDING,
            _ => BoundaryOrder::UNORDERED,
        });
        let mut places = OffsetIndexBuilder::new();
        let mut bytes = TrackedWrite::new(std::mem::take(&mut self.chunk));
        let mut writer = SerializedPageWriter::new(&mut bytes);
        let (mut least, mut greatest) = (u64::MAX, 0);
        let (mut compressed, mut uncompressed) = (0, 0);
        for start in (0..rows).step_by(PAGE_ROWS) {
            let end = rows.min(start + PAGE_ROWS);
            self.values.clear();
            let (from, to) = pack(start..end, &mut self.values);
            (least, greatest) = (least.min(from), greatest.max(to));
            bounds.append(false, bound(column, from), bound(column, to), 0);
            let written = writer.write_page(self.page(column, end - start, encoding)?)?;
            places.append_row_count((end - start) as i64);
            places.append_offset_and_size(written.offset as i64, written.compressed_size as i32);
            compressed += written.compressed_size as i64;
            uncompressed += written.uncompressed_size as i64;
        }
        writer.close()?;
        let metadata = ColumnChunkMetaData::builder(SCHEMA.column(column as usize))
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(self.effort as i32)?))
            .set_encodings(vec![Encoding::RLE, encoding])
            .set_num_values(rows as i64)
            .set_total_compressed_size(compressed)
            .set_total_uncompressed_size(uncompressed)
            .set_data_page_offset(0)
            .set_statistics(statistics(column, least, greatest))
            .build()?;
        let result = ColumnCloseResult {
            bytes_written: compressed as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            // The bounds of a single page are those of the chunk's statistics.
            column_index: if rows > PAGE_ROWS { Some(bounds.build()?) } else { None },
            offset_index: Some(places.build()),
        };
        let bytes = Bytes::from(bytes.into_inner()?);
        group.append_column(&bytes, result)?;
        // This takes the same memory back, since no other reference to it exists.
        self.chunk = bytes.into();
        self.chunk.clear();
        Ok(())
    }

    /// Builds the page of the packed values.
    fn page(&mut self, column: Column, rows: usize, encoding: Encoding) -> Result<CompressedPage> {
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.values.len()));
        self.compressor.compress_to_buffer(&self.values, &mut self.compressed)?;
        let is_compressed = self.compressed.len() < self.values.len();
        let values = if is_compressed { &self.compressed } else { &self.values };
        let is_optional = !COLUMNS[column as usize].3;
        let levels = if is_optional { levels(rows) } else { Vec::new() };
        let data = Page::DataPageV2 {
            buf: [&levels[..], values].concat().into(),
            num_values: rows as u32,
            encoding,
            num_nulls: 0,
            num_rows: rows as u32,
            def_levels_byte_len: levels.len() as u32,
            rep_levels_byte_len: 0,
            is_compressed,
            statistics: None,
        };
        Ok(CompressedPage::new(data, levels.len() + self.values.len()))
    }
}

/// A bound of a page in the bytes that the file stores.
fn bound(column: Column, value: u64) -> Vec<u8> {
    match column {
        Column::IsWrite => vec![value as u8],
        _ => value.to_le_bytes().into(),
    }
}

fn statistics(column: Column, least: u64, greatest: u64) -> Statistics {
    match column {
        Column::IsWrite => {
            Statistics::boolean(Some(least != 0), Some(greatest != 0), None, Some(0), false)
        }
        _ => Statistics::int64(Some(least as i64), Some(greatest as i64), None, Some(0), false),
    }
}

/// Definition levels of a page in which all rows have a value: the length of the run, shifted left by one (a
/// lowest bit of 0 means a run, 1 packed levels), and the repeated level.
fn levels(rows: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack::varint((rows as u64) << 1, &mut bytes);
    bytes.push(PRESENT);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_levels_states_its_length_in_groups_of_seven_bits() {
        assert_eq!(levels(1), [2, 1]);
        assert_eq!(levels(64), [0x80, 1, 1]);
        assert_eq!(levels(PAGE_ROWS), [0x80, 0x80, 0x10, 1]);
    }
}
