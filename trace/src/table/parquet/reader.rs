//! Reads rows from a Parquet file, one row group after the other.

use std::collections::HashMap;
use std::fs::File;

use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use hmtt_format::event::SliceLength;
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr, escape};

use super::catch_panic::catch_panic;
use super::page_check::CheckedFile;
use super::values::{Values, open};
use super::{
    COLUMNS, Column, KEY_OLD_SESSIONS, KEY_SESSIONS, KEY_VERSION, OLD_VERSION, Session,
    TABLE_VERSION,
};
use crate::identity::CardId;
use crate::table::json_object::{Object, parse_object};
use crate::table::{Card, Entry, Reader, Row, TableError};

/// Longest accepted detail, in bytes. A dictionary has a long text once, but every row can refer to
/// it.
const MAX_DETAIL_BYTES: usize = 4096;

/// A reader of Parquet files that [`super::ParquetWriter`] wrote, or that have the same columns in
/// any order.
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
    /// [`TableError`]: the file cannot be read, is no Parquet file, or is a table of another
    /// version.
    pub fn new(file: File) -> Result<Self, TableError> {
        let file = open(file)?;
        let metadata = file.metadata().file_metadata();
        let stated = |key: &str| {
            let pair = metadata.key_value_metadata()?.iter().find(|pair| pair.key == key);
            pair?.value.as_deref()
        };
        // Files from other programs state no version.
        let version = stated(KEY_VERSION);
        if let Some(version) =
            version.filter(|version| ![TABLE_VERSION, OLD_VERSION].contains(version))
        {
            let version = escape::name(version);
            return Err(TableError::Schema(format!(
                "a table of version {version}; the newest that can be read is {TABLE_VERSION}"
            )));
        }
        let sessions: Vec<Session> = stated(KEY_SESSIONS)
            .or_else(|| stated(KEY_OLD_SESSIONS))
            .and_then(|sessions| serde_json::from_str(sessions).ok())
            .unwrap_or_default();
        // If a card has several sessions, the first one determines its interface.
        let named = sessions
            .iter()
            .rev()
            .filter_map(|session| Some((session.card_id(), session.interface.clone()?)));
        let interfaces = named.collect();
        Ok(ParquetReader { file, sessions, interfaces, next_group: 0, group: None, row: 0 })
    }

    /// The description of each session's card by its last report, with the card.
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
            session: values(group, Column::Session)?,
            clock: values(group, Column::Clock)?,
            kind: values(group, Column::Kind)?,
            is_write: values(group, Column::IsWrite)?,
            address: values(group, Column::Address)?,
            reads: values(group, Column::Reads)?,
            writes: values(group, Column::Writes)?,
            duration: values(group, Column::Duration)?,
            start: values(group, Column::StartClock)?,
            detail: values(group, Column::Detail)?,
        })
    }

    /// Advances all columns to the next row. Returns false at the end of the group, which is the
    /// end of the column `clock`.
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

/// The values of a column, by its current or old name.
fn values<T: DataType>(
    group: &dyn RowGroupReader,
    column: Column,
) -> Result<Values<T>, TableError> {
    let (name, physical, ..) = COLUMNS[column as usize];
    let names = [Some(name), column.old_name()];
    let values = names
        .into_iter()
        .flatten()
        .find_map(|name| Values::find(group, name, physical).transpose());
    match values {
        Some(values) => values,
        // Files from other programs need not have the columns that only the rarer kinds use.
        None if matches!(column, Column::Clock | Column::Address | Column::IsWrite) => {
            Err(TableError::Schema(format!(
                "no column {name}: a table of a trace has at least clock, is_write and address"
            )))
        }
        None => Ok(Values::absent()),
    }
}
