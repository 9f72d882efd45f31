//! Lists conditional jumps with their shares, and indirect transfers with their targets.

use std::collections::HashMap;

use hmtt_files::profile::{Block, BlockEnd};

use super::{Analysis, sum};

/// A block that ends with an indirect transfer, and where it led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndirectSite<'p> {
    /// The block that ends with the transfer.
    pub block: &'p Block,
    /// Blocks at the targets, each with its number of transfers, in descending order of this
    /// number.
    pub targets: Vec<(&'p Block, u64)>,
    /// How often it led to blocks that the selection omits.
    pub omitted: u64,
}

impl IndirectSite<'_> {
    /// Number of transfers to all targets.
    pub fn times(&self) -> u64 {
        sum(self.targets.iter().map(|(_, times)| *times)).saturating_add(self.omitted)
    }
}

impl<'p> Analysis<'p> {
    /// All indirect transfers, in descending order of how often they were executed.
    pub fn indirect_sites(&self) -> Vec<IndirectSite<'p>> {
        let mut targets_by_block: HashMap<u32, Vec<(&'p Block, u64)>> = HashMap::new();
        let leaves = |block: &&Block| block.end.is_indirect() && block.to_omitted > 0;
        for block in self.profile.blocks.iter().filter(leaves) {
            targets_by_block.insert(block.number, Vec::new());
        }
        for edge in &self.profile.edges {
            if let Some(to) = self.profile.block(edge.to) {
                targets_by_block.entry(edge.from).or_default().push((to, edge.times));
            }
        }
        let site = |(from, mut targets): (u32, Vec<(&'p Block, u64)>)| {
            targets.sort_by_key(|(to, times)| (std::cmp::Reverse(*times), to.number));
            let block = self.profile.block(from)?;
            Some(IndirectSite { block, targets, omitted: block.to_omitted })
        };
        let mut sites: Vec<_> = targets_by_block.into_iter().filter_map(site).collect();
        sites.sort_by_cached_key(|site| (std::cmp::Reverse(site.times()), site.block.number));
        sites
    }

    /// Blocks that end with a conditional jump, in descending order of their executions.
    pub fn conditional_blocks(&self) -> Vec<&'p Block> {
        let is_conditional = |block: &&Block| block.end == BlockEnd::Conditional;
        let mut blocks: Vec<&Block> = self.profile.blocks.iter().filter(is_conditional).collect();
        blocks.sort_by_key(|block| (std::cmp::Reverse(block.entries), block.number));
        blocks
    }

    /// All blocks, in descending order of executed instructions.
    pub fn hottest_blocks(&self) -> Vec<&'p Block> {
        let mut blocks: Vec<&Block> = self.profile.blocks.iter().collect();
        blocks.sort_by_key(|block| (std::cmp::Reverse(block.executed()), block.code_address));
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn sites_are_sorted_by_their_transfers() {
        let mut profile = profile();
        profile.edges[1].times = 12;
        let analysis = Analysis::new(&profile);
        let sites = analysis.indirect_sites();
        let numbers = sites.iter().map(|site| (site.block.number, site.targets[0].0.number));
        assert_eq!(numbers.collect::<Vec<_>>(), [(7, 3), (2, 7)]);
        assert_eq!(analysis.conditional_blocks(), [&profile.blocks[0]]);
        assert_eq!(analysis.hottest_blocks()[0].number, 1);
    }
}
