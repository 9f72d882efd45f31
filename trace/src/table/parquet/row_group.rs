//! Collects rows of one session as the columns of a row group.
//!
//! Accesses are added to their columns directly. Rows of other kinds are also kept in a list. The
//! columns for which accesses have no value are built from this list at the end. Invariant: clocks
//! ascend.

use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use hmtt_format::{Cycles, Direction, Event};

use crate::decode::Accesses;
use crate::table::json_object::object;
use crate::table::{Entry, TableError};

/// Maximum number of rows of a group. If all rows are accesses, they take 17 MB.
const MAX_ROWS: usize = 1 << 20;
/// Maximum number of rows of other kinds in a group. Such rows need more memory than accesses.
const MAX_OTHERS: usize = 1 << 18;
/// Definition level of a present value in an optional column.
const PRESENT: i16 = 1;
/// Definition level of an absent value in an optional column.
pub(super) const ABSENT: i16 = 0;

/// A row that is not an access, or an access whose clock is lower than the clock of an earlier row.
struct Other {
    /// Number of the row in the group, from 0.
    at: usize,
    entry: Entry,
}

/// The columns of a row group that is being filled.
#[derive(Default)]
pub(super) struct RowGroup {
    pub clocks: Vec<i64>,
    /// Addresses of the rows that have an address.
    pub addresses: Vec<i64>,
    /// Directions of the rows that have a direction.
    pub is_write: Vec<bool>,
    others: Vec<Other>,
    /// Latest clock of the session so far.
    latest: i64,
}

/// An optional column: its values, and a definition level for each row.
pub(super) struct Sparse<T: DataType> {
    pub values: Vec<T::T>,
    pub levels: Vec<i16>,
}

impl RowGroup {
    /// Whether the group must be written before more rows are added.
    pub fn is_full(&self) -> bool {
        self.clocks.len() >= MAX_ROWS || self.others.len() >= MAX_OTHERS
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.clocks.len()
    }

