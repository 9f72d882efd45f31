//! Reads rows from a Parquet file, in batches.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::Ordering;

use ::parquet::basic::Type as Physical;
use ::parquet::column::reader::{ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescPtr;
use hmtt_format::event::SliceLength;
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr, escape};

use super::catch_panic::catch_panic;
use super::footer_check::check_footer;
use super::page_check::CheckedFile;
use super::{
    COLUMNS, Column, KEY_OLD_SESSIONS, KEY_SESSIONS, KEY_VERSION, OLD_VERSION, Session,
    TABLE_VERSION,
};
use crate::identity::CardId;
use crate::table::json_object::{Object, parse_object};
use crate::table::{Card, Entry, Reader, Row, TableError};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 1 << 14;

/// Longest detail accepted, in bytes. A dictionary holds a long text once, but every row can refer to it.
const MAX_DETAIL_BYTES: usize = 4096;

/// A reader of Parquet files that [`super::ParquetWriter`] wrote, or that have the same columns in any order.
pub struct ParquetReader {
    file: SerializedFileReader<CheckedFile>,
    sessions: Vec<Session>,
    /// Names of interfaces, by the number of the card.
    interfaces: HashMap<CardId, String>,
    next_group: usize,
    group: Option<Columns>,
    row: u64,
}

impl ParquetReader {
    /// Opens a table: reads the file's metadata.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, is no Parquet file, or is a table of another version.
    pub fn new(file: File) -> Result<Self, TableError> {
        let length = file.metadata()?.len();
        check_footer(&file, length)?;
        let (file, has_metadata) = CheckedFile::new(file);
        let file = catch_panic(|| SerializedFileReader::new(file))?;
        has_metadata.store(true, Ordering::Relaxed);
        file.metadata().row_groups().iter().try_for_each(|group| check_places(group, length))?;
        let metadata = file.metadata().file_metadata();
        let stated = |key: &str| {
            let pair = metadata.key_value_metadata()?.iter().find(|pair| pair.key == key);
            pair?.value.as_deref()
        };
        // Files of other programs state no version.
        let version = stated(KEY_VERSION);
        if let Some(version) = version.filter(|one| ![TABLE_VERSION, OLD_VERSION].contains(one)) {
            let version = escape::name(version);
            return Err(TableError::Schema(format!(
                "a table of version {version}; the newest that can be read is {TABLE_VERSION}"
            )));
        }
        let sessions: Vec<Session> = stated(KEY_SESSIONS)
            .or_else(|| stated(KEY_OLD_SESSIONS))
            .and_then(|sessions| serde_json::from_str(sessions).ok())
            .unwrap_or_default();
        // Of several sessions of a card the first one counts.
        let named = sessions
            .iter()
            .rev()
            .filter_map(|session| Some((session.card_id(), session.interface.clone()?)));
        let interfaces = named.collect();
        Ok(ParquetReader { file, sessions, interfaces, next_group: 0, group: None, row: 0 })
    }

    /// The description of each card by its last report, with that card.
    pub fn cards(&self) -> impl Iterator<Item = (CardId, &Card)> {
        self.sessions
            .iter()
            .filter_map(|session| Some((session.card_id(), session.report.as_ref()?)))
    }
}

impl Reader for ParquetReader {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        loop {
            if let Some(group) = &mut self.group {
                let at = self.row;
                if group.advance()? {
                    self.row += 1;
                    let (session, entry) =
                        group.row().map_err(|problem| TableError::Row { row: at, problem })?;
                    let session = session as usize;
                    let card = self.sessions.get(session).map_or(CardId(session), Session::card_id);
                    return Ok(Some(Row { card, entry }));
                }
                self.group = None;
            }
            if self.next_group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = catch_panic(|| self.file.get_row_group(self.next_group))?;
            self.group = Some(Columns::new(group.as_ref())?);
            self.next_group += 1;
        }
    }

    fn interface(&self, card: CardId) -> Option<&str> {
        self.interfaces.get(&card).map(String::as_str)
    }
}

