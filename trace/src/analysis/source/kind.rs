//! Decides the kind of a file by its first bytes, or by its name if the first bytes do not state a
//! kind.

use std::path::Path;

use super::SourceError;
use crate::compression::{Begin, Compression};
#[cfg(feature = "tables")]
use crate::imported::{self, ImportedFormat};
use crate::pcapng;

/// Number of decompressed bytes that are examined.
pub(super) const BEGIN_BYTES: usize = 4096;
/// First bytes of files other than captures, by kind.
const BEGINS: [(&[u8], Kind); 3] =
    [(b"HMTTACCS", Kind::Program), (b"hmtt-tag", Kind::TagLog), (b"PAR1", Kind::Parquet)];

/// The kind of a file, which decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A capture in a file.
    Capture,
    /// A capture that is read from a pipe.
    Stream,
    /// The accesses of a program, as `hmtt trace` writes them.
    Program,
    /// A log of tags, which has no accesses.
    TagLog,
    /// A table in Parquet.
    Parquet,
    /// A table in CSV.
    Csv,
    /// A table in JSON lines.
    Jsonl,
    /// A table in HMTT's 6-byte records.
    Hmtt6,
    /// A file of another program.
    #[cfg(feature = "tables")]
    Imported(ImportedFormat),
}

impl Kind {
    /// The kind of a file, by its first bytes or else its name.
    pub(super) fn of(path: &Path, begin: &Begin) -> Result<Kind, SourceError> {
        let by_begin = Kind::of_content(&begin.content);
        if let Some(compression) = begin.compression {
            return Kind::of_compressed(path, by_begin, compression);
        }
        #[cfg(feature = "tables")]
        if by_begin.is_none() && imported::is_damon(&begin.content) {
            return Err(SourceError::NoAccesses(imported::DAMON));
        }
        by_begin.or_else(|| Kind::of_name(path)).ok_or(SourceError::Unknown)
    }

    /// The kind of a stream, which has no name. An unknown kind is taken for a capture, whose
    /// reader reports what is wrong.
    pub(super) fn of_stream(begin: &Begin) -> Result<Kind, SourceError> {
        match Kind::of_content(&begin.content) {
            None | Some(Kind::Capture) if begin.compression == Some(Compression::Xz) => {
                Err(SourceError::Compressed(Compression::Xz))
            }
            None | Some(Kind::Capture) => Ok(Kind::Stream),
            Some(kind) if kind.is_read_forward() => Ok(kind),
            Some(kind) => Err(SourceError::NoStream(kind.name())),
        }
    }

    /// The kind by the first bytes; `None` if the first bytes do not state a kind.
    fn of_content(begin: &[u8]) -> Option<Kind> {
        if pcapng::is_plain_capture(begin) {
            return Some(Kind::Capture);
        }
        let by_magic = BEGINS.into_iter().find(|(magic, _)| begin.starts_with(magic));
        let kind = by_magic.map(|(_, kind)| kind);
        #[cfg(feature = "tables")]
        let kind = kind.or_else(|| ImportedFormat::of(begin).map(Kind::Imported));
        kind
    }

    /// The kind of a compressed file: a capture, or a file of another program. Other kinds are read
    /// only uncompressed.
    fn of_compressed(
        path: &Path,
        by_begin: Option<Kind>,
        compression: Compression,
    ) -> Result<Kind, SourceError> {
        let is_named_capture = || {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
            name.is_some_and(|name| name.ends_with(".pcapng") || name.ends_with(".pcap"))
        };
        match by_begin {
            Some(kind) if kind == Kind::Capture || kind.is_read_forward() => Ok(kind),
            // The reader of captures reports what is wrong with the file.
            None if compression != Compression::Xz && is_named_capture() => Ok(Kind::Capture),
            _ => Err(SourceError::Compressed(compression)),
        }
    }

    /// The kind by the extension of the name.
    fn of_name(path: &Path) -> Option<Kind> {
        let extension = path.extension()?.to_string_lossy().to_lowercase();
        Some(match &*extension {
            "csv" => Kind::Csv,
            "jsonl" | "ndjson" => Kind::Jsonl,
            "trace" => Kind::Hmtt6,
            // The reader of captures reports what is wrong with the file.
            "pcapng" | "pcap" => Kind::Capture,
            "parquet" => Kind::Parquet,
            _ => return None,
        })
    }

    /// For kinds other than captures: whether files of this kind are read from begin to end, so
    /// that they may be compressed or come from a pipe.
    fn is_read_forward(self) -> bool {
        #[cfg(feature = "tables")]
        return matches!(self, Kind::Imported(_));
        #[cfg(not(feature = "tables"))]
        false
    }

    /// Returns the kind; an error for a log of tags, which has no accesses.
    pub(super) fn check(self) -> Result<Kind, SourceError> {
        match self {
            Kind::TagLog => Err(SourceError::NoAccesses(
                "is a log of tags, which has calls and no accesses; `hmtt tag report` evaluates it",
            )),
            kind => Ok(kind),
        }
    }

    /// The cargo feature that reads files of this kind.
    pub(super) const fn feature(self) -> &'static str {
        match self {
            Kind::Program => "access-traces",
            Kind::Parquet => "parquet",
            _ => "tables",
        }
    }

    /// The name of the kind, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Capture | Kind::Stream => "capture",
            Kind::Program => "program",
            Kind::TagLog => "tag log",
            Kind::Parquet | Kind::Csv | Kind::Jsonl | Kind::Hmtt6 => "table",
            #[cfg(feature = "tables")]
            Kind::Imported(format) => format.name(),
        }
    }
}
