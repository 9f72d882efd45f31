//! Maps virtual pages of processes to page frames of a memory, by first touch.
//!
//! A page gets the next free frame when it is first used, and keeps it. Frames are allocated in the
//! order of their addresses, or in a pseudo-random order that depends on a seed only. Invariant: no
//! two pages share a frame, and frames below [`RESERVED_BYTES`] are not used: a machine's firmware
//! has that memory, and the card's configuration registers are there.
//!
//! Rejected: a memory whose map does not name every address bit within a page, such as one of
//! several channels.

use std::collections::HashMap;

use hmtt_format::config::REGISTERS_LOG2;
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{MemoryDescription, PhysAddr};

/// Bytes at the start of the memory that are never allocated, as on a PC. The card's registers are
/// in this range, unless they are further apart; then their whole range is reserved.
pub const RESERVED_BYTES: u64 = 1 << 20;
/// Number of recent translations that are kept in addition to the table, for speed.
const RECENT: usize = 1024;
/// Rounds of the permutation of frames.
const ROUNDS: u64 = 4;

/// A virtual byte address of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtAddr(pub u64);

/// The order in which frames are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Ascending addresses.
    Sequential,
    /// A pseudo-random permutation of the frames.
    Random {
        /// Seed of the permutation.
        seed: u64,
    },
}

/// Why a page has no frame, or no tables exist for a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PageError {
    #[error("the memory is full: all {frames} page frames are used")]
    Full { frames: u64 },
    #[error("the address map does not name p{bit}, so a page is not in one memory")]
    Unnamed { bit: u8 },
}

/// The page tables of all processes.
#[derive(Clone, Debug)]
pub struct Pages {
    frames: HashMap<(u32, u64), u64>,
    /// The address bits that the map names, without the bits within a page, lowest first.
    frame_bits: Vec<u8>,
    allocation: Allocation,
    /// Position of the next frame in the order of allocation.
    next: u64,
    reserved_bytes: u64,
    /// Recent translations by the low bits of the page number: process, page, address of the frame.
    recent: Vec<Option<(u32, u64, u64)>>,
}

impl Pages {
    /// Creates empty tables for a memory.
    ///
    /// # Errors
    /// [`PageError::Unnamed`] if the map leaves out an address bit within a page.
    pub fn new(memory: &MemoryDescription, allocation: Allocation) -> Result<Self, PageError> {
        let named = memory.map.named_bits();
        let is_named = |bit: &u8| named >> bit & 1 != 0;
        if let Some(bit) = (memory.bus_log2..PAGE_LOG2).find(|bit| !is_named(bit)) {
            return Err(PageError::Unnamed { bit });
        }
        let registers = 1 << (u32::from(memory.config_stride_log2) + u32::from(REGISTERS_LOG2));
        Ok(Pages {
            frames: HashMap::new(),
            frame_bits: (PAGE_LOG2..64).filter(is_named).collect(),
            allocation,
            next: 0,
            reserved_bytes: RESERVED_BYTES.max(registers),
            recent: vec![None; RECENT],
        })
    }

    /// Returns the physical address of a virtual one, and allocates a frame if the page has none.
    ///
    /// # Errors
    /// [`PageError::Full`] if no frame is free.
    pub fn translate(&mut self, process: u32, address: VirtAddr) -> Result<PhysAddr, PageError> {
        let page = address.0 >> PAGE_LOG2;
        let offset = address.0 & ((1 << PAGE_LOG2) - 1);
        let slot = page as usize % RECENT;
        if let Some((owner, number, frame)) = self.recent[slot]
            && (owner, number) == (process, page)
        {
            return Ok(PhysAddr(frame | offset));
        }
        let frame = match self.frames.get(&(process, page)) {
            Some(frame) => *frame,
            None => {
                let frame = self.allocate()?;
                self.frames.insert((process, page), frame);
                frame
            }
        };
        self.recent[slot] = Some((process, page, frame));
        Ok(PhysAddr(frame | offset))
    }

