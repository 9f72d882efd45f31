//! Tests tables that other writers compressed: every codec is read, and a page that expands beyond
//! its stated size is rejected.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hmtt::table::parquet::ParquetReader;
use hmtt::table::{Reader, TableError};
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{BoolType, DataType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::scratch;

const ROWS: i64 = 20_000;

/// Writes a table of accesses to ascending lines.
fn table(name: &str, compression: Compression, version: WriterVersion) -> PathBuf {
    let path = scratch(name);
    let schema =
        "message t { required int64 clock; required boolean is_write; required int64 address; }";
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_writer_version(version)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let schema = parse_message_type(schema).unwrap().into();
    let file = File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let clocks: Vec<i64> = (0..ROWS).collect();
    let addresses: Vec<i64> = clocks.iter().map(|clock| 64 * clock).collect();
    column::<Int64Type>(&mut group, &clocks);
    column::<BoolType>(&mut group, &clocks.iter().map(|clock| clock % 3 == 0).collect::<Vec<_>>());
    column::<Int64Type>(&mut group, &addresses);
    group.close().unwrap();
    writer.close().unwrap();
    path
}

fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: &[T::T]) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, None, None).unwrap();
    column.close().unwrap();
}

/// Returns the number of accesses and the sum of their addresses.
fn sums(path: &Path) -> Result<(i64, u64), TableError> {
    let mut reader = ParquetReader::new(File::open(path).unwrap())?;
    let (mut rows, mut addresses) = (0, 0);
    while let Some(row) = reader.next_row()? {
        rows += 1;
        addresses += row.entry.access().unwrap().address.0;
    }
    Ok((rows, addresses))
}

#[test]
fn tables_of_every_codec_are_read() {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let path = table("codec.parquet", codec, version);
            let expected = (ROWS, 64 * (ROWS * (ROWS - 1) / 2) as u64);
            assert_eq!(sums(&path).unwrap(), expected, "{codec:?}, {version:?}");
        }
    }
}

#[test]
fn a_page_that_expands_beyond_its_stated_size_is_rejected() {
    for codec in
        [Compression::GZIP(GzipLevel::default()), Compression::BROTLI(BrotliLevel::default())]
    {
        let path = table("expanding.parquet", codec, WriterVersion::PARQUET_1_0);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let reader = SerializedFileReader::new(file.try_clone().unwrap()).unwrap();
        let header = reader.metadata().row_group(0).column(0).data_page_offset() as u64;
        // A header begins with the field 1, the type of the page, and the field 2, its size:
        // zigzag, in groups of 7 bits.
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, header).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[2]), (0x15, 0, 0x15), "{bytes:x?}");
        assert!(bytes[3] & 0x80 != 0 && bytes[4] & 0x80 != 0 && bytes[5] & 0x80 == 0);
        // 16,384 as zigzag, in as many bytes: 8,192 bytes of the 160,000 that the page has.
        file.write_all_at(&[0x80, 0x80, 1], header + 3).unwrap();
        let error = sums(&path).unwrap_err().to_string();
        assert!(
            error.contains("becomes longer than the 8192 bytes that its header states"),
            "{codec:?}: {error}"
        );
    }
}
