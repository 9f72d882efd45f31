//! Defines the tables of a data set and their columns. `docs/dataset.md` lists the same columns
//! with their meanings.
//!
//! Addresses, clocks and counts are signed numbers, because Spark reads unsigned 64-bit numbers as
//! decimals, which are slow.

use std::sync::{Arc, LazyLock};

use parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};

/// A table. The name of the table is the value of the partition column `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Accesses, one row each.
    Accesses,
    /// Runs of consecutive accesses to one page, in page mode.
    Pages,
    /// Numbers of reads and writes in slices of time.
    Slices,
    /// Losses, with their counts and their places in the trace.
    Gaps,
    /// Tags and marks that software has made.
    Tags,
    /// Everything else that a card reports: faults, results of its analysis, restarts, and changes
    /// of the DDR clock.
    Events,
    /// Calls of functions in a log of tags.
    Calls,
    /// Sessions of a card in a capture: memory, settings, clocks, and the counts of the card and
    /// the decoder.
    Runs,
    /// Threads of a log of tags, with the numbers of events that were read and lost.
    Threads,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed 64-bit number.
    Number,
    /// A 64-bit floating-point number.
    Real,
    /// True or false.
    Flag,
    /// Text in UTF-8.
    Text,
    /// A time of UTC, in milliseconds since the Unix epoch.
    Time,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the column, as in `docs/glossary.md`.
    pub name: &'static str,
    /// Type of the column.
    pub kind: Kind,
    /// Whether each row has a value.
    pub is_required: bool,
    /// Whether parts have Bloom filters for the column.
    pub has_filter: bool,
}

const fn required(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_required: true, has_filter: false }
}

const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_required: false, has_filter: false }
}

const fn filtered(column: Column) -> Column {
    Column { has_filter: true, ..column }
}

use Kind::{Flag, Number, Real, Text, Time};

const CAPTURE: Column = required("capture", Text);
const SESSION: Column = required("session", Number);
const ARRIVAL: Column = required("arrival", Time);

const ACCESSES: &[Column] = &[
    CAPTURE,
    SESSION,
    required("clock", Number),
    ARRIVAL,
    required("is_write", Flag),
    required("address", Number),
    filtered(required("page", Number)),
];

const PAGES: &[Column] = &[
    CAPTURE,
    SESSION,
    required("clock", Number),
    ARRIVAL,
    required("address", Number),
    filtered(required("page", Number)),
    required("reads", Number),
    required("writes", Number),
    required("duration_clocks", Number),
];

const SLICES: &[Column] = &[
    CAPTURE,
    SESSION,
    required("clock", Number),
    ARRIVAL,
    optional("duration_clocks", Number),
    required("reads", Number),
    required("writes", Number),
    required("partial", Flag),
    required("in_other_rows", Flag),
];

const GAPS: &[Column] = &[
    CAPTURE,
    SESSION,
    ARRIVAL,
    optional("after_clock", Number),
    optional("before_clock", Number),
    optional("after_arrival", Time),
    optional("before_arrival", Time),
    required("is_loss", Flag),
    optional("lost_accesses", Number),
    required("missing_frames", Number),
    optional("first_counter", Number),
    required("card_lost_records", Number),
    required("malformed_frames", Number),
];

const TAGS: &[Column] = &[
    CAPTURE,
    SESSION,
    required("clock", Number),
    ARRIVAL,
    optional("is_write", Flag),
    optional("offset", Number),
    optional("address", Number),
    filtered(optional("page", Number)),
    optional("register", Number),
];

const EVENTS: &[Column] = &[
    CAPTURE,
    SESSION,
    optional("clock", Number),
    ARRIVAL,
    filtered(required("event", Text)),
    required("detail", Text),
];

const RUNS: &[Column] = &[
    filtered(CAPTURE),
    SESSION,
    required("file", Text),
    required("card", Number),
    optional("interface", Text),
    optional("first_clock", Number),
    optional("last_clock", Number),
    required("first_arrival", Time),
    required("last_arrival", Time),
    optional("tck_ps", Number),
    optional("unit_bytes", Number),
    optional("format_version", Number),
    optional("memory", Text),
    optional("settings", Text),
    optional("zero_time_ns", Number),
    optional("clock_ns", Real),
    optional("error_ns", Real),
    required("access_rows", Number),
    required("page_rows", Number),
    required("slice_rows", Number),
    required("gap_rows", Number),
    required("tag_rows", Number),
    required("event_rows", Number),
    required("accesses", Number),
    required("lost_accesses", Number),
    required("accesses_before_start", Number),
    required("card_lost_records", Number),
    required("missing_frames", Number),
    required("malformed_frames", Number),
    required("gap_count", Number),
    required("complete_tail", Flag),
    required("is_cut", Flag),
];

const CALLS: &[Column] = &[
    CAPTURE,
    SESSION,
    required("end_time", Time),
    required("thread", Number),
    required("function_number", Number),
    filtered(required("function", Text)),
    optional("caller", Text),
    required("depth", Number),
    optional("start_time_ns", Number),
    optional("end_time_ns", Number),
    optional("inclusive_ns", Number),
    optional("self_ns", Number),
    required("exit", Text),
];

