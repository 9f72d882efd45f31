//! One file of a capture: from its plan to the blocks before the first frame, and to those after the last.

use std::time::{Duration, SystemTime};

use hmtt::pcapng::{Description, PcapngWriter};

use super::Statistics;
use crate::files::{DiskFile, Ended, Entry, LostFile, Output, Series, WriteError};

/// How files are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Make {
    /// Level at which they are compressed.
    pub zstd: Option<i32>,
    /// Permissions, of which the umask takes some away.
    pub mode: u32,
}

/// Begins the next file of a series.
pub(super) fn begin(
    make: Make,
    series: &mut Series,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    let file = loop {
        match DiskFile::create(&series.next(SystemTime::now()), make.mode, false) {
            // Another capture of that name has taken the number.
            Err(WriteError::Exists(_)) => series.forget(),
            Err(error) => {
                series.forget();
                return Err(error);
            }
            Ok(file) => break file,
        }
    };
    series.created(file.identity());
    let begun = head(file, make, interfaces);
    if begun.is_err() {
        series.forget();
    }
    begun
}

/// Begins a single file.
pub(super) fn begin_single(
    make: Make,
    entry: &Entry,
    overwrite: bool,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    head(DiskFile::create(entry, make.mode, overwrite)?, make, interfaces)
}

/// Writes what comes before the first frame. A file in which it does not fit is removed.
pub(super) fn head(
    file: DiskFile,
    make: Make,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    let path = file.path().to_owned();
    let failed = |error| WriteError::at(&path, error);
    // Into memory: what fails here is not the disk.
    let mut writer = PcapngWriter::new(Output::new(file, make.zstd), interfaces).map_err(failed)?;
    // What comes before the first frame is no unit of its own.
    writer.output().mark(0);
    match writer.output().flush() {
        Ok(()) => Ok(writer),
        Err(error) => {
            writer.into_output().discard();
            Err(failed(error))
        }
    }
}

/// Since the epoch.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What came of a file.
pub(super) struct Closed {
    /// Bytes of it.
    pub bytes: u64,
    /// What failed.
    pub result: Result<(), WriteError>,
    /// The file, still to be made durable.
    pub ended: Option<Ended>,
    /// Set if the file is not at its path.
    pub lost: Option<LostFile>,
}

/// Ends a file. `times`: the start of the capture and now, since the epoch.
pub(super) fn finish(
    mut writer: PcapngWriter<Output>,
    times: std::ops::Range<Duration>,
    statistics: &Statistics,
) -> Closed {
    let path = writer.output().path().to_owned();
    // Into memory: cannot fail.
    for (link, (counts, comment)) in statistics.iter().enumerate() {
        let _ = writer.write_statistics(link as u32, times.clone(), counts, Some(comment));
        writer.output().mark(0);
    }
    let finished = writer.into_output().finish();
    Closed {
        bytes: finished.length,
        result: finished.result.map_err(|error| WriteError::at(&path, error)),
        ended: finished.ended,
        lost: finished.lost,
    }
}
