//! Finds the loops of a control flow graph.
//!
//! An edge to a block that dominates its source (every path to the source passes through the block)
//! is a back edge to the head of a natural loop. Any other edge back to a block on the current path
//! of a depth-first search belongs to a loop with several entries, which has no single head.
//!
//! For example, with the edges 0→1, 1→2, 2→1 and 2→3, the edge 2→1 is a back edge: block 1 is the
//! head of a natural loop with the blocks 1 and 2. With an additional edge 0→2, the loop has two
//! entries and no head.

mod nest;

use std::collections::BTreeSet;

pub(super) use nest::{Nest, NestedLoop};

/// Loops of a graph. Blocks are given by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loops {
    /// Heads of natural loops.
    pub heads: BTreeSet<usize>,
    /// Further targets of back edges: blocks in loops with several entries.
    pub irregular: BTreeSet<usize>,
    /// The natural loops with their blocks.
    pub nest: Nest,
}

/// Result of a depth-first search.
struct Walk {
    /// Blocks in postorder.
    order: Vec<usize>,
    /// Back edges: source and target.
    back: Vec<(usize, usize)>,
}

/// Finds the loops of a graph. `successors`: for each block, the blocks that may follow it.
/// `roots`: blocks that control enters from outside. Blocks that no known path reaches are mostly
/// dead code. They may have loops of their own, and do not affect the other loops.
pub(super) fn find(successors: &[Vec<usize>], roots: &[usize]) -> Loops {
    let root = successors.len();
    let mut successors = [successors, &[roots.to_vec()]].concat();
    let mut is_reached = vec![false; root + 1];
    let reached = walk(&mut successors, root, false).order;
    reached.iter().for_each(|block| is_reached[*block] = true);
    let lost: Vec<usize> = (0..root).filter(|block| !is_reached[*block]).collect();
    let mut is_entered = vec![false; root];
    for block in &lost {
        successors[*block].retain(|to| !is_reached[*to]);
        successors[*block].iter().for_each(|to| is_entered[*to] = true);
    }
    // Among unreached blocks, the ones without a predecessor become successors of the root first.
    successors[root].extend(lost.into_iter().filter(|block| !is_entered[*block]));
    let walk = walk(&mut successors, root, true);
    let dominators = dominators(&successors, &walk.order);
    let mut loops = Loops::default();
    let mut natural: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
    for (from, to) in walk.back {
        if dominates(&dominators, to, from) {
            loops.heads.insert(to);
            natural[to].push(from);
        } else {
            loops.irregular.insert(to);
        }
    }
    loops.irregular.retain(|block| !loops.heads.contains(block));
    loops.nest = Nest::find(&successors, &natural, &walk.order);
    loops
}

/// Searches depth-first from `root`. `is_for_all`: each block that is not reached becomes a
/// successor of the root, so that all blocks are searched.
fn walk(successors: &mut [Vec<usize>], root: usize, is_for_all: bool) -> Walk {
    let (mut seen, mut open) = (vec![false; successors.len()], vec![false; successors.len()]);
    let mut walk = Walk { order: Vec::new(), back: Vec::new() };
    let mut path = vec![(root, 0)];
    (seen[root], open[root]) = (true, true);
    let mut blocks = 0..if is_for_all { root } else { 0 };
    while let Some((block, next)) = path.last_mut() {
        let Some(to) = successors[*block].get(*next).copied() else {
            if *block == root
                && let Some(lost) = blocks.find(|block| !seen[*block])
            {
                successors[root].push(lost);
                continue;
            }
            open[*block] = false;
            walk.order.push(*block);
            path.pop();
            continue;
        };
        *next += 1;
        if open[to] {
            walk.back.push((*block, to));
        }
        if !seen[to] {
            (seen[to], open[to]) = (true, true);
            path.push((to, 0));
        }
    }
    walk
}

/// Immediate dominator of each block. The root is its own. `order`: blocks in postorder. (Cooper,
/// Harvey, Kennedy: A Simple, Fast Dominance Algorithm.)
fn dominators(successors: &[Vec<usize>], order: &[usize]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut rank = vec![0; successors.len()];
    order.iter().enumerate().for_each(|(place, block)| rank[*block] = place);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
    for (from, targets) in successors.iter().enumerate() {
        targets.iter().for_each(|to| before[*to].push(from));
    }
    let mut nearest = vec![NONE; successors.len()];
    let Some(root) = order.last().copied() else { return nearest };
    nearest[root] = root;
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for block in order.iter().rev().skip(1).copied() {
            let known =
                before[block].iter().copied().filter(|predecessor| nearest[*predecessor] != NONE);
            let common = known.reduce(|mut first, mut other| {
                while first != other {
                    if rank[first] < rank[other] {
                        first = nearest[first];
                    } else {
                        other = nearest[other];
                    }
                }
                first
            });
            let common = common.unwrap_or(NONE);
            is_changed |= nearest[block] != common;
            nearest[block] = common;
        }
    }
    nearest
}

