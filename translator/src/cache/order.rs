//! Orders the blocks of a batch so that a block comes directly before the block to which it falls
//! through.
//!
//! A block that is the target of a jump backward is never joined to the block before it. It is
//! entered often, so its code is aligned, and with a ring its check is in place.

use std::collections::{HashMap, HashSet};

use hmtt_probe::address::RunAddr;

use super::Instrument;
use crate::block::{Block, End};
use crate::emit::{Form, is_checked};
use crate::recorded::Recorded;

/// A block that is to be ordered.
#[derive(Debug)]
pub struct Decoded {
    /// The block.
    pub block: Block,
    /// Whether direct transfers lead to it. Otherwise it is entered through the lookup table only.
    pub has_main: bool,
}

/// A block in its place, with the form in which its code is generated.
#[derive(Debug)]
pub struct Ordered {
    /// The block.
    pub block: Block,
    /// Form of its code.
    pub form: Form,
}

/// The address at which a block continues if its code falls through to the code after it.
fn fall_through(end: &End) -> Option<RunAddr> {
    match *end {
        End::Direct { to } | End::Call { to, .. } => Some(to),
        End::Conditional { next, .. } | End::FallThrough { next } | End::Syscall { next } => {
            Some(next)
        }
        End::Indirect | End::IndirectCall { .. } | End::Return { .. } => None,
        End::Untranslatable(_) => None,
    }
}

/// Targets of the jumps backward of these blocks.
fn loop_heads(blocks: &[Decoded]) -> HashSet<RunAddr> {
    let target = |Decoded { block, .. }: &Decoded| match block.end {
        End::Direct { to } | End::Conditional { to, .. } => {
            Some(to).filter(|to| *to <= block.start)
        }
        _ => None,
    };
    blocks.iter().filter_map(target).collect()
}

/// Whether a transfer from a block to an address must enter it where the ring is checked.
fn is_left_to_check(block: &Block, to: RunAddr, instrument: Instrument) -> bool {
    match instrument {
        Instrument::None => false,
        Instrument::Ring => is_checked(block.start, to),
        Instrument::Accesses(choice) => {
            is_checked(block.start, to) || Recorded::makes_dense(block, &choice)
        }
    }
}

/// Orders the blocks. A joined block has no check of the ring in the place where it is entered.
///
/// The code `je 5; jmp 7; nop, ret; ret` has blocks at 0, 2, 5 and 7. The result is 0, 2, 7, 5: 2
/// and 7 are joined to the blocks before them.
pub fn order(blocks: Vec<Decoded>, instrument: Instrument) -> Vec<Ordered> {
    let heads = loop_heads(&blocks);
    let index: HashMap<RunAddr, usize> =
        blocks.iter().enumerate().map(|(index, one)| (one.block.start, index)).collect();
    let mut left: Vec<Option<Decoded>> = blocks.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(left.len());
    for first in 0..left.len() {
        let (mut next, mut joined) = (Some(first), false);
        while let Some(Decoded { block, has_main }) = next.and_then(|number| left[number].take()) {
            let to = fall_through(&block.end)
                .filter(|to| !(heads.contains(to) || is_left_to_check(&block, *to, instrument)));
            next = to.and_then(|to| index.get(&to)).copied();
            let form = if has_main { Form::Main { joined } } else { Form::Landing };
            ordered.push(Ordered { block, form });
            joined = true;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::Choice;

    /// Orders blocks that start at these addresses of code at 0x1000.
    fn ordered(code: &[u8], starts: &[u64], instrument: Instrument) -> Vec<(u64, bool)> {
        let block = |at: &u64| Block::from_bytes(RunAddr(0x1000 + at), &code[*at as usize..]);
        let blocks = starts.iter().map(|at| Decoded { block: block(at).unwrap(), has_main: true });
        let ordered = order(blocks.collect(), instrument);
        let joined = Form::Main { joined: true };
        ordered.iter().map(|one| (one.block.start.0 - 0x1000, one.form == joined)).collect()
    }

    #[test]
    fn a_block_follows_the_one_that_falls_through_to_it() {
        // je 5; jmp 7; nop, ret; ret
        let code = [0x74, 3, 0xeb, 3, 0x90, 0x90, 0xc3, 0xc3];
        let expected = [(0, false), (2, true), (7, true), (5, false)];
        assert_eq!(ordered(&code, &[0, 5, 2, 7], Instrument::Ring), expected);
    }

    #[test]
    fn the_head_of_a_loop_is_entered_by_jumps() {
        // nop; jmp 3; nop; nop, je 3; ret
        let code = [0x90, 0xeb, 0, 0x90, 0x74, 0xfd, 0xc3];
        assert_eq!(
            ordered(&code, &[0, 3, 6], Instrument::None),
            [(0, false), (3, false), (6, true)]
        );
    }

    #[test]
    fn a_block_whose_ring_is_checked_is_not_joined() {
        // A jump to the next page.
        let mut code = vec![0xe9, 0xfb, 0x0f, 0, 0];
        code.resize(0x1000, 0x90);
        code.push(0xc3);
        assert_eq!(ordered(&code, &[0, 0x1000], Instrument::Ring), [(0, false), (0x1000, false)]);
        assert_eq!(ordered(&code, &[0, 0x1000], Instrument::None), [(0, false), (0x1000, true)]);
    }

    #[test]
    fn blocks_after_one_with_many_slots_are_entered_at_the_check() {
        // rep movsb; jmp 4; ret
        let code = [0xf3, 0xa4, 0xeb, 0, 0xc3];
        assert_eq!(ordered(&code, &[0, 4], Instrument::Ring), [(0, false), (4, true)]);
        let every = Instrument::Accesses(Choice::EVERY);
        assert_eq!(ordered(&code, &[0, 4], every), [(0, false), (4, false)]);
    }
}
