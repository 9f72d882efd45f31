//! Finds which blocks belong to which natural loops.
//!
//! A natural loop consists of its head and the blocks from which a back edge to the head is reached
//! without passing the head. Two such loops with different heads are apart or one contains the
//! other. Heads are processed in postorder, so inner loops come first; a loop that reaches a block
//! of another loop continues at that loop's head. So each edge is followed once, and the time is
//! near linear.

/// Most loops within each other. The blocks of deeper ones belong to the last of these, so that a
/// search from a loop outwards takes constant time.
pub const MAX_DEPTH: usize = 32;

/// A natural loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NestedLoop {
    /// Block number of its head.
    pub head: usize,
    /// Index of the loop that contains it, which is lower than its own.
    pub outer: Option<usize>,
    /// Number of loops that contain it.
    pub depth: usize,
}

/// The natural loops of a graph, outer ones before those that they contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nest {
    pub loops: Vec<NestedLoop>,
    /// Index of the innermost loop that contains each block.
    pub innermost: Vec<Option<usize>>,
}

impl Nest {
    /// Finds the loops. `back`: the sources of back edges to each natural loop's head; `order`:
    /// blocks in postorder; the last block is the root, which belongs to no loop.
    pub fn find(successors: &[Vec<usize>], back: &[Vec<usize>], order: &[usize]) -> Self {
        let root = successors.len().saturating_sub(1);
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
        for (from, all) in successors.iter().enumerate().take(root) {
            all.iter().for_each(|to| before[*to].push(from));
        }
        let mut found = Discovery { innermost: vec![None; root], ..Discovery::default() };
        let heads = order.iter().copied().filter(|block| !back[*block].is_empty());
        heads.for_each(|head| found.add(head, &before, back[head].clone()));
        found.into_nest()
    }

    /// The loop and those that contain it, from the inside outwards.
    pub fn outwards(&self, from: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(from, |one| self.loops[*one].outer)
    }

    /// Loops that an edge between two blocks leaves.
    pub fn left_by(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let kept = self.innermost[to];
        let contains_target = move |one: &usize| self.outwards(kept).any(|other| other == *one);
        self.outwards(self.innermost[from]).take_while(move |one| !contains_target(one))
    }
}

/// Loops that were found so far, inner ones before those that contain them.
#[derive(Default)]
struct Discovery {
    heads: Vec<usize>,
    outer: Vec<Option<usize>>,
    innermost: Vec<Option<usize>>,
    /// A loop that contains each loop; its own index for the outermost ones.
    around: Vec<usize>,
}

impl Discovery {
    /// Adds the loop with a head. `work`: sources of its back edges.
    fn add(&mut self, head: usize, before: &[Vec<usize>], mut work: Vec<usize>) {
        let new = self.heads.len();
        self.heads.push(head);
        self.outer.push(None);
        self.around.push(new);
        while let Some(block) = work.pop() {
            let Some(inner) = self.innermost[block] else {
                self.innermost[block] = Some(new);
                work.extend(before[block].iter().filter(|_| block != head));
                continue;
            };
            let outermost = self.outermost(inner);
            if outermost != new {
                self.outer[outermost] = Some(new);
                self.around[outermost] = new;
                work.extend(&before[self.heads[outermost]]);
            }
        }
    }

    /// The outermost loop that contains a loop. The paths to it are halved, so that later searches
    /// are short.
    fn outermost(&mut self, mut one: usize) -> usize {
        while self.around[one] != one {
            self.around[one] = self.around[self.around[one]];
            one = self.around[one];
        }
        one
    }

    /// Puts outer loops first, and leaves out those that are too deep.
    fn into_nest(self) -> Nest {
        let mut loops: Vec<NestedLoop> = Vec::new();
        let mut places = vec![0; self.heads.len()];
        for (old, head) in self.heads.iter().enumerate().rev() {
            let outer = self.outer[old].map(|outer| places[outer]);
            let depth = outer.map_or(0, |outer: usize| loops[outer].depth + 1);
            places[old] = match outer {
                Some(outer) if depth >= MAX_DEPTH => outer,
                _ => {
                    loops.push(NestedLoop { head: *head, outer, depth });
                    loops.len() - 1
                }
            };
        }
        let innermost = self.innermost.into_iter().map(|one| one.map(|one| places[one]));
        Nest { loops, innermost: innermost.collect() }
    }
}
