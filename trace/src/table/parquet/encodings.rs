//! Chooses the encodings of a Parquet file: the ones that every reader decodes, or the smallest
//! ones.
//!
//! Measured with the readers that docs/convert.md lists: DuckDB before 2.0, pyarrow before 16 and
//! fastparquet do not decode BYTE_STREAM_SPLIT of integers. fastparquet decodes DELTA_BINARY_PACKED
//! of 64-bit integers wrongly and without an error, and fails at nulls in several data pages of
//! version 2.

use ::parquet::basic::Encoding;
use ::parquet::file::properties::WriterVersion;

/// Encodings of a Parquet file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encodings {
    /// PLAIN and dictionaries, in data pages of version 1.
    #[default]
    Compatible,
    /// The smallest encoding for each column, in data pages of version 2.
    Small,
}

impl Encodings {
    /// The encoding of a column without a dictionary. `small`: its smallest encoding.
    pub fn of_column(self, small: Encoding) -> Encoding {
        match self {
            Encodings::Compatible => Encoding::PLAIN,
            Encodings::Small => small,
        }
    }

    /// The version of data pages, and of the encodings that the library chooses by itself.
    pub fn writer_version(self) -> WriterVersion {
        match self {
            Encodings::Compatible => WriterVersion::PARQUET_1_0,
            Encodings::Small => WriterVersion::PARQUET_2_0,
        }
    }
}
