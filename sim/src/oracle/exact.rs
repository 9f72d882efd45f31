//! Compares a capture without loss with the expected one: each record, its place among the reports,
//! and each counter.

use hmtt_format::{Event, Report};

use super::capture::{Capture, Element};
use super::due::{Due, DueReport};

/// Number of end frames of a stop.
const ENDS: u8 = hmtt_format::frame::END_REPEATS;

/// Compares the records and the reports.
///
/// # Errors
/// A description of the first difference.
pub fn records(due: &Due, capture: &Capture) -> Result<(), String> {
    let (mut next, mut reports) = (0, Reports { due, next: 0, ends: 0 });
    for element in &capture.elements {
        match element {
            Element::Record(event) => {
                if due.records.get(next) != Some(event) {
                    return Err(difference(due, next, Some(event)));
                }
                next += 1;
            }
            Element::Report(report, clock, end) => reports.take(report, *clock, *end, next)?,
            Element::Lost(_) | Element::Slice(..) | Element::Analysis(_) => {}
        }
    }
    if next != due.records.len() {
        return Err(difference(due, next, None));
    }
    reports.finish()
}

fn difference(due: &Due, at: usize, sent: Option<&Event>) -> String {
    let before = due.records[at.saturating_sub(3)..at].iter().map(Event::to_string);
    let before: Vec<_> = before.collect();
    let expected = due.records.get(at).map_or("nothing".into(), Event::to_string);
    let sent = sent.map_or("nothing".into(), Event::to_string);
    format!("record {at}: due {expected}, sent {sent}; before: {}", before.join(", "))
}

struct Reports<'a> {
    due: &'a Due,
    next: usize,
    /// Number of end frames of the previous report that must still follow.
    ends: u8,
}

impl Reports<'_> {
    fn take(
        &mut self,
        report: &Report,
        clock: u64,
        end: bool,
        records: usize,
    ) -> Result<(), String> {
        let number = self.next;
        let before = number.checked_sub(1).map(|last| &self.due.reports[last]);
        if end && self.ends > 0 {
            self.ends -= 1;
            let before = before.filter(|before| before.end).ok_or("an end frame too many")?;
            return equal(before, report, number - 1);
        }
        if self.ends > 0 {
            return Err(format!("report {number}: end frames are missing before it"));
        }
        let Some(due) = self.due.reports.get(number) else {
            return self.periodic(report, end, number);
        };
        if due.end != end || due.records != records {
            let is = |end| if end { "end" } else { "info" };
            if self.periodic(report, end, number).is_ok() && due.records > records {
                return Ok(());
            }
            return Err(format!(
                "report {number}: due was {} after {} records, sent {} after {records}",
                is(due.end),
                due.records,
                is(end)
            ));
        }
        equal(due, report, number)?;
        // The results of the analysis are sent before the end is reported, also if the analysis was
        // turned off before.
        let analysed = self.due.reports[..=number].iter().any(|report| report.analysed);
        let in_time = if end && analysed { clock >= due.clock } else { clock == due.clock };
        if !in_time {
            return Err(format!("report {number}: clock {clock}, its cause was at {}", due.clock));
        }
        self.next += 1;
        self.ends = if end { ENDS - 1 } else { 0 };
        Ok(())
    }

    /// Compares a report that is sent about every second.
    fn periodic(&self, report: &Report, end: bool, number: usize) -> Result<(), String> {
        let before = number.checked_sub(1).map(|last| &self.due.reports[last]);
        match before {
            Some(before) if !before.end && !end && before.settings[0].is_in(report) => Ok(()),
            _ => Err(format!("report {number} was not due: {report:?}")),
        }
    }

    fn finish(&self) -> Result<(), String> {
        let due = &self.due.reports;
        if self.next != due.len() || self.ends != 0 {
            return Err(format!("{} reports, {} were due", self.next, due.len()));
        }
        Ok(())
    }
}

/// Compares a report with the expected one.
fn equal(due: &DueReport, report: &Report, number: usize) -> Result<(), String> {
    let counters = [
        ("READ bursts", report.reads, due.totals.reads),
        ("WRITE bursts", report.writes, due.totals.writes),
        ("faults", report.faults.into(), due.totals.faults.into()),
        ("tags", report.tags.into(), due.totals.tags.into()),
    ];
    if let Some((name, stated, due)) = counters.iter().find(|(_, stated, due)| stated != due) {
        return Err(format!("report {number}: {stated} {name}, there were {due}"));
    }
    settings(due, report, number)
}

/// Checks that a report states possible settings.
pub fn settings(due: &DueReport, report: &Report, number: usize) -> Result<(), String> {
    if !due.settings.iter().any(|chosen| chosen.is_in(report)) || report.running == due.end {
        let (settings, report) =
            (&due.settings, Report { memory: report.memory.clone(), ..*report });
        return Err(format!("report {number}: in force {settings:?}, stated {report:?}"));
    }
    Ok(())
}