    /// Number of pages that have a frame.
    pub fn used(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Number of frames, including those that are reserved.
    const fn count(&self) -> u64 {
        1 << self.frame_bits.len()
    }

    /// Returns the address of the next free frame.
    fn allocate(&mut self) -> Result<u64, PageError> {
        while self.next < self.count() {
            let number = match self.allocation {
                Allocation::Sequential => self.next,
                Allocation::Random { seed } => permuted(self.next, self.frame_bits.len(), seed),
            };
            self.next += 1;
            let address = self.address(number);
            if address >= self.reserved_bytes {
                return Ok(address);
            }
        }
        Err(PageError::Full { frames: self.used() })
    }

    /// The address of a frame: the bits of its number, at the address bits that the map names.
    fn address(&self, number: u64) -> u64 {
        let bits = self.frame_bits.iter().enumerate();
        bits.fold(0, |address, (at, bit)| address | (number >> at & 1) << bit)
    }
}

/// Permutes the numbers of `bits` bits: a Feistel network on an even number of bits, repeated until
/// the result is in range (Black and Rogaway 2002, cycle walking).
fn permuted(number: u64, bits: usize, seed: u64) -> u64 {
    let half = (bits as u32).div_ceil(2);
    let mask = (1 << half) - 1;
    let mut number = number;
    loop {
        let (mut left, mut right) = (number >> half, number & mask);
        for round in 0..ROUNDS {
            let mixed = mix(right ^ mix(seed.wrapping_add(round)));
            (left, right) = (right, left ^ mixed & mask);
        }
        number = left << half | right;
        if number >> bits == 0 {
            return number;
        }
    }
}

/// Mixes the bits of a number, by the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
const fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_format::toml_memory;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A memory of 2 MiB, in which p14 names no coordinate.
    fn small() -> MemoryDescription {
        toml_memory::parse(
            "generation = 'DDR1'\ntck_ns = 10.0\nbus_bytes = 8\nburst_length = 4\n[map]\n\
             column = ['p3-p11']\nbank = ['p12', 'p13']\nrow = ['p15-p21']\n",
        )
        .unwrap()
    }

    #[test]
    fn frames_follow_each_other_and_processes_do_not_share_them() {
        let mut pages = Pages::new(&small(), Allocation::Sequential).unwrap();
        let mut at = |process, address| pages.translate(process, VirtAddr(address)).unwrap().0;
        assert_eq!(at(1, 0x7fff_1234), 0x10_0234);
        assert_eq!(at(2, 0x7fff_1234), 0x10_1234);
        assert_eq!(at(1, 0x7fff_1fff), 0x10_0fff);
        assert_eq!((at(1, 0), at(1, 0x1000)), (0x10_2000, 0x10_3000));
        assert_eq!(at(1, 0x2000), 0x10_8000, "without p14");
    }

    #[test]
    fn every_frame_beyond_the_reserved_ones_is_used_once() {
        for allocation in [Allocation::Sequential, Allocation::Random { seed: 5 }] {
            let mut pages = Pages::new(&small(), allocation).unwrap();
            let mut seen = HashSet::new();
            let error =
                (0..).find_map(|page| match pages.translate(0, VirtAddr(page << PAGE_LOG2)) {
                    Ok(address) => {
                        assert!(address.0 >= RESERVED_BYTES && address.0 & 1 << 14 == 0);
                        assert!(seen.insert(address));
                        None
                    }
                    Err(error) => Some(error),
                });
            // Rows with p20 or p21, in four banks.
            assert_eq!(error, Some(PageError::Full { frames: 96 * 4 }));
        }
    }

    #[test]
    fn a_memory_of_one_of_two_channels_is_refused() {
        let text = "generation = 'DDR1'\ntck_ns = 10.0\nbus_bytes = 8\nburst_length = 4\n[map]\n\
             column = ['p3-p5', 'p7-p13']\nbank = ['p14', 'p15']\nrow = ['p16-p28']\n";
        let memory = toml_memory::parse(text).unwrap();
        let error = Pages::new(&memory, Allocation::Sequential).unwrap_err();
        assert_eq!(error, PageError::Unnamed { bit: 6 });
    }

    proptest! {
        #[test]
        fn permutations_are_one_to_one(bits in 0usize..11, seed: u64) {
            let images: HashSet<u64> = (0..1 << bits).map(|at| permuted(at, bits, seed)).collect();
            prop_assert_eq!(images.len(), 1 << bits);
            prop_assert!(images.iter().all(|at| at >> bits == 0));
        }
    }
}
