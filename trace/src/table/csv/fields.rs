//! The fields of a record to what the columns hold, by the heading.

use super::records::Record;

/// What the columns hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Kind,
    Clock,
    Direction,
    Address,
    Reads,
    Writes,
    Duration,
    Detail,
}

const NAMES: [(&str, Column); 8] = [
    ("kind", Column::Kind),
    ("clock", Column::Clock),
    ("direction", Column::Direction),
    ("address", Column::Address),
    ("reads", Column::Reads),
    ("writes", Column::Writes),
    ("duration", Column::Duration),
    ("detail", Column::Detail),
];

/// Where each column is. Columns with other names are passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    places: [Option<usize>; NAMES.len()],
    columns: usize,
}

impl Heading {
    /// Reads the first record.
    pub fn parse(record: &Record) -> Result<Heading, String> {
        let fields = record.fields()?;
        let place = |wanted: &str| {
            fields.iter().position(|field| field.trim().eq_ignore_ascii_case(wanted))
        };
        let heading = Heading { places: NAMES.map(|(name, _)| place(name)), columns: fields.len() };
        let needed = [Column::Clock, Column::Direction, Column::Address];
        if let Some(missing) = needed.into_iter().find(|column| !heading.has(*column)) {
            return Err(format!(
                "the heading has no column {}; it must name at least clock, direction and address",
                NAMES[missing as usize].0
            ));
        }
        Ok(heading)
    }

    /// Whether there is such a column.
    pub fn has(&self, column: Column) -> bool {
        self.places[column as usize].is_some()
    }

    /// The fields of a record by column.
    pub fn fields<'a>(&self, record: &'a Record) -> Result<Fields<'a>, String> {
        let fields = record.fields()?;
        if fields.len() != self.columns {
            let (found, expected) = (fields.len(), self.columns);
            return Err(format!("{found} fields, the heading has {expected}"));
        }
        Ok(Fields { fields, places: self.places })
    }
}

/// The fields of a record.
pub(super) struct Fields<'a> {
    fields: Vec<&'a str>,
    places: [Option<usize>; NAMES.len()],
}

impl Fields<'_> {
    /// What a column says; nothing where there is no such column.
    pub fn get(&self, column: Column) -> &str {
        self.places[column as usize].map_or("", |place| self.fields[place].trim())
    }

    /// A decimal number.
    pub fn number<T: std::str::FromStr>(&self, column: Column) -> Result<T, String> {
        let text = self.get(column);
        let number = text.parse().ok().filter(|_| !text.starts_with('+'));
        number.ok_or_else(|| {
            let name = NAMES[column as usize].0;
            format!("{name} {text:?} is no decimal number, or is too large")
        })
    }
}
