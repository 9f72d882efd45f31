//! Defines [`Batch`], the columns of accesses that every source passes on.
//!
//! Invariant: all columns of a batch have the same length.

/// log2 of the bytes of a cache line, in all analyses.
pub const LINE_LOG2: u32 = 6;
/// log2 of the bytes of a page, in all analyses.
pub const PAGE_LOG2: u32 = 12;
/// Maximum number of bytes of one access that count as touched. Instructions have no larger
/// accesses.
pub const MOST_TOUCHED_BYTES: u32 = 4096;
/// Maximum number of units that [`Batch::each_units`] passes on at once.
pub(super) const UNITS_AT_ONCE: usize = 256;

/// Accesses of one card or thread, in the order in which they were made.
///
/// ```
/// use hmtt::analysis::Batch;
///
/// let batch = Batch::new(&[0x1000, 0x103c], &[false, true]).with_sizes(&[4, 8]);
/// let mut lines = Vec::new();
/// batch.each_unit(6, |line| lines.push(line));
/// assert_eq!(lines, [0x40, 0x40, 0x41]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    addresses: &'a [u64],
    writes: &'a [bool],
    clocks: Option<&'a [u64]>,
    sizes: Option<&'a [u32]>,
    instructions: Option<&'a [u64]>,
    functions: Option<&'a [u32]>,
    thread: Option<u32>,
    unit_bytes: Option<u32>,
}

/// The first `count` rows of a column; `None` if the column is shorter.
fn cut<T>(column: &[T], count: usize) -> Option<&[T]> {
    column.get(..count)
}

impl<'a> Batch<'a> {
    /// Accesses with the addresses of their first bytes, and whether they are writes. If one column
    /// is longer than the other, its rest is left out.
    pub fn new(addresses: &'a [u64], writes: &'a [bool]) -> Self {
        let count = addresses.len().min(writes.len());
        let (addresses, writes) = (&addresses[..count], &writes[..count]);
        Batch { addresses, writes, ..Batch::default() }
    }

    /// Adds a clock for each access. A column that is too short is ignored.
    pub fn with_clocks(self, clocks: &'a [u64]) -> Self {
        Batch { clocks: cut(clocks, self.len()), ..self }
    }

    /// Adds the bytes of each access; 0 where they are not known. A column that is too short is
    /// ignored.
    pub fn with_sizes(self, sizes: &'a [u32]) -> Self {
        Batch { sizes: cut(sizes, self.len()), ..self }
    }

    /// Adds the address of the instruction of each access. A column that is too short is ignored.
    pub fn with_instructions(self, instructions: &'a [u64]) -> Self {
        Batch { instructions: cut(instructions, self.len()), ..self }
    }

    /// Adds the function of each access's instruction, by the function's number in the source; 0
    /// where the function is not known. A column that is too short is ignored.
    pub fn with_functions(self, functions: &'a [u32]) -> Self {
        Batch { functions: cut(functions, self.len()), ..self }
    }

    /// Adds the thread that has made the accesses, by the thread's number in the system.
    pub fn with_thread(self, thread: u32) -> Self {
        Batch { thread: Some(thread), ..self }
    }

    /// Adds the number of bytes of every access, for accesses without sizes of their own. Addresses
    /// are multiples of this number.
    pub fn with_unit(self, unit_bytes: Option<u32>) -> Self {
        Batch { unit_bytes, ..self }
    }

