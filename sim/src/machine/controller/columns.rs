//! Keeps the first clock at which a READ or WRITE is legal on the data bus, for each rank and bank
//! group.

use hmtt_format::{Coordinates, Direction, Generation, MemoryDescription};

use super::banks::group;
use hmtt_format::timing::{RANK_GAP, Timing};

/// Bank groups of a rank for which state is kept, whatever the memory has.
const GROUPS: usize = 4;

/// First clocks for READs and WRITEs.
#[derive(Clone, Debug)]
pub struct Columns {
    timing: Timing,
    generation: Generation,
    /// By rank * [`GROUPS`] + group: first clocks for a READ and for a WRITE.
    from: Vec<[u64; 2]>,
}

impl Columns {
    /// Creates the state of an idle bus.
    pub fn new(memory: &MemoryDescription, timing: &Timing) -> Self {
        Columns {
            timing: timing.clone(),
            generation: memory.generation,
            from: vec![[0; 2]; usize::from(memory.ranks()) * GROUPS],
        }
    }

    /// First clock for a READ or WRITE.
    pub fn from(&self, direction: Direction, place: Coordinates) -> u64 {
        let group = group(self.generation, place.bank);
        self.from[place.rank as usize * GROUPS + group][direction.bit() as usize]
    }

    /// Notes a READ or WRITE.
    pub fn issued(&mut self, direction: Direction, place: Coordinates, clock: u64) {
        let group = group(self.generation, place.bank);
        for (index, from) in self.from.iter_mut().enumerate() {
            let distances = if index / GROUPS == place.rank as usize {
                same_rank(&self.timing, direction, index % GROUPS == group)
            } else {
                other_rank(&self.timing, direction)
            };
            for (from, distance) in from.iter_mut().zip(distances) {
                *from = (*from).max(clock + distance);
            }
        }
    }
}

/// Distances from a READ or WRITE to the next READ and to the next WRITE of one rank.
fn same_rank(timing: &Timing, direction: Direction, same_group: bool) -> [u64; 2] {
    let tccd = if same_group { timing.tccd_l } else { timing.tccd };
    let twtr = if same_group { timing.twtr_l } else { timing.twtr };
    match direction {
        Direction::Read => [tccd, timing.read_to_write],
        Direction::Write => [timing.cwl + timing.burst + twtr, tccd],
    }
}

/// Distances from a READ or WRITE to the next READ and to the next WRITE of another rank: their
/// data leave the bus free for [`RANK_GAP`] clocks.
fn other_rank(timing: &Timing, direction: Direction) -> [u64; 2] {
    let Timing { cl, cwl, burst, read_to_write, .. } = *timing;
    let same = burst + RANK_GAP;
    match direction {
        Direction::Read => [same, read_to_write.max((cl + same).saturating_sub(cwl))],
        Direction::Write => [(cwl + same).saturating_sub(cl).max(1), same],
    }
}
