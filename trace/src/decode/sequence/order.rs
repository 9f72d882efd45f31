//! Counts frames that were missing, copied or out of order.

/// Frames of a trace that were missing, copied or out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Order {
    /// Frames that did not arrive in time.
    pub missing: u64,
    /// Copies of frames; they were dropped.
    pub duplicates: u64,
    /// Frames that arrived after a later one.
    pub reordered: u64,
    /// Frames of `reordered` that arrived too late to be put back; they are counted in `missing`, too.
    pub late: u64,
    /// Restarts of the card.
    pub restarts: u64,
}

impl Order {
    pub(in crate::decode) fn combine(&mut self, other: &Order, with: fn(u64, u64) -> u64) {
        let Order { missing, duplicates, reordered, late, restarts } = *other;
        self.missing = with(self.missing, missing);
        self.duplicates = with(self.duplicates, duplicates);
        self.reordered = with(self.reordered, reordered);
        self.late = with(self.late, late);
        self.restarts = with(self.restarts, restarts);
    }
}
