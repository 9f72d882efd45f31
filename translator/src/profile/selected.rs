//! Removes the blocks of functions that are not selected from a profile.
//!
//! Invariant: sums still hold for the blocks that are left. The executions of the blocks at an
//! address are their starts, the edges into them and `from_omitted`. The transfers of an indirect
//! block are its edges and `to_omitted`, besides edges beyond the monitor's limit, which are in
//! `other_edges` of their targets.
//!
//! If `f` calls `g` ten times and only `f` is selected, the calling block has `to_omitted` 10, and
//! the block to which `g` returns has `from_omitted` 10.

use std::collections::{HashMap, HashSet};

use hmtt_files::profile::{Block, Profile, Selected};
use hmtt_probe::selection::{Effect, Selection};

use crate::report::{Analysis, sum};

/// Transfers between selected and omitted blocks.
#[derive(Default)]
struct Crossings {
    /// Direct edges from omitted blocks, by address.
    direct: HashMap<u64, u64>,
    /// Indirect edges from omitted blocks, by number of the target.
    from: HashMap<u32, u64>,
    /// Indirect edges to omitted blocks, by number of the source.
    to: HashMap<u32, u64>,
}

/// The profile without blocks that are not selected. Transfers to and from these are counted in the
/// blocks that are left. `is_selected`: for each block, whether it is selected.
///
/// Other blocks at the address of a selected one are kept, too, because edges lead to addresses.
pub fn select(mut profile: Profile, is_selected: &[bool], rules: &Selection) -> Profile {
    let blocks = profile.blocks.iter().zip(is_selected);
    let addresses: HashSet<u64> =
        blocks.filter(|(_, is)| **is).map(|(block, _)| block.code_address).collect();
    let blocks = profile.blocks.iter();
    let kept = blocks.filter(|block| addresses.contains(&block.code_address));
    let kept: HashSet<u32> = kept.map(|block| block.number).collect();
    let omitted = omitted(&profile, &kept);
    let mut crossings = crossings(&profile, &kept);
    let before = profile.superblocks.len();
    profile.edges.retain(|edge| kept.contains(&edge.from) && kept.contains(&edge.to));
    profile
        .superblocks
        .retain(|superblock| superblock.blocks.iter().all(|number| kept.contains(number)));
    profile.blocks.retain(|block| kept.contains(&block.number));
    for block in &mut profile.blocks {
        let direct = crossings.direct.remove(&block.code_address).unwrap_or(0);
        let indirect = crossings.from.get(&block.number).copied().unwrap_or(0);
        block.from_omitted = direct.saturating_add(indirect);
        block.to_omitted = crossings.to.get(&block.number).copied().unwrap_or(0);
    }
    profile.selection = Some(Selected {
        include: rules.texts(Effect::Include),
        exclude: rules.texts(Effect::Exclude),
        omitted_superblocks: (before - profile.superblocks.len()) as u64,
        ..omitted
    });
    profile
}

/// Sums over the blocks that are left out. `kept`: numbers of the others.
fn omitted(profile: &Profile, kept: &HashSet<u32>) -> Selected {
    let blocks = profile.blocks.iter();
    let blocks: Vec<&Block> = blocks.filter(|block| !kept.contains(&block.number)).collect();
    Selected {
        omitted_blocks: blocks.len() as u64,
        omitted_entries: sum(blocks.iter().map(|block| block.entries)),
        omitted_instructions: sum(blocks.iter().map(|block| block.executed())),
        ..Selected::default()
    }
}

/// Counts the transfers between kept blocks and others. `kept`: numbers of the kept blocks.
fn crossings(profile: &Profile, kept: &HashSet<u32>) -> Crossings {
    let mut crossings = Crossings::default();
    for edge in Analysis::new(profile).edges() {
        let Some(to) = edge.to else { continue };
        let [is_from_kept, is_to_kept] = [edge.from, to].map(|one| kept.contains(&one.number));
        let add = |sum: &mut u64| *sum = sum.saturating_add(edge.times);
        match (is_from_kept, is_to_kept, edge.from.end.is_indirect()) {
            (false, true, true) => add(crossings.from.entry(to.number).or_default()),
            (false, true, false) => add(crossings.direct.entry(to.code_address).or_default()),
            (true, false, true) => add(crossings.to.entry(edge.from.number).or_default()),
            _ => {}
        }
    }
    crossings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn edges_and_crossings_add_up_to_executions() {
        for selected in [[true, true, true, true, false], [false, false, false, false, true]] {
            let rules = Selection::parse([(Effect::Include, "f")]).unwrap();
            let part = select(profile(), &selected, &rules);
            let edges = Analysis::new(&part).edges();
            for block in &part.blocks {
                let into = edges.iter().filter(|edge| edge.to == Some(block));
                let into = sum(into.map(|edge| edge.times)) + block.starts + block.from_omitted;
                assert_eq!(into, block.entries, "{}", block.number);
                let out =
                    sum(edges.iter().filter(|edge| edge.from == block).map(|edge| edge.times));
                assert_eq!(out + block.stops + block.to_omitted, block.entries, "{}", block.number);
            }
            let selection = part.selection.unwrap();
            let whole = profile();
            let executed = |blocks: &[Block]| sum(blocks.iter().map(|block| block.executed()));
            let sum = executed(&part.blocks) + selection.omitted_instructions;
            assert_eq!(sum, executed(&whole.blocks));
            assert_eq!(selection.omitted_blocks + part.blocks.len() as u64, 5);
        }
    }

    #[test]
    fn blocks_at_the_address_of_a_selected_one_are_kept() {
        let mut whole = profile();
        let again = Block { number: 9, function: Some("h".into()), ..whole.blocks[3].clone() };
        whole.blocks.push(again);
        let part = select(whole, &[false, false, false, true, false, false], &Selection::default());
        let numbers: Vec<u32> = part.blocks.iter().map(|block| block.number).collect();
        assert_eq!(numbers, [4, 9]);
        assert_eq!(part.blocks[0].from_omitted, 1);
    }

    #[test]
    fn direct_edges_from_omitted_blocks_are_counted_at_the_target() {
        let rules = Selection::default();
        let part = select(profile(), &[false, true, true, true, true], &rules);
        let from: Vec<u64> = part.blocks.iter().map(|block| block.from_omitted).collect();
        assert_eq!(from, [10, 0, 1, 0]);
    }
}
