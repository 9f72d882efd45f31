//! What became of the order in which frames were sent.

/// What happened to the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Order {
    /// Frames that did not come in time.
    pub missing: u64,
    /// Copies of frames, dropped.
    pub duplicates: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Those of `reordered` that came too late to be put back; they are in `missing`.
    pub late: u64,
    /// Times the card started to count anew.
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
