//! Splits the accesses of a string instruction into accesses of its elements.
//!
//! A forged file may state string instructions with more elements than any disk can hold, so the
//! number of elements is limited.

use std::io;

use hmtt::access_trace::{ElementBudget, Refused};
use hmtt::table::requests::LINE_BYTES;
use hmtt_files::access_trace::Made;
use hmtt_format::Direction;

/// Maximum size of an access or of an element, in bytes. No instruction accesses more. A larger
/// size in a forged file would become millions of requests.
const MOST_BYTES: u32 = 1 << 16;

/// A memory access at a known address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Direction of the access.
    pub direction: Direction,
    /// Virtual address of the first byte.
    pub address: u64,
    /// Size in bytes; 0 if it is not known.
    pub size: u32,
}

/// Splits accesses, and counts the accesses that an export cannot have.
#[derive(Debug)]
pub struct Rounds {
    /// Limit of the elements that may still be written.
    budget: ElementBudget,
    /// Number of accesses whose addresses are not known, or whose sizes no instruction can have.
    pub unknown: u64,
    singles: Vec<Single>,
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds { budget: ElementBudget::of_file(), unknown: 0, singles: Vec::new() }
    }
}

impl Rounds {
    /// Elements that were left out because there are too many.
    pub fn left_out(&self) -> Option<Refused> {
        self.budget.refused()
    }

    /// Passes on the accesses of one instruction. For a string instruction it calls `add` once for
    /// each element, with one element of each operand. For any other instruction it calls `add`
    /// once with all accesses, even if there are none. Example: a `rep movsb` of two bytes from
    /// 0x10 to 0x20 calls `add` with a read at 0x10 and a write at 0x20, then with a read at 0x11
    /// and a write at 0x21.
    ///
    /// # Errors
    /// The error that `add` returns.
    pub fn each(
        &mut self,
        accesses: &[Made],
        mut add: impl FnMut(&[Single]) -> io::Result<()>,
    ) -> io::Result<()> {
        let unknown = accesses.iter().filter(|made| address(made).is_none());
        self.unknown += unknown.count() as u64;
        accesses.iter().for_each(|_| self.budget.earn());
        let most = accesses.iter().map(|made| made.elements).max().unwrap_or(1).max(1);
        let more = if most > 1 { self.budget.spend_some(most - 1, 0) } else { 0 };
        for element in 0..=more {
            self.singles.clear();
            let present = accesses.iter().filter(|made| element < made.elements.max(1));
            self.singles.extend(present.filter_map(|made| single(made, element)));
            add(&self.singles)?;
        }
        Ok(())
    }
}

/// Address of an access, if it is known and an instruction can have the access's size.
fn address(access: &Made) -> Option<u64> {
    access.address.filter(|_| access.size <= MOST_BYTES)
}

impl Rounds {
    /// Passes on the accesses of one instruction with one call of `add`. For a string instruction
    /// these are the first elements in each cache line. `places`: maximum numbers of reads and of
    /// writes that `add` can take. Returns the number of elements for which there was no place.
    ///
    /// # Errors
    /// The error that `add` returns.
    pub fn at_once(
        &mut self,
        accesses: &[Made],
        places: [usize; 2],
        add: impl FnOnce(&[Single]) -> io::Result<()>,
    ) -> io::Result<u64> {
        self.singles.clear();
        let mut unplaced = 0u64;
        for access in accesses {
            let Some(first) = address(access) else {
                self.unknown += 1;
                continue;
            };
            let same =
                |other: &&Made| other.direction == access.direction && address(other).is_some();
            let sharing = accesses.iter().filter(same).count();
            let places = places[usize::from(access.direction == Direction::Write)];
            let (mut element, elements) = (0, access.elements.max(1));
            for _ in 0..(places / sharing).max(1) {
                self.singles.extend(single(access, element));
                element = next_line(access, first, element);
                if element >= elements {
                    break;
                }
            }
            unplaced = unplaced.saturating_add(elements.saturating_sub(element));
        }
        add(&self.singles)?;
        Ok(unplaced)
    }
}

/// Number of the first element after `element` that begins in another cache line. `address`:
/// address of element 0.
fn next_line(access: &Made, address: u64, element: u64) -> u64 {
    let size = u64::from(access.size.max(1));
    let distance = element.wrapping_mul(size);
    let bytes = if access.is_down {
        address.wrapping_sub(distance) % LINE_BYTES + 1
    } else {
        LINE_BYTES - address.wrapping_add(distance) % LINE_BYTES
    };
    element.saturating_add(bytes.div_ceil(size))
}

