//! Splits the accesses of string instructions into one access for each element, as models of caches
//! need them.

use std::ops::ControlFlow;

use hmtt_files::access_trace::Made;

use super::element_budget::{ElementBudget, MOST_ELEMENTS};
use super::visitor::{Executed, ThreadAccess, Visitor};

/// Largest access, in bytes, that is passed on with its address: a page. No instruction has a
/// larger access.
pub const MOST_ACCESS_BYTES: u32 = 4096;

/// The accesses of executed instructions, with an access for each element of a string instruction.
/// If the instruction has two operands, their elements alternate.
///
/// Some accesses are not split: they come once, with all their elements and without an address.
/// This applies if the address or size is not known, or if the number of elements or bytes must be
/// forged ([`MOST_ELEMENTS`], [`MOST_ACCESS_BYTES`]).
///
/// ```
/// use hmtt::access_trace::Elements;
/// use hmtt_format::Direction;
/// use hmtt_files::access_trace::Made;
///
/// let read = Made {
///     pc: 0x1000,
///     direction: Direction::Read,
///     address: Some(0x5000),
///     represents: 1,
///     size: 8,
///     elements: 2,
///     is_down: false,
///     conditional: false,
/// };
/// let write = Made { direction: Direction::Write, address: Some(0x6000), ..read };
/// let addresses: Vec<_> = Elements::new(&[read, write]).filter_map(|one| one.address).collect();
/// assert_eq!(addresses, [0x5000, 0x6000, 0x5008, 0x6008]);
/// ```
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    /// Accesses of later instructions.
    rest: &'a [Made],
    /// Accesses of the current instruction.
    instruction: &'a [Made],
    /// Highest number of elements of an access in `instruction`.
    elements: u64,
    /// Index in `instruction` of the next access.
    next: usize,
    /// Index of the next element of the next access.
    element: u64,
}

impl<'a> Elements<'a> {
    /// Splits accesses, which are in program order. Adjacent accesses with the same `pc` belong to
    /// one execution of an instruction.
    pub fn new(accesses: &'a [Made]) -> Self {
        Elements { rest: accesses, instruction: &[], elements: 0, next: 0, element: 0 }
    }

    /// Advances to the next instruction. Returns false if there is none.
    fn advance(&mut self) -> bool {
        let Some(first) = self.rest.first() else { return false };
        let count = self.rest.iter().take_while(|access| access.pc == first.pc).count();
        (self.instruction, self.rest) = self.rest.split_at(count);
        let known = self.instruction.iter().filter(|access| is_known(access));
        self.elements = known.map(|access| access.elements).max().unwrap_or(1);
        (self.next, self.element) = (0, 0);
        true
    }
}

/// A [`Visitor`] that passes on each element of the accesses of a thread, in the order of
/// [`Elements`].
///
/// The accesses of an instruction are passed on when another instruction follows, and at the latest
/// when the visitor is dropped. So a visitor may receive the accesses of one thread only. The
/// accesses of a string instruction that the budget does not cover come once and without an
/// address. Nothing is passed on after the closure has returned [`ControlFlow::Break`].
pub struct EachElement<'b, F: FnMut(Made) -> ControlFlow<()>> {
    /// Accesses of the current instruction.
    instruction: Vec<Made>,
    budget: &'b mut ElementBudget,
    is_over: bool,
    add: F,
}

impl<'b, F: FnMut(Made) -> ControlFlow<()>> EachElement<'b, F> {
    /// Passes accesses on to `add`. `budget`: the budget that all units of the file or running
    /// program share.
    pub const fn new(budget: &'b mut ElementBudget, add: F) -> Self {
        EachElement { instruction: Vec::new(), budget, is_over: false, add }
    }

