//! Writes units of a thread as columns.

use hmtt_format::access_trace::{
    FIRST_CHANGES, FS_BASE, LOST, OTHER_NUMBER, RAW_UNIT, SLOT_BYTES, parse_note,
};

use super::column::Column;
use super::differences::{MOST_VALUE_BYTES, write_differences};
use super::predictor::{Layouts, Predictor};

/// Writes units to columns.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    predictor: Predictor,
    controls: Column,
    changes: Column,
    numbers: Column,
    differences: Column,
}

impl Encoder {
    /// Learns of blocks and paths. `layouts`: those that are known already, and others behind them.
    pub fn learn(&mut self, layouts: &Layouts) {
        self.predictor.learn(layouts);
    }

    /// Writes the units of a chunk, which begin with a number or a note, to the end of `content`. Those from an invalid one on
    /// are written as they are, and an incomplete one as 0. Returns the last base of the segment `fs` in them, if there is one.
    pub fn encode(&mut self, units: &[u8], content: &mut Vec<u8>) -> Option<u64> {
        let (units, incomplete) = units.as_chunks::<SLOT_BYTES>();
        self.predictor.forget();
        for column in [&mut self.controls, &mut self.changes] {
            column.make_room(units.len() + 1);
        }
        self.numbers.make_room(SLOT_BYTES * (units.len() + 1));
        self.differences.make_room(MOST_VALUE_BYTES * units.len());
        let base = self.add(units);
        if !incomplete.is_empty() {
            // It stands for nothing, and shows that something is missing.
            self.add_raw(0);
        }
        let count = units.len() + usize::from(!incomplete.is_empty());
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

    /// Adds units.
    fn add(&mut self, units: &[[u8; SLOT_BYTES]]) -> Option<u64> {
        let mut last_base = None;
        let mut rest = units;
        while let Some((unit, after)) = rest.split_first() {
            let unit = u64::from_le_bytes(*unit);
            let number = unit as u32;
            if let Some((kind, _)) = parse_note(number) {
                self.add_raw(unit);
                rest = after;
                if matches!(kind, FS_BASE | LOST)
                    && let Some((value, after)) = after.split_first()
                {
                    let value = u64::from_le_bytes(*value);
                    self.add_raw(value);
                    last_base = if kind == FS_BASE { Some(value) } else { last_base };
                    rest = after;
                }
                continue;
            }
            let slots = self.predictor.slots(number).filter(|_| u64::from(number) == unit);
            let Some(slots) = slots.filter(|slots| *slots <= after.len()) else {
                rest.iter().for_each(|unit| self.add_raw(u64::from_le_bytes(*unit)));
                break;
            };
            self.execute(number, &after[..slots]);
            rest = &after[slots..];
        }
        last_base
    }

    fn add_raw(&mut self, unit: u64) {
        self.controls.put([RAW_UNIT], 1);
        self.numbers.put(unit.to_le_bytes(), SLOT_BYTES);
    }

    /// Adds an executed block, or a path, with the values of its slots.
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
