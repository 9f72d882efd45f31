//! How far frames may be out of order.

/// How many counts a frame may be behind the newest and still be put in order.
pub const WINDOW: u64 = 64;
/// A frame this far behind is a restarted card, not a detour; up to here copies are recognised.
pub(super) const FARTHEST_DETOUR: u64 = 1024;
/// A frame below this that is further behind than the window is a restarted card too: its first
/// frames, perhaps after a few that were lost.
pub(super) const FIRST_FRAMES: u64 = 16;
