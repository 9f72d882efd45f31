//! Compares the slices of a capture without loss with the bursts of their times.
//!
//! Slices begin on a grid. The grid starts at power-on, or shortly after the last command that
//! begins a new grid. The document does not fix the phase of a new grid. Until the new grid starts,
//! slices end on the old grid, as the card sends them. A phase of the new grid is accepted if all
//! slices are correct with it, and if the new grid starts early enough.

use hmtt_format::config::{self, slice_clocks};
use hmtt_format::event::SliceLength;
use hmtt_format::{Cycles, Direction, Event, MemoryDescription};

use super::capture::{Capture, Element};
use super::due::{Due, Epoch};
use super::extent;

/// Number of clocks that a command takes at most; each command or report before it takes as long.
const COMMAND_CLOCKS: u64 = 300;

/// Compares all slices.
///
/// # Errors
/// A description of the first difference.
pub fn check(due: &Due, capture: &Capture, memory: &MemoryDescription) -> Result<(), String> {
    places(capture, memory.tck_ps)?;
    let slices = capture.elements.iter().filter_map(|element| match element {
        Element::Slice(event, _) => Some(*event),
        _ => None,
    });
    let sent: Vec<Event> = slices.collect();
    let mut grid = Grid { due, memory, sent: &sent, phase: Phase::Known(0) };
    let mut next = 0;
    for epoch in &due.epochs {
        if let Some(clock) = epoch.fresh_grid {
            grid.phase = Phase::Open(clock);
        }
        if epoch.chosen.sliced() {
            next = grid.epoch(epoch, next)?;
        }
    }
    match sent.get(next) {
        Some(extra) => Err(format!("slice {next} was not due: {extra}")),
        None => Ok(()),
    }
}

#[derive(Clone, Copy)]
enum Phase {
    /// Slices begin at this clock modulo their length.
    Known(u64),
    /// A new grid begins after a command of this clock.
    Open(u64),
}

struct Grid<'a> {
    due: &'a Due,
    memory: &'a MemoryDescription,
    sent: &'a [Event],
    phase: Phase,
}

