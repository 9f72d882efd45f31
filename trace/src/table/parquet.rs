//! Writes and reads rows as a Parquet file.
//!
//! | column | type | rows |
//! |---|---|---|
//! | session | uint32 | all; a number for each session of each card |
//! | clock | int64 | all; DDR clocks, ascending within a session |
//! | kind | string | all |
//! | is_write | boolean | access, tag |
//! | address | uint64 | access, page, hot page; tag while the window's base is known |
//! | reads, writes | uint32 | page, slice |
//! | duration_clocks | uint64 | page, slice of known length; DDR clocks |
//! | start_clock | int64 | interval, slice, and any row whose own clock is before `clock` |
//! | detail | string | rows that the other columns do not represent: the object of [`super::jsonl`] |
//!
//! A row group has the rows of one session, in the order of the trace. The row of a slice comes at
//! the end of the slice, so its first clock, `start_clock`, is out of order. The column `clock` has
//! the latest clock so far; a row without a clock has the clock of the row before it. Invariant:
//! rows are in the order that `sorting_columns` states.

mod catch_panic;
pub mod column_chunk;
mod columns;
mod compact;
mod encoder;
mod encodings;
mod footer_check;
mod pack;
pub mod packed;
mod page_check;
mod page_expansion;
mod reader;
mod row_group;
mod thrift_schema;
mod values;
mod writer;

use std::sync::{Arc, LazyLock};

use ::parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use ::parquet::file::metadata::SortingColumn;
use ::parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use ::parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type};
use serde::{Deserialize, Serialize};

use super::Card;
use crate::identity::CardId;
pub use catch_panic::catch_panic;
pub use catch_panic::hide_caught_panics;
pub use encodings::Encodings;
pub use page_check::CheckedFile;
pub use reader::ParquetReader;
pub use values::{Values, open};
pub use writer::ParquetWriter;

/// Version of the columns and keys. The file states it.
const TABLE_VERSION: &str = "2";
const KEY_VERSION: &str = "hmtt.table_version";
const KEY_UNIT: &str = "hmtt.clock_unit";
const KEY_SESSIONS: &str = "hmtt.sessions";
/// Older version that is still read. Its tables differ only in the names of columns
/// ([`Column::old_name`]), in [`KEY_OLD_SESSIONS`], and in keys of details.
const OLD_VERSION: &str = "1";
const KEY_OLD_SESSIONS: &str = "hmtt.captures";
/// Maximum number of rows of a page. A reader that searches for a few rows decodes at least one
/// page.
const PAGE_ROWS: usize = 1 << 17;

/// The columns, in their order in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Session,
    Clock,
    Kind,
    IsWrite,
    Address,
    Reads,
    Writes,
    Duration,
    StartClock,
    Detail,
}

impl Column {
    /// The name of the column in tables of version 1, if it is different.
    fn old_name(self) -> Option<&'static str> {
        match self {
            Column::Session => Some("capture"),
            Column::Clock => Some("timestamp"),
            Column::Duration => Some("duration"),
            Column::StartClock => Some("start"),
            _ => None,
        }
    }
}

/// For each column: name, type, annotation, whether every row has a value, and the smallest
/// encoding. Only the column `kind` has a dictionary, because a file has few kinds. For other
/// columns, dictionaries cost more time than their smaller size saves.
const COLUMNS: [(&str, Physical, Option<Annotation>, bool, Encoding); 10] = [
    (
        "session",
        Physical::INT32,
        Some(Annotation::Unsigned(32)),
        true,
        Encoding::DELTA_BINARY_PACKED,
    ),
    ("clock", Physical::INT64, None, true, Encoding::DELTA_BINARY_PACKED),
    ("kind", Physical::BYTE_ARRAY, Some(Annotation::Text), true, Encoding::PLAIN),
    ("is_write", Physical::BOOLEAN, None, false, Encoding::PLAIN),
    (
        "address",
        Physical::INT64,
        Some(Annotation::Unsigned(64)),
        false,
        Encoding::BYTE_STREAM_SPLIT,
    ),
    (
        "reads",
        Physical::INT32,
        Some(Annotation::Unsigned(32)),
        false,
        Encoding::DELTA_BINARY_PACKED,
    ),
    (
        "writes",
        Physical::INT32,
        Some(Annotation::Unsigned(32)),
        false,
        Encoding::DELTA_BINARY_PACKED,
    ),
    (
        "duration_clocks",
        Physical::INT64,
        Some(Annotation::Unsigned(64)),
        false,
        Encoding::DELTA_BINARY_PACKED,
    ),
    ("start_clock", Physical::INT64, None, false, Encoding::DELTA_BINARY_PACKED),
    ("detail", Physical::BYTE_ARRAY, Some(Annotation::Text), false, Encoding::PLAIN),
];

/// The meaning of a column's type.
#[derive(Clone, Copy)]
enum Annotation {
    Unsigned(i8),
    Text,
}

/// Description of one number in the column `session`. The file's metadata contains a list of these
/// descriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    /// Number of the card, from 1, as `hmtt decode` and `hmtt info` print it.
    card: u64,
    /// Name of the card's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    /// Description of the card by its last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<Card>,
}

impl Session {
    /// The card of the session's rows. In a forged file, a number outside of the valid range
    /// becomes the nearest end of the range.
    fn card_id(&self) -> CardId {
        CardId::from_number(self.card.clamp(1, 1 << 32)).unwrap_or_default()
    }
}

static SCHEMA: LazyLock<SchemaDescPtr> = LazyLock::new(|| {
    let field = |(name, physical, annotation, required, _): &(
        &str,
        Physical,
        Option<Annotation>,
        bool,
        Encoding,
    )| {
        let repetition = if *required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let logical = annotation.as_ref().map(|annotation| match annotation {
            Annotation::Unsigned(bits) => LogicalType::Integer(::parquet::basic::IntType {
                bit_width: *bits,
                is_signed: false,
            }),
            Annotation::Text => LogicalType::String,
        });
        Type::primitive_type_builder(name, *physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields: Result<Vec<_>, _> = COLUMNS.iter().map(field).collect();
    let schema =
        fields.and_then(|fields| Type::group_type_builder("hmtt").with_fields(fields).build());
    Arc::new(SchemaDescriptor::new(Arc::new(schema.expect("the columns are a schema"))))
});

/// The library's settings for a file: encodings, compression, sizes of pages, and the order of
/// rows.
fn properties(encodings: Encodings) -> WriterPropertiesPtr {
    let ascending = |column: Column| SortingColumn {
        column_idx: column as i32,
        descending: false,
        nulls_first: false,
    };
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("hmtt version ", env!("CARGO_PKG_VERSION")).into())
        .set_writer_version(encodings.writer_version())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled(ColumnPath::from("kind"), true)
        .set_write_batch_size(PAGE_ROWS)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(1 << 24)
        .set_sorting_columns(Some(vec![ascending(Column::Session), ascending(Column::Clock)]));
    for (name, _, _, _, smallest) in COLUMNS {
        let encoding = encodings.of_column(smallest);
        builder = builder.set_column_encoding(ColumnPath::from(name), encoding);
    }
    Arc::new(builder.build())
}
