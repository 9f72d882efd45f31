//! Checks a capture with losses against the accesses and events of the case. Each record must be
//! true and in its place. Records may be missing only where the card reports a loss, and the counts
//! of the loss must add up.
//!
//! The lost records are not known one by one: the FIFO loses whole records, but the event queue
//! loses bursts that have not been merged. So the number of lost accesses is at most the number of
//! the missing bursts, and at least the number of records into which these bursts could be merged.
//! Without records of lines both numbers are equal. Example: two missing bursts of one line are one
//! or two lost accesses.

use hmtt_format::config::{Granularity, Mode};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{Access, Direction, Event, MemoryDescription, PhysAddr, Report};

use super::capture::{Capture, Element, Loss};
use super::due::{Due, Item, What};
use super::{exact, extent};
use crate::line_merge::LineMerge;

/// Checks a capture against the accesses and events of a case.
///
/// # Errors
/// A description of the first difference.
pub fn check(due: &Due, capture: &Capture, memory: &MemoryDescription) -> Result<(), String> {
    let lost = Loss::default();
    let mut check = Check { due, memory, next: 0, joined: 0, open: None, lost, reports: 0 };
    let mut slice_end = 0;
    for element in &capture.elements {
        match element {
            Element::Lost(loss) => check.lose(*loss),
            Element::Record(event) => check.record(event)?,
            Element::Slice(slice, _) => slice_end = check.slice(slice, slice_end)?,
            Element::Report(report, clock, end) => check.report(report, *clock, *end)?,
            Element::Analysis(_) => {}
        }
    }
    check.skip(due.items.len(), "the end")?;
    check.total(capture)
}

/// Number of clocks before a loss within which consecutive settings may be its cause.
const SETTING_CLOCKS: u64 = 6_000;

