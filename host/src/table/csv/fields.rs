//! A line of comma-separated values to its fields, and the heading to the columns' places.

use std::borrow::Cow;

/// Most fields of a line.
const MAX_FIELDS: usize = 32;

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
    /// Reads the first line.
    pub fn parse(line: &str) -> Result<Heading, String> {
        let fields = split(line.strip_prefix('\u{feff}').unwrap_or(line))?;
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

    /// The fields of a line by column.
    pub fn fields<'a>(&self, line: &'a str) -> Result<Fields<'a>, String> {
        let fields = split(line)?;
        if fields.len() != self.columns {
            let (found, expected) = (fields.len(), self.columns);
            return Err(format!("{found} fields, the heading has {expected}"));
        }
        Ok(Fields { fields, places: self.places })
    }
}

/// The fields of a line.
pub(super) struct Fields<'a> {
    fields: Vec<Cow<'a, str>>,
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

fn split(line: &str) -> Result<Vec<Cow<'_, str>>, String> {
    let mut fields = Vec::with_capacity(NAMES.len());
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => match rest.split_once(',') {
                Some((field, after)) => (Cow::Borrowed(field), Some(after)),
                None => (Cow::Borrowed(rest), None),
            },
        };
        fields.push(field);
        match after {
            Some(_) if fields.len() == MAX_FIELDS => {
                return Err(format!("more than {MAX_FIELDS} fields"));
            }
            Some(after) => rest = after,
            None => return Ok(fields),
        }
    }
}

/// A field after its first quote, and what follows its comma.
fn unquote(quoted: &str) -> Result<(Cow<'_, str>, Option<&str>), String> {
    let mut at = 0;
    loop {
        let Some(found) = quoted[at..].find('"') else {
            return Err("a quoted field does not end on its line".into());
        };
        at += found + 1;
        match quoted[at..].chars().next() {
            Some('"') => at += 1,
            next => {
                let field = &quoted[..at - 1];
                let field = if field.contains('"') {
                    Cow::Owned(field.replace("\"\"", "\""))
                } else {
                    Cow::Borrowed(field)
                };
                return match next {
                    None => Ok((field, None)),
                    Some(',') => Ok((field, Some(&quoted[at + 1..]))),
                    Some(_) => Err("a quoted field goes on after its second quote".into()),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quoted_fields_come_back(fields in prop::collection::vec("[a-c,\" ]{0,6}", 1..20)) {
            let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let line = fields.iter().map(quote).collect::<Vec<_>>().join(",");
            prop_assert_eq!(split(&line).unwrap(), fields);
        }

        #[test]
        fn any_line_is_split_or_refused(line in "[a\",é]{0,40}") {
            let _ = split(&line);
        }
    }

    #[test]
    fn plain_fields_are_what_stands_between_commas() {
        assert_eq!(split("a,,b\"c,").unwrap(), ["a", "", "b\"c", ""]);
    }
}
