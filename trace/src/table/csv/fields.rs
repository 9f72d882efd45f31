//! Finds the fields of a record by the names of their columns. The heading states the order of the
//! columns.

use super::records::Record;

/// The columns of the table.
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

/// The names of the columns, in the order of [`Column`].
const NAMES: [(&str, Column); 8] = [
    ("kind", Column::Kind),
    ("clock", Column::Clock),
    ("direction", Column::Direction),
    ("address", Column::Address),
    ("reads", Column::Reads),
    ("writes", Column::Writes),
    ("duration_clocks", Column::Duration),
    ("detail", Column::Detail),
];

/// Name of the column of durations in tables of version 1.
const OLD_DURATION: &str = "duration";

/// The position of each known column in a file. Other columns are ignored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading {
    places: [Option<usize>; NAMES.len()],
    columns: usize,
}

impl Heading {
    /// Parses the first record of the file.
    pub fn parse(record: &Record) -> Result<Heading, String> {
        let fields = record.fields()?;
        let place = |wanted: &str| {
            fields.iter().position(|field| field.trim().eq_ignore_ascii_case(wanted))
        };
        let places = NAMES.map(|(name, column)| match column {
            Column::Duration => place(name).or_else(|| place(OLD_DURATION)),
            _ => place(name),
        });
        let is_twice = |wanted: &str| {
            fields.iter().filter(|field| field.trim().eq_ignore_ascii_case(wanted)).count() > 1
        };
        let mut names = NAMES.into_iter().map(|(name, _)| name).chain([OLD_DURATION]);
        if let Some(name) = names.find(|name| is_twice(name)) {
            return Err(format!("the heading has the column {name} twice; remove one of them"));
        }
        let heading = Heading { places, columns: fields.len() };
        let needed = [Column::Clock, Column::Direction, Column::Address];
        if let Some(missing) = needed.into_iter().find(|column| !heading.has(*column)) {
            return Err(format!(
                "the heading has no column {}; it must name at least clock, direction and address",
                NAMES[missing as usize].0
            ));
        }
        Ok(heading)
    }

    /// Whether the table has the column.
    pub fn has(&self, column: Column) -> bool {
        self.places[column as usize].is_some()
    }

    /// Assigns the fields of a record to their columns.
    pub fn fields<'a>(&self, record: &'a Record) -> Result<Fields<'a>, String> {
        let fields = record.fields()?;
        if fields.len() != self.columns {
            let (count, expected) = (fields.len(), self.columns);
            return Err(format!("{count} fields, the heading has {expected}"));
        }
        Ok(Fields { fields, places: self.places })
    }
}

/// The fields of one record, by column.
pub(super) struct Fields<'a> {
    fields: Vec<&'a str>,
    places: [Option<usize>; NAMES.len()],
}

impl Fields<'_> {
    /// The text in a column; empty if the table does not have the column.
    pub fn get(&self, column: Column) -> &str {
        self.places[column as usize].map_or("", |place| self.fields[place].trim())
    }

    /// Parses the decimal number in a column. A sign is an error.
    pub fn number<T: std::str::FromStr>(&self, column: Column) -> Result<T, String> {
        let text = self.get(column);
        let number = text.parse().ok().filter(|_| !text.starts_with('+'));
        number.ok_or_else(|| {
            let name = NAMES[column as usize].0;
            format!("{name} {text:?} is not a decimal number, or is too large")
        })
    }
}
