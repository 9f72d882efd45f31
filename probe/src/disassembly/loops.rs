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
/// to lead to is led to by nobody knows what.
pub(super) fn of(successors: &[Vec<usize>], roots: &[usize]) -> Loops {
    let root = successors.len();
    let mut entered = vec![false; root];
    successors.iter().flatten().for_each(|to| entered[*to] = true);
    let lost = (0..root).filter(|block| !entered[*block]);
    let roots = roots.iter().copied().chain(lost).collect();
    let mut successors = [successors, &[roots]].concat();
    let walk = walk(&mut successors, root);
    let dominators = dominators(&successors, &walk.order);
    let mut loops = Loops::default();
    for (from, to) in walk.back {
        let is_natural = dominates(&dominators, to, from);
        if is_natural { &mut loops.heads } else { &mut loops.irregular }.insert(to);
    }
    loops.irregular.retain(|block| !loops.heads.contains(block));
    loops
}

fn walk(successors: &mut [Vec<usize>], root: usize) -> Walk {
    let (mut seen, mut open) = (vec![false; successors.len()], vec![false; successors.len()]);
    let mut walk = Walk { order: Vec::new(), back: Vec::new() };
    let mut path = vec![(root, 0)];
    (seen[root], open[root]) = (true, true);
    let mut all = 0..root;
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
