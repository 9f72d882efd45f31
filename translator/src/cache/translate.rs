//! Chooses which blocks are translated together for one request, and translates them.

use std::collections::{HashMap, HashSet};

use hmtt_probe::address::RunAddr;

use super::arena::Space;
use super::order::{Decoded, Ordered, order};
use super::{ArenaNumber, Cache, CacheError, CacheMemory};
use crate::block::End;
use crate::code::{CodeBytes, Expected};

/// Expected blocks are translated until this part of an arena is in use: one half. They may never
/// be executed.
const AHEAD_PART: u64 = 2;

impl<M: CacheMemory> Cache<M> {
    /// Translates the block at an address together with the blocks that are expected to be executed
    /// after it. If none are expected, the blocks that direct transfers reach from it are
    /// translated, up to a limit. `is_landing`: the program gets to the address by an indirect
    /// transfer. Returns the number of the block at the address.
    pub(super) fn translate_batch(
        &mut self,
        code: &dyn CodeBytes,
        at: RunAddr,
        is_landing: bool,
    ) -> Result<u32, CacheError> {
        let first = Decoded { block: self.decode(code, at)?, has_main: !is_landing };
        // [`CodeBytes::expected`] returns a block once, so there must be memory for it.
        if !self.spaces.iter().any(|space| space.reaches(at)) {
            self.new_space(at)?;
        }
        let expected = if self.has_space_ahead(at) { code.expected(at) } else { Vec::new() };
        let (blocks, landings) = if expected.is_empty() {
            self.decode_reached(code, first)
        } else {
            self.decode_expected(code, first, &expected)
        };
        let mut failure = None;
        for Ordered { block, form } in order(blocks, self.settings.instrument) {
            let start = block.start;
            if let Err(error) = self.add_block(block, form)
                && start == at
            {
                failure = Some(error);
            }
        }
        for to in landings {
            if let Some(block) = self.by_address.get(&to.0).copied() {
                // A landing that cannot be written now is tried again for the thread that returns
                // there.
                let _ = self.publish(block);
            }
        }
        self.link_all();
        match (self.by_address.get(&at.0), failure) {
            (Some(block), _) => Ok(*block),
            (None, Some(error)) => Err(error),
            (None, None) => {
                Err(CacheError::Arena { near: at, why: "the block was not written".to_owned() })
            }
        }
    }

    /// Whether there is space for expected blocks near an address.
    fn has_space_ahead(&self, near: RunAddr) -> bool {
        let space = self.spaces.iter().rfind(|space| space.reaches(near));
        space.is_none_or(|space| !space.is_full_by(AHEAD_PART))
    }

    /// Decodes the blocks without a translation that direct transfers reach from the first one, up
    /// to the limit. Also returns the addresses to which their calls return.
    ///
    /// A block that ends with `je` has two successors. A block that ends with `call f` reaches `f`
    /// directly, and the block behind the call by a return.
    fn decode_reached(&self, code: &dyn CodeBytes, first: Decoded) -> (Vec<Decoded>, Vec<RunAddr>) {
        let at = first.block.start;
        let mut blocks = vec![first];
        let mut seen = HashMap::from([(at, Some(0))]);
        let mut next = 0;
        while next < blocks.len() {
            for (to, is_return) in successors(&blocks[next].block.end) {
                if self.by_address.contains_key(&to.0) {
                    continue;
                }
                if let Some(known) = seen.get(&to) {
                    if let Some(index) = *known {
                        let decoded: &mut Decoded = &mut blocks[index];
                        decoded.has_main |= !is_return;
                    }
                    continue;
                }
                if blocks.len() >= self.settings.batch {
                    continue;
                }
                // An error is ignored here. A thread that gets to the block finds it again.
                let block = self.decode(code, to).ok();
                seen.insert(to, block.as_ref().map(|_| blocks.len()));
                blocks.extend(block.map(|block| Decoded { block, has_main: !is_return }));
            }
            next += 1;
        }
        let successors = blocks.iter().flat_map(|decoded| successors(&decoded.block.end));
        let returns = successors.filter_map(|(to, is_return)| is_return.then_some(to)).collect();
        (blocks, returns)
    }

    /// Decodes the expected blocks without a translation. Also returns the addresses to which
    /// indirect transfers are expected to lead.
    fn decode_expected(
        &self,
        code: &dyn CodeBytes,
        first: Decoded,
        expected: &[Expected],
    ) -> (Vec<Decoded>, Vec<RunAddr>) {
        let at = first.block.start;
        let mut seen = HashSet::from([at]);
        let mut blocks = vec![first];
        for expectation in expected {
            if expectation.at == at {
                blocks[0].has_main |= expectation.direct;
            } else if seen.insert(expectation.at)
                && !self.by_address.contains_key(&expectation.at.0)
            {
                let block =
                    self.decode(code, expectation.at).ok().filter(|block| !block.may_change);
                let has_main = expectation.direct || !expectation.indirect;
                blocks.extend(block.map(|block| Decoded { block, has_main }));
            }
        }
        let landings = expected
            .iter()
            .filter(|expectation| expectation.indirect)
            .map(|expectation| expectation.at);
        (blocks, landings.collect())
    }

    /// Maps a new arena near an address. Returns its index in the list of arenas.
    pub(super) fn new_space(&mut self, near: RunAddr) -> Result<usize, CacheError> {
        let fail = |why: String| CacheError::Arena { near, why };
        let index = self.spaces.len();
        let number = ArenaNumber(index as u32);
        let arena = self.memory.new_arena(near).map_err(fail)?;
        let space = Space::new(number, arena, &self.stubs, &self.settings, &mut self.memory);
        self.spaces.push(space.ok_or_else(|| fail("the arena is too small".to_owned()))?);
        if self.spaces[index].reaches(near) {
            Ok(index)
        } else {
            Err(fail("the arena is too far away".to_owned()))
        }
    }
}

/// Addresses at which the program may continue after a block. `true`: it gets there by a return.
fn successors(end: &End) -> impl Iterator<Item = (RunAddr, bool)> + use<> {
    let (first, second) = match *end {
        End::Direct { to } | End::FallThrough { next: to } | End::Syscall { next: to } => {
            (Some((to, false)), None)
        }
        End::Conditional { to, next } => (Some((next, false)), Some((to, false))),
        End::Call { to, return_to } => (Some((to, false)), Some((return_to, true))),
        End::IndirectCall { return_to } => (Some((return_to, true)), None),
        End::Indirect | End::Return { .. } | End::Untranslatable(_) => (None, None),
    };
    first.into_iter().chain(second)
}