    /// Passes on the elements of the current instruction, as far as the budget allows.
    fn pass_on(&mut self) {
        if !self.budget.spend(&self.instruction) {
            self.instruction.iter_mut().for_each(|access| access.address = None);
        }
        if !self.is_over {
            let passed = Elements::new(&self.instruction).try_for_each(&mut self.add);
            self.is_over = passed.is_break();
        }
        self.instruction.clear();
    }
}

impl<F: FnMut(Made) -> ControlFlow<()>> Visitor for EachElement<'_, F> {
    fn block(&mut self, _executed: &Executed<'_>) {
        // A block may begin with the instruction with which the block before it ended.
        self.pass_on();
    }

    fn access(
        &mut self,
        _executed: &Executed<'_>,
        ThreadAccess { made: access, .. }: ThreadAccess,
    ) {
        if self.instruction.first().is_some_and(|first| first.pc != access.pc) {
            self.pass_on();
        }
        self.budget.earn();
        self.instruction.push(access);
    }
}

impl<F: FnMut(Made) -> ControlFlow<()>> Drop for EachElement<'_, F> {
    fn drop(&mut self) {
        self.pass_on();
    }
}

/// Whether all elements of an access have known addresses, so that a model can simulate it.
#[inline]
pub fn is_known(access: &Made) -> bool {
    access.elements <= MOST_ELEMENTS && lowest(access).is_some()
}

/// The lowest address of an access with all its elements. `None` if the address is not known, if
/// the size is 0 or above [`MOST_ACCESS_BYTES`], or if an element would be outside of the address
/// space.
#[inline]
pub fn lowest(access: &Made) -> Option<u64> {
    let size = u64::from(access.size);
    if !(1..=u64::from(MOST_ACCESS_BYTES)).contains(&size) {
        return None;
    }
    let distance = access.elements.checked_sub(1)?.checked_mul(size)?;
    let lowest =
        if access.is_down { access.address?.checked_sub(distance)? } else { access.address? };
    lowest.checked_add(distance)?.checked_add(size - 1)?;
    Some(lowest)
}

