//! Packs columns with a value in every row into pages, without the library's column writer.
//!
//! The library checks for each row whether it has a value, and compares the value with the least
//! and the greatest value so far. If every row has a value, a page is one run of levels and one
//! packed block, which takes a fraction of the time. Layout: Apache Parquet's data pages, of
//! version 1 (levels and values compressed together) or version 2 (levels uncompressed, values
//! compressed if that makes them smaller). Invariant: bounds and offsets of pages have the same
//! form as the library's.

use std::io::Write;
use std::ops::Range;

use ::parquet::basic::{
    BoundaryOrder, Compression, Encoding, SortOrder, Type as Physical, ZstdLevel,
};
use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::{CompressedPage, Page, PageWriter};
use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::errors::Result;
use ::parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;

use super::{Encodings, PAGE_ROWS, pack};

/// Definition level of a present value in an optional column. It has 1 bit, and takes one byte in a
/// run.
const PRESENT: u8 = 1;

/// A column with a value in every row, and the way in which its values are packed.
#[derive(Clone, Debug)]
pub struct PackedColumn {
    /// Name and type of the column. Numbers must be INT64. The annotation states whether they are
    /// unsigned.
    pub descriptor: ColumnDescPtr,
    /// Encoding of numbers: DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT or PLAIN. Booleans are PLAIN.
    pub encoding: Encoding,
    /// Whether the numbers of a chunk ascend, so that the first and the last number are their
    /// bounds.
    pub is_ascending: bool,
}

impl PackedColumn {
    /// Definition levels of a page of `rows` rows. Empty if the column is required.
    fn levels(&self, rows: usize) -> Vec<u8> {
        if self.descriptor.max_def_level() == 0 { Vec::new() } else { levels(rows) }
    }
}

/// A writer of chunks of packed columns. It reuses its memory for each chunk.
pub struct PackedChunks {
    compressor: zstd::bulk::Compressor<'static>,
    level: i32,
    /// Encodings of the file, which determine the version of pages.
    encodings: Encodings,
    /// The packed values of a page, before compression.
    values: Vec<u8>,
    /// The packed values of a page, after compression.
    compressed: Vec<u8>,
    /// The pages of the chunk that is being built.
    chunk: Vec<u8>,
}

/// Least and greatest value of a page. Booleans count as 0 and 1.
type Bounds = (i64, i64);

impl PackedChunks {
    /// Creates a writer that compresses with zstd at a level. `encodings`: the encodings of the
    /// file.
    ///
    /// # Errors
    /// zstd has no memory, or no such level.
    pub fn new(level: i32, encodings: Encodings) -> Result<Self> {
        let compressor = zstd::bulk::Compressor::new(level)?;
        let [values, compressed, chunk] = [const { Vec::new() }; 3];
        Ok(PackedChunks { compressor, level, encodings, values, compressed, chunk })
    }

    /// Sets the level of compression of the next chunks.
    ///
    /// # Errors
    /// zstd has no such level.
    pub fn set_level(&mut self, level: i32) -> Result<()> {
        self.level = level;
        Ok(self.compressor.set_compression_level(level)?)
    }

