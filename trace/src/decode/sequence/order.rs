//! Counts frames that were missing, copied or out of order.

/// Frames of a trace that were missing, copied or out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Order {
    /// Frames that did not arrive in time.
    pub missing_frames: u64,
    /// Copies of frames; they were dropped.
    pub duplicate_frames: u64,
    /// Frames that arrived after a later one.
    pub reordered_frames: u64,
    /// Frames of `reordered_frames` that arrived too late to be put back; they are counted in
    /// `missing_frames`, too.
    pub late_frames: u64,
    /// Restarts of the card.
    pub restarts: u64,
}

impl Order {
    pub(in crate::decode) fn combine(&mut self, other: &Order, with: fn(u64, u64) -> u64) {
        let Order { missing_frames, duplicate_frames, reordered_frames, late_frames, restarts } =
            *other;
        self.missing_frames = with(self.missing_frames, missing_frames);
        self.duplicate_frames = with(self.duplicate_frames, duplicate_frames);
        self.reordered_frames = with(self.reordered_frames, reordered_frames);
        self.late_frames = with(self.late_frames, late_frames);
        self.restarts = with(self.restarts, restarts);
    }
}