const THREADS: &[Column] = &[
    filtered(CAPTURE),
    SESSION,
    required("start_time", Time),
    required("file", Text),
    required("program", Text),
    required("pid", Number),
    required("thread", Number),
    optional("name", Text),
    required("timed", Flag),
    optional("tsc_hz", Number),
    required("events", Number),
    required("call_rows", Number),
    required("returned", Number),
    required("abandoned", Number),
    required("ended", Number),
    required("open", Number),
    required("buffer_full", Number),
    required("interrupted", Number),
    required("damaged", Number),
    required("other", Number),
    required("unmatched_exits", Number),
    required("shared_exits", Number),
    optional("ending", Text),
    required("is_cut", Flag),
];

/// The encoding of each column that has many different values: the one with the smallest files. The
/// other columns have dictionaries. Whole addresses would take twice the time to compress.
pub const ENCODINGS: [(&str, Encoding); 10] = [
    ("clock", Encoding::DELTA_BINARY_PACKED),
    ("arrival", Encoding::DELTA_BINARY_PACKED),
    ("is_write", Encoding::PLAIN),
    ("address", Encoding::BYTE_STREAM_SPLIT),
    ("page", Encoding::BYTE_STREAM_SPLIT),
    ("end_time", Encoding::DELTA_BINARY_PACKED),
    ("start_time_ns", Encoding::DELTA_BINARY_PACKED),
    ("end_time_ns", Encoding::DELTA_BINARY_PACKED),
    ("inclusive_ns", Encoding::DELTA_BINARY_PACKED),
    ("self_ns", Encoding::DELTA_BINARY_PACKED),
];

/// Schemas of the tables, in the order of [`Table::ALL`].
static SCHEMAS: LazyLock<Vec<SchemaDescPtr>> =
    LazyLock::new(|| Table::ALL.into_iter().map(schema).collect());

impl Table {
    /// All tables. The parts of a capture are published in this order, so tables that describe
    /// other tables come last.
    pub const ALL: [Table; 9] = [
        Table::Accesses,
        Table::Pages,
        Table::Slices,
        Table::Gaps,
        Table::Tags,
        Table::Events,
        Table::Calls,
        Table::Runs,
        Table::Threads,
    ];

    /// Name of the table.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Accesses => "accesses",
            Table::Pages => "pages",
            Table::Slices => "slices",
            Table::Gaps => "gaps",
            Table::Tags => "tags",
            Table::Events => "events",
            Table::Calls => "calls",
            Table::Runs => "runs",
            Table::Threads => "threads",
        }
    }

    /// The table with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Columns of the table, in their order in the files.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Table::Accesses => ACCESSES,
            Table::Pages => PAGES,
            Table::Slices => SLICES,
            Table::Gaps => GAPS,
            Table::Tags => TAGS,
            Table::Events => EVENTS,
            Table::Calls => CALLS,
            Table::Runs => RUNS,
            Table::Threads => THREADS,
        }
    }

    /// Name of the time column that determines the hour of a row's partition.
    pub const fn time(self) -> &'static str {
        match self {
            Table::Calls => "end_time",
            Table::Runs => "first_arrival",
            Table::Threads => "start_time",
            _ => "arrival",
        }
    }

    /// Whether the table has rows of captures. Otherwise it has rows of logs of tags.
    pub const fn is_of_captures(self) -> bool {
        !matches!(self, Table::Calls | Table::Threads)
    }

    /// Whether the table describes sessions. Each session of the other tables has one row in one
    /// such table.
    pub const fn is_of_sessions(self) -> bool {
        matches!(self, Table::Runs | Table::Threads)
    }

    /// The table's schema.
    pub(crate) fn schema(self) -> &'static SchemaDescPtr {
        &SCHEMAS[self as usize]
    }

    /// Index of a column.
    pub(crate) fn index(self, name: &str) -> Option<usize> {
        self.columns().iter().position(|column| column.name == name)
    }
}

impl Kind {
    /// Type of the column's values in Parquet.
    pub(crate) fn physical(self) -> Physical {
        match self {
            Number | Time => Physical::INT64,
            Real => Physical::DOUBLE,
            Flag => Physical::BOOLEAN,
            Text => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Number | Real | Flag => None,
            Text => Some(LogicalType::String),
            Time => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
        }
    }
}

/// Builds the schema of a table.
fn schema(table: Table) -> SchemaDescPtr {
    let field = |column: &Column| {
        let repetition =
            if column.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        Type::primitive_type_builder(column.name, column.kind.physical())
            .with_repetition(repetition)
            .with_logical_type(column.kind.logical())
            .build()
            .map(Arc::new)
    };
    let fields: Result<Vec<_>, _> = table.columns().iter().map(field).collect();
    let group = fields
        .and_then(|fields| Type::group_type_builder(table.name()).with_fields(fields).build());
    Arc::new(SchemaDescriptor::new(Arc::new(group.expect("the columns are a schema"))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tables_are_found_by_name_and_have_schemas() {
        for table in Table::ALL {
            assert_eq!(Table::from_name(table.name()), Some(table));
            let names: BTreeSet<&str> = table.columns().iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.columns().len(), "no name twice");
            assert_eq!(table.schema().num_columns(), table.columns().len());
            // Partition columns are not in the files.
            assert!(["kind", "run", "board", "hour"].iter().all(|name| !names.contains(name)));
        }
    }
}
