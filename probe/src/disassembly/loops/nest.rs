//! Finds which blocks belong to which natural loops.
//!
//! A natural loop consists of its head and of the blocks from which a back edge to the head is
//! reached without passing the head. Two natural loops with different heads are disjoint, or one
//! contains the other. Heads are processed in postorder, so inner loops come first. A search that
//! reaches a block of a known loop continues at the head of that loop. So each edge is followed
//! once, and the time is nearly linear.

/// Maximum nesting depth of loops. Blocks of deeper loops are assigned to the loop at this depth,
/// so that a search from a loop outwards takes constant time.
pub const MAX_DEPTH: usize = 32;

/// A natural loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NestedLoop {
    /// Block number of the loop's head.
    pub head: usize,
    /// Index of the loop that directly contains this loop. It is lower than this loop's index.
    pub outer: Option<usize>,
    /// Number of loops that contain this loop.
    pub depth: usize,
}

/// The natural loops of a graph. A loop comes before the loops that it contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nest {
    pub loops: Vec<NestedLoop>,
    /// Index of the innermost loop that contains each block.
    pub innermost: Vec<Option<usize>>,
}

impl Nest {
    /// Finds the loops. `back`: for each block, the sources of back edges to it. `order`: blocks in
    /// postorder. The last block is the root, which belongs to no loop.
    pub fn find(successors: &[Vec<usize>], back: &[Vec<usize>], order: &[usize]) -> Self {
        let root = successors.len().saturating_sub(1);
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
        for (from, targets) in successors.iter().enumerate().take(root) {
            targets.iter().for_each(|to| before[*to].push(from));
        }
        let mut discovery = Discovery { innermost: vec![None; root], ..Discovery::default() };
        let heads = order.iter().copied().filter(|block| !back[*block].is_empty());
        heads.for_each(|head| discovery.add(head, &before, back[head].clone()));
        discovery.into_nest()
    }

    /// The loop `from` and all loops that contain it, from the inside outwards.
    pub fn outwards(&self, from: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(from, |number| self.loops[*number].outer)
    }

    /// Loops that the edge between two blocks leaves, from the inside outwards.
    pub fn left_by(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let kept = self.innermost[to];
        let contains_target =
            move |number: &usize| self.outwards(kept).any(|other| other == *number);
        self.outwards(self.innermost[from]).take_while(move |number| !contains_target(number))
    }
}

/// Loops that were found so far. A loop comes behind the loops that it contains.
#[derive(Default)]
struct Discovery {
    heads: Vec<usize>,
    outer: Vec<Option<usize>>,
    innermost: Vec<Option<usize>>,
    /// For each loop, a loop that contains it, not necessarily the next one; an outermost loop has
    /// its own index.
    around: Vec<usize>,
}

impl Discovery {
    /// Adds the loop with this head. `work`: sources of the back edges to the head.
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

    /// The outermost loop that contains a loop. Paths are shortened on the way, so that later
    /// searches are short.
    fn outermost(&mut self, mut number: usize) -> usize {
        while self.around[number] != number {
            self.around[number] = self.around[self.around[number]];
            number = self.around[number];
        }
        number
    }

    /// Puts outer loops first, and leaves out loops that are nested too deeply.
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
