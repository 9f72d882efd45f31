//! Compares decoded events with the accesses that a recording really contains.
//!
//! The records that a card with the given settings must send are built from the list of accesses,
//! and compared with the received ones one by one, including order and clocks. Tags and faults that
//! end other records are taken from the card, since a truth file does not list them; a flags file
//! lists the faults. Settings that software changes during the recording are not supported.

use std::path::Path;

use hmtt_format::config::{Granularity, Mode};
use hmtt_format::{Access, Cycles, Event, FaultKind, MemoryDescription, truth};

use crate::engine::Settings;
use crate::input::InputError;
use crate::input::lines::{self, Lines};

pub mod compare;
pub mod interruptions;
pub mod line_records;
pub mod page_records;
pub mod slice_records;

use compare::Comparison;
use interruptions::Interruptions;
use page_records::Moments;

/// Reads a truth file, plain or gzip. Clocks must not decrease.
pub fn read(path: &Path) -> Result<Vec<Access>, InputError> {
    let mut lines = Lines::new(path, lines::open(path)?);
    let mut accesses: Vec<Access> = Vec::new();
    while let Some(line) = lines.next_line()? {
        let line = line.to_owned();
        let access = truth::parse_line(&line).map_err(|what| lines.malformed(what, &line))?;
        let Some(access) = access else { continue };
        if let Some(last) = accesses.last().filter(|last| last.clock > access.clock) {
            return Err(lines.malformed(format!("a clock from {}", last.clock), &line));
        }
        accesses.push(access);
    }
    Ok(accesses)
}

/// Reads a flags file with lines of `clock kind bank`.
pub fn read_flags(path: &Path) -> Result<Vec<Event>, InputError> {
    let mut lines = Lines::new(path, lines::open(path)?);
    let mut faults = Vec::new();
    while let Some(line) = lines.next_line()? {
        let line = line.trim().to_owned();
        if !line.is_empty() && !line.starts_with('#') {
            let fault = parse_flag(&line);
            faults.push(fault.ok_or_else(|| lines.malformed("clock, kind and bank", &line))?);
        }
    }
    Ok(faults)
}

fn parse_flag(line: &str) -> Option<Event> {
    let mut fields = line.split_ascii_whitespace();
    let clock = Cycles(fields.next()?.parse().ok()?);
    let name = fields.next()?;
    let kind = FaultKind::from_name(name)?;
    let bank = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Event::Fault { clock, kind, bank })
}

/// Compares what the card sent with the records that the accesses require with these settings.
/// `clocks`: length of the recording.
pub fn check(
    accesses: &[Access],
    events: &[Event],
    memory: &MemoryDescription,
    settings: Settings,
    clocks: u64,
) -> Vec<Comparison> {
    let interruptions = Interruptions::new(events, memory);
    let records = match (settings.mode, settings.granularity) {
        (Mode::Line, Granularity::Line) => {
            Some(line_records::lines(accesses, memory, &interruptions))
        }
        (Mode::Line, Granularity::Burst) => {
            Some(line_records::bursts(accesses, memory, &interruptions))
        }
        (Mode::Page, _) => {
            let slices = settings.frequency.then_some(settings.slice_code);
            let moments = Moments::new(memory, slices);
            Some(page_records::pages(accesses, &interruptions, moments))
        }
        (Mode::Frequency | Mode::Analysis, _) => None,
    };
    let mut comparisons = Vec::new();
    if let Some(expected) = records {
        let sent = pick(events, is_record);
        comparisons.push(Comparison::new("truth", accesses.len(), expected, sent));
    }
    if settings.frequency || settings.mode == Mode::Frequency {
        let sent = pick(events, |event| matches!(event, Event::Slice { .. }));
        let code = settings.slice_code;
        let slices = slice_records::slices(accesses, code, memory.tck_ps, clocks, &sent);
        comparisons.push(Comparison::new("truth in slices", accesses.len(), slices, sent));
    }
    comparisons
}

/// Compares the faults that the card sent with the faults in a flags file.
pub fn check_flags(flags: Vec<Event>, events: &[Event]) -> Comparison {
    let sent = pick(events, |event| matches!(event, Event::Fault { .. }));
    Comparison::new("faults", flags.len(), flags, sent)
}

fn pick(events: &[Event], wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
    events.iter().copied().filter(wanted).collect()
}

/// Whether an event represents accesses with their addresses. A mark does not: its accesses are
/// recorded separately.
fn is_record(event: &Event) -> bool {
    match event {
        Event::Access(_) | Event::Page { .. } | Event::Tag { .. } => true,
        Event::Mark { .. }
        | Event::Fault { .. }
        | Event::Slice { .. }
        | Event::Interval { .. }
        | Event::Count { .. }
        | Event::HotPage { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn written(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("truth");
        fs::write(&path, text).unwrap();
        (directory, path)
    }

    #[test]
    fn truth_files_are_read_and_errors_name_the_line() {
        let (_directory, path) = written("# clock\n6 R 40\n6 W 80\n");
        assert_eq!(read(&path).unwrap().len(), 2);
        let (_directory, path) = written("6 R 40\n5 W 80\n");
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with(":2: expected a clock from 6, got `5 W 80`"), "{error}");
    }

    #[test]
    fn flags_files_are_read_and_errors_name_the_line() {
        let (_directory, path) = written("# clock kind bank\n386 act_open 1\n");
        let fault = Event::Fault { clock: Cycles(386), kind: FaultKind::ActivateOpen, bank: 1 };
        assert_eq!(read_flags(&path).unwrap(), [fault]);
        let (_directory, path) = written("386 act_opened 1\n");
        assert!(read_flags(&path).is_err());
    }
}
