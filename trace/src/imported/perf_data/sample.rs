//! Parses a sample. Its event states which fields it has.
//!
//! The fields are in the order that `perf_event_open(2)` documents. Each field fills whole words of
//! 8 bytes. The fields after the source of the data are not read.

use hmtt_format::Direction;

use super::super::samples::Sample;

/// The set of fields in a sample, one bit for each field (`PERF_SAMPLE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub u64);

impl Fields {
    const IP: Fields = Fields(1);
    const TID: Fields = Fields(1 << 1);
    const TIME: Fields = Fields(1 << 2);
    const ADDR: Fields = Fields(1 << 3);
    const READ: Fields = Fields(1 << 4);
    const CALLCHAIN: Fields = Fields(1 << 5);
    const ID: Fields = Fields(1 << 6);
    const CPU: Fields = Fields(1 << 7);
    const PERIOD: Fields = Fields(1 << 8);
    const STREAM_ID: Fields = Fields(1 << 9);
    const RAW: Fields = Fields(1 << 10);
    const BRANCH_STACK: Fields = Fields(1 << 11);
    const REGS_USER: Fields = Fields(1 << 12);
    const STACK_USER: Fields = Fields(1 << 13);
    const WEIGHT: Fields = Fields(1 << 14);
    const DATA_SRC: Fields = Fields(1 << 15);
    const IDENTIFIER: Fields = Fields(1 << 16);
    const WEIGHT_STRUCT: Fields = Fields(1 << 24);

    /// The fields that each sample of an access must have.
    const NEEDED: u64 = Self::IP.0 | Self::TID.0 | Self::TIME.0 | Self::ADDR.0;

    fn has(self, field: Fields) -> bool {
        self.0 & field.0 != 0
    }

    /// Byte offset of the counter's identifier in a sample; `None` if the sample has none.
    pub fn place_of_counter(self) -> Option<usize> {
        if self.has(Fields::IDENTIFIER) {
            return Some(0);
        }
        let before = [Fields::IP, Fields::TID, Fields::TIME, Fields::ADDR];
        let fields = before.into_iter().filter(|field| self.has(*field)).count();
        self.has(Fields::ID).then_some(fields * WORD_BYTES)
    }
}

/// An event, with the layout of its samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// The fields of the event's samples.
    pub fields: Fields,
    /// Format of the counts in a sample (`read_format`).
    pub read_format: u64,
    /// Format of the branches in a sample (`branch_sample_type`).
    pub branch_type: u64,
    /// Set of registers in a sample, one bit for each (`sample_regs_user`).
    pub user_registers: u64,
}

const WORD_BYTES: usize = 8;
/// Bytes of an entry in a stack of branches.
const BRANCH_BYTES: u64 = 24;
/// Bit of `branch_type`: a stack of branches has a word with an index.
const WITH_INDEX: u64 = 1 << 17;
/// Bit of `branch_type`: each entry of a stack of branches has a word with counters.
const WITH_COUNTERS: u64 = 1 << 19;
/// Bit of `read_format`: the counts have the time for which the event was enabled.
const TIME_ENABLED: u64 = 1;
/// Bit of `read_format`: the counts have the time for which the event was running.
const TIME_RUNNING: u64 = 1 << 1;
/// Bit of `read_format`: each count has an identifier.
const WITH_ID: u64 = 1 << 2;
/// Bit of `read_format`: the counts are of a group of events.
const GROUP: u64 = 1 << 3;
/// Bit of `read_format`: each count has a number of lost samples.
const WITH_LOST: u64 = 1 << 4;
/// Bit of the source of the data: the access is a load.
const LOAD: u64 = 1 << 1;
/// Bit of the source of the data: the access is a store.
const STORE: u64 = 1 << 2;

/// The part of a sample that is not read yet.
pub struct Cursor<'s>(pub &'s [u8]);

