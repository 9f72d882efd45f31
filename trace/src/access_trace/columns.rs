//! Decodes the columns of a chunk into the units of a thread.
//!
//! `hmtt_files::access_trace` defines the columns, and the module `encoder` writes them. Both
//! sides run the same [`Predictor`], which states the expected number and the expected values of
//! slots. An execution that is as expected takes one byte.
//!
//! Columns that are too short, name an unknown number, or have another number of bytes than they
//! state are refused.

use hmtt_files::access_trace::{
    COLUMNS_HEADER_BYTES, FIRST_CHANGES, MOST_BYTES, OTHER_NUMBER, RAW_UNIT, SLOT_BYTES,
};

use super::column::take;
use super::differences::read_difference;
use super::predictor::Predictor;

/// Takes a number of 4 bytes from a column.
fn number(column: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(column, 4)?.try_into().ok()?))
}

/// Takes a unit from a column.
fn unit(column: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(column, 8)?.try_into().ok()?))
}

/// Decodes columns. They may name the blocks and paths that the predictor has learned.
///
/// Returns the units, 8 bytes each, or `None` if the columns are not valid.
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
            units.extend_from_slice(&unit(&mut numbers)?.to_le_bytes());
        } else {
            let number = match control & OTHER_NUMBER {
                0 => predictor.expected(),
                _ => number(&mut numbers)?,
            };
            let slots = predictor.slots(number)?;
            if units.len() + SLOT_BYTES * (1 + slots) > bytes {
                return None;
            }
            units.extend_from_slice(&u64::from(number).to_le_bytes());
            let (first, others) = predictor.follow(number).split_at_mut(slots.min(FIRST_CHANGES));
            let groups = std::iter::once(first).chain(others.chunks_mut(8));
            let mut changed = control >> (8 - FIRST_CHANGES);
            for (index, group) in groups.enumerate() {
                if index > 0 {
                    changed = take(&mut changes, 1)?[0];
                }
                // Bits beyond the last slot have no meaning.
                let mut left = u32::from(changed) & !(u32::MAX << group.len());
                while left != 0 {
                    let value = &mut group[left.trailing_zeros() as usize];
                    left &= left - 1;
                    *value = value.wrapping_add(read_difference(&mut values)?);
                }
                group.iter().for_each(|value| units.extend_from_slice(&value.to_le_bytes()));
            }
        }
    }
    (units.len() == bytes).then_some(units)
}

#[cfg(test)]
mod tests {
    use hmtt_files::access_trace::{BlockAccesses, CUT, FS_BASE, Part, note, parse_note};
    use proptest::prelude::*;

    use super::super::encoder::Encoder;
    use super::super::predictor::Layouts;
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

    /// An encoder and a predictor that know the blocks.
    fn both() -> (Encoder, Predictor) {
        let mut layouts = Layouts::default();
        layouts.add(&blocks());
        layouts.add_current(&[1, 2, 3, 4, 5]);
        let (mut encoder, mut predictor) = (Encoder::default(), Predictor::default());
        encoder.learn(&layouts);
        predictor.learn(&layouts);
        (encoder, predictor)
    }

    proptest! {
        #[test]
        fn units_are_read_as_they_were_written(
            chunks in prop::collection::vec(prop::collection::vec(written(), 0..30), 1..4),
        ) {
            let (mut encoder, mut predictor) = both();
            for chunk in &chunks {
                let bases = chunk.iter().filter(|units| units[0] == u64::from(note(FS_BASE, 0)));
                let (chunk, mut content) = (bytes(chunk), Vec::new());
                prop_assert_eq!(encoder.encode(&chunk, 5, &mut content), bases.map(|units| units[1]).next_back());
                prop_assert_eq!(decode(&content, &mut predictor).unwrap(), chunk);
            }
        }

        #[test]
        fn units_are_read_up_to_an_invalid_one(
            valid in prop::collection::vec(written(), 0..30),
            bad in prop_oneof![Just(0), 6..1u64 << 31, 1u64 << 32..u64::MAX].prop_filter("a note", |unit| parse_note(*unit as u32).is_none()),
            behind in prop::collection::vec(0..8u64, 0..9),
        ) {
            let (mut encoder, mut predictor) = both();
            let (written, mut content) = ([&valid[..], &[vec![bad], behind]].concat(), Vec::new());
            encoder.encode(&bytes(&written), 5, &mut content);
            let expected = [&valid[..], &[vec![0]]].concat();
            prop_assert_eq!(decode(&content, &mut predictor).unwrap(), bytes(&expected));
        }

        #[test]
        fn any_columns_are_read_or_refused(
            mut content in prop::collection::vec(any::<u8>(), 16..200),
            lengths in [0..300u32, 0..100, 0..100, 0..100],
        ) {
            for (place, length) in content.as_chunks_mut::<4>().0.iter_mut().zip(lengths) {
                *place = length.to_le_bytes();
            }
            let (_, mut predictor) = both();
            if let Some(units) = decode(&content, &mut predictor) {
                prop_assert_eq!(units.len(), lengths[0] as usize);
            }
        }
    }

    #[test]
    fn what_is_expected_takes_one_byte() {
        let mut encoder = both().0;
        let loops = vec![vec![2, 0x5000, 0x6000, u64::MAX], vec![1]];
        let mut sizes = [1, 101].map(|times| {
            let mut content = Vec::new();
            encoder.encode(&bytes(&loops).repeat(times), 5, &mut content);
            content.len()
        });
        sizes[1] -= sizes[0];
        // Only the longer list has number 2 after number 1. The first time, this takes 4 more
        // bytes.
        assert_eq!(sizes[1], 2 * 100 + 4);
    }
}
