//! Chooses which accesses of a path are recorded, in each of its scopes.

use hmtt_format::access_trace::Known;

use super::{Choice, Scope};
use crate::block::Block;
use crate::extent::Extent;
use crate::selection::{Access, Coverage, Selection, Selector, path_accesses};

/// What is chosen of the accesses of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Places in the scope of the accesses that are meant: those of the wanted direction.
    pub meant: Vec<usize>,
    /// What is chosen of them, by index in [`meant`](Self::meant).
    pub selection: Selection,
}

impl Chosen {
    /// Chooses among the accesses of a scope: of blocks that are executed one after the other, of
    /// all of which as much is recorded as of the first one.
    pub fn of(scope: &[Block], accesses: &[Access], choice: &Choice) -> Self {
        let extent = scope.first().map_or(Extent::Nothing, |block| block.extent);
        let selector = match extent {
            Extent::By(selector) => selector,
            Extent::Nothing | Extent::Chosen => choice.selector,
        };
        let is_meant = |one: &Access| {
            extent != Extent::Nothing && choice.direction.is_none_or(|it| it == one.direction)
        };
        let meant: Vec<usize> =
            (0..accesses.len()).filter(|place| is_meant(&accesses[*place])).collect();
        let own: Vec<Access> = match (selector, choice.equality) {
            // Classes are those of the scope alone, whatever is known from blocks before it.
            (Selector::Representatives { .. }, equality) => {
                let own = path_accesses(scope, equality);
                meant.iter().map(|place| own[*place]).collect()
            }
            (Selector::Every, _) => meant.iter().map(|place| accesses[*place]).collect(),
        };
        Chosen { selection: selector.select(&own), meant }
    }

    /// Places of the chosen accesses in the scope, in program order.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.selection.chosen.iter().map(|one| self.meant[*one])
    }

    /// Places of the accesses that were not chosen, in program order, and what is known of them by
    /// chosen ones, by their place among these.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, Known)> {
        let Selection { chosen, representatives, represented_by, .. } = &self.selection;
        let chosen_place = |class: usize| {
            chosen.partition_point(|one| *one < representatives[class].access) as u16
        };
        let known = move |class: usize| match representatives[class].coverage {
            Coverage::Traced => Known::Address(chosen_place(class)),
            Coverage::Near(other) => Known::Chunk(chosen_place(other)),
            Coverage::Missed => Known::Nothing,
        };
        let is_chosen = |one: usize| chosen.binary_search(&one).is_ok();
        let all = represented_by.iter().enumerate().filter(move |(one, _)| !is_chosen(*one));
        all.map(move |(one, class)| (self.meant[one], class.map_or(Known::Nothing, known)))
    }
}

/// The scopes of a path, as ranges of its blocks.
pub(super) fn scopes(blocks: &[Block], scope: Scope) -> impl Iterator<Item = &[Block]> {
    blocks.chunk_by(move |one, next| scope == Scope::Superblock && one.extent == next.extent)
}