impl Cursor<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn skip_words(&mut self, words: u64) -> Option<()> {
        self.skip(words.checked_mul(WORD_BYTES as u64)?)
    }

    /// Skips the counts of an event or of its group. `format`: the event's `read_format`.
    fn skip_counts(&mut self, format: u64) -> Option<()> {
        let bits = |mask: u64| u64::from((format & mask).count_ones());
        let times = bits(TIME_ENABLED | TIME_RUNNING);
        let of_count = 1 + bits(WITH_ID | WITH_LOST);
        if format & GROUP == 0 {
            return self.skip_words(times + of_count);
        }
        let counts = self.word()?;
        self.skip_words(counts.checked_mul(of_count)?.checked_add(times)?)
    }

    /// Skips the fields between the period and the weight.
    fn skip_middle(&mut self, event: &Event) -> Option<()> {
        let fields = event.fields;
        if fields.has(Fields::READ) {
            self.skip_counts(event.read_format)?;
        }
        if fields.has(Fields::CALLCHAIN) {
            let calls = self.word()?;
            self.skip_words(calls)?;
        }
        if fields.has(Fields::RAW) {
            // A length of 4 bytes, and then as many bytes as it states. Both together are padded to
            // whole words.
            let bytes = u64::from(u32::from_le_bytes(*self.0.first_chunk()?));
            self.skip((bytes + 4).next_multiple_of(WORD_BYTES as u64))?;
        }
        if fields.has(Fields::BRANCH_STACK) {
            let branches = self.word()?;
            self.skip_words(u64::from(event.branch_type & WITH_INDEX != 0))?;
            let of_counters =
                if event.branch_type & WITH_COUNTERS != 0 { WORD_BYTES as u64 } else { 0 };
            self.skip(branches.checked_mul(BRANCH_BYTES + of_counters)?)?;
        }
        if fields.has(Fields::REGS_USER) {
            let is_known = self.word()? != 0;
            self.skip_words(if is_known { event.user_registers.count_ones().into() } else { 0 })?;
        }
        if fields.has(Fields::STACK_USER) {
            let bytes = self.word()?;
            self.skip(bytes)?;
            self.skip_words(u64::from(bytes != 0))?;
        }
        Some(())
    }
}

/// The direction of an access by the source of its data; `None` if it is not known.
fn direction(source: u64) -> Option<Direction> {
    match (source & LOAD != 0, source & STORE != 0) {
        (true, false) => Some(Direction::Read),
        (false, true) => Some(Direction::Write),
        _ => None,
    }
}

/// Parses a sample of an event. Returns `None` if the sample is too short for its fields, or lacks
/// a field that an access needs.
pub fn parse(event: &Event, mut cursor: Cursor<'_>) -> Option<Sample> {
    let fields = event.fields;
    if fields.0 & Fields::NEEDED != Fields::NEEDED {
        return None;
    }
    if fields.has(Fields::IDENTIFIER) {
        cursor.word()?;
    }
    let pc = cursor.word()?;
    let thread = (cursor.word()? >> 32) as u32;
    let (clock, address) = (cursor.word()?, cursor.word()?);
    let others = [Fields::ID, Fields::STREAM_ID, Fields::CPU, Fields::PERIOD];
    cursor.skip_words(others.into_iter().filter(|field| fields.has(*field)).count() as u64)?;
    cursor.skip_middle(event)?;
    let mut weight = None;
    if fields.has(Fields::WEIGHT) {
        weight = Some(cursor.word()?);
    } else if fields.has(Fields::WEIGHT_STRUCT) {
        // The low half of the word is the latency of the whole access. The high half has latencies
        // of parts of the access.
        weight = Some(cursor.word()? & u64::from(u32::MAX));
    }
    let source = fields.has(Fields::DATA_SRC).then(|| cursor.word());
    let direction = source.flatten().and_then(direction);
    Some(Sample { clock, thread, pc, address, direction, weight })
}
