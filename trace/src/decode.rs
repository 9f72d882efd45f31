//! Decodes captured frames into the items of a trace: accesses and other events in time order, with
//! explicit gaps.
//!
//! ```text
//! frame -> frame     parses the headers of one frame
//!       -> wire      finds the card that sent it, by compare, evidence and agreement ([`Links`] has a
//!                      wire for each link of a capture)
//!       -> sequence  restores the order of one card's frames and finds the missing ones
//!       -> quarantine  drops frames whose counts or clock contradict the frames around them
//!       -> decoder   reads the records and states what each gap cost -> items, columns or counts
//! ```
//!
//! There is one decoder for a card, one for a link and one for a capture. All are used in the same
//! way: `push` each captured frame with a [`Sink`], which gets the items; ask for the `counts` so
//! far at any time; `finish` with the sink, which returns the final counts.
//!
//! | Decoder | Frames of | Counts |
//! |---|---|---|
//! | [`CardTrace`] | one card, alone | [`Counts`] |
//! | [`Wire`] | the cards on one link | [`LinkCounts`]: the counts of each card |
//! | [`Links`] | the cards on all links of a capture | [`LinkCounts`]: the counts of each card, with its link |
//!
//! The module uses no sockets and no files.

mod agreement;
pub mod arrival;
mod card_trace;
mod clock;
mod clock_check;
pub mod columns;
mod compare;
mod counts;
mod counts_after;
mod decoder;
mod distance;
pub mod earlier_report;
mod evidence;
mod fingerprint;
pub mod frame;
mod gap;
mod item;
mod link_counts;
mod links;
mod quarantine;
mod rules;
pub mod sequence;
mod sink;
pub mod wire;

pub use card_trace::CardTrace;
pub use columns::{Accesses, Columns};
pub use counts::{BurstMismatch, Counts, MAX_PLACED_GAPS};
pub use frame::{Frame, FrameError, Origin};
pub use gap::Gap;
pub(crate) use gap::{GapLocation, LocatedGap, parse_seconds};
pub use item::{DdrClock, Item, Malformation};
pub use link_counts::{CardCounts, LinkCounts};
pub use links::Links;
pub use sink::{Counted, Sink};
pub use wire::Wire;

/// Decodes the frames of one card, in the order of capture, and returns all items of their trace
/// with their counts.
///
/// Keeps all items in memory: for tests and short captures. [`CardTrace`] passes items on as frames
/// arrive.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// # let mut reader = hmtt::pcapng::PcapngReader::from_reader(CAPTURE)?;
/// # let frame = reader.next_packet()?.unwrap().bytes.to_vec();
/// // `frame`: bytes of a card's frame, from the destination address on.
/// let (items, counts) = hmtt::decode::decode_frames([&frame]);
/// assert_eq!((counts.accesses, counts.faults["read_idle"]), (4, 1));
/// // The session has no end frame, so that its tail may be missing.
/// assert_eq!(items.last(), Some(&hmtt::decode::Item::NoEnd));
/// # Ok(())
/// # }
/// ```
pub fn decode_frames<I>(frames: I) -> (Vec<Item>, Counts)
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut items = Vec::new();
    let mut trace = CardTrace::default();
    let mut sink = |_, item| items.push(item);
    for (index, frame) in frames.into_iter().enumerate() {
        let origin = Origin { packet: index as u64 + 1, ..Origin::default() };
        trace.push(origin, frame.as_ref(), &mut sink);
    }
    let counts = trace.finish(&mut sink);
    (items, counts)
}
