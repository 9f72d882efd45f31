//! One file of a capture: from its plan to the blocks before the first frame, and to those after the last.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::target::Target;
use super::{FilePlan, Statistics};
use crate::files::{DiskFile, Output, Series, WriteError};
use crate::pcapng::{Description, PcapngWriter};

/// Begins a file: the one of the plan, or the next of the series.
pub(super) fn begin(
    plan: &FilePlan,
    series: Option<&mut Series>,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    let Some(series) = series else {
        return head(Target::open(plan)?, plan.zstd, interfaces);
    };
    let (path, file) = loop {
        let path = series.next(SystemTime::now());
        match DiskFile::create(&path, false) {
            // Another capture of that name has taken the number.
            Err(WriteError::Exists(_)) => series.forget(&path),
            Err(error) => {
                series.forget(&path);
                return Err(error);
            }
            Ok(file) => break (path, file),
        }
    };
    let begun = head(file, plan.zstd, interfaces);
    if begun.is_err() {
        discard(Some(series), &path);
    }
    begun
}

/// Removes a file of ours that could not be begun: what it was to hold goes elsewhere.
pub(super) fn discard(series: Option<&mut Series>, path: &Path) {
    if let Some(series) = series {
        series.forget(path);
    }
    // If it cannot be removed, the next attempt says why.
    let _ = std::fs::remove_file(path);
}

/// Writes what comes before the first frame.
fn head(
    file: DiskFile,
    level: Option<i32>,
    interfaces: &[Description],
) -> Result<PcapngWriter<Output>, WriteError> {
    let path = file.path().to_owned();
    let failed = |error| WriteError::at(&path, error);
    let output = Output::new(file, level);
    let mut writer = PcapngWriter::new(output, interfaces).map_err(failed)?;
    // What comes before the first frame is no unit of its own.
    writer.output().mark(0);
    writer.output().flush().map_err(failed)?;
    Ok(writer)
}

/// Since the epoch.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The file's length comes back, and what failed.
pub(super) fn finish(
    mut writer: PcapngWriter<Output>,
    started: Duration,
    statistics: &Statistics,
) -> (u64, Result<(), WriteError>) {
    let path = writer.output().path().to_owned();
    let times = started..now();
    // Into memory: cannot fail.
    for (link, (counts, comment)) in statistics.iter().enumerate() {
        let _ = writer.write_statistics(link as u32, times.clone(), counts, Some(comment));
        writer.output().mark(0);
    }
    let (bytes, finished) = writer.into_output().finish();
    (bytes, finished.map_err(|error| WriteError::at(&path, error)))
}
