//! Compares frames with the expected records. Each record must be equal, or lost where the card
//! reports a loss.
//!
//! A sync states how many records were lost before it, how many accesses these records had, and
//! between which clocks they were. The same number is taken from the expected records: their
//! accesses must add up to the stated number, and their clocks must be in the stated range. The
//! next record must be the next expected one. So `received + reported lost = produced` holds at
//! every frame, not only at the end.

use std::cell::RefCell;
use std::rc::Rc;

use hmtt_format::frame::{ACCESSES_MASK, FrameKind, LOST_MASK, WORD_BYTES, WORDS_AT};
use hmtt_format::{Block, Event};

use crate::gmii::Frame;
use crate::output::{OutputError, Sink};

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Records that were received as expected.
    pub received: u64,
    /// Records that the card reports as lost, each at its place.
    pub lost: u64,
    /// Lost records that only the next record locates. They were lost after the clock of the next
    /// sync, while the event queue was full.
    pub late: u64,
    /// Stretches of lost records.
    pub gaps: u64,
    /// Clock of the first lost record.
    pub first_lost: Option<u64>,
    /// The first difference.
    pub wrong: Option<String>,
}

/// Compares frames with expected records, as the module's description says.
pub struct Check<I> {
    due: I,
    /// Clock of the last record that was received or lost.
    clock: u64,
    /// Accesses that the next sync must state.
    accesses: u64,
    lost: u32,
    verdict: Rc<RefCell<Verdict>>,
}

impl<I: Iterator<Item = Event>> Check<I> {
    /// Creates a comparison with `due`. The result is stored in `verdict`.
    pub fn new(due: I, verdict: Rc<RefCell<Verdict>>) -> Self {
        Check { due, clock: 0, accesses: 0, lost: 0, verdict }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let kind = FrameKind::from_code(bytes[WORDS_AT - 4] & 15).ok_or("unknown kind of frame")?;
        let count = usize::from(bytes[WORDS_AT - 3]);
        let (words, _) = bytes[WORDS_AT..].as_chunks::<WORD_BYTES>();
        let words = words[..count].iter().map(|word| u64::from_be_bytes(*word));
        let mut block = Block::new(words).map_err(|error| error.to_string())?;
        let sync = block.sync();
        // A report's clock does not bound the losses. The next frame of records states them again.
        if kind == FrameKind::Info {
            return Ok(());
        }
        let lost = sync.lost.wrapping_sub(self.lost) & LOST_MASK;
        self.gap(lost, sync.clock, sync.accesses)?;
        self.lost = sync.lost;
        if kind == FrameKind::Data {
            for event in block.by_ref() {
                self.record(event.map_err(|error| error.to_string())?)?;
            }
            self.accesses = self.accesses + block.accesses() & ACCESSES_MASK;
        }
        Ok(())
    }

    fn gap(&mut self, lost: u32, until: u64, accesses: u64) -> Result<(), String> {
        for _ in 0..lost {
            let event = self.due.next().ok_or("more lost than was produced")?;
            let (clock, counted) = counted(&event);
            let mut verdict = self.verdict.borrow_mut();
            verdict.late += u64::from(clock > until);
            verdict.first_lost.get_or_insert(clock);
            drop(verdict);
            self.clock = clock;
            self.accesses = self.accesses + counted & ACCESSES_MASK;
        }
        if accesses != self.accesses {
            let due = self.accesses;
            return Err(format!("{accesses} accesses by clock {until}, there were {due}"));
        }
        let mut verdict = self.verdict.borrow_mut();
        verdict.lost += u64::from(lost);
        verdict.gaps += u64::from(lost > 0);
        Ok(())
    }

    fn record(&mut self, event: Event) -> Result<(), String> {
        let due = self.due.next();
        if due != Some(event) {
            return Err(format!("received {event:?}, due was {due:?}"));
        }
        self.clock = counted(&event).0;
        self.verdict.borrow_mut().received += 1;
        Ok(())
    }
}

/// Returns the clock of a record of line mode, and the number of accesses that it counts.
fn counted(event: &Event) -> (u64, u64) {
    let is_access = matches!(event, Event::Access(_) | Event::Tag { .. });
    (event.clock().unwrap_or_default().0, u64::from(is_access))
}

impl<I: Iterator<Item = Event>> Sink for Check<I> {
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError> {
        if self.verdict.borrow().wrong.is_none()
            && let Err(wrong) = self.take(&frame.bytes)
        {
            self.verdict.borrow_mut().wrong = Some(wrong);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), OutputError> {
        let mut verdict = self.verdict.borrow_mut();
        if verdict.wrong.is_none()
            && let Some(event) = self.due.next()
        {
            verdict.wrong = Some(format!("never received nor reported lost: {event:?}"));
        }
        Ok(())
    }
}
