//! Parses CSV files of libCacheSim, in which each line is a request for an object.
//!
//! A heading names the columns. Without a heading they are time, object and size, in this order.

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::super::objects::Objects;
use super::{LineKind, Parsed, decimal, wrong};

/// Maximum number of columns that are parsed.
const MOST_COLUMNS: usize = 64;
const TIMES: [&str; 5] = ["time", "timestamp", "clock_time", "real_time", "wallclock_time"];
const OBJECT_NAMES: [&str; 6] = ["obj_id", "obj-id", "objid", "object", "object_id", "id"];
const OPERATIONS: [&str; 2] = ["op", "operation"];
const EXPECTED: &str = "numbers of time and object, and of columns like these";

/// Indices of the columns that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    time: Option<usize>,
    object: usize,
    operation: Option<usize>,
}

/// Parses the lines, with the columns that the heading names.
#[derive(Default)]
pub struct LibCacheSim {
    places: Option<Places>,
    has_heading: bool,
    objects: Objects,
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').take(MOST_COLUMNS).map(|field| field.trim().trim_matches('"')).collect()
}

/// Parses a heading; `None` if the line is no heading.
fn heading(line: &str) -> Option<Places> {
    let names: Vec<String> = fields(line.trim_start_matches(['#', ' ']))
        .into_iter()
        .map(|name| name.to_ascii_lowercase().replace(' ', "_"))
        .collect();
    let place = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
    let places = Places {
        time: place(&TIMES),
        object: place(&OBJECT_NAMES)?,
        operation: place(&OPERATIONS),
    };
    (names.len() > 1).then_some(places)
}

/// The direction of an operation, such as `get` or `set`; `None` if it is not known.
fn direction(operation: &str) -> Option<Direction> {
    Some(match operation.to_ascii_lowercase().as_str() {
        "r" | "read" | "get" | "gets" => Direction::Read,
        "w" | "write" | "set" | "put" | "add" | "replace" | "cas" | "delete" => Direction::Write,
        _ => return None,
    })
}

impl LibCacheSim {
    /// Parses a line, and adds its access to `add`.
    pub fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        let places = match self.places {
            Some(places) => places,
            None => {
                let named = heading(line);
                let default = Places { time: Some(0), object: 1, operation: None };
                self.has_heading = named.is_some();
                self.places = Some(named.unwrap_or(default));
                match named {
                    Some(_) => return Ok(LineKind::Other),
                    None => default,
                }
            }
        };
        if line.starts_with('#') {
            return Ok(LineKind::Other);
        }
        let fields = fields(line);
        let field = |place: usize| fields.get(place).copied().unwrap_or_default();
        // A time may have a fraction of a second, which is dropped.
        let whole = |text: &str| {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
            decimal(fraction).and(decimal(whole))
        };
        let clock = places.time.map_or(Some(0), |place| whole(field(place)));
        let object = decimal(field(places.object));
        let (Some(clock), Some(object)) = (clock, object) else {
            return Err(wrong(EXPECTED, line));
        };
        let direction = places.operation.and_then(|place| direction(field(place)));
        add.push_back(self.objects.access(clock, object, direction));
        Ok(LineKind::Record)
    }

    /// Whether the first line was a heading.
    pub fn has_heading(&self) -> bool {
        self.has_heading
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        self.objects.notes()
    }
}
