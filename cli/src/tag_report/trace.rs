//! Attributes the accesses of a capture to the functions and blocks of a log. Log and capture are
//! related by the marks that both have.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::merge::survey_capture;
use hmtt::report::calls::{Calls, Sync};
use hmtt::tags::accesses::log_calls::{LogCalls, LogIndex};
use hmtt::tags::accesses::regions::Regions;
use hmtt::tags::accesses::steps::Steps;
use hmtt::tags::accesses::sync::LogSync;
use hmtt::tags::accesses::timed::TimedSplit;
use hmtt_files::tag_log::Header;

use super::super::capture_file::CaptureFile;

/// A log after its first pass, which has found its marks and calls.
pub struct Log<'a> {
    pub path: &'a Path,
    pub header: Header,
    pub index: LogIndex,
    /// Times of the first and the last event, in ticks.
    pub span: (u64, u64),
}

/// Adds the accesses of a capture to the report. Returns whether the capture has losses.
pub fn split(log: Log<'_>, capture: &Path, regions: Regions, calls: &mut Calls) -> Result<bool> {
    let (name, trace) = (log.path.display(), capture.display());
    let Header { is_timed, tsc_hz, .. } = log.header;
    if !is_timed || tsc_hz == 0 {
        bail!(
            "{name}: has no times, or the length of its ticks is unknown, so it cannot be combined with a trace"
        );
    }
    let sessions = survey_capture(capture).with_context(|| trace.to_string())?;
    let sync = LogSync::find(&sessions, &log.index.marks, tsc_hz, log.span).with_context(|| {
        format!("{name} and {trace} have no marks in common that fit one place only; see --marks")
    })?;
    let file = File::open(log.path).with_context(|| format!("{name}: cannot open"))?;
    let log_calls = LogCalls::new(file, log.index, regions.blocks());
    let mut split =
        TimedSplit::new(log_calls, sync.clone(), regions).with_context(|| name.to_string())?;
    let mut steps = Steps::default();
    let ending = CaptureFile::open(capture)?.read(
        |_| true,
        |batch| {
            if batch.card != sync.card {
                return;
            }
            let mut step = |clock, step| split.step(clock, step);
            steps.accesses(&batch.accesses, &mut step);
            batch.item.iter().for_each(|item| steps.item(item, &mut step));
        },
    )?;
    split.finish(steps.last).with_context(|| name.to_string())?;
    let tck_ps = steps.found.tck_ps.unwrap_or(10_000);
    let described = Sync {
        shared_marks: sync.shared,
        only_log: sync.only_log,
        only_trace: sync.only_trace,
        error_ns: sync.error * f64::from(tck_ps) / 1e3,
        beyond_marks: split.beyond_marks,
        uncertain: split.uncertain,
        uncertain_blocks: split.uncertain_blocks,
        other_sessions: split.other_sessions,
    };
    calls.add_trace(&split.ledger, steps.found, 0, Some(described));
    Ok(ending.has_loss())
}