/// The readers of the columns of one row group.
struct Columns {
    session: Values<Int32Type>,
    clock: Values<Int64Type>,
    kind: Values<ByteArrayType>,
    is_write: Values<BoolType>,
    address: Values<Int64Type>,
    reads: Values<Int32Type>,
    writes: Values<Int32Type>,
    duration: Values<Int64Type>,
    start: Values<Int64Type>,
    detail: Values<ByteArrayType>,
}

impl Columns {
    fn new(group: &dyn RowGroupReader) -> Result<Self, TableError> {
        Ok(Columns {
            session: Values::new(group, Column::Session)?,
            clock: Values::new(group, Column::Clock)?,
            kind: Values::new(group, Column::Kind)?,
            is_write: Values::new(group, Column::IsWrite)?,
            address: Values::new(group, Column::Address)?,
            reads: Values::new(group, Column::Reads)?,
            writes: Values::new(group, Column::Writes)?,
            duration: Values::new(group, Column::Duration)?,
            start: Values::new(group, Column::StartClock)?,
            detail: Values::new(group, Column::Detail)?,
        })
    }

    /// Advances to the next row; false at the end of the group, where the clocks end.
    fn advance(&mut self) -> Result<bool, TableError> {
        let more = self.clock.advance()?;
        self.session.advance()?;
        self.kind.advance()?;
        self.is_write.advance()?;
        self.address.advance()?;
        self.reads.advance()?;
        self.writes.advance()?;
        self.duration.advance()?;
        self.start.advance()?;
        self.detail.advance()?;
        Ok(more)
    }

    fn row(&mut self) -> Result<(u32, Entry), String> {
        let session = self.session.get().copied().unwrap_or(0) as u32;
        if let Some(detail) = self.detail.get() {
            if detail.len() > MAX_DETAIL_BYTES {
                return Err(format!("a detail of more than {MAX_DETAIL_BYTES} bytes"));
            }
            return match parse_object(detail.data())? {
                Object::Entry(entry) => Ok((session, entry)),
                Object::Card(_) => Err("a card is not a row".into()),
            };
        }
        let clock = self.start.get().or(self.clock.get()).copied();
        let clock = u64::try_from(clock.ok_or("no clock")?);
        let clock = Cycles(clock.map_err(|_| "a clock below 0")?);
        let kind = self.kind.get().map_or(&b"access"[..], ByteArray::data);
        let lacks = |column: Column| {
            let kind = String::from_utf8_lossy(kind);
            format!("a row of kind {kind:?} without {}", COLUMNS[column as usize].0)
        };
        let address = || {
            let address = self.address.get().ok_or_else(|| lacks(Column::Address));
            address.map(|address| PhysAddr(*address as u64))
        };
        let reads =
            || self.reads.get().map(|reads| *reads as u32).ok_or_else(|| lacks(Column::Reads));
        let writes =
            || self.writes.get().map(|writes| *writes as u32).ok_or_else(|| lacks(Column::Writes));
        let length = self.duration.get().map(|length| Cycles(*length as u64));
        let entry = match kind {
            b"access" => {
                let is_write = *self.is_write.get().ok_or_else(|| lacks(Column::IsWrite))?;
                let direction = Direction::from_bit(is_write);
                Access { clock, direction, address: address()? }.into()
            }
            b"page" => {
                let duration = length.and_then(|length| u32::try_from(length.0).ok());
                let duration = duration.ok_or_else(|| lacks(Column::Duration))?;
                let (address, reads, writes) = (address()?, reads()?, writes()?);
                Entry::Event(Event::Page { clock, address, reads, writes, duration })
            }
            b"slice" => {
                let (length, reads, writes) =
                    (SliceLength::new(length, false), reads()?, writes()?);
                Entry::Event(Event::Slice { clock, code: None, length, reads, writes })
            }
            b"restart" => Entry::Restart,
            b"no_end" => Entry::NoEnd,
            _ => return Err(lacks(Column::Detail)),
        };
        Ok((session, entry))
    }
}

