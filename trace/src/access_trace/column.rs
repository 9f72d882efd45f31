//! Collects the bytes of a column, and takes bytes from a column that is read.

/// A growing column of bytes.
///
/// [`put`](Column::put) always copies a whole array and then keeps its first bytes only. The next
/// call overwrites the others. So the length of an entry costs no branch.
#[derive(Clone, Debug, Default)]
pub struct Column {
    bytes: Vec<u8>,
    used: usize,
}

impl Column {
    /// Reserves memory for `more` further bytes.
    pub fn reserve(&mut self, more: usize) {
        let needed = self.used + more;
        if self.bytes.len() < needed {
            self.bytes.resize(2 * needed, 0);
        }
    }

    /// Appends the first `kept` of these bytes. Memory for all `N` bytes must have been reserved:
    /// without it, nothing is appended.
    #[inline]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N], kept: usize) {
        // An array is copied by a few moves. A slice would be copied by a call.
        let rest = self.bytes.get_mut(self.used..).and_then(|rest| rest.first_chunk_mut());
        if let Some(place) = rest {
            *place = bytes;
            self.used += kept.min(N);
        }
    }

    /// All bytes that were kept, in order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Removes all bytes. The memory stays reserved.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}

/// Takes `count` bytes from the start of a column. If the column is shorter, returns `None` and
/// does not change the column.
pub fn take<'c>(column: &mut &'c [u8], count: usize) -> Option<&'c [u8]> {
    let (bytes, rest) = column.split_at_checked(count)?;
    *column = rest;
    Some(bytes)
}
