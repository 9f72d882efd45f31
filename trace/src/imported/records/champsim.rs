//! Parses instructions for ChampSim: 64 bytes each, little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | address of the instruction |
//! | 8 | 1 | whether it is a branch: 0 or 1 |
//! | 9 | 1 | whether the branch is taken: 0 or 1 |
//! | 10 | 6 | registers, which are not used |
//! | 16 | 16 | two addresses that the instruction writes |
//! | 32 | 32 | four addresses that the instruction reads |
//!
//! An address of 0 means none. The reads of an instruction come before its writes.

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::u64_at;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
const IS_BRANCH: usize = 8;
const IS_TAKEN: usize = 9;
const WRITTEN: std::ops::Range<usize> = 16..32;
const READ: std::ops::Range<usize> = 32..64;
const ADDRESS_BYTES: usize = 8;
/// Maximum length of an instruction in bytes, over all processors that are traced in this format.
const MOST_INSTRUCTION_BYTES: u64 = 15;
/// Least number of records by which a file is recognised.
const FEWEST_RECORDS: usize = 2;

/// Parses records, and counts the records without a free address.
#[derive(Default)]
pub struct ChampSim {
    /// Number of instructions whose record has no free address for a further read or write.
    full: u64,
}

/// Whether both flags of a record have the values 0 or 1.
fn has_flags(record: &[u8; RECORD_BYTES]) -> bool {
    record[IS_BRANCH] <= 1 && record[IS_TAKEN] <= 1
}

/// Whether a file's first bytes are records of ChampSim. Only a branch may be taken. At least three
/// quarters of the untaken instructions must be followed by the next instruction in memory, or by
/// themselves if they are repeated.
pub fn are_records(bytes: &[u8]) -> bool {
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    let is_possible = |record: &[u8; RECORD_BYTES]| {
        has_flags(record) && record[IS_BRANCH] >= record[IS_TAKEN] && u64_at(record, 0) != 0
    };
    let (mut followed, mut steps) = (0, 0);
    for (record, next) in records.iter().zip(records.iter().skip(1)) {
        if record[IS_TAKEN] == 0 {
            let distance = u64_at(next, 0).wrapping_sub(u64_at(record, 0));
            steps += usize::from(distance <= MOST_INSTRUCTION_BYTES);
            followed += 1;
        }
    }
    records.len() >= FEWEST_RECORDS && records.iter().all(is_possible) && steps * 4 >= followed * 3
}

impl ChampSim {
    /// Parses a record, and adds its accesses to `add`.
    pub fn record(
        &mut self,
        record: &[u8; RECORD_BYTES],
        add: &mut VecDeque<ImportedAccess>,
    ) -> Result<(), String> {
        if !has_flags(record) {
            return Err(format!(
                "expected an instruction, which is a branch (0 or 1) and taken (0 or 1), got {} and {}",
                record[IS_BRANCH], record[IS_TAKEN]
            ));
        }
        let pc = u64_at(record, 0);
        let mut is_full = false;
        for (direction, places) in [(Direction::Read, READ), (Direction::Write, WRITTEN)] {
            let addresses = places.step_by(ADDRESS_BYTES).map(|place| u64_at(record, place));
            let mut free = 0;
            for address in addresses {
                if address == 0 {
                    free += 1;
                } else {
                    add.push_back(ImportedAccess { pc, ..ImportedAccess::new(direction, address) });
                }
            }
            is_full |= free == 0;
        }
        self.full += u64::from(is_full);
        Ok(())
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "an instruction of ChampSim has at most 4 addresses that it reads and 2 that it writes"
                .to_owned(),
        ];
        if self.full > 0 {
            notes.push(format!(
                "{} instructions have as many: what else they access is not in the trace",
                self.full
            ));
        }
        notes
    }
}
