//! Defines how far frames may arrive out of order, in counts of the frame counter.

/// A frame is put in order if it is fewer than this number of frames behind the newest frame.
pub const WINDOW: u64 = 64;
/// Maximum number of frames by which a frame may be behind the next expected frame and still be
/// taken for a late frame or a copy. A frame further behind is from a restarted card.
pub(super) const FARTHEST_DETOUR: u64 = 1024;
/// Counters below this number belong to the first frames of a session. If such a frame is behind by
/// more than [`WINDOW`] plus this number, it is from a restarted card, whose first frames may have
/// been lost.
pub(super) const FIRST_FRAMES: u64 = 16;
