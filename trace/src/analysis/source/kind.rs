//! Decides what a file is.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use super::SourceError;
#[cfg(feature = "tables")]
use crate::imported::ImportedFormat;
use crate::pcapng;

/// Bytes that are looked at.
const BEGIN_BYTES: usize = 4096;
/// How files other than captures begin, by kind.
const BEGINS: [(&[u8], Kind); 4] = [
    (b"HMTTACCS", Kind::Program),
    (b"hmtt-tag", Kind::TagLog),
    (b"PAR1", Kind::Parquet),
    (b"PERFILE2", Kind::PerfData),
];

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A capture.
    Capture,
    /// A capture that is read from a pipe.
    Stream,
    /// The accesses of a program.
    Program,
    /// A log of tags.
    TagLog,
    /// A table in Parquet.
    Parquet,
    /// A table in CSV.
    Csv,
    /// A table in JSON lines.
    Jsonl,
    /// A table in HMTT's 6-byte records.
    Hmtt6,
    /// Text that another program has written.
    #[cfg(feature = "tables")]
    Imported(ImportedFormat),
    /// The recording of perf, which is not read itself.
    PerfData,
}

impl Kind {
    /// What an open file is. It is read from its begin afterwards.
    pub(super) fn of(path: &Path, file: &mut File) -> Result<Kind, SourceError> {
        if !file.metadata()?.is_file() {
            return Ok(Kind::Stream);
        }
        let mut begin = Vec::new();
        file.by_ref().take(BEGIN_BYTES as u64).read_to_end(&mut begin)?;
        file.rewind()?;
        let is_capture = begin.first_chunk().is_some_and(|first| pcapng::is_capture(*first));
        let by_begin = BEGINS.into_iter().find(|(one, _)| begin.starts_with(one));
        let by_begin = is_capture.then_some(Kind::Capture).or(by_begin.map(|(_, kind)| kind));
        #[cfg(feature = "tables")]
        let by_begin = by_begin.or_else(|| ImportedFormat::of(&begin).map(Kind::Imported));
        let extension = path.extension().map(|one| one.to_string_lossy().to_lowercase());
        let by_extension = match extension.as_deref() {
            Some("csv") => Some(Kind::Csv),
            Some("jsonl" | "ndjson") => Some(Kind::Jsonl),
            Some("trace") => Some(Kind::Hmtt6),
            // Its reader says what is wrong with it.
            Some("pcapng" | "pcap") => Some(Kind::Capture),
            Some("parquet") => Some(Kind::Parquet),
            _ => None,
        };
        by_begin.or(by_extension).ok_or(SourceError::Unknown)
    }

    /// The cargo feature that reads it.
    pub(super) const fn feature(self) -> &'static str {
        match self {
            Kind::Program => "access-traces",
            Kind::Parquet => "parquet",
            _ => "tables",
        }
    }

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Capture | Kind::Stream => "capture",
            Kind::Program => "program",
            Kind::TagLog => "tag log",
            Kind::Parquet | Kind::Csv | Kind::Jsonl | Kind::Hmtt6 => "table",
            #[cfg(feature = "tables")]
            Kind::Imported(format) => format.name(),
            Kind::PerfData => "recording of perf",
        }
    }
}
