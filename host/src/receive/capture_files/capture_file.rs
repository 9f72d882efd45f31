//! Begins and ends one file of a capture: writes the blocks before the first frame and the blocks
//! after the last one.

use std::time::{Duration, SystemTime};

use hmtt::pcapng::{Description, PcapngWriter};

use super::Statistics;
use crate::files::{DiskFile, Entry, LostFile, Output, Series, UnsyncedFile, WriteError};

/// Options with which files are created.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileOptions {
    /// zstd compression level; `None` for uncompressed files.
    pub zstd: Option<i32>,
    /// Permissions of the files, before the umask is applied.
    pub mode: u32,
}

/// Begins the next file of a series.
pub(super) fn begin(
    options: FileOptions,
    series: &mut Series,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    let file = loop {
        match DiskFile::create(&series.next(SystemTime::now()), options.mode, false) {
            // Another capture of the same name has used the number.
            Err(WriteError::Exists(_)) => series.forget(),
            Err(error) => {
                series.forget();
                return Err(error);
            }
            Ok(file) => break file,
        }
    };
    series.created(file.identity());
    let begun = write_head(file, options, interfaces);
    if begun.is_err() {
        series.forget();
    }
    begun
}

/// Begins a single file.
pub(super) fn begin_single(
    options: FileOptions,
    entry: &Entry,
    overwrite: bool,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    write_head(DiskFile::create(entry, options.mode, overwrite)?, options, interfaces)
}

/// Writes the blocks before the first frame. If that fails, the file is removed.
pub(super) fn write_head(
    file: DiskFile,
    options: FileOptions,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    let path = file.path().to_owned();
    let failed = |error| WriteError::at(&path, error);
    // Writes into memory, so a failure here is not a failure of the disk.
    let mut writer =
        PcapngWriter::new(Output::new(file, options.zstd), interfaces).map_err(failed)?;
    // The file may end before the first frame; these blocks are not counted as a unit.
    writer.output().mark(0);
    match writer.output().flush() {
        Ok(()) => Ok(writer),
        Err(error) => {
            writer.into_output().discard();
            Err(failed(error))
        }
    }
}

/// Current time, since the Unix epoch.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Result of ending a file.
pub(super) struct Closed {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// The first error.
    pub result: Result<(), WriteError>,
    /// The file, which still has to be made durable; `None` for a stream.
    pub unsynced: Option<UnsyncedFile>,
    /// Set if the file is no longer at its path.
    pub lost: Option<LostFile>,
}

/// Ends a file. `times`: start of the capture and current time, since the Unix epoch.
pub(super) fn finish(
    mut writer: PcapngWriter<Output>,
    times: std::ops::Range<Duration>,
    statistics: &Statistics,
) -> Closed {
    let path = writer.output().path().to_owned();
    // Writes into memory, which cannot fail.
    for (link, (counts, comment)) in statistics.iter().enumerate() {
        let _ = writer.write_statistics(link as u32, times.clone(), counts, Some(comment));
        writer.output().mark(0);
    }
    let finished = writer.into_output().finish();
    Closed {
        bytes: finished.length,
        result: finished.result.map_err(|error| WriteError::at(&path, error)),
        unsynced: finished.unsynced,
        lost: finished.lost,
    }
}
