//! Units of a thread as columns: what was expected of them takes little space.
//!
//! `hmtt_format::access_trace` defines the columns, and the [`Predictor`] what is expected.

use hmtt_format::access_trace::{
    BlockAccesses, COLUMNS_HEADER_BYTES, FIRST_CHANGES, FS_BASE, MOST_BYTES, OTHER_NUMBER,
    RAW_UNIT, SLOT_BYTES, VALUE_BYTES, note, parse_note,
};

use super::predictor::Predictor;

/// Most bytes of a value, which are written before it is known how many it has.
const MOST_VALUE_BYTES: usize = 9;

/// Writes units to columns.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    predictor: Predictor,
    /// Bytes of the units in the columns.
    units: usize,
    controls: Vec<u8>,
    changes: Vec<u8>,
    numbers: Vec<u8>,
    /// The values, and how many bytes of them are in use.
    values: Vec<u8>,
    used: usize,
}

impl Encoder {
    /// Adds the next blocks and paths.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) {
        self.predictor.add(blocks);
    }

    /// Adds units, which begin with a number or a note. `fs`: the base of that segment, or 0. Returns whether all are valid;
    /// those from an invalid one on are added as they are.
    pub fn add(&mut self, units: &[u8], fs: &mut u64) -> bool {
        // The chunk is read without those before it.
        if self.units == 0 && *fs != 0 {
            self.raw(note(FS_BASE, 0).into());
            self.raw(*fs);
            self.units = 2 * SLOT_BYTES;
        }
        let (units, rest) = units.as_chunks::<SLOT_BYTES>();
        self.units += SLOT_BYTES * units.len();
        let mut at = 0;
        while let Some(unit) = units.get(at) {
            let unit = u64::from_le_bytes(*unit);
            let number = unit as u32;
            if let Some((kind, _)) = parse_note(number) {
                self.raw(unit);
                at += 1;
                if kind != FS_BASE {
                    continue;
                }
                let Some(base) = units.get(at).map(|base| u64::from_le_bytes(*base)) else {
                    return false;
                };
                self.raw(base);
                *fs = base;
                at += 1;
                continue;
            }
            let slots = self.predictor.slots(number).filter(|_| u64::from(number) == unit);
            let values = slots.and_then(|slots| units.get(at + 1..at + 1 + slots));
            let Some(values) = values else {
                units[at..].iter().for_each(|unit| self.raw(u64::from_le_bytes(*unit)));
                return false;
            };
            self.execute(number, values);
            at += 1 + values.len();
        }
        rest.is_empty()
    }

    fn raw(&mut self, unit: u64) {
        self.controls.push(RAW_UNIT);
        self.numbers.extend(unit.to_le_bytes());
    }

    /// Adds an executed block, or a path.
    fn execute(&mut self, number: u32, values: &[[u8; SLOT_BYTES]]) {
        let mut control = 0;
        if self.predictor.expected() != number {
            control = OTHER_NUMBER;
            self.numbers.extend(number.to_le_bytes());
        }
        let needed = self.used + MOST_VALUE_BYTES * values.len();
        if self.values.len() < needed {
            self.values.resize(2 * needed, 0);
        }
        let expected = self.predictor.follow(number);
        let count = values.len().min(expected.len());
        let (values, expected) = (&values[..count], &mut expected[..count]);
        let (mut from, mut to) = (0, count.min(FIRST_CHANGES));
        loop {
            let group = (&values[from..to], &mut expected[from..to]);
            let changed = changes(group.0, group.1, &mut self.values, &mut self.used);
            if from == 0 {
                self.controls.push(control | changed << (8 - FIRST_CHANGES));
            } else {
                self.changes.push(changed);
            }
            if to == count {
                return;
            }
            (from, to) = (to, count.min(to + 8));
        }
    }

    /// Bytes of the units that were added since they were taken.
    pub fn bytes(&self) -> usize {
        self.units
    }

    /// Takes what was added. It is to be read without what comes before or after it.
    pub fn take(&mut self, content: &mut Vec<u8>) {
        let columns = [&self.controls, &self.changes, &self.numbers];
        let lengths = columns.map(Vec::len);
        for length in [self.units].into_iter().chain(lengths) {
            content.extend((length as u32).to_le_bytes());
        }
        columns.iter().for_each(|column| content.extend(*column));
        content.extend(&self.values[..self.used]);
        (self.units, self.used) = (0, 0);
        let columns = [&mut self.controls, &mut self.changes, &mut self.numbers];
        columns.into_iter().for_each(Vec::clear);
        self.predictor.forget();
    }
}