    /// Adds a column of numbers to a row group. `filter`: a Bloom filter of its values, if there is
    /// one.
    ///
    /// # Errors
    /// The group cannot be written.
    pub fn numbers<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: &PackedColumn,
        values: &[i64],
        filter: Option<Sbbf>,
    ) -> Result<()> {
        let is_unsigned = column.descriptor.sort_order() == SortOrder::UNSIGNED;
        self.append(group, column, (values.len(), filter), |rows, page| {
            let values = &values[rows];
            let bounds = bounds(values, column.is_ascending, is_unsigned);
            match column.encoding {
                Encoding::DELTA_BINARY_PACKED => pack::differences(values, page),
                Encoding::BYTE_STREAM_SPLIT => {
                    pack::split_bytes(values, (bounds.0 | bounds.1) as u64, page);
                }
                _ => pack::plain(values, page),
            }
            bounds
        })
    }

    /// Adds a column of booleans to a row group.
    ///
    /// # Errors
    /// The group cannot be written.
    pub fn booleans<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: &PackedColumn,
        values: &[bool],
    ) -> Result<()> {
        self.append(group, column, (values.len(), None), |rows, page| {
            let values = &values[rows];
            pack::bits(values, page);
            (i64::from(!values.contains(&false)), i64::from(values.contains(&true)))
        })
    }

    /// Adds a column to a row group. `pack`: packs a range of rows into a page, and returns their
    /// bounds.
    fn append<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: &PackedColumn,
        (rows, filter): (usize, Option<Sbbf>),
        pack: impl Fn(Range<usize>, &mut Vec<u8>) -> Bounds,
    ) -> Result<()> {
        let physical = column.descriptor.physical_type();
        let mut bounds = ColumnIndexBuilder::new(physical);
        bounds.set_boundary_order(if column.is_ascending {
            BoundaryOrder::ASCENDING
        } else {
            BoundaryOrder::UNORDERED
        });
        let mut places = OffsetIndexBuilder::new();
        let mut bytes = TrackedWrite::new(std::mem::take(&mut self.chunk));
        let mut writer = SerializedPageWriter::new(&mut bytes);
        let mut of_pages = Vec::new();
        let (mut compressed, mut uncompressed) = (0, 0);
        for start in (0..rows).step_by(PAGE_ROWS) {
            let end = rows.min(start + PAGE_ROWS);
            self.begin_page(column, end - start);
            let (from, to) = pack(start..end, &mut self.values);
            of_pages.extend([from, to]);
            bounds.append(false, bound(physical, from), bound(physical, to), 0);
            let written = writer.write_page(self.page(column, end - start)?)?;
            places.append_row_count((end - start) as i64);
            places.append_offset_and_size(written.offset as i64, written.compressed_size as i32);
            compressed += written.compressed_size as i64;
            uncompressed += written.uncompressed_size as i64;
        }
        writer.close()?;
        let is_unsigned = column.descriptor.sort_order() == SortOrder::UNSIGNED;
        let metadata = ColumnChunkMetaData::builder(column.descriptor.clone())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(self.level)?))
            .set_encodings(vec![Encoding::RLE, column.encoding])
            .set_num_values(rows as i64)
            .set_total_compressed_size(compressed)
            .set_total_uncompressed_size(uncompressed)
            .set_data_page_offset(0)
            .set_statistics(statistics(physical, self::bounds(&of_pages, false, is_unsigned)))
            .build()?;
        let result = ColumnCloseResult {
            bytes_written: compressed as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: filter,
            // For a single page, the chunk's statistics already state the bounds.
            column_index: if rows > PAGE_ROWS { Some(bounds.build()?) } else { None },
            offset_index: Some(places.build()),
        };
        let bytes = Bytes::from(bytes.into_inner()?);
        group.append_column(&bytes, result)?;
        // This takes the memory back without a copy, because no other reference to it exists.
        self.chunk = bytes.into();
        self.chunk.clear();
        Ok(())
    }

    /// Empties the page. In version 1, it begins with the length of the levels and the levels.
    fn begin_page(&mut self, column: &PackedColumn, rows: usize) {
        self.values.clear();
        let levels = column.levels(rows);
        if self.encodings == Encodings::Compatible && !levels.is_empty() {
            self.values.extend((levels.len() as u32).to_le_bytes());
            self.values.extend(levels);
        }
    }

    /// Compresses the packed values, and builds their page.
    fn page(&mut self, column: &PackedColumn, rows: usize) -> Result<CompressedPage> {
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.values.len()));
        self.compressor.compress_to_buffer(&self.values, &mut self.compressed)?;
        if self.encodings == Encodings::Compatible {
            let data = Page::DataPage {
                buf: self.compressed.clone().into(),
                num_values: rows as u32,
                encoding: column.encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            return Ok(CompressedPage::new(data, self.values.len()));
        }
        let is_compressed = self.compressed.len() < self.values.len();
        let values = if is_compressed { &self.compressed } else { &self.values };
        let levels = column.levels(rows);
        let data = Page::DataPageV2 {
            buf: [&levels[..], values].concat().into(),
            num_values: rows as u32,
            encoding: column.encoding,
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

/// The least and the greatest number of a page; 0 and 0 without numbers.
fn bounds(values: &[i64], is_ascending: bool, is_unsigned: bool) -> Bounds {
    let ends = (values.first().copied().unwrap_or(0), values.last().copied().unwrap_or(0));
    if is_ascending {
        return ends;
    }
    // With the highest bit inverted, signed numbers have the order of unsigned numbers.
    let sign = if is_unsigned { i64::MIN } else { 0 };
    let first = ends.0 ^ sign;
    let (least, greatest) = values.iter().fold((first, first), |(least, greatest), value| {
        (least.min(value ^ sign), greatest.max(value ^ sign))
    });
    (least ^ sign, greatest ^ sign)
}

/// A bound of a page, in bytes as the file stores it.
fn bound(physical: Physical, value: i64) -> Vec<u8> {
    match physical {
        Physical::BOOLEAN => vec![value as u8],
        _ => value.to_le_bytes().into(),
    }
}

fn statistics(physical: Physical, (least, greatest): Bounds) -> Statistics {
    match physical {
        Physical::BOOLEAN => {
            Statistics::boolean(Some(least != 0), Some(greatest != 0), None, Some(0), false)
        }
        _ => Statistics::int64(Some(least), Some(greatest), None, Some(0), false),
    }
}

/// Definition levels of a page in which all rows have a value: one run. A run is the number of
/// rows, shifted left by one bit, and the repeated level. The lowest bit of the number is 0 for a
/// run, and would be 1 for packed levels. For 3 rows, the levels are the bytes 6 and 1.
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
