//! Bytes of a column.

/// Bytes that are appended, also before it is known whether they are kept.
#[derive(Clone, Debug, Default)]
pub struct Column {
    bytes: Vec<u8>,
    used: usize,
}

impl Column {
    /// Reserves memory for this many more bytes.
    pub fn reserve(&mut self, more: usize) {
        let needed = self.used + more;
        if self.bytes.len() < needed {
            self.bytes.resize(2 * needed, 0);
        }
    }

    /// Appends bytes, and keeps the first `kept` of them. Memory for all `N` bytes was reserved.
    #[inline]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N], kept: usize) {
        // An array is a few moves; copying a slice would be a call.
        let rest = self.bytes.get_mut(self.used..).and_then(|rest| rest.first_chunk_mut());
        if let Some(place) = rest {
            *place = bytes;
            self.used += kept.min(N);
        }
    }

    /// The bytes that are kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}

/// Takes bytes from the start of a column that is read.
pub fn take<'c>(column: &mut &'c [u8], count: usize) -> Option<&'c [u8]> {
    let (taken, rest) = column.split_at_checked(count)?;
    *column = rest;
    Some(taken)
}
