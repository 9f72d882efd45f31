//! Converts the arguments of `hmtt sql`. The crate of `hmtt` defines them, so that `hmtt` can
//! complete and describe them.

#[path = "../../../../cli/src/sql/options.rs"]
mod options;

use crate::output::Format;

use options::FormatName;
pub use options::{Arguments, size};

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Table => Format::Table,
            FormatName::Csv => Format::Csv,
            FormatName::Json => Format::Json,
            FormatName::Jsonl => Format::Jsonl,
            FormatName::Parquet => Format::Parquet,
        }
    }
}

impl Arguments {
    /// The format of the result.
    pub fn format(&self) -> Format {
        if let Some(name) = self.format {
            return name.into();
        }
        let extension = self.output.as_ref().and_then(|path| path.extension());
        match extension.and_then(|extension| extension.to_str()) {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            Some("jsonl" | "ndjson") => Format::Jsonl,
            Some("parquet") => Format::Parquet,
            _ => Format::Table,
        }
    }
}
