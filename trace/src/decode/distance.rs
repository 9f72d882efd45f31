//! Defines how far frames may arrive out of order, in counts of the frame counter.

/// Frames that a frame may be behind the newest and still be put in order.
pub const WINDOW: u64 = 64;
/// Frames that a frame may be behind the next expected and still be taken for a late one or a copy.
/// A frame further behind is from a restarted card.
pub(super) const FARTHEST_DETOUR: u64 = 1024;
/// Counters below this one are a session's first frames. Such a frame, if it is further behind than
/// the window, is from a restarted card, whose first frames may have been lost.
pub(super) const FIRST_FRAMES: u64 = 16;
