//! Reads captures and passes on the accesses of each card.

use std::io::Read;
use std::path::Path;

use hmtt_format::config::{Granularity, Mode};
use hmtt_format::{Event, Report};

use super::memories::Memories;
use super::{Batch, Ending, FrequencySlice, Gap, Known, PageRun, Part, SourceError, counted};
use crate::analysis::AddressSpace;
use crate::analysis::bank_map::BankMap;
use crate::decode::{Counts, Item};
use crate::identity::CardId;
use crate::pcapng::ReadError;
use crate::trace::Trace;

/// Number of batches that are searched for a card's first report, so that the clock's period is
/// known before the first access.
const BATCHES_AHEAD: usize = 64;

/// A capture, and the facts in the first report of each card.
pub struct Capture<R: Read> {
    trace: Trace<R>,
    reports: Vec<(CardId, Known)>,
}

/// Opens a capture, and looks for the first reports of its cards.
pub fn open(path: &Path) -> Result<Capture<std::fs::File>, ReadError> {
    let mut ahead = Trace::open(path)?;
    let mut reports: Vec<(CardId, Known)> = Vec::new();
    for _ in 0..BATCHES_AHEAD {
        // The same error occurs again when the capture is read.
        let Ok(Some(batch)) = ahead.next_batch() else { break };
        if let Some(Item::Report { report, .. }) = &batch.item
            && reports.len() < super::MOST_MEMORIES
            && reports.iter().all(|(card, _)| *card != batch.card)
        {
            reports.push((batch.card, of_report(report)));
        }
    }
    Ok(Capture { trace: Trace::open(path)?, reports })
}

impl<R: Read> From<Trace<R>> for Capture<R> {
    fn from(trace: Trace<R>) -> Self {
        Capture { trace, reports: Vec::new() }
    }
}

/// The facts that are known without a report.
const NO_REPORT: Known = Known {
    address_space: AddressSpace::Physical,
    clocks: true,
    tck_ps: None,
    unit_bytes: None,
    sizes: false,
    threads: false,
    instructions: false,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};

/// The facts that a report states.
fn of_report(report: &Report) -> Known {
    let memory = &report.memory;
    let shifted = |number: u32, log2: u8| number.checked_shl(log2.into()).unwrap_or(0);
    let unit_bytes = match report.granularity {
        Granularity::Line => shifted(1, memory.line_log2),
        // Each command may select its burst length; then sizes are not known.
        Granularity::Burst => shifted(report.burst_length.unwrap_or(0).into(), memory.bus_log2),
    };
    Known {
        tck_ps: Some(memory.tck_ps),
        unit_bytes: Some(unit_bytes).filter(|bytes| *bytes > 0),
        capacity_bytes: Some(memory.capacity()),
        bus_bytes: Some(shifted(1, memory.bus_log2)).filter(|bytes| *bytes > 0),
        bank_map: Some(BankMap::from(&memory.map)),
        ..NO_REPORT
    }
}

