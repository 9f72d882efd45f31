//! Where control goes from each block to the heads of loops.
//!
//! An edge to a block that dominates where it comes from, because every way there leads through it, goes back
//! to the head of a natural loop. What else a walk into depth comes back to is in a loop that can be
//! entered elsewhere, which has no one head.

use std::collections::BTreeSet;

/// Blocks by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loops {
    /// Heads of natural loops.
    pub heads: BTreeSet<usize>,
    /// Other blocks that a walk comes back to.
    pub irregular: BTreeSet<usize>,
}

/// A walk into depth.
struct Walk {
    /// Blocks in the order in which they are left.
    order: Vec<usize>,
    /// Edges to where the walk came from.
    back: Vec<(usize, usize)>,
}

/// The loops of a graph. `successors`: of each block; `roots`: where control comes in. What nothing is known
/// to lead to, dead code mostly, may have loops of its own, and changes nothing about the others.
pub(super) fn of(successors: &[Vec<usize>], roots: &[usize]) -> Loops {
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
    // First those that nothing leads to at all.
    successors[root].extend(lost.into_iter().filter(|block| !is_entered[*block]));
    let walk = walk(&mut successors, root, true);
    let dominators = dominators(&successors, &walk.order);
    let mut loops = Loops::default();
    for (from, to) in walk.back {
        let is_natural = dominates(&dominators, to, from);
        if is_natural { &mut loops.heads } else { &mut loops.irregular }.insert(to);
    }
    loops.irregular.retain(|block| !loops.heads.contains(block));
    loops
}

/// `is_for_all`: what is not reached gets an edge from the root.
fn walk(successors: &mut [Vec<usize>], root: usize, is_for_all: bool) -> Walk {
    let (mut seen, mut open) = (vec![false; successors.len()], vec![false; successors.len()]);
    let mut walk = Walk { order: Vec::new(), back: Vec::new() };
    let mut path = vec![(root, 0)];
    (seen[root], open[root]) = (true, true);
    let mut all = 0..if is_for_all { root } else { 0 };
    while let Some((block, next)) = path.last_mut() {
        let Some(to) = successors[*block].get(*next).copied() else {
            if *block == root
                && let Some(lost) = all.find(|block| !seen[*block])
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

/// The nearest block that every way to a block leads through; the root's is itself. `order`: of leaving.
/// (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm.)
fn dominators(successors: &[Vec<usize>], order: &[usize]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut rank = vec![0; successors.len()];
    order.iter().enumerate().for_each(|(place, block)| rank[*block] = place);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
    for (from, all) in successors.iter().enumerate() {
        all.iter().for_each(|to| before[*to].push(from));
    }
    let mut nearest = vec![NONE; successors.len()];
    let Some(root) = order.last().copied() else { return nearest };
    nearest[root] = root;
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for block in order.iter().rev().skip(1).copied() {
            let known = before[block].iter().copied().filter(|one| nearest[*one] != NONE);
            let common = known.reduce(|mut one, mut other| {
                while one != other {
                    if rank[one] < rank[other] {
                        one = nearest[one];
                    } else {
                        other = nearest[other];
                    }
                }
                one
            });
            let common = common.unwrap_or(NONE);
            is_changed |= nearest[block] != common;
            nearest[block] = common;
        }
    }
    nearest
}

fn dominates(nearest: &[usize], block: usize, other: usize) -> bool {
    let mut one = other;
    while one != block && nearest[one] != one {
        one = nearest[one];
    }
    one == block
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The blocks that a walk from the first one gets to without passing one of them.
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
        let all = reached(successors, None);
        let goes_back = |to: &usize| {
            let around = reached(successors, Some(*to));
            let mut from = all.iter().filter(|from| successors[**from].contains(to));
            from.any(|from| !around.contains(from))
        };
        all.iter().copied().filter(goes_back).collect()
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
        let found = of(&graph, &[0]);
        assert_eq!((found.heads, found.irregular), ([1, 2].into(), [].into()));
    }

    #[test]
    fn a_loop_with_two_ways_in_has_no_head() {
        let graph = [vec![1, 2], vec![2], vec![1, 3], vec![]];
        let found = of(&graph, &[0]);
        assert_eq!(found.heads, [].into());
        assert_eq!(found.irregular.len(), 1);
    }

    #[test]
    fn a_loop_that_nothing_leads_to_is_one() {
        let found = of(&[vec![], vec![2], vec![1]], &[0]);
        assert_eq!(found.heads, [1].into());
    }

    proptest! {
        /// Dominance by what it means: take the block away, and see what can still be reached.
        #[test]
        fn heads_are_what_every_way_leads_through(
            graph in (1usize..14).prop_flat_map(|blocks| vec(vec(0..blocks, 0..3), blocks))
        ) {
            let found = of(&graph, &[0]);
            let reachable = reached(&graph, None);
            let natural: BTreeSet<usize> = found.heads.intersection(&reachable).copied().collect();
            prop_assert_eq!(natural, heads(&graph));
            // Nothing goes around without passing one or the other.
            let all = found.heads.union(&found.irregular).copied().collect();
            prop_assert!(!has_cycle(&graph, &all));
        }
    }
}
