//! Checks that the edges into each block and its starts add up to its executions.
//!
//! Executions are counted at each number, but edges are derived from where blocks lead. So the sums
//! agree only if each number followed a number that leads to it. Blocks that were translated at the
//! same address at different times are counted together.

use std::collections::HashMap;

use super::code::End;
use super::counted::Counted;
use super::table::Table;

/// Number of addresses at which executions differ from the edges plus the starts.
pub fn unbalanced(counted: &Counted, table: &Table) -> u64 {
    // For each address: executions minus starts and edges.
    let mut sums: HashMap<u64, i128> = HashMap::new();
    let mut add = |address: u64, count: i128| *sums.entry(address).or_default() += count;
    for (number, tally) in counted.blocks.iter().enumerate().skip(1) {
        let Some(block) = table.block(number as u32) else { continue };
        let [executions, starts, stops, branches, others] =
            [tally.executions, tally.starts, tally.stops, tally.taken, tally.other_edges]
                .map(i128::from);
        add(block.start.0, executions - starts - others);
        let left = executions - stops;
        match block.end {
            End::Jump { to } | End::Call { to } => add(to.0, -left),
            End::Conditional { to } => {
                add(to.0, -branches);
                add(block.next.0, branches - left);
            }
            End::SystemCall | End::FallThrough => add(block.next.0, -left),
            End::IndirectJump | End::IndirectCall | End::Return => {}
        }
    }
    for (edge, times) in &counted.edges {
        if let Some(to) = table.block(edge.to) {
            add(to.start.0, -i128::from(*times));
        }
    }
    sums.values().filter(|sum| **sum != 0).count() as u64
}