impl Iterator for Elements<'_> {
    type Item = Made;

    fn next(&mut self) -> Option<Made> {
        loop {
            while let Some(access) = self.instruction.get(self.next) {
                self.next += 1;
                if is_known(access) && self.element < access.elements {
                    let distance = self.element * u64::from(access.size);
                    let address = access
                        .address
                        .map(|at| if access.is_down { at - distance } else { at + distance });
                    return Some(Made { address, elements: 1, ..*access });
                }
                if self.element == 0 {
                    return Some(Made { address: None, ..*access });
                }
            }
            (self.next, self.element) = (0, self.element + 1);
            if self.element >= self.elements && !self.advance() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::Direction;
    use proptest::prelude::*;

    use super::*;

    fn made(pc: u64, address: Option<u64>, size: u32, elements: u64) -> Made {
        let direction = Direction::Read;
        let (is_down, conditional, represents) = (false, false, 1);
        Made { pc, direction, address, represents, size, elements, is_down, conditional }
    }

    /// Instruction, address and number of elements of each access that is passed on.
    fn all(block: &[Made]) -> Vec<(u64, Option<u64>, u64)> {
        Elements::new(block).map(|access| (access.pc, access.address, access.elements)).collect()
    }

    #[test]
    fn operands_of_one_instruction_take_turns() {
        let down = Made { is_down: true, ..made(2, Some(0x30), 4, 3) };
        let block =
            [made(1, Some(8), 8, 1), made(2, Some(0x10), 4, 3), down, made(3, Some(9), 1, 1)];
        let expected = [
            (1, Some(8)),
            (2, Some(0x10)),
            (2, Some(0x30)),
            (2, Some(0x14)),
            (2, Some(0x2c)),
            (2, Some(0x18)),
            (2, Some(0x28)),
            (3, Some(9)),
        ];
        assert_eq!(all(&block), expected.map(|(pc, address)| (pc, address, 1)));
        assert_eq!(all(&[]), []);
    }

    #[test]
    fn what_is_not_known_or_forged_comes_once() {
        let forged = [
            made(1, None, 8, 1 << 60),
            made(1, Some(0), 8, MOST_ELEMENTS + 1),
            made(1, Some(0), 0, 7),
            made(1, Some(0), MOST_ACCESS_BYTES + 1, 1),
            made(1, Some(u64::MAX), 2, 1),
            made(1, Some(u64::MAX - 7), 8, 2),
            Made { is_down: true, ..made(1, Some(7), 8, 2) },
        ];
        for access in forged {
            assert_eq!(all(&[access]), [(1, None, access.elements)]);
            let with = [made(1, Some(0x10), 1, 2), access, made(2, Some(3), 1, 1)];
            let expected = [
                (1, Some(0x10), 1),
                (1, None, access.elements),
                (1, Some(0x11), 1),
                (2, Some(3), 1),
            ];
            assert_eq!(all(&with), expected);
        }
        assert_eq!(all(&[made(1, Some(u64::MAX - 7), 8, 1)]).len(), 1);
    }

    #[test]
    fn single_accesses_have_no_limit() {
        let block = hmtt_files::access_trace::BlockAccesses::default();
        let executed = Executed::alone(1, 1, &block);
        let mut addresses = Vec::new();
        let mut budget = ElementBudget::fixed(3, u64::MAX);
        let mut each = EachElement::new(&mut budget, |access| {
            addresses.push(access.address);
            ControlFlow::Continue(())
        });
        for (address, elements) in [(1, 1), (2, 1), (3, 1), (0x10, 4), (4, 1), (0x20, 2), (5, 1)] {
            each.block(&executed);
            let access = made(1, Some(address), 1, elements);
            each.access(&executed, ThreadAccess { thread: 1, made: access });
        }
        drop(each);
        let some = [1, 2, 3, 0x10, 0x11, 0x12, 0x13, 4].map(Some);
        assert_eq!(addresses, [&some[..], &[None, Some(5)]].concat());
    }

    #[test]
    fn executions_of_one_instruction_are_told_apart_until_the_closure_ends_it() {
        let block = hmtt_files::access_trace::BlockAccesses::default();
        let executed = Executed::alone(1, 1, &block);
        let mut addresses = Vec::new();
        let mut budget = ElementBudget::of_file();
        let mut each = EachElement::new(&mut budget, |access| {
            addresses.push(access.address.unwrap());
            if addresses.len() < 7 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        for address in [0x10, 0x20] {
            each.block(&executed);
            each.access(&executed, ThreadAccess { thread: 1, made: made(1, Some(address), 1, 2) });
        }
        each.block(&executed);
        for address in [0x30, 0x40] {
            each.access(&executed, ThreadAccess { thread: 1, made: made(1, Some(address), 1, 2) });
        }
        drop(each);
        assert_eq!(addresses, [0x10, 0x11, 0x20, 0x21, 0x30, 0x40, 0x31]);
    }

    proptest! {
        #[test]
        fn all_elements_of_known_accesses_come_in_order(
            block in prop::collection::vec((0u64..3, 0u64..1000, 1u32..9, 1u64..5, any::<bool>()), 0..8),
        ) {
            let block: Vec<Made> = block
                .into_iter()
                .map(|(pc, at, size, elements, is_down)| Made {
                    is_down,
                    ..made(pc, Some(at + 100), size, elements)
                })
                .collect();
            let mut elements: Vec<_> =
                all(&block).into_iter().map(|(pc, at, _)| (pc, at)).collect();
            let mut expected: Vec<_> = block
                .iter()
                .flat_map(|access| (0..access.elements).map(|element| {
                    let distance = element * u64::from(access.size);
                    let at = access.address.unwrap();
                    (access.pc, Some(if access.is_down { at - distance } else { at + distance }))
                }))
                .collect();
            elements.sort();
            expected.sort();
            prop_assert_eq!(elements, expected);
        }
    }
}