/// Reads a capture.
pub fn read<R: Read>(
    capture: Result<impl Into<Capture<R>>, ReadError>,
    add: &mut dyn FnMut(usize, Part<'_>),
) -> Result<Ending, SourceError> {
    let Capture { mut trace, reports } = capture?.into();
    let mut memories = Memories::new(add);
    let mut coarse = Coarse::default();
    let mut failure = pass_on(&mut trace, &reports, &mut memories, &mut coarse).err();
    let mut ending = memories.finish();
    ending.has_analysis_mode = coarse.has_analysis_mode;
    // An error here is the same as the error above.
    if let Ok(counts) = trace.counts() {
        let (missing, notes) = in_words(&counts.sum(), ending.accesses);
        ending.missing.extend(missing);
        ending.notes.extend(notes);
        if counts.sum().frames == 0 && failure.is_none() {
            failure = Some(SourceError::NoFrames);
        }
    }
    ending.notes.extend(trace.unread().in_words());
    if let Some(offset) = trace.truncated_at() {
        ending.missing.push(format!("the file ends within the block at offset {offset}"));
    }
    Ok(Ending { failure, ..ending })
}

/// Facts from reports that are needed for records without addresses.
#[derive(Default)]
struct Coarse {
    /// Bytes of a burst and the clock's period, by memory, as the last report states them.
    reported: Vec<(Option<u32>, Option<u32>)>,
    has_analysis_mode: bool,
}

impl Coarse {
    fn report(&mut self, memory: usize, report: &Report) {
        let bytes = 1u32.checked_shl(report.memory.burst_log2().into());
        if self.reported.len() <= memory {
            self.reported.resize(memory + 1, (None, None));
        }
        self.reported[memory] = (bytes, Some(report.memory.tck_ps));
        self.has_analysis_mode |= report.mode == Mode::Analysis;
    }

    /// Passes on accesses that an event states without their addresses. `has_slices_only`: whether
    /// no other record states the accesses of a slice.
    fn event(&self, memory: usize, event: &Event, has_slices_only: bool, to: &mut Memories<'_>) {
        let (burst_bytes, tck_ps) = self.reported.get(memory).copied().unwrap_or_default();
        match event.with_settings(None, tck_ps) {
            Event::Page { clock, address, reads, writes, duration } => {
                let (clock, address) = (clock.0, address.0);
                let (reads, writes) = (reads.into(), writes.into());
                to.page_run(
                    memory,
                    PageRun {
                        clock,
                        duration_clocks: duration.into(),
                        address,
                        reads,
                        writes,
                        burst_bytes,
                    },
                );
            }
            Event::Slice { clock, length, reads, writes, .. } if has_slices_only => {
                let (clock, length_clocks) = (clock.0, length.clocks().map(|clocks| clocks.0));
                let (reads, writes) = (reads.into(), writes.into());
                to.frequency_slice(
                    memory,
                    FrequencySlice {
                        clock,
                        length_clocks,
                        is_partial: length.is_partial(),
                        reads,
                        writes,
                        burst_bytes,
                    },
                );
            }
            _ => {}
        }
    }
}

fn pass_on<R: Read>(
    trace: &mut Trace<R>,
    reports: &[(CardId, Known)],
    memories: &mut Memories<'_>,
    coarse: &mut Coarse,
) -> Result<(), SourceError> {
    while let Some(batch) = trace.next_batch()? {
        let reported = || reports.iter().find(|(card, _)| *card == batch.card);
        let memory =
            memories.of(batch.card, || reported().map_or(NO_REPORT, |(_, known)| *known))?;
        let unit = memories.now(memory).unit_bytes;
        let columns = batch.accesses;
        let accesses = Batch::new(columns.addresses, columns.writes).with_clocks(columns.clocks);
        memories.batch(memory, accesses.with_unit(unit));
        if let Some(item @ (Item::Event(_) | Item::Report { .. })) = &batch.item {
            memories.item(memory, item);
        }
        match batch.item {
            Some(Item::Event(event)) => {
                coarse.event(memory, &event, batch.has_slices_only, memories);
            }
            Some(Item::Report { report, .. }) => {
                coarse.report(memory, &report);
                let known = of_report(&report);
                if known != memories.now(memory) {
                    memories.known(memory, known);
                }
            }
            Some(Item::Gap(gap)) if gap.is_loss() => memories.gap(
                memory,
                Gap {
                    lost_accesses: gap.accesses,
                    after_clock: gap.after.map(|clock| clock.0),
                    before_clock: gap.before.map(|clock| clock.0),
                },
            ),
            Some(Item::Restart) => memories.restart(memory),
            _ => {}
        }
    }
    Ok(())
}

/// Losses that counts show, and notes on other limits of the results, as texts for people.
/// `accesses`: number of accesses that were passed on.
pub fn in_words(counts: &Counts, accesses: u64) -> (Vec<String>, Vec<String>) {
    let losses = [
        (counts.lost_accesses, "access is missing", "accesses are missing"),
        (counts.order.missing_frames, "frame is missing", "frames are missing"),
        (counts.card_lost_records, "record was lost on the card", "records were lost on the card"),
        (counts.malformed_frames, "frame is malformed", "frames are malformed"),
        (counts.captures_mismatched, "count of bursts differs", "counts of bursts differ"),
    ];
    let lost = losses.into_iter().filter(|(count, ..)| *count > 0);
    let missing = lost.map(|(count, singular, plural)| counted(count, singular, plural)).collect();
    let mut notes = Vec::new();
    let summed = counts.accesses.saturating_sub(accesses);
    if summed > 0 {
        notes.push(counted(
            summed,
            "access is to the tag window, and left out",
            "accesses are to the tag window, and left out",
        ));
    }
    if counts.accesses_before_start > 0 {
        let before = counts.accesses_before_start;
        notes.push(format!("{before} accesses were made before the first frame"));
    }
    if counts.frames != 0 && !counts.complete_tail {
        notes.push("no end frame: what follows the last frame is not known".to_owned());
    }
    (missing, notes)
}