fn dominates(nearest: &[usize], block: usize, other: usize) -> bool {
    let mut dominator = other;
    while dominator != block && nearest[dominator] != dominator {
        dominator = nearest[dominator];
    }
    dominator == block
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Blocks that can be reached from the first one without passing through `without`.
    fn reached(successors: &[Vec<usize>], without: Option<usize>) -> BTreeSet<usize> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![0]);
        while let Some(block) = next.pop() {
            if Some(block) != without && reached.insert(block) {
                next.extend(&successors[block]);
            }
        }
        reached
    }

    fn heads(successors: &[Vec<usize>]) -> BTreeSet<usize> {
        let blocks = reached(successors, None);
        let goes_back = |to: &usize| {
            let around = reached(successors, Some(*to));
            let mut from = blocks.iter().filter(|from| successors[**from].contains(to));
            from.any(|from| !around.contains(from))
        };
        blocks.iter().copied().filter(goes_back).collect()
    }

    fn has_cycle(successors: &[Vec<usize>], without: &BTreeSet<usize>) -> bool {
        let left = |block: usize| successors[block].iter().filter(|to| !without.contains(to));
        let mut alive: BTreeSet<usize> = (0..successors.len()).collect();
        while let Some(last) =
            alive.iter().copied().find(|block| !left(*block).any(|to| alive.contains(to)))
        {
            alive.remove(&last);
        }
        !alive.is_empty()
    }

    #[test]
    fn a_loop_within_a_loop_has_a_head_of_its_own() {
        let graph = [vec![1], vec![2, 4], vec![2, 3], vec![1], vec![]];
        let loops = find(&graph, &[0]);
        assert_eq!((loops.heads, loops.irregular), ([1, 2].into(), [].into()));
    }

    #[test]
    fn a_loop_with_two_ways_in_has_no_head() {
        let graph = [vec![1, 2], vec![2], vec![1, 3], vec![]];
        let loops = find(&graph, &[0]);
        assert_eq!(loops.heads, [].into());
        assert_eq!(loops.irregular.len(), 1);
    }

    #[test]
    fn a_loop_in_dead_code_has_a_head() {
        let loops = find(&[vec![], vec![2], vec![1]], &[0]);
        assert_eq!(loops.heads, [1].into());
    }

    /// Blocks of the natural loop with a head, by its definition.
    fn members(successors: &[Vec<usize>], head: usize) -> BTreeSet<usize> {
        let (blocks, around) = (reached(successors, None), reached(successors, Some(head)));
        let is_back = |from: &usize| successors[*from].contains(&head) && !around.contains(from);
        let mut members: BTreeSet<usize> = blocks.iter().copied().filter(is_back).collect();
        members.insert(head);
        loop {
            let leads = |from: &usize| {
                successors[*from].iter().any(|to| *to != head && members.contains(to))
            };
            let more: Vec<usize> = blocks
                .iter()
                .copied()
                .filter(|block| !members.contains(block))
                .filter(leads)
                .collect();
            if more.is_empty() {
                return members;
            }
            members.extend(more);
        }
    }

    #[test]
    fn loops_that_are_too_deep_belong_to_outer_ones() {
        // Block n branches back to the blocks before it, the nearest first.
        let blocks = 2 * nest::MAX_DEPTH;
        let block = |number: usize| match number {
            _ if number < blocks => vec![number + 1],
            _ => vec![2 * blocks - 1 - number, number + 1],
        };
        let mut graph: Vec<Vec<usize>> = (0..2 * blocks).map(block).collect();
        graph.push(vec![]);
        let Nest { loops, innermost } = find(&graph, &[0]).nest;
        assert_eq!(loops.len(), nest::MAX_DEPTH);
        assert_eq!(innermost[blocks - 1], Some(nest::MAX_DEPTH - 1));
        assert_eq!((innermost[0], innermost[2 * blocks]), (Some(0), None));
    }

    proptest! {
        /// Checks dominance by its definition: remove a block, and see which blocks can still be
        /// reached.
        #[test]
        fn heads_are_what_every_way_leads_through(
            graph in (1usize..14).prop_flat_map(|blocks| vec(vec(0..blocks, 0..3), blocks))
        ) {
            let loops = find(&graph, &[0]);
            let reachable = reached(&graph, None);
            let natural: BTreeSet<usize> = loops.heads.intersection(&reachable).copied().collect();
            prop_assert_eq!(natural, heads(&graph));
            let nest = &loops.nest;
            let heads: BTreeSet<usize> = nest.loops.iter().map(|nested| nested.head).collect();
            prop_assert_eq!(&heads, &loops.heads);
            for (number, nested) in nest.loops.iter().enumerate().filter(|(_, nested)| reachable.contains(&nested.head)) {
                prop_assert!(nested.outer.is_none_or(|outer| outer < number));
                let is_in = |block: &usize| nest.outwards(nest.innermost[*block]).any(|other| other == number);
                let blocks: BTreeSet<usize> = reachable.iter().copied().filter(is_in).collect();
                let expected = members(&graph, nested.head);
                for (from, to) in graph.iter().enumerate().flat_map(|(from, targets)| targets.iter().map(move |to| (from, *to))) {
                    let leaves = expected.contains(&from) && !expected.contains(&to);
                    prop_assert_eq!(nest.left_by(from, to).any(|left| left == number), leaves);
                }
                prop_assert_eq!(blocks, expected);
            }
            // Every cycle passes through a head or an irregular block.
            let entries = loops.heads.union(&loops.irregular).copied().collect();
            prop_assert!(!has_cycle(&graph, &entries));
        }
    }
}
