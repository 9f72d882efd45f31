//! Prints the owner of a page: as text, as fields of CSV, and as JSON.

use hmtt_format::escape;
use serde_json::{Value, json};

/// Width of the column for a process, in characters.
const PROCESS_WIDTH: usize = 18;
/// Width of the column for a mapping, in characters.
const MAPPING_WIDTH: usize = 30;

/// The owner of a physical page.
pub struct Described {
    /// `resolved`, `shared`, `ambiguous` or `unresolved`.
    pub owner: &'static str,
    /// Number and name of the process, if there is one process.
    pub process: Option<(u32, String)>,
    /// Name of the mapping, if there is one, such as a file or `[heap]`.
    pub mapping: Option<String>,
    /// Virtual address, if there is one owner.
    pub virtual_address: Option<u64>,
    /// Number of virtual pages that are mapped to the physical page.
    pub owner_count: u64,
}

impl Described {
    /// The fields of a CSV row, with the columns of [`super::CSV_COLUMNS`].
    pub fn to_csv(&self) -> String {
        let (pid, comm) = match &self.process {
            Some((pid, comm)) => (pid.to_string(), quoted(comm)),
            None => Default::default(),
        };
        let mapping = quoted(self.mapping.as_deref().unwrap_or_default());
        let address = self.virtual_address.map(|at| format!("{at:#x}")).unwrap_or_default();
        format!("{},{pid},{comm},{mapping},{address}", self.owner)
    }

    /// Adds the fields to a JSON object.
    pub fn add_to(&self, object: &mut Value) {
        let Value::Object(object) = object else { return };
        let (pid, comm) = self.process.clone().unzip();
        let address = self.virtual_address.map(|at| format!("{at:#x}"));
        for (name, value) in [
            ("owner", json!(self.owner)),
            ("owner_count", json!(self.owner_count)),
            ("pid", json!(pid)),
            ("comm", json!(comm)),
            ("mapping", json!(self.mapping)),
            ("virtual_address", json!(address)),
        ] {
            object.insert(name.to_owned(), value);
        }
    }

    /// Heading of [`Described::to_text`].
    pub fn heading() -> String {
        format!("{:>14}  {:<PROCESS_WIDTH$}  mapping", "virtual", "process")
    }

    /// The columns of a text table.
    pub fn to_text(&self) -> String {
        let [process, mapping, address] = self.names();
        if self.owner_count == 0 {
            return format!("{address:>14}  {process}");
        }
        let process = shortened(&process, PROCESS_WIDTH);
        let mapping = shortened(&mapping, MAPPING_WIDTH);
        format!("{address:>14}  {process:<PROCESS_WIDTH$}  {mapping}")
    }

    /// Process, mapping and virtual address in words. If the page has no known owner, the first
    /// text is the value of `owner`.
    pub fn names(&self) -> [String; 3] {
        let none = || "-".to_owned();
        let address = self.virtual_address.map_or_else(none, |at| format!("{at:#x}"));
        if self.owner_count == 0 {
            return [self.owner.to_owned(), none(), address];
        }
        let process = self.process.as_ref().map(|(pid, comm)| (*pid, &**comm));
        [process_name(process), mapping_name(self.mapping.as_deref()), address]
    }
}

/// Name of a process, or "several processes".
pub fn process_name(process: Option<(u32, &str)>) -> String {
    process.map_or("several processes".to_owned(), |(pid, comm)| {
        format!("{pid} {}", escape::message(comm)).trim_end().to_owned()
    })
}

/// Name of a mapping, or "several mappings".
pub fn mapping_name(mapping: Option<&str>) -> String {
    mapping.map_or("several mappings".to_owned(), |name| escape::message(name).to_string())
}

/// The last `most` characters of a text, with dots before them, if it is longer than that.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count + 3 - most).collect();
    format!("...{end}")
}

/// A CSV field: escaped, and in quotation marks if it contains a comma or a quotation mark.
pub fn quoted(text: &str) -> String {
    let text = escape::name(text).to_string();
    if text.contains(['"', ',']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