/// The access of one element of a string instruction.
fn single(access: &Made, element: u64) -> Option<Single> {
    let distance = element.wrapping_mul(access.size.into());
    let address = address(access)?;
    let address = if access.is_down {
        address.wrapping_sub(distance)
    } else {
        address.wrapping_add(distance)
    };
    Some(Single { direction: access.direction, address, size: access.size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(direction: Direction, address: Option<u64>, elements: u64, is_down: bool) -> Made {
        let (represents, conditional) = (1, false);
        Made { pc: 0, direction, address, represents, size: 4, elements, is_down, conditional }
    }

    fn rounds(state: &mut Rounds, accesses: &[Made]) -> Vec<Vec<u64>> {
        let mut addresses = Vec::new();
        let add = |singles: &[Single]| {
            addresses.push(singles.iter().map(|single| single.address).collect());
            Ok(())
        };
        state.each(accesses, add).unwrap();
        addresses
    }

    #[test]
    fn elements_of_all_operands_are_accessed_in_turn() {
        let (read, write) = (Direction::Read, Direction::Write);
        let mut state = Rounds::default();
        let up = [made(read, Some(0x100), 2, false), made(write, Some(0x200), 2, false)];
        assert_eq!(rounds(&mut state, &up), [[0x100, 0x200], [0x104, 0x204]]);
        let down = [made(write, Some(0x100), 3, true)];
        assert_eq!(rounds(&mut state, &down), [[0x100], [0xfc], [0xf8]]);
        assert_eq!(rounds(&mut state, &[]), [[0; 0]]);
        let unknown = [made(read, None, 1, false), made(write, Some(0x10), 1, false)];
        assert_eq!(rounds(&mut state, &unknown), [[0x10]]);
        assert_eq!((state.unknown, state.left_out()), (1, None));
        let huge = Made { size: u32::MAX, ..made(write, Some(0x10), 1, false) };
        assert_eq!(rounds(&mut state, &[huge]), [[0; 0]]);
        assert_eq!(state.unknown, 2);
    }

    #[test]
    fn all_at_once_there_is_an_element_of_each_line() {
        let (read, write) = (Direction::Read, Direction::Write);
        let mut state = Rounds::default();
        let mut lines = |accesses: &[Made]| {
            let mut addresses = Vec::new();
            let add = |singles: &[Single]| {
                addresses.extend(singles.iter().map(|single| single.address));
                Ok(())
            };
            let unplaced = state.at_once(accesses, [4, 2], add).unwrap();
            (addresses, unplaced)
        };
        assert_eq!(lines(&[]), (vec![], 0));
        assert_eq!(lines(&[made(write, Some(0x1038), 2, false)]), (vec![0x1038], 0));
        assert_eq!(lines(&[made(write, Some(0x1038), 20, false)]), (vec![0x1038, 0x1040], 2));
        assert_eq!(lines(&[made(read, Some(0x1044), 20, true)]), (vec![0x1044, 0x103c, 0x0ffc], 0));
        // An element that crosses the border of a line, and two operands that share the places.
        assert_eq!(lines(&[made(read, Some(0x103e), 2, false)]), (vec![0x103e, 0x1042], 0));
        let both = [made(read, Some(0x1000), 64, false), made(read, Some(0x2000), 64, false)];
        assert_eq!(lines(&both), (vec![0x1000, 0x1040, 0x2000, 0x2040], 64));
        let forged = [made(write, Some(u64::MAX), u64::MAX, true)];
        assert_eq!(lines(&forged).0.len(), 2);
        assert_eq!((lines(&[made(read, None, 1, false)]), state.unknown), ((vec![], 0), 1));
    }

    #[test]
    fn elements_are_limited_and_counted() {
        let mut state = Rounds::default();
        state.budget.spend_some((1 << 24) - 5, 0);
        let forged = [made(Direction::Write, Some(u64::MAX), u64::MAX, false)];
        assert_eq!(rounds(&mut state, &forged).len(), 1024 + 6);
        assert_eq!(rounds(&mut state, &forged).len(), 1024 + 1);
        assert_eq!(state.left_out(), Some(Refused { elements: u64::MAX, first: 1 }));
    }
}