/// Writes which of at most eight values are not the expected ones, which they replace, and by how much they differ. `used`:
/// how many bytes of the output are in use. The output has [`MOST_VALUE_BYTES`] more for each value.
fn changes(
    values: &[[u8; SLOT_BYTES]],
    expected: &mut [u64],
    output: &mut [u8],
    used: &mut usize,
) -> u8 {
    let mut changed = 0;
    let count = values.len().min(expected.len()).min(8);
    for place in 0..count {
        changed |= u8::from(u64::from_le_bytes(values[place]) != expected[place]) << place;
    }
    let mut left = changed;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        let value = u64::from_le_bytes(values[place]);
        let difference = value.wrapping_sub(std::mem::replace(&mut expected[place], value)) as i64;
        // The sign becomes the lowest bit.
        let folded = (difference << 1 ^ difference >> 63) as u64;
        let kind = usize::from(folded >= 1 << 6)
            + usize::from(folded >= 1 << 14)
            + usize::from(folded >= 1 << 30);
        let bytes = &mut output[*used..*used + MOST_VALUE_BYTES];
        bytes[..8].copy_from_slice(&(folded << 2 | kind as u64).to_le_bytes());
        if kind == 3 {
            bytes[1..].copy_from_slice(&folded.to_le_bytes());
        }
        *used += VALUE_BYTES[kind];
    }
    changed
}

/// Takes bytes from the start of a column.
fn take<'c>(column: &mut &'c [u8], count: usize) -> Option<&'c [u8]> {
    let (taken, rest) = column.split_at_checked(count)?;
    *column = rest;
    Some(taken)
}

fn number(column: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(column, 4)?.try_into().ok()?))
}

fn unit(column: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(column, 8)?.try_into().ok()?))
}

/// The next difference of the column.
fn difference(column: &mut &[u8]) -> Option<u64> {
    let kind = usize::from(column.first()? & 3);
    let folded = if kind == 3 {
        *column = column.get(1..)?;
        unit(column)?
    } else {
        let bytes = take(column, VALUE_BYTES[kind])?;
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all) >> 2
    };
    Some(folded >> 1 ^ (folded & 1).wrapping_neg())
}

/// Reads columns. The blocks and paths that they name are those that were added to the predictor.
///
/// Returns the units, or `None` if the columns are not valid.
pub fn decode(content: &[u8], predictor: &mut Predictor) -> Option<Vec<u8>> {
    predictor.forget();
    let (mut header, mut rest) = content.split_at_checked(COLUMNS_HEADER_BYTES)?;
    let mut length = || Some(number(&mut header)? as usize);
    let [bytes, controls, changes, numbers] = [length()?, length()?, length()?, length()?];
    if bytes > MOST_BYTES {
        return None;
    }
    let controls = take(&mut rest, controls)?;
    let (mut changes, mut numbers) = (take(&mut rest, changes)?, take(&mut rest, numbers)?);
    let mut values = rest;
    let mut units = Vec::new();
    for control in controls {
        if control & RAW_UNIT != 0 {
            units.extend(unit(&mut numbers)?.to_le_bytes());
        } else {
            let number = match control & OTHER_NUMBER {
                0 => predictor.expected(),
                _ => number(&mut numbers)?,
            };
            let slots = predictor.slots(number)?;
            if units.len() + SLOT_BYTES * (1 + slots) > bytes {
                return None;
            }
            units.extend(u64::from(number).to_le_bytes());
            let (first, others) = predictor.follow(number).split_at_mut(slots.min(FIRST_CHANGES));
            let groups = std::iter::once(first).chain(others.chunks_mut(8));
            let mut changed = control >> (8 - FIRST_CHANGES);
            for (index, group) in groups.enumerate() {
                if index > 0 {
                    changed = take(&mut changes, 1)?[0];
                }
                for (place, value) in group.iter_mut().enumerate() {
                    if changed >> place & 1 != 0 {
                        *value = value.wrapping_add(difference(&mut values)?);
                    }
                    units.extend(value.to_le_bytes());
                }
            }
        }
    }
    (units.len() == bytes).then_some(units)
}

