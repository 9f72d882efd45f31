//! Captured frames to the items of a trace: accesses and other events in time order, gaps explicit.
//!
//! [`frame`] reads one frame's headers, [`sequence`] puts frames back in counter order and names the
//! missing ones, `doubt` leaves out those whose counts contradict the others, [`Trace`] reads the records of one card and states what each gap cost, as items, as
//! [`columns`] or counted only; [`wire`] tells the cards on one wire apart, [`Links`] has all wires of a
//! capture. No sockets, no files.

pub(crate) mod clock;
pub mod columns;
mod counts;
mod counts_after;
mod decoder;
mod distance;
pub mod earlier_report;
mod fit;
pub mod frame;
mod gap;
mod item;
mod links;
mod quarantine;
pub mod sequence;
mod trace;
pub mod wire;

pub use columns::{Accesses, Columns};
pub use counts::{BurstMismatch, Counts, MAX_PLACED_GAPS};
pub use frame::{Frame, FrameError, Origin};
pub use gap::Gap;
pub(crate) use gap::{GapLocation, LocatedGap, parse_seconds, seconds};
pub use item::{Counted, DdrClock, Item, Items, Malformation, Sink};
pub use links::{CardCounts, LinkCounts, Links};
pub use trace::Trace;
pub use wire::{CardSink, Wire};

/// Decodes frames, in the order they were captured, to all items of their trace.
///
/// Keeps everything in memory: for tests and short captures. [`Trace`] streams.
pub fn decode_frames<I>(frames: I) -> (Vec<Item>, Counts)
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut items = Vec::new();
    let mut trace = Trace::default();
    for (index, frame) in frames.into_iter().enumerate() {
        let origin = Origin { packet: index as u64 + 1, ..Origin::default() };
        trace.push(origin, frame.as_ref(), &mut |item| items.push(item));
    }
    let counts = trace.finish(&mut |item| items.push(item));
    (items, counts)
}