impl Grid<'_> {
    /// Compares the slices of an epoch with the sent ones from index `next` on. Returns the index
    /// of the next slice after the epoch.
    fn epoch(&mut self, epoch: &Epoch, next: usize) -> Result<usize, String> {
        let length = u64::from(slice_clocks(epoch.chosen.slice_code, self.memory.tck_ps)).max(1);
        let command = match self.phase {
            Phase::Known(phase) => {
                let mut ends = ends(epoch, phase % length, length, 0);
                if let Some(until) = self.turned_on(epoch.from) {
                    let sent = self.sent_ends(epoch, next);
                    ends.retain(|end| *end > until || sent.contains(end));
                }
                return self.equal(&self.due(epoch, &ends), next);
            }
            Phase::Open(command) => command,
        };
        // `old`: clocks at which the card may still use the old grid. From the clock `new` on it
        // uses the new one.
        let late = self.carried_out(command) - command;
        let (old, new) = if length > late {
            (command..=command + late, command + length)
        } else {
            (command..=command + length + late, command + length + late)
        };
        let sent = self.sent_ends(epoch, next);
        let free: Vec<u64> = sent.iter().copied().filter(|end| old.contains(end)).collect();
        let fits = |end: &&u64| {
            let since = end.checked_sub(command + length).filter(|_| !old.contains(*end));
            since.is_some_and(|since| since % length <= late || length <= late)
        };
        let mut error = None;
        for end in sent.iter().filter(fits).take(4) {
            let mut ends = ends(epoch, end % length, length, new);
            ends.extend(&free);
            ends.sort_unstable();
            ends.dedup();
            match self.equal(&self.due(epoch, &ends), next) {
                Ok(next) => {
                    self.phase = Phase::Known(end % length);
                    return Ok(next);
                }
                Err(difference) => error = error.or(Some(difference)),
            }
        }
        // No slice of the new grid ends within the epoch.
        let whole = self.equal(&self.due(epoch, &free), next);
        whole.map_err(|difference| error.unwrap_or(difference))
    }

    /// Clocks within an epoch at which a sent slice begins or ends.
    fn sent_ends(&self, epoch: &Epoch, next: usize) -> Vec<u64> {
        let extents = self.sent[next..].iter().map(|slice| extent(slice, self.memory.tck_ps));
        let mut ends: Vec<u64> = extents
            .take_while(|(from, _)| *from <= epoch.to)
            .flat_map(|(from, to)| [from, to])
            .filter(|end| (epoch.from + 1..epoch.to).contains(end))
            .collect();
        ends.dedup();
        ends
    }

    /// If a recent command turned slices on, returns the last clock at which the card may not yet
    /// have carried it out.
    fn turned_on(&self, clock: u64) -> Option<u64> {
        let turns = |register| [config::MODE_FREQUENCY, config::FREQUENCY_ON].contains(&register);
        let mut before = self.due.commands.iter().filter(|(at, _)| *at <= clock);
        let last = before.rfind(|(_, register)| turns(*register))?.0;
        Some(self.carried_out(last)).filter(|until| *until > clock)
    }

    /// The clock by which a command, and those before it, have been carried out.
    fn carried_out(&self, command: u64) -> u64 {
        let waits =
            |clock: &u64| (command.saturating_sub(16 * COMMAND_CLOCKS)..=command).contains(clock);
        let commands = self.due.commands.iter().filter(|(clock, _)| waits(clock)).count();
        let reports = self.due.reports.iter().filter(|report| waits(&report.clock)).count();
        command + COMMAND_CLOCKS * (1 + commands + reports) as u64
    }

    /// The slices of an epoch that end at these clocks and at the end of the epoch.
    fn due(&self, epoch: &Epoch, ends: &[u64]) -> Vec<Event> {
        let code = epoch.chosen.slice_code;
        let whole = u64::from(slice_clocks(code, self.memory.tck_ps)).max(1);
        let (mut slices, mut from, mut counts) = (Vec::new(), epoch.from, [0u32; 2]);
        let mut end = |from: u64, to: u64, counts: &mut [u32; 2]| {
            let [reads, writes] = std::mem::take(counts);
            let length = SliceLength::of_record((to - from != whole).then_some(Cycles(to - from)));
            if reads + writes != 0 {
                let (clock, code) = (Cycles(from), Some(code));
                slices.push(Event::Slice { clock, code, length, reads, writes });
            }
        };
        let mut ends = ends.iter().copied().peekable();
        for burst in self.due.bursts[epoch.bursts.clone()].iter().filter(|burst| !burst.window) {
            // An access at the end of a slice belongs to the next slice, also at the end of an
            // epoch.
            while let Some(to) = ends.next_if(|to| *to <= burst.access.clock.0) {
                end(from, to, &mut counts);
                from = to;
            }
            counts[usize::from(burst.access.direction == Direction::Write)] += 1;
        }
        let to = ends.next().unwrap_or(epoch.to);
        end(from, to, &mut counts);
        slices
    }

    fn equal(&self, due: &[Event], next: usize) -> Result<usize, String> {
        for (at, slice) in due.iter().enumerate() {
            let sent = self.sent.get(next + at);
            if sent != Some(slice) {
                let sent = sent.map_or("nothing".into(), Event::to_string);
                return Err(format!("slice {}: due {slice}, sent {sent}", next + at));
            }
        }
        Ok(next + due.len())
    }
}

/// Clocks of an epoch, from `first` on, at which slices end: the clocks that equal `phase` modulo
/// `length`. For example, with phase 3 and length 10, slices of an epoch from 0 to 30 end at 3, 13
/// and 23.
fn ends(epoch: &Epoch, phase: u64, length: u64, first: u64) -> Vec<u64> {
    let from = (epoch.from + 1).max(first);
    let next = from + (phase + length - from % length) % length;
    (next..=epoch.to).step_by(length as usize).collect()
}

/// Checks the places of slices among the records. A slice is sent after its end, and before any
/// record of a later clock. At most one record of an earlier clock may come after the slice: the
/// line or page run that was open at its end.
fn places(capture: &Capture, tck_ps: u32) -> Result<(), String> {
    let (mut reached, mut ended, mut waiting) = (0, 0, 0u32);
    for element in &capture.elements {
        match element {
            Element::Slice(slice, _) => {
                let (_, end) = extent(slice, tck_ps);
                if reached > end {
                    return Err(format!("{slice} comes late: {reached} was recorded"));
                }
                (ended, waiting) = (end, 0);
            }
            Element::Record(event) => {
                let clock = super::clock(event);
                waiting += u32::from(clock < ended);
                if waiting > 1 {
                    return Err(format!("{event} comes after a slice that ended at {ended}"));
                }
                reached = clock;
            }
            _ => {}
        }
    }
    Ok(())
}
