//! Reads rows from 6-byte records. A break in the sequence numbers becomes a gap.

use std::io::Read;

use hmtt_format::{Access, Cycles, Direction, PhysAddr};

use super::{EMPTY_CLOCKS, LINE_LOG2, MmioHole, RECORD_BYTES, Record};
use crate::decode::Gap;
use crate::identity::CardId;
use crate::table::{Entry, Reader, Row, TableError};

/// A reader of 6-byte records. Clocks are counted from the first record.
pub struct Hmtt6Reader<R> {
    input: R,
    hole: MmioHole,
    offset: u64,
    clock: u64,
    /// Sequence number that the next record should have; `None` before the first record.
    expected: Option<u8>,
    /// The access after a gap that was returned. It is returned next.
    held: Option<Access>,
}

impl<R: Read> Hmtt6Reader<R> {
    /// Creates a reader of `input`, which should be buffered.
    pub fn new(input: R, hole: MmioHole) -> Self {
        Hmtt6Reader { input, hole, offset: 0, clock: 0, expected: None, held: None }
    }

    fn next_record(&mut self) -> Result<Option<Record>, TableError> {
        let mut bytes = [0; RECORD_BYTES];
        let mut filled = 0;
        while filled < RECORD_BYTES {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let offset = self.offset;
        self.offset += filled as u64;
        match filled {
            0 => Ok(None),
            RECORD_BYTES => Ok(Some(Record::decode(bytes))),
            _ => Err(TableError::Record {
                offset,
                problem: format!(
                    "{filled} bytes, a record has {RECORD_BYTES}: the file was cut off, or is no such \
                     trace"
                ),
            }),
        }
    }

    fn access(&self, record: Record) -> Access {
        let address = self.hole.to_machine(u64::from(record.line) << LINE_LOG2);
        Access {
            clock: Cycles(self.clock),
            direction: if record.read { Direction::Read } else { Direction::Write },
            address: PhysAddr(address),
        }
    }
}

impl<R: Read> Reader for Hmtt6Reader<R> {
    fn next_row(&mut self) -> Result<Option<Row>, TableError> {
        let row = |entry| Ok(Some(Row { card: CardId(0), entry }));
        if let Some(access) = self.held.take() {
            return row(access.into());
        }
        while let Some(record) = self.next_record()? {
            let before = self.clock;
            let clocks = if record.is_empty() { EMPTY_CLOCKS } else { record.duration.into() };
            self.clock = before.saturating_add(clocks);
            let access = (!record.is_empty()).then(|| self.access(record));
            let expected = self.expected.replace(record.sequence.wrapping_add(1));
            if expected.is_some_and(|expected| expected != record.sequence) {
                self.held = access;
                let (after, before) = (Some(Cycles(before)), Some(Cycles(self.clock)));
                return row(Entry::Gap(Gap { after, before, ..Gap::default() }));
            }
            if let Some(access) = access {
                return row(access.into());
            }
        }
        Ok(None)
    }
}
