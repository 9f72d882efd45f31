//! Parses the format `oracleGeneral` of libCacheSim: 24 bytes for each request, little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | time |
//! | 4 | 8 | object |
//! | 12 | 4 | bytes of the object, which are not used |
//! | 16 | 8 | number of the next request for the object, signed, not used; -1 or 2^63 - 1 if there is none |

use std::collections::VecDeque;

use super::super::ImportedAccess;
use super::super::objects::Objects;
use super::u64_at;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
const OBJECT: usize = 4;
const NEXT: usize = 16;
/// Values that mean that there is no next request for the object.
const NONE: [i64; 2] = [-1, i64::MAX];
/// Lowest implausible number of a request: a file with such a number is not recognised.
const MOST_REQUESTS: u64 = 1 << 48;

/// Parses records, and converts the requests to accesses of lines.
#[derive(Default)]
pub struct OracleGeneral {
    objects: Objects,
}

fn time(record: &[u8; RECORD_BYTES]) -> u32 {
    let [first, second, third, fourth, ..] = *record;
    u32::from_le_bytes([first, second, third, fourth])
}

fn object(record: &[u8; RECORD_BYTES]) -> u64 {
    u64_at(record, OBJECT)
}

fn next(record: &[u8; RECORD_BYTES]) -> i64 {
    u64_at(record, NEXT).cast_signed()
}

/// Whether a file's first bytes are such records. Their times must not decrease. The next request
/// of a record must come after the record, and must be for the same object. Requests may be
/// numbered from 0 or from 1.
pub fn are_records(bytes: &[u8]) -> bool {
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    let are_numbered_from = |first: u64| {
        (first..).zip(records).all(|(number, record)| {
            let next = next(record);
            NONE.contains(&next)
                || u64::try_from(next).is_ok_and(|next| {
                    let place = usize::try_from(next.saturating_sub(first)).ok();
                    let same = place.and_then(|place| records.get(place));
                    let has_object = same.is_none_or(|same| object(same) == object(record));
                    next > number && next < MOST_REQUESTS && has_object
                })
        })
    };
    !records.is_empty()
        && records.is_sorted_by_key(time)
        && (are_numbered_from(0) || are_numbered_from(1))
}

impl OracleGeneral {
    /// Parses a record, and adds its access to `add`.
    pub fn record(
        &mut self,
        record: &[u8; RECORD_BYTES],
        add: &mut VecDeque<ImportedAccess>,
    ) -> Result<(), String> {
        let next = next(record);
        if next < -1 {
            return Err(format!(
                "expected a request with the number of the next one, or -1, got {next}"
            ));
        }
        add.push_back(self.objects.access(time(record).into(), object(record), None));
        Ok(())
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        self.objects.notes()
    }
}