/// The values of one column, decoded in batches.
struct Values<T: DataType> {
    reader: Option<ColumnReaderImpl<T>>,
    is_optional: bool,
    values: Vec<T::T>,
    levels: Vec<i16>,
    next_row: usize,
    next_value: usize,
    rows: usize,
    current: Option<usize>,
}

impl<T: DataType> Values<T> {
    fn new(group: &dyn RowGroupReader, column: Column) -> Result<Self, TableError> {
        let (name, physical, ..) = COLUMNS[column as usize];
        let schema = group.metadata().schema_descr_ptr();
        let place_of =
            |name: &str| schema.columns().iter().position(|found| found.path().string() == name);
        let place = place_of(name).or_else(|| place_of(column.old_name()?));
        let Some(place) = place else {
            // Files of other programs need not have the columns that only the rarer kinds use.
            if matches!(column, Column::Clock | Column::Address | Column::IsWrite) {
                return Err(TableError::Schema(format!(
                    "no column {name}: a table of a trace has at least clock, is_write and address"
                )));
            }
            return Ok(Values::over(None, false));
        };
        let found = schema.column(place);
        check(&found, name, physical)?;
        let is_optional = found.max_def_level() == 1;
        let pages = catch_panic(|| group.get_column_page_reader(place))?;
        let reader = T::get_column_reader(get_column_reader(found, pages));
        Ok(Values::over(reader, is_optional))
    }

    fn over(reader: Option<ColumnReaderImpl<T>>, is_optional: bool) -> Self {
        Values {
            reader,
            is_optional,
            values: Vec::new(),
            levels: Vec::new(),
            next_row: 0,
            next_value: 0,
            rows: 0,
            current: None,
        }
    }

    /// Advances to the next row; false at the end.
    fn advance(&mut self) -> Result<bool, TableError> {
        if self.next_row == self.rows {
            let Some(reader) = &mut self.reader else { return Ok(false) };
            self.values.clear();
            self.levels.clear();
            let levels = self.is_optional.then_some(&mut self.levels);
            (self.rows, _, _) =
                catch_panic(|| reader.read_records(BATCH_ROWS, levels, None, &mut self.values))?;
            (self.next_row, self.next_value) = (0, 0);
            if self.rows == 0 {
                self.current = None;
                return Ok(false);
            }
        }
        let is_present = !self.is_optional || self.levels.get(self.next_row) == Some(&1);
        self.next_row += 1;
        self.current = is_present.then_some(self.next_value);
        self.next_value += usize::from(is_present);
        Ok(true)
    }

    /// The value of the current row, if it has one.
    fn get(&self) -> Option<&T::T> {
        self.values.get(self.current?)
    }
}

/// Checks that the columns lie within the file, which the library does not check.
fn check_places(group: &RowGroupMetaData, length: u64) -> Result<(), TableError> {
    let is_within = |column: &ColumnChunkMetaData| {
        let first = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = first.checked_add(column.compressed_size());
        let end = end.and_then(|end| u64::try_from(end).ok());
        first >= 0 && column.compressed_size() >= 0 && end.is_some_and(|end| end <= length)
    };
    match group.columns().iter().find(|column| !is_within(column)) {
        None => Ok(()),
        Some(column) => Err(TableError::Schema(format!(
            "column {} lies outside the file: the file is damaged",
            column.column_path()
        ))),
    }
}

fn check(found: &ColumnDescPtr, name: &str, expected: Physical) -> Result<(), TableError> {
    let (physical, nested) = (found.physical_type(), found.max_rep_level() != 0);
    if physical != expected || nested || found.max_def_level() > 1 {
        return Err(TableError::Schema(format!(
            "column {name} is {physical}, a table of a trace has one {expected} in each row"
        )));
    }
    Ok(())
}
