//! Lists the field types of the structures in Parquet footers and page headers.
//!
//! Source: `parquet.thrift` of the Parquet format 2.11, as far as the library reads it. The library
//! reads a field that it knows as the type that is listed here, whatever type the file states. It
//! skips all other fields by the type that the file states.

/// Type of a field. Enumerations are [`Kind::I32`], text is [`Kind::Binary`], and a union is a
/// structure.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    /// [`Kind::Binary`]: the name of a column or group.
    Name,
    /// [`Kind::I32`]: number of columns and groups in a group; 0 for a column.
    Children,
    Struct(&'static Fields),
    List(&'static Kind),
}

/// The known fields of a structure, by number.
pub(super) type Fields = [(i16, Kind)];

/// The fields of a footer (`FileMetaData`).
pub(super) const FILE_METADATA: &Fields = &[
    (1, Kind::I32),
    (2, Kind::List(&Kind::Struct(SCHEMA_ELEMENT))),
    (3, Kind::I64),
    (4, Kind::List(&Kind::Struct(ROW_GROUP))),
    (5, KEY_VALUES),
    (6, Kind::Binary),
    (7, Kind::List(&Kind::Struct(COLUMN_ORDER))),
    (9, Kind::Binary),
];

/// The fields of a page header (`PageHeader`).
pub(super) const PAGE_HEADER: &Fields = &[
    (1, Kind::I32),
    (2, Kind::I32),
    (3, Kind::I32),
    (4, Kind::I32),
    (5, Kind::Struct(DATA_PAGE_HEADER)),
    (6, EMPTY),
    (7, Kind::Struct(&[(1, Kind::I32), (2, Kind::I32), (3, Kind::Bool)])),
    (8, Kind::Struct(DATA_PAGE_HEADER_V2)),
];

const EMPTY: Kind = Kind::Struct(&[]);
const KEY_VALUES: Kind = Kind::List(&Kind::Struct(&[(1, Kind::Binary), (2, Kind::Binary)]));
const COLUMN_ORDER: &Fields = &[(1, EMPTY)];

const SCHEMA_ELEMENT: &Fields = &[
    (1, Kind::I32),
    (2, Kind::I32),
    (3, Kind::I32),
    (4, Kind::Name),
    (5, Kind::Children),
    (6, Kind::I32),
    (7, Kind::I32),
    (8, Kind::I32),
    (9, Kind::I32),
    (10, Kind::Struct(LOGICAL_TYPE)),
];

const LOGICAL_TYPE: &Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Kind::Struct(&[(1, Kind::I32), (2, Kind::I32)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Kind::Struct(&[(1, Kind::Byte), (2, Kind::Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Kind::Struct(&[(1, Kind::Byte)])),
    (17, Kind::Struct(&[(1, Kind::Binary)])),
    (18, Kind::Struct(&[(1, Kind::Binary), (2, Kind::I32)])),
];
const TIME: Kind = Kind::Struct(&[(1, Kind::Bool), (2, Kind::Struct(TIME_UNIT))]);
const TIME_UNIT: &Fields = &[(1, EMPTY), (2, EMPTY), (3, EMPTY)];

const ROW_GROUP: &Fields = &[
    (1, Kind::List(&Kind::Struct(COLUMN_CHUNK))),
    (2, Kind::I64),
    (3, Kind::I64),
    (4, Kind::List(&Kind::Struct(&[(1, Kind::I32), (2, Kind::Bool), (3, Kind::Bool)]))),
    (5, Kind::I64),
    (6, Kind::I64),
    (7, Kind::I16),
];

const COLUMN_CHUNK: &Fields = &[
    (1, Kind::Binary),
    (2, Kind::I64),
    (3, Kind::Struct(COLUMN_METADATA)),
    (4, Kind::I64),
    (5, Kind::I32),
    (6, Kind::I64),
    (7, Kind::I32),
    (9, Kind::Binary),
];

const COLUMN_METADATA: &Fields = &[
    (1, Kind::I32),
    (2, Kind::List(&Kind::I32)),
    (3, Kind::List(&Kind::Binary)),
    (4, Kind::I32),
    (5, Kind::I64),
    (6, Kind::I64),
    (7, Kind::I64),
    (8, KEY_VALUES),
    (9, Kind::I64),
    (10, Kind::I64),
    (11, Kind::I64),
    (12, Kind::Struct(STATISTICS)),
    (13, Kind::List(&Kind::Struct(&[(1, Kind::I32), (2, Kind::I32), (3, Kind::I32)]))),
    (14, Kind::I64),
    (15, Kind::I32),
    (16, Kind::Struct(&[(1, Kind::I64), (2, HISTOGRAM), (3, HISTOGRAM)])),
    (17, Kind::Struct(&[(1, Kind::Struct(BOUNDING_BOX)), (2, Kind::List(&Kind::I32))])),
];
const HISTOGRAM: Kind = Kind::List(&Kind::I64);

const STATISTICS: &Fields = &[
    (1, Kind::Binary),
    (2, Kind::Binary),
    (3, Kind::I64),
    (4, Kind::I64),
    (5, Kind::Binary),
    (6, Kind::Binary),
    (7, Kind::Bool),
    (8, Kind::Bool),
];

const BOUNDING_BOX: &Fields = &[
    (1, Kind::Double),
    (2, Kind::Double),
    (3, Kind::Double),
    (4, Kind::Double),
    (5, Kind::Double),
    (6, Kind::Double),
    (7, Kind::Double),
    (8, Kind::Double),
];

const DATA_PAGE_HEADER: &Fields = &[
    (1, Kind::I32),
    (2, Kind::I32),
    (3, Kind::I32),
    (4, Kind::I32),
    (5, Kind::Struct(STATISTICS)),
];

const DATA_PAGE_HEADER_V2: &Fields = &[
    (1, Kind::I32),
    (2, Kind::I32),
    (3, Kind::I32),
    (4, Kind::I32),
    (5, Kind::I32),
    (6, Kind::I32),
    (7, Kind::Bool),
    (8, Kind::Struct(STATISTICS)),
];
