//! Chooses which accesses of a path are recorded, in each of its scopes.

use hmtt_files::access_trace::Known;

use super::{Choice, Scope};
use crate::block::Block;
use crate::extent::Extent;
use crate::selection::{Access, Coverage, Selection, Selector, path_accesses};

/// The accesses of a scope that are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Indexes, in the scope, of the accesses that may be chosen: those in the wanted direction.
    /// Empty if nothing of the scope's functions is recorded.
    pub meant: Vec<usize>,
    /// What the selector chooses. Its indexes count in [`meant`](Self::meant).
    pub selection: Selection,
}

impl Chosen {
    /// Chooses among the accesses of a scope. All blocks of a scope have the extent of the first
    /// one. `accesses`: all accesses of the scope, with values from the start of the path.
    pub fn of(scope: &[Block], accesses: &[Access], choice: &Choice) -> Self {
        let extent = scope.first().map_or(Extent::Nothing, |block| block.extent);
        let selector = match extent {
            Extent::By(selector) => selector,
            Extent::Nothing | Extent::Chosen => choice.selector,
        };
        let is_meant = |access: &Access| {
            extent != Extent::Nothing && choice.direction.is_none_or(|it| it == access.direction)
        };
        let meant: Vec<usize> =
            (0..accesses.len()).filter(|place| is_meant(&accesses[*place])).collect();
        let own: Vec<Access> = match (selector, choice.equality) {
            // Equality is decided within the scope, whatever is known from earlier blocks.
            (Selector::Representatives { .. }, equality) => {
                let own = path_accesses(scope, equality);
                meant.iter().map(|place| own[*place]).collect()
            }
            (Selector::Every, _) => meant.iter().map(|place| accesses[*place]).collect(),
        };
        Chosen { selection: selector.select(&own), meant }
    }

    /// Indexes of the chosen accesses in the scope, in program order.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.selection.chosen.iter().map(|one| self.meant[*one])
    }

    /// The accesses that might have been chosen but were not, in program order: the index of each
    /// in the scope, and what the chosen ones say about it. [`Known`] counts among the chosen
    /// accesses.
    ///
    /// If the first of three equal accesses is chosen, the result has the other two with
    /// [`Known::Address`] and the index 0.
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
        let rest = represented_by.iter().enumerate().filter(move |(one, _)| !is_chosen(*one));
        rest.map(move |(one, class)| (self.meant[one], class.map_or(Known::Nothing, known)))
    }
}

/// Divides a path into its scopes. For blocks with extents `[a, a, b]`, [`Scope::Superblock`]
/// returns the first two blocks together and then the third; [`Scope::Block`] returns each by
/// itself.
pub(super) fn scopes(blocks: &[Block], scope: Scope) -> impl Iterator<Item = &[Block]> {
    blocks.chunk_by(move |one, next| scope == Scope::Superblock && one.extent == next.extent)
}
