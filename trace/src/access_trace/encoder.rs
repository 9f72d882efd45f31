//! Encodes units of a thread as columns.
//!
//! The [`Predictor`] states the number and the values of slots that are expected next. A unit that
//! is as expected takes no space, apart from one byte for each execution. `columns` decodes the
//! result.

use hmtt_files::access_trace::{
    FIRST_CHANGES, FS_BASE, LOST, OTHER_NUMBER, RAW_UNIT, SLOT_BYTES, parse_note,
};

use super::column::Column;
use super::differences::{MOST_VALUE_BYTES, write_differences};
use super::predictor::{Layouts, Predictor};

/// Encodes the units of one chunk after the other.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    predictor: Predictor,
    /// For each number in units, from 1 on, its number in the file. A copy of the numbers in
    /// [`Layouts`], which [`learn`](Self::learn) brings up to date.
    current: Vec<u32>,
    /// How often the program had begun to number from 1 when `current` was copied last.
    begun: u32,
    /// How many of these numbers the units of the current chunk may contain.
    known: usize,
    /// Whether the end of the last chunk was left out, because of an invalid or incomplete unit.
    is_cut: bool,
    controls: Column,
    changes: Column,
    numbers: Column,
    differences: Column,
}

impl Encoder {
    /// Learns the blocks and paths of `layouts` that are new. `layouts` must begin with the blocks
    /// and paths that were learned before.
    pub fn learn(&mut self, layouts: &Layouts) {
        self.predictor.learn(layouts);
        layouts.copy_current(&mut self.current, &mut self.begun);
    }

    /// Appends the encoded units of a chunk to `content`. The first unit must be a number or a
    /// note. An invalid or incomplete unit and all units behind it are replaced by a unit of 0,
    /// which no reader accepts. `known`: how many numbers of the program are described before the
    /// chunk. Returns the base of the segment `fs` in the last note with a base, if there is one.
    pub fn encode(&mut self, units: &[u8], known: usize, content: &mut Vec<u8>) -> Option<u64> {
        self.known = known;
        let (units, incomplete) = units.as_chunks::<SLOT_BYTES>();
        self.predictor.forget();
        for column in [&mut self.controls, &mut self.changes] {
            column.reserve(units.len() + 1);
        }
        self.numbers.reserve(SLOT_BYTES * (units.len() + 1));
        self.differences.reserve(MOST_VALUE_BYTES * units.len());
        let (mut count, base) = self.add(units);
        self.is_cut = count < units.len() || !incomplete.is_empty();
        if self.is_cut {
            self.add_raw(0);
            count += 1;
        }
        let columns = [&self.controls, &self.changes, &self.numbers];
        let lengths = columns.map(|column| column.bytes().len());
        for length in [SLOT_BYTES * count].into_iter().chain(lengths) {
            content.extend((length as u32).to_le_bytes());
        }
        columns.iter().for_each(|column| content.extend(column.bytes()));
        content.extend(self.differences.bytes());
        let columns =
            [&mut self.controls, &mut self.changes, &mut self.numbers, &mut self.differences];
        columns.into_iter().for_each(Column::clear);
        base
    }

    /// Whether the end of the last chunk was left out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Adds units up to the first invalid one. Returns how many units were added, and the last base
    /// of the segment `fs` in them.
    fn add(&mut self, units: &[[u8; SLOT_BYTES]]) -> (usize, Option<u64>) {
        let mut last_base = None;
        let mut rest = units;
        while let Some((unit, after)) = rest.split_first() {
            let unit = u64::from_le_bytes(*unit);
            rest = match parse_note(unit as u32) {
                Some((kind @ (FS_BASE | LOST), _)) => {
                    let Some((value, after)) = after.split_first() else { break };
                    let value = u64::from_le_bytes(*value);
                    self.add_raw(unit);
                    self.add_raw(value);
                    last_base = if kind == FS_BASE { Some(value) } else { last_base };
                    after
                }
                Some(_) => {
                    self.add_raw(unit);
                    after
                }
                None => {
                    let Some(number) = self.in_file(unit) else { break };
                    let slots = self.predictor.slots(number);
                    let Some(values) = slots.and_then(|slots| after.get(..slots)) else { break };
                    self.execute(number, values);
                    &after[values.len()..]
                }
            };
        }
        (units.len() - rest.len(), last_base)
    }

    /// The number in the file for a number in units. `None` if it is not described before the
    /// chunk.
    #[inline]
    fn in_file(&self, unit: u64) -> Option<u32> {
        let index = usize::try_from(unit.checked_sub(1)?).ok()?;
        self.current.get(index).filter(|_| index < self.known).copied()
    }

    /// Adds a unit as it is, without an expectation.
    fn add_raw(&mut self, unit: u64) {
        self.controls.put([RAW_UNIT], 1);
        self.numbers.put(unit.to_le_bytes(), SLOT_BYTES);
    }

    /// Adds an execution of a block or path. `number`: its number in the file. `values`: its slots.
    #[inline]
    fn execute(&mut self, number: u32, values: &[[u8; SLOT_BYTES]]) {
        let mut control = 0;
        if self.predictor.expected() != number {
            control = OTHER_NUMBER;
            self.numbers.put(number.to_le_bytes(), 4);
        }
        let expected = self.predictor.follow(number);
        let count = values.len().min(expected.len());
        let (values, expected) = (&values[..count], &mut expected[..count]);
        let (mut from, mut to) = (0, count.min(FIRST_CHANGES));
        loop {
            let (values, expected) = (&values[from..to], &mut expected[from..to]);
            let changed = write_differences(values, expected, &mut self.differences);
            if from == 0 {
                self.controls.put([control | changed << (8 - FIRST_CHANGES)], 1);
            } else {
                self.changes.put([changed], 1);
            }
            if to == count {
                return;
            }
            (from, to) = (to, count.min(to + 8));
        }
    }
}
