//! Distributes rows to the row groups of a Parquet file. Each row group has the rows of one
//! session.

use std::collections::HashMap;
use std::io::Write;

use ::parquet::file::metadata::KeyValue;
use ::parquet::file::writer::SerializedFileWriter;

use super::columns::Columns;
use super::encoder::Encoder;
use super::row_group::RowGroup;
use super::{
    Encodings, KEY_SESSIONS, KEY_UNIT, KEY_VERSION, SCHEMA, Session, TABLE_VERSION, properties,
};
use crate::decode::Accesses;
use crate::identity::CardId;
use crate::table::card_changes::CardChanges;
use crate::table::{Card, Entry, LeftOut, Row, TableError, Writer};

/// A writer of Parquet. The rows of each session are in row groups of their own.
pub struct ParquetWriter<W: Write + Send> {
    encoder: Encoder<W>,
    /// Description of each number in the column `session`, by this number.
    sessions: Vec<Session>,
    /// The open session of each card.
    open: HashMap<CardId, Open>,
    /// The interface of each card.
    cards: CardChanges,
}

/// A session to which rows can still be added.
struct Open {
    /// Number of the session in the column `session`.
    session: u32,
    /// Whether the session has rows, including rows that were written already.
    has_rows: bool,
    group: RowGroup,
}

impl<W: Write + Send + 'static> ParquetWriter<W> {
    /// Starts a file with the encodings that every reader decodes.
    ///
    /// # Errors
    /// As [`ParquetWriter::with_encodings`].
    pub fn new(output: W) -> Result<Self, TableError> {
        ParquetWriter::with_encodings(output, Encodings::default())
    }

    /// Starts a file. Needs memory for one row group for each card and for two more, with 17 MB
    /// each.
    ///
    /// # Errors
    /// [`TableError`]: the output cannot be written, or the encoder's thread cannot be started.
    pub fn with_encodings(output: W, encodings: Encodings) -> Result<Self, TableError> {
        let properties = properties(encodings);
        let schema = SCHEMA.root_schema_ptr();
        let file = SerializedFileWriter::new(output, schema, properties.clone())?;
        let encoder = Encoder::start(file, Columns::new(properties, encodings)?)?;
        Ok(ParquetWriter {
            encoder,
            sessions: Vec::new(),
            open: HashMap::new(),
            cards: CardChanges::default(),
        })
    }

    /// Returns the open session of a card. Creates one if there is none.
    fn open(&mut self, card: CardId) -> &mut Open {
        self.open.entry(card).or_insert_with(|| {
            let session = self.sessions.len() as u32;
            self.sessions.push(Session { card: card.number(), interface: None, report: None });
            Open { session, has_rows: false, group: RowGroup::default() }
        })
    }

    /// Ends the open session of a card, if it has rows.
    fn restart(&mut self, card: CardId) -> Result<(), TableError> {
        if self.open(card).has_rows
            && let Some(mut open) = self.open.remove(&card)
        {
            open.write(&mut self.encoder)?;
        }
        Ok(())
    }
}

impl Open {
    fn write<W: Write + Send + 'static>(
        &mut self,
        encoder: &mut Encoder<W>,
    ) -> Result<(), TableError> {
        if self.group.rows() != 0 {
            encoder.write(self.session, &mut self.group)?;
        }
        Ok(())
    }
}

impl<W: Write + Send + 'static> Writer for ParquetWriter<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        if let Entry::Restart = row.entry {
            self.restart(row.card)?;
        }
        self.open(row.card);
        let ParquetWriter { open, encoder, .. } = self;
        let Some(open) = open.get_mut(&row.card) else { return Ok(()) };
        open.has_rows = true;
        open.group.push(&row.entry)?;
        if open.group.is_full() {
            open.write(encoder)?;
        }
        Ok(())
    }

    fn accesses(&mut self, card: CardId, accesses: Accesses<'_>) -> Result<(), TableError> {
        self.open(card);
        let ParquetWriter { open, encoder, .. } = self;
        let Some(open) = open.get_mut(&card) else { return Ok(()) };
        let mut rest = accesses;
        loop {
            let count = open.group.extend(rest)?;
            open.has_rows |= count != 0;
            if open.group.is_full() {
                open.write(encoder)?;
            }
            if count == 0 {
                return Ok(());
            }
            rest = rest.after(count);
        }
    }

    fn card(&mut self, card: CardId, description: Card) {
        let session = self.open(card).session as usize;
        self.sessions[session].report = Some(description);
    }

    fn interface(&mut self, card: CardId, name: &str) {
        self.cards.interface(card, name);
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        let mut open: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        open.sort_by_key(|open| open.session);
        open.iter_mut().try_for_each(|open| open.write(&mut self.encoder))?;
        for session in &mut self.sessions {
            let interface = self.cards.interface_of(session.card_id());
            session.interface = interface.map(str::to_owned);
        }
        let mut file = self.encoder.finish()?;
        let sessions = serde_json::to_string(&self.sessions).map_err(std::io::Error::from)?;
        let mut state = |key: &str, value: String| {
            file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        };
        state(KEY_VERSION, TABLE_VERSION.into());
        state(KEY_UNIT, "DDR clock".into());
        if let Some(card) = self.sessions.iter().rev().find_map(|session| session.report.as_ref()) {
            state("hmtt.tck_ps", card.tck_ps.to_string());
            state("hmtt.unit_bytes", card.unit_bytes.to_string());
            state("hmtt.format_version", card.format_version.to_string());
            state("hmtt.digest", card.digest.clone());
        }
        state(KEY_SESSIONS, sessions);
        file.finish()?;
        file.inner_mut().flush()?;
        Ok(LeftOut::default())
    }
}
