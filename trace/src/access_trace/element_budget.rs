//! Limits how many elements of string instructions are passed on one by one.
//!
//! A forged row of a table, or a few forged bytes of a trace, can state any number of elements. So
//! a file starts with a budget of elements and bytes, and earns more with each access that is read:
//! time and memory stay linear in the size of the input. An instruction that the budget does not
//! cover is not split at all, and its elements are counted as refused. `docs/readers.md` states the
//! limits.

use std::fmt;

use hmtt_files::access_trace::Made;

/// Maximum number of elements of a string instruction. A larger number must be forged, because so
/// many elements need more memory than a process is likely to have.
pub const MOST_ELEMENTS: u64 = 1 << 32;
/// Elements in the budget of a file before its first access.
pub const FIRST_ELEMENTS: u64 = 1 << 24;
/// Bytes of elements in the budget of a file before its first access.
pub const FIRST_BYTES: u64 = 32 << 20;
/// Elements that the budget of a file earns with each access that was read.
pub const ELEMENTS_OF_EACH: u64 = 1024;
/// Bytes of elements that the budget of a file earns with each access that was read.
pub const BYTES_OF_EACH: u64 = 4096;
/// Elements that the budget of a running program earns with each access. This number is larger than
/// [`ELEMENTS_OF_EACH`], because the program itself takes time to access each element.
const RUNNING_OF_EACH: u64 = 1 << 16;

/// Elements of string instructions that were not passed on one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Number of refused elements.
    pub elements: u64,
    /// Number of the first access with a refused element, from 1. In a table, this is the number of
    /// the row.
    pub first: u64,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { elements, first } = self;
        write!(
            f,
            "{elements} elements of string instructions, the first ones in access {first} of the file: \
             at most {FIRST_ELEMENTS} with {} MiB, and {ELEMENTS_OF_EACH} with {BYTES_OF_EACH} bytes for each access, \
             are looked at one by one",
            FIRST_BYTES >> 20
        )
    }
}

/// Elements and bytes that may still be passed on one by one.
///
/// ```
/// use hmtt::access_trace::ElementBudget;
/// use hmtt_format::Direction;
/// use hmtt_files::access_trace::Made;
///
/// let (pc, direction, address) = (0x1000, Direction::Write, Some(0x5000));
/// let (represents, is_down, conditional) = (1, false, false);
/// let made = Made { pc, direction, address, represents, size: 4, elements: 100, is_down, conditional };
/// let mut budget = ElementBudget::of_file();
/// budget.earn();
/// assert!(budget.spend(&[made]));
/// budget.earn();
/// assert!(!budget.spend(&[Made { elements: 1 << 32, ..made }]));
/// let refused = budget.refused().unwrap();
/// assert_eq!((refused.elements, refused.first), (1 << 32, 2));
/// ```
#[derive(Clone, Debug)]
pub struct ElementBudget {
    elements: u64,
    bytes: u64,
    elements_of_each: u64,
    bytes_of_each: u64,
    accesses: u64,
    refused: Refused,
}

impl ElementBudget {
    const fn new(first: [u64; 2], of_each: [u64; 2]) -> Self {
        let [elements, bytes] = first;
        let [elements_of_each, bytes_of_each] = of_each;
        let refused = Refused { elements: 0, first: 0 };
        ElementBudget { elements, bytes, elements_of_each, bytes_of_each, accesses: 0, refused }
    }

    /// A budget that does not grow.
    #[cfg(test)]
    pub const fn fixed(elements: u64, bytes: u64) -> Self {
        Self::new([elements, bytes], [0; 2])
    }

    /// The budget of a file. It begins with 2^24 elements and 32 MiB, and grows with each access
    /// that is read.
    pub const fn of_file() -> Self {
        Self::new([FIRST_ELEMENTS, FIRST_BYTES], [ELEMENTS_OF_EACH, BYTES_OF_EACH])
    }

    /// The budget of a running program. It does not limit bytes: unless the program forges numbers,
    /// the program itself takes time to access these bytes.
    pub const fn of_running_program() -> Self {
        Self::new([MOST_ELEMENTS, u64::MAX], [RUNNING_OF_EACH, 0])
    }

    /// Enlarges the budget. To be called once for each access that was read, before the elements of
    /// that access are spent.
    #[inline]
    pub fn earn(&mut self) {
        self.accesses += 1;
        self.elements = self.elements.saturating_add(self.elements_of_each);
        self.bytes = self.bytes.saturating_add(self.bytes_of_each);
    }

