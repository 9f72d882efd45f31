//! Flips bits of frames and cuts frames short, among frames that are dropped, copied and moved.
//!
//! Guarantees with undamaged frames on both sides of each damaged one: the frames are those of one
//! card, decoded plus lost accesses are what the card counted, and of other frames nothing is
//! decoded that was not sent. A damaged frame can state counts that contradict the next one, which
//! is then dropped, and counted, if the card lost records soon after. Two damaged frames within the
//! 64 counts in which frames are put in order can seem to be a second card's, because they may
//! confirm each other.

use std::collections::{HashMap, HashSet};

use hmtt::decode::{Counts, Item, Malformation, decode_frames};
use hmtt_format::{Access, Direction, Event, PhysAddr};
use proptest::prelude::*;

use super::{FRAME_ACCESSES, Sent, cards, faults, number_of, sessions, trials};

/// Frames on each side of a damaged one that are neither damaged nor dropped.
const WHOLE: usize = 2;
/// Least distance of damaged frames.
const APART: usize = 64 + 1;
/// Bytes of the Ethernet header, which a frame that is cut short keeps.
const ETHERNET_HEADER: usize = 14;

/// How a frame is damaged.
#[derive(Clone, Debug)]
enum Damage {
    /// The bit that is flipped, modulo the number of bits.
    Flip(usize),
    /// Bytes that are left, modulo those behind the header.
    Cut(usize),
}

impl Damage {
    fn of(&self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        match self {
            Damage::Flip(bit) => {
                let bit = bit % (frame.len() * 8);
                frame[bit / 8] ^= 0x80 >> (bit % 8);
            }
            Damage::Cut(bytes) => {
                frame.truncate(ETHERNET_HEADER + bytes % (frame.len() - ETHERNET_HEADER));
            }
        }
        frame
    }
}

/// The damaged frames, by index. Frames too near to dropped or damaged ones are left whole.
fn damaged(sent: &Sent, arrives: &[bool], damages: &[(usize, Damage)]) -> HashMap<usize, Vec<u8>> {
    let mut frames: HashMap<usize, Vec<u8>> = HashMap::new();
    for (at, damage) in damages {
        let at = at % sent.frames.len();
        let is_whole = |at: usize| sent.may_drop.get(at) == Some(&true) && arrives[at];
        let is_apart = frames.keys().all(|other| at.abs_diff(*other) >= APART);
        if is_apart && (at.saturating_sub(WHOLE)..=at + WHOLE).all(is_whole) {
            frames.insert(at, damage.of(&sent.frames[at]));
        }
    }
    frames
}

fn accesses_of(items: &[Item]) -> impl Iterator<Item = Access> {
    items.iter().filter_map(|item| match item {
        Item::Event(Event::Access(access)) => Some(*access),
        _ => None,
    })
}

/// What a damaged clock does not alter of an access.
fn place(access: &Access) -> (PhysAddr, Direction) {
    (access.address, access.direction)
}

/// The places of the accesses that a damaged frame seems to hold.
fn places(frame: &[u8]) -> Vec<(PhysAddr, Direction)> {
    accesses_of(&decode_frames([frame]).0).map(|access| place(&access)).collect()
}

/// Accesses that altered records of a damaged frame stand for, and that the card did not count.
fn excess(item: &Item) -> u64 {
    match item {
        Item::Malformed { error: Malformation::Excess(excess), .. } => *excess,
        _ => 0,
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<usize>().prop_map(Damage::Flip),
        any::<usize>().prop_map(Damage::Cut),
        // The header and the sync of a frame.
        (0usize..(ETHERNET_HEADER + 24) * 8).prop_map(Damage::Flip),
    ]
}

proptest! {
    #![proptest_config(trials())]

    #[test]
    fn a_damaged_frame_costs_at_most_one_other(
        sessions in sessions(),
        accesses in 1..FRAME_ACCESSES,
        losses in any::<bool>(),
        faults in faults(),
        damages in prop::collection::vec((any::<usize>(), damage()), 1..4),
    ) {
        // Frames of two sessions that repeat each other, with a damaged counter, cannot be told
        // apart.
        let sent = Sent::new(sessions.iter().copied().zip((accesses..).step_by(31)), losses);
        let (arrived, arrives) = sent.arrive(&faults);
        let damaged = damaged(&sent, &arrives, &damages);
        let frames: Vec<_> =
            arrived.iter().map(|at| damaged.get(at).unwrap_or(&sent.frames[*at])).collect();
        let traces = cards(&frames);
        prop_assert_eq!(traces.len(), 1);
        let (items, counts) = &traces[0];

        let own: HashSet<_> = damaged.values().flat_map(|frame| places(frame)).collect();
        let is_other = |access: &Access| !own.contains(&place(access));
        let kept = (0..sent.frames.len()).filter(|at| arrives[*at] && !damaged.contains_key(at));
        let truth = number_of(kept.flat_map(|at| &sent.truth[at]).copied().filter(is_other));
        let decoded = number_of(accesses_of(items).filter(is_other));
        let is_sent = |(access, times): (&Access, &u64)| truth.get(access) >= Some(times);
        prop_assert!(decoded.iter().all(is_sent), "{:?}", counts);
        let dropped = truth.values().sum::<u64>() - decoded.values().sum::<u64>();
        prop_assert!(dropped <= damaged.len() as u64 * FRAME_ACCESSES, "{:?}", counts);

        let excess: u64 = items.iter().map(excess).sum();
        let Counts { accesses, lost_accesses, order, .. } = counts;
        let sent_accesses = sent.truth.iter().flatten().count() as u64 + sent.lost_on_card;
        prop_assert_eq!(accesses + lost_accesses, sent_accesses + excess);
        prop_assert_eq!(order.restarts, sessions.len() as u64 - 1);
    }
}