#[cfg(test)]
mod tests {
    use hmtt_format::access_trace::{CUT, Part};
    use proptest::prelude::*;

    use super::*;

    /// Two blocks, and a path of three parts.
    fn blocks() -> Vec<BlockAccesses> {
        let block = |slots| BlockAccesses { slots, ..BlockAccesses::default() };
        let part = |slots| Part { block: 1, instructions: 0, slots };
        let path = BlockAccesses { parts: [0, 7, 20].map(part).to_vec(), ..block(20) };
        vec![block(0), block(3), path]
    }

    const SLOTS: [usize; 5] = [0, 3, 0, 7, 20];

    /// Values near each other, or far away.
    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![0x5000..0x5003u64, 0x7fff_0000_0000..0x7fff_0000_8000u64, any::<u64>()]
    }

    /// A number with its slots, or a note.
    fn written() -> impl Strategy<Value = Vec<u64>> {
        let slots = prop::collection::vec(value(), 20);
        let execution = (0..5usize, slots).prop_map(|(index, slots)| {
            std::iter::once(index as u64 + 1).chain(slots).take(1 + SLOTS[index]).collect()
        });
        let cut = note(CUT, 3).into();
        let base = note(FS_BASE, 0).into();
        prop_oneof![
            8 => execution,
            1 => Just(vec![cut]),
            1 => value().prop_map(move |fs| vec![base, fs]),
        ]
    }

    fn bytes(units: &[Vec<u64>]) -> Vec<u8> {
        units.concat().iter().flat_map(|unit| unit.to_le_bytes()).collect()
    }

    /// What is read of units that are written.
    fn read(encoder: &mut Encoder, predictor: &mut Predictor) -> Vec<u8> {
        let mut content = Vec::new();
        encoder.take(&mut content);
        decode(&content, predictor).unwrap()
    }

    proptest! {
        #[test]
        fn units_are_read_as_they_were_written(
            chunks in prop::collection::vec(prop::collection::vec(written(), 0..30), 1..4),
        ) {
            let (mut encoder, mut predictor) = (Encoder::default(), Predictor::default());
            encoder.add_blocks(&blocks());
            predictor.add(&blocks());
            let mut fs = 0;
            for chunk in &chunks {
                let expected = match fs {
                    0 => bytes(chunk),
                    fs => [bytes(&[vec![note(FS_BASE, 0).into(), fs]]), bytes(chunk)].concat(),
                };
                prop_assert!(encoder.add(&bytes(chunk), &mut fs));
                prop_assert_eq!(encoder.bytes(), expected.len());
                prop_assert_eq!(read(&mut encoder, &mut predictor), expected);
            }
        }

        #[test]
        fn any_units_are_read_as_they_were_written(
            units in prop::collection::vec(prop_oneof![0..8u64, any::<u64>()], 0..60),
        ) {
            let (mut encoder, mut predictor) = (Encoder::default(), Predictor::default());
            encoder.add_blocks(&blocks());
            predictor.add(&blocks());
            encoder.add(&bytes(std::slice::from_ref(&units)), &mut 0);
            prop_assert_eq!(read(&mut encoder, &mut predictor), bytes(&[units]));
        }

        #[test]
        fn any_columns_are_read_or_refused(
            mut content in prop::collection::vec(any::<u8>(), 16..200),
            lengths in [0..300u32, 0..100, 0..100, 0..100],
        ) {
            for (place, length) in content.as_chunks_mut::<4>().0.iter_mut().zip(lengths) {
                *place = length.to_le_bytes();
            }
            let mut predictor = Predictor::default();
            predictor.add(&blocks());
            if let Some(units) = decode(&content, &mut predictor) {
                prop_assert_eq!(units.len(), lengths[0] as usize);
            }
        }
    }

    #[test]
    fn what_is_expected_takes_one_byte() {
        let mut encoder = Encoder::default();
        encoder.add_blocks(&blocks());
        let loops = vec![vec![2, 0x5000, 0x6000, u64::MAX], vec![1]];
        let mut sizes = [1, 101].map(|times| {
            (0..times).for_each(|_| assert!(encoder.add(&bytes(&loops), &mut 0)));
            let mut content = Vec::new();
            encoder.take(&mut content);
            content.len()
        });
        sizes[1] -= sizes[0];
        // A number follows the one before it for the second time.
        assert_eq!(sizes[1], 2 * 100 + 4);
    }
}