    /// The accesses of a range of rows; none if the range ends beyond the last row.
    pub fn rows(&self, rows: std::ops::Range<usize>) -> Batch<'a> {
        let (Some(addresses), Some(writes)) =
            (self.addresses.get(rows.clone()), self.writes.get(rows.clone()))
        else {
            return Batch::default();
        };
        Batch {
            addresses,
            writes,
            clocks: self.clocks.and_then(|column| column.get(rows.clone())),
            sizes: self.sizes.and_then(|column| column.get(rows.clone())),
            instructions: self.instructions.and_then(|column| column.get(rows.clone())),
            functions: self.functions.and_then(|column| column.get(rows.clone())),
            ..*self
        }
    }

    /// Number of accesses.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are no accesses.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Address of the first byte of each access.
    pub fn addresses(&self) -> &'a [u64] {
        self.addresses
    }

    /// Whether each access is a write.
    pub fn writes(&self) -> &'a [bool] {
        self.writes
    }

    /// The clock of each access; `None` without this column.
    pub fn clocks(&self) -> Option<&'a [u64]> {
        self.clocks
    }

    /// The bytes of each access; 0 where they are not known. `None` without this column.
    pub fn sizes(&self) -> Option<&'a [u32]> {
        self.sizes
    }

    /// The address of each access's instruction; `None` without this column.
    pub fn instructions(&self) -> Option<&'a [u64]> {
        self.instructions
    }

    /// The function of each access's instruction, by the function's number in the source; 0 where
    /// the function is not known.
    pub fn functions(&self) -> Option<&'a [u32]> {
        self.functions
    }

    /// The thread that has made the accesses; `None` if it is not known.
    pub fn thread(&self) -> Option<u32> {
        self.thread
    }

    /// The bytes of each access, if the accesses have no sizes of their own.
    pub fn unit_bytes(&self) -> Option<u32> {
        self.unit_bytes
    }

    /// Bytes of the accesses whose sizes are known, and the number of accesses whose sizes are not
    /// known.
    pub fn sum_of_sizes(&self) -> (u64, u64) {
        let count = self.len() as u64;
        match (self.sizes, self.unit_bytes.filter(|bytes| *bytes > 0)) {
            (Some(sizes), _) => {
                let unknown = sizes.iter().filter(|size| **size == 0).count();
                (sizes.iter().map(|size| u64::from(*size)).sum(), unknown as u64)
            }
            (None, Some(unit)) => (count.saturating_mul(unit.into()), 0),
            (None, None) => (0, count),
        }
    }

    /// Calls `add` with slices of several units: all units of [`Batch::each_unit`], in order.
    pub fn each_units(&self, log2: u32, mut add: impl FnMut(&[u64])) {
        let (mut units, mut count) = ([0; UNITS_AT_ONCE], 0);
        self.each_unit(log2, |unit| {
            units[count % UNITS_AT_ONCE] = unit;
            count += 1;
            if count.is_multiple_of(UNITS_AT_ONCE) {
                add(&units);
            }
        });
        add(&units[..count % UNITS_AT_ONCE]);
    }

    /// Calls `add` with each unit of 2^`log2` bytes that each access touches, in order. A unit is
    /// given by its number, which is an address shifted right by `log2`. For example, with `log2`
    /// 6, 8 bytes at 0x103c touch the units 0x40 and 0x41. An access without a size of its own
    /// touches the unit of its address. Only the first [`MOST_TOUCHED_BYTES`] bytes of an access
    /// count, and no byte beyond the end of the address space.
    #[inline]
    pub fn each_unit(&self, log2: u32, mut add: impl FnMut(u64)) {
        let Some(sizes) = self.sizes else {
            self.addresses.iter().for_each(|address| add(address >> log2));
            return;
        };
        for (address, size) in self.addresses.iter().zip(sizes) {
            let more = (*size).clamp(1, MOST_TOUCHED_BYTES) - 1;
            let last = address.saturating_add(more.into()) >> log2;
            let mut unit = address >> log2;
            add(unit);
            while unit < last {
                unit += 1;
                add(unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_one_length() {
        let batch = Batch::new(&[1, 2, 3], &[true, false]).with_clocks(&[7, 8, 9]);
        assert_eq!((batch.len(), batch.clocks()), (2, Some(&[7, 8][..])));
        assert_eq!(batch.with_clocks(&[7]).clocks(), None);
        assert_eq!(batch.with_sizes(&[]).sizes(), None);
    }

    #[test]
    fn units_of_forged_accesses_are_few_and_end_with_the_address_space() {
        let units = |address, size| {
            let mut units = Vec::new();
            let (addresses, sizes) = ([address], [size]);
            Batch::new(&addresses, &[false])
                .with_sizes(&sizes)
                .each_unit(6, |unit| units.push(unit));
            units
        };
        assert_eq!(units(0, u32::MAX).len(), 64);
        assert_eq!(units(u64::MAX, 8), [u64::MAX >> 6]);
        assert_eq!(units(0x7f, 0), [1]);
        assert_eq!(units(0x7f, 2), [1, 2]);
    }
}