/// Checks that losses have a cause. Where the FIFO and the link can take all records, only
/// consecutive settings cause losses.
///
/// # Errors
/// A description of the first loss without such a cause.
pub fn excused(due: &Due, capture: &Capture) -> Result<(), String> {
    let (mut reached, mut open) = (0, None);
    for element in &capture.elements {
        match element {
            Element::Lost(loss) => open = Some(loss),
            Element::Record(event) => {
                let from = u64::saturating_sub(reached, SETTING_CLOCKS);
                reached = super::clock(event);
                let near = |(clock, _): &&(u64, u16)| (from..=reached).contains(clock);
                let loss = open.take();
                if let Some(loss) = loss.filter(|_| due.commands.iter().filter(near).count() < 2) {
                    return Err(format!("{loss:?} before {event}, and no settings to cause it"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

struct Check<'a> {
    due: &'a Due,
    memory: &'a MemoryDescription,
    /// Index of the first item that was neither recorded nor lost.
    next: usize,
    /// Number of bursts that are part of the last record or were lost.
    joined: u64,
    /// A reported loss that has not been assigned to items yet.
    open: Option<Loss>,
    /// Sum of all reported losses.
    lost: Loss,
    /// Index of the first report that may come next.
    reports: usize,
}

impl Check<'_> {
    fn lose(&mut self, loss: Loss) {
        let open = self.open.get_or_insert_default();
        for total in [open, &mut self.lost] {
            total.records += loss.records;
            total.accesses += loss.accesses;
        }
    }

    fn record(&mut self, event: &Event) -> Result<(), String> {
        let clock = super::clock(event);
        let at = self.next + self.due.items[self.next..].partition_point(|item| item.clock < clock);
        let items = &self.due.items[at..];
        let Some(item) = items.first().filter(|item| item.clock == clock) else {
            return Err(format!("{event} never happened, or came before"));
        };
        // A mark has the clock of the access that completes it.
        let at = at + usize::from(self.is_mark(event) && matches!(item.what, What::Burst(_)));
        self.skip(at, &event.to_string())?;
        let count = self.covered(event, at);
        if count == 0 {
            return Err(format!("{event} differs from {:?}", self.due.items[at]));
        }
        self.next = at + count;
        self.joined = if matches!(event, Event::Access(_)) { count as u64 - 1 } else { 0 };
        Ok(())
    }

    fn is_mark(&self, event: &Event) -> bool {
        matches!(event, Event::Mark { .. })
    }

    /// Number of items from `at` on that a record represents; 0 if the record does not agree with
    /// them.
    fn covered(&self, event: &Event, at: usize) -> usize {
        let items = &self.due.items[at..];
        match (event, items.first().map(|item| &item.what)) {
            (Event::Access(access), Some(What::Burst(burst))) => self.line(access, burst, items),
            (Event::Page { .. }, Some(What::Burst(_))) => self.page(event, items),
            (_, Some(What::Other(other))) => usize::from(event == other),
            _ => 0,
        }
    }

    fn chosen(&self, item: &Item) -> (Mode, Granularity) {
        let chosen = self.due.epochs.get(item.epoch).map(|epoch| epoch.chosen);
        chosen.map_or((Mode::Line, Granularity::Line), |chosen| (chosen.mode, chosen.granularity))
    }

    fn line(&self, access: &Access, burst: &Access, items: &[Item]) -> usize {
        let (mode, granularity) = self.chosen(&items[0]);
        let log2 = match granularity {
            Granularity::Line => self.memory.line_log2,
            Granularity::Burst => self.memory.burst_log2(),
        };
        let address = PhysAddr(burst.address.0 >> log2 << log2);
        if mode != Mode::Line || *access != (Access { address, ..*burst }) {
            return 0;
        }
        if granularity == Granularity::Burst {
            return 1;
        }
        let mut merge = LineMerge::new(self.memory);
        let joins = |item: &&Item| match item.what {
            What::Burst(burst) => item.epoch == items[0].epoch && merge.join(burst).is_none(),
            What::Other(_) => false,
        };
        items.iter().take_while(joins).count()
    }

    fn page(&self, event: &Event, items: &[Item]) -> usize {
        let &Event::Page { clock, address, reads, writes, duration } = event else { return 0 };
        let Some(run) = items.get(..(reads + writes) as usize) else { return 0 };
        let belongs = |item: &Item| match item.what {
            What::Burst(burst) => {
                item.epoch == items[0].epoch
                    && burst.address.0 >> PAGE_LOG2 == address.0 >> PAGE_LOG2
            }
            What::Other(_) => false,
        };
        let written = |item: &&Item| match item.what {
            What::Burst(burst) => burst.direction == Direction::Write,
            What::Other(_) => false,
        };
        let last = run.last().map_or(0, |item| item.clock);
        let true_of_all = self.chosen(&items[0]).0 == Mode::Page
            && run.iter().all(belongs)
            && run.iter().filter(written).count() == writes as usize
            && last == clock.0 + u64::from(duration);
        if true_of_all { run.len() } else { 0 }
    }

    /// Skips the items before `to`, which have no record. A loss must cover them, except accesses
    /// in a mode that does not record them one by one (frequency, analysis).
    fn skip(&mut self, to: usize, before: &str) -> Result<(), String> {
        let silent = |item: &&Item| {
            matches!(item.what, What::Burst(_))
                && matches!(self.chosen(item).0, Mode::Frequency | Mode::Analysis)
        };
        let missing: Vec<&Item> =
            self.due.items[self.next..to].iter().filter(|item| !silent(item)).collect();
        match (self.open, missing.first()) {
            (None, Some(first)) => Err(format!("before {before}: {first:?} was lost silently")),
            (None, None) => Ok(()),
            (Some(loss), _) => {
                self.open = None;
                self.adds_up(loss, &missing, to).map_err(|what| format!("before {before}: {what}"))
            }
        }
    }

    /// Checks that a loss states the number of the missing items.
    fn adds_up(&self, loss: Loss, missing: &[&Item], to: usize) -> Result<(), String> {
        let counted = |item: &&&Item| match item.what {
            What::Burst(_) => true,
            What::Other(other) => is_window(&other),
        };
        let most = missing.iter().filter(counted).count() as u64;
        let least = self.fewest(missing);
        // Accesses that only slices count may have been lost with their slices.
        let silent = (to - self.next) as u64 - missing.len() as u64;
        let most = most + self.joined;
        if loss.accesses < least || loss.accesses > most + silent + self.silent_before() {
            let stated = loss.accesses;
            return Err(format!("{stated} accesses lost, {least} to {most} are missing"));
        }
        let plain = |epoch: &super::due::Epoch| {
            let chosen = epoch.chosen;
            let burst = (chosen.mode, chosen.granularity) == (Mode::Line, Granularity::Burst);
            burst && !chosen.sliced() && !chosen.analysed()
        };
        let (least, most) = (missing.len() as u64, missing.len() as u64 + self.stops(to));
        if self.due.epochs.iter().all(plain) && !(least..=most).contains(&loss.records) {
            return Err(format!("{} records lost, {least} to {most} are missing", loss.records));
        }
        Ok(())
    }

    /// Number of stops before item `to` without a record. If the event queue could not take a stop
    /// and the start after it, both are counted as one lost record.
    fn stops(&self, to: usize) -> u64 {
        let clock = |index: usize| self.due.items.get(index).map(|item| item.clock);
        let from = self.next.checked_sub(1).and_then(clock).unwrap_or(0);
        let to = clock(to).unwrap_or(self.due.end);
        let within =
            |report: &&super::due::DueReport| report.end && (from..=to).contains(&report.clock);
        self.due.reports.iter().filter(within).count() as u64
    }

    /// Number of accesses whose slices may be lost later than the accesses.
    fn silent_before(&self) -> u64 {
        let numbers = |epoch: &&super::due::Epoch| !epoch.chosen.has_numbers();
        let silent = self.due.epochs.iter().filter(numbers);
        silent.map(|epoch| epoch.bursts.len() as u64).sum()
    }

    /// Smallest number of accesses that the card may count for the missing items.
    fn fewest(&self, missing: &[&Item]) -> u64 {
        let (mut merge, mut epoch, mut fewest) = (LineMerge::new(self.memory), usize::MAX, 0);
        for item in missing {
            if epoch != item.epoch {
                fewest += u64::from(merge.close().is_some());
                epoch = item.epoch;
            }
            match item.what {
                What::Burst(burst) if self.chosen(item) == (Mode::Line, Granularity::Line) => {
                    fewest += u64::from(merge.join(burst).is_some());
                }
                What::Burst(_) => fewest += 1,
                What::Other(other) => {
                    fewest += u64::from(merge.close().is_some()) + u64::from(is_window(&other));
                }
            }
        }
        fewest + u64::from(merge.close().is_some())
    }

    /// Checks that a slice counts no more accesses than there were in its time. Returns the first
    /// clock after it. The last access of an epoch may be at this clock, so an access at this clock
    /// counts, too.
    fn slice(&self, slice: &Event, before: u64) -> Result<u64, String> {
        let &Event::Slice { clock, reads, writes, .. } = slice else { return Ok(before) };
        let (_, end) = extent(slice, self.memory.tck_ps);
        if clock.0 < before {
            return Err(format!("{slice} begins before {before}"));
        }
        let bursts = &self.due.bursts;
        let from = bursts.partition_point(|burst| burst.access.clock.0 < clock.0);
        let to = bursts.partition_point(|burst| burst.access.clock.0 <= end);
        let mut most = [0; 2];
        for burst in bursts[from..to].iter().filter(|burst| !burst.window) {
            most[usize::from(burst.access.direction == Direction::Write)] += 1;
        }
        if reads > most[0] || writes > most[1] {
            return Err(format!("{slice} counts more than {most:?}"));
        }
        Ok(end)
    }

    /// Checks that a report states the settings that were in effect when the event occurred that
    /// causes the report, and that it counts no more than had happened by then.
    fn report(&mut self, report: &Report, clock: u64, end: bool) -> Result<(), String> {
        let states = |due: &super::due::DueReport| {
            let in_force = exact::settings(due, report, self.reports).is_ok();
            let counters = [
                (report.reads, due.totals.reads),
                (report.writes, due.totals.writes),
                (report.faults.into(), due.totals.faults.into()),
                (report.tags.into(), due.totals.tags.into()),
            ];
            due.end == end && in_force && counters.iter().all(|(stated, most)| stated <= most)
        };
        let from = self.reports.saturating_sub(1);
        let due = self.due.reports.get(from..).unwrap_or_default();
        let position = due.iter().position(states);
        let position =
            position.ok_or_else(|| format!("a report at {clock} was not due: {report:?}"))?;
        self.reports = from + position + 1;
        Ok(())
    }

    /// Checks that recorded and lost accesses add up to all accesses.
    fn total(&self, capture: &Capture) -> Result<(), String> {
        let exact = |epoch: &super::due::Epoch| {
            let chosen = epoch.chosen;
            (chosen.mode, chosen.granularity) != (Mode::Line, Granularity::Line)
                && (chosen.mode != Mode::Analysis || chosen.slices)
        };
        let bursts = self.due.bursts.len() as u64;
        let all_exact = self.due.epochs.iter().all(exact);
        let counted = capture.accesses;
        if counted > bursts || all_exact && counted != bursts {
            return Err(format!("{counted} accesses recorded or lost, there were {bursts}"));
        }
        let last = capture.elements.iter().rev().find_map(|element| match element {
            Element::Report(report, _, true) => Some(report.reads + report.writes),
            _ => None,
        });
        match last {
            Some(counted) if counted + self.lost.accesses >= bursts => Ok(()),
            Some(counted) => Err(format!(
                "{counted} bursts on the card and {} accesses lost, there were {bursts}",
                self.lost.accesses
            )),
            None => Err("no end frame".into()),
        }
    }
}

fn is_window(event: &Event) -> bool {
    matches!(event, Event::Tag { .. })
}