    /// Whether all elements of an instruction may be passed on one by one. If so, they are taken
    /// from the budget, and otherwise counted as refused. `instruction`: the accesses of the
    /// instruction, which must be the accesses that were read last.
    ///
    /// Accesses without a known address cost nothing, because they are never split. Accesses with
    /// one element cost nothing either.
    pub fn spend(&mut self, instruction: &[Made]) -> bool {
        let has_elements = |access: &&Made| access.elements > 1 && access.address.is_some();
        let (mut elements, mut bytes, mut is_possible) = (0u64, 0u64, true);
        for access in instruction.iter().filter(has_elements) {
            elements = elements.saturating_add(access.elements);
            bytes = bytes.saturating_add(access.elements.saturating_mul(access.size.into()));
            is_possible &= access.elements <= MOST_ELEMENTS;
        }
        // The first element of each access was paid for when the access was read.
        let further = elements.saturating_sub(instruction.len() as u64);
        if is_possible && further <= self.elements && bytes <= self.bytes {
            self.elements -= further;
            self.bytes -= bytes;
            return true;
        }
        self.refuse(elements, instruction.len() as u64);
        false
    }

    /// Takes `further` elements of `bytes` bytes each from the budget, or fewer if the budget does
    /// not cover all of them. Returns the number of elements that were taken, and counts the others
    /// as refused.
    pub fn spend_some(&mut self, further: u64, bytes: u64) -> u64 {
        let by_bytes = self.bytes.checked_div(bytes).unwrap_or(u64::MAX);
        let granted = further.min(self.elements).min(by_bytes);
        self.elements -= granted;
        self.bytes -= granted * bytes;
        if granted < further {
            self.refuse(further - granted, 1);
        }
        granted
    }

    /// Counts refused elements. `accesses`: number of the last accesses, to which these elements
    /// belong.
    fn refuse(&mut self, elements: u64, accesses: u64) {
        let Refused { elements: sum, first } = &mut self.refused;
        if *sum == 0 {
            *first = self.accesses.saturating_sub(accesses.saturating_sub(1)).max(1);
        }
        *sum = sum.saturating_add(elements);
    }

    /// The refused elements; `None` if there are none.
    pub fn refused(&self) -> Option<Refused> {
        Some(self.refused).filter(|refused| refused.elements > 0)
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::Direction;

    use super::*;

    fn made(elements: u64, size: u32) -> Made {
        let (pc, direction, address) = (1, Direction::Read, Some(0x1000));
        let (represents, is_down, conditional) = (1, false, false);
        Made { pc, direction, address, represents, size, elements, is_down, conditional }
    }

    #[test]
    fn elements_and_bytes_are_limited_and_grow_with_the_accesses() {
        let mut budget = ElementBudget::of_file();
        assert!(budget.spend(&[made(FIRST_ELEMENTS, 1)]));
        assert!(!budget.spend(&[made(3, 1)]));
        (0..4).for_each(|_| budget.earn());
        assert!(budget.spend(&[made(4 * ELEMENTS_OF_EACH, 1)]));
        let mut budget = ElementBudget::of_file();
        assert!(!budget.spend(&[made(FIRST_BYTES / 8 + 1, 8)]));
        assert!(budget.spend(&[made(FIRST_BYTES / 8, 8)]));
        assert!(!budget.spend(&[made(2, 8)]));
        assert_eq!(budget.refused().unwrap().elements, FIRST_BYTES / 8 + 3);
    }

    #[test]
    fn single_accesses_and_unknown_ones_cost_nothing() {
        let mut budget = ElementBudget { elements: 0, bytes: 0, ..ElementBudget::of_file() };
        assert!(budget.spend(&[made(1, 4096), made(1, 8)]));
        assert!(budget.spend(&[Made { address: None, ..made(u64::MAX, 8) }]));
        assert!(!budget.spend(&[made(2, 1), made(2, 1)]));
        assert_eq!(budget.refused(), Some(Refused { elements: 4, first: 1 }));
        let mut budget = ElementBudget::of_running_program();
        budget.elements = u64::MAX;
        assert!(!budget.spend(&[made(MOST_ELEMENTS + 1, 1)]));
    }

    #[test]
    fn some_of_many_elements_are_granted() {
        let mut budget = ElementBudget { elements: 10, bytes: 64, ..ElementBudget::of_file() };
        budget.earn();
        budget.elements = 10;
        budget.bytes = 64;
        assert_eq!(budget.spend_some(3, 8), 3);
        assert_eq!(budget.spend_some(u64::MAX, 8), 5);
        assert_eq!(budget.refused(), Some(Refused { elements: u64::MAX - 5, first: 1 }));
        assert_eq!(budget.spend_some(9, 0), 2);
    }
}