    /// Whether all rows are accesses in the order of their clocks.
    pub fn is_plain(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns this group, and replaces it by `next`, which must be empty and continues the
    /// session.
    pub fn replace(&mut self, next: RowGroup) -> RowGroup {
        let latest = self.latest;
        std::mem::replace(self, RowGroup { latest, ..next })
    }

    /// Removes all rows, but keeps their memory.
    pub fn clear(&mut self) {
        self.clocks.clear();
        self.addresses.clear();
        self.is_write.clear();
        self.others.clear();
    }

    /// Adds a row. Fails if its clock is not below 2^63.
    #[inline]
    pub fn push(&mut self, entry: &Entry) -> Result<(), TableError> {
        if let Entry::Event(Event::Access(access)) = entry {
            let clock = signed_clock(access.clock)?;
            if clock >= self.latest {
                self.latest = clock;
                self.clocks.push(clock);
                self.addresses.push(access.address.0 as i64);
                self.is_write.push(access.direction == Direction::Write);
                return Ok(());
            }
        }
        self.push_other(entry)
    }

    /// Adds a row to the list of other rows, and its clock, direction and address to their columns.
    fn push_other(&mut self, entry: &Entry) -> Result<(), TableError> {
        let values = entry.values();
        if let Some(clock) = values.clock {
            self.latest = self.latest.max(signed_clock(clock)?);
        }
        self.others.push(Other { at: self.rows(), entry: *entry });
        self.clocks.push(self.latest);
        self.is_write.extend(values.direction.map(|direction| direction == Direction::Write));
        self.addresses.extend(values.address.map(|address| address.0 as i64));
        Ok(())
    }

    /// Adds as many accesses as the group has space for. Returns their number.
    pub fn extend(&mut self, accesses: Accesses<'_>) -> Result<usize, TableError> {
        let Accesses { clocks, addresses, writes } = accesses;
        let space = MAX_ROWS.saturating_sub(self.rows());
        let count = clocks.len().min(addresses.len()).min(writes.len()).min(space);
        let (clocks, addresses, writes) = (&clocks[..count], &addresses[..count], &writes[..count]);
        let first = clocks.first().copied().unwrap_or_default();
        let is_ascending = first >= self.latest as u64 && clocks.is_sorted();
        match clocks.last() {
            Some(&last) if is_ascending && last <= i64::MAX as u64 => {
                self.latest = last as i64;
                self.clocks.extend(clocks.iter().map(|clock| *clock as i64));
                self.addresses.extend(addresses.iter().map(|address| *address as i64));
                self.is_write.extend_from_slice(writes);
            }
            _ => {
                let accesses = Accesses { clocks, addresses, writes };
                accesses.iter().try_for_each(|access| self.push(&access.into()))?;
            }
        }
        Ok(count)
    }

    /// Builds the column `kind`.
    pub fn kinds(&self) -> Vec<ByteArray> {
        let mut kinds = vec![ByteArray::from("access"); self.rows()];
        for Other { at, entry } in &self.others {
            kinds[*at] = ByteArray::from(entry.kind());
        }
        kinds
    }

    /// Definition levels of the column `address`.
    pub fn address_levels(&self) -> Vec<i16> {
        self.levels_without(|entry| entry.values().address.is_none())
    }

    /// Definition levels of the column `is_write`.
    pub fn direction_levels(&self) -> Vec<i16> {
        self.levels_without(|entry| entry.values().direction.is_none())
    }

    /// Builds the column `reads`.
    pub fn reads(&self) -> Sparse<Int32Type> {
        self.sparse(|_, entry| entry.values().counts.map(|(reads, _)| reads as i32))
    }

    /// Builds the column `writes`.
    pub fn writes(&self) -> Sparse<Int32Type> {
        self.sparse(|_, entry| entry.values().counts.map(|(_, writes)| writes as i32))
    }

    /// Builds the column `duration_clocks`.
    pub fn durations(&self) -> Sparse<Int64Type> {
        self.sparse(|_, entry| entry.values().duration.map(|clocks| clocks.0 as i64))
    }

    /// Builds the column `start_clock`.
    pub fn starts(&self) -> Sparse<Int64Type> {
        self.sparse(|at, entry| {
            let clock = entry.clock()?.0 as i64;
            let is_own =
                matches!(entry, Entry::Event(Event::Slice { .. } | Event::Interval { .. }));
            (is_own || clock != self.clocks[at]).then_some(clock)
        })
    }

    /// Builds the column `detail`: the object of each row that [`super::reader`] could not restore
    /// from the other columns.
    pub fn details(&self) -> Sparse<ByteArrayType> {
        self.sparse(|_, entry| match entry {
            Entry::Event(Event::Access(_) | Event::Page { .. }) => None,
            Entry::Event(Event::Slice { length, .. }) if !length.is_partial() => None,
            Entry::Restart | Entry::NoEnd => None,
            _ => Some(ByteArray::from(object(entry).into_bytes())),
        })
    }

    /// Definition levels of a column in which all accesses have a value. `is_absent`: whether a row
    /// of another kind lacks the value.
    fn levels_without(&self, is_absent: impl Fn(&Entry) -> bool) -> Vec<i16> {
        let mut levels = vec![PRESENT; self.rows()];
        for Other { at, entry } in &self.others {
            if is_absent(entry) {
                levels[*at] = ABSENT;
            }
        }
        levels
    }

    /// Builds a column in which only the other rows ([`Other`]) can have values. `value`: the value
    /// of a row, by its index and content.
    fn sparse<T: DataType>(&self, value: impl Fn(usize, &Entry) -> Option<T::T>) -> Sparse<T> {
        let (mut values, mut levels) = (Vec::new(), vec![ABSENT; self.rows()]);
        for Other { at, entry } in &self.others {
            if let Some(value) = value(*at, entry) {
                levels[*at] = PRESENT;
                values.push(value);
            }
        }
        Sparse { values, levels }
    }
}

/// A clock as the column stores it. Fails if it is not below 2^63.
fn signed_clock(clock: Cycles) -> Result<i64, TableError> {
    i64::try_from(clock.0).map_err(|_| TableError::Clock(clock.0))
}
