//! Models parts of a processor on the stream of blocks of each thread: predictors of conditional
//! jumps, and an instruction cache.
//!
//! Each thread has its own models, as if it had a core of its own. The models begin empty. Sums and
//! counts of blocks are added up over all threads. The models are described in their files; they do
//! not imitate a certain processor.

pub mod bimodal;
pub mod icache;
pub mod tage;

use super::code::{BlockCode, End};
use bimodal::Bimodal;
use icache::{Geometry, ICache};
use tage::Tage;

/// Name, and size of the tables in bytes, of each predictor, in the order in which counts are
/// reported.
pub const PREDICTORS: [(&str, u64); 2] =
    [("bimodal", bimodal::SIZE_BYTES), ("tage", tage::SIZE_BYTES)];

/// Selects which parts of a processor are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Whether the predictors are modelled.
    pub predictors: bool,
    /// The instruction cache, if one is modelled.
    pub icache: Option<Geometry>,
}

impl ModelOptions {
    /// Whether nothing is modelled.
    pub fn is_empty(&self) -> bool {
        !self.predictors && self.icache.is_none()
    }
}

/// Model results of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modelled {
    /// Mispredictions of the block's last instruction, for each predictor.
    pub mispredictions: [u64; PREDICTORS.len()],
    /// Number of fetched lines that were not in the cache.
    pub cache_misses: u64,
}

/// Model results of all blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models {
    /// What was modelled.
    pub options: ModelOptions,
    /// Number of conditional jumps that were predicted.
    pub branches: u64,
    /// Number of lines that were fetched.
    pub fetches: u64,
    /// Results by number of the block.
    pub blocks: Vec<Modelled>,
}

/// The models of one thread.
#[derive(Clone, Debug)]
pub struct ThreadModels {
    predictors: Option<(Bimodal, Tage)>,
    icache: Option<ICache>,
}

impl ThreadModels {
    /// Models that have not seen a block.
    pub fn new(options: ModelOptions) -> Self {
        let predictors = options.predictors.then(|| (Bimodal::default(), Tage::default()));
        ThreadModels { predictors, icache: options.icache.map(ICache::new) }
    }

    /// Fetches the code of an executed block.
    pub fn execute(&mut self, models: &mut Models, number: u32, block: &BlockCode) {
        let Some(icache) = &mut self.icache else { return };
        let (fetches, misses) = icache.fetch(block.start.0, block.next.0);
        models.fetches += fetches;
        models.block(number).cache_misses += misses;
    }

    /// Predicts the jump at the end of a block. `next`: address of the block that was executed
    /// next.
    pub fn lead(&mut self, models: &mut Models, number: u32, block: &BlockCode, next: u64) {
        let Some((bimodal, tage)) = &mut self.predictors else { return };
        let End::Conditional { to } = block.end else { return };
        let is_taken = next == to.0;
        let predicted =
            [bimodal.predict(block.last.0, is_taken), tage.predict(block.last.0, is_taken)];
        models.branches += 1;
        let counts = &mut models.block(number).mispredictions;
        for (count, predicted) in counts.iter_mut().zip(predicted) {
            *count += u64::from(predicted != is_taken);
        }
    }
}

impl Models {
    fn block(&mut self, number: u32) -> &mut Modelled {
        let at = number as usize;
        if at >= self.blocks.len() {
            self.blocks.resize(at + 1, Modelled::default());
        }
        &mut self.blocks[at]
    }
}

#[cfg(test)]
mod tests {
    use hmtt_probe::address::RunAddr;

    use super::*;

    #[test]
    fn counts_are_those_of_blocks() {
        let geometry = Geometry::new(1024, 2, 64).unwrap();
        let options = ModelOptions { predictors: true, icache: Some(geometry) };
        let mut models = Models { options, ..Models::default() };
        let mut thread = ThreadModels::new(options);
        let start = RunAddr(0x1030);
        let end = End::Conditional { to: start };
        let block =
            BlockCode { start, next: start + 0x20, last: start + 0x1e, instructions: 9, end };
        for time in 0..100 {
            thread.execute(&mut models, 3, &block);
            thread.lead(&mut models, 3, &block, if time < 99 { start.0 } else { block.next.0 });
        }
        assert_eq!((models.branches, models.fetches), (100, 200));
        let modelled = models.blocks[3];
        assert_eq!(modelled.cache_misses, 2);
        // Both begin with "not taken", and the last jump is not taken.
        assert!(modelled.mispredictions.iter().all(|one| (2..=3).contains(one)), "{modelled:?}");
        assert_eq!(models.blocks.len(), 4);
    }
}
