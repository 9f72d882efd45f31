//! Converts samples of perf to accesses, and counts the values that are not used.

use hmtt_format::Direction;

use super::ImportedAccess;

/// The values of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the sample in nanoseconds.
    pub clock: u64,
    /// Number of the thread.
    pub thread: u32,
    /// Address of the instruction; 0 if it is not known.
    pub pc: u64,
    /// Address of the access; 0 if there is none.
    pub address: u64,
    /// Whether the access reads or writes, if that is known.
    pub direction: Option<Direction>,
    /// Latency of the access in cycles, if it is known.
    pub weight: Option<u64>,
}

/// Counts of the samples so far.
#[derive(Default)]
pub struct Samples {
    /// Number of accesses with a latency.
    weighted: u64,
    /// Sum of these latencies, in cycles.
    weights: u64,
    /// Highest of these latencies, in cycles.
    highest_weight: u64,
    /// Number of samples without an address.
    unaddressed: u64,
    /// Number of samples with an address whose direction is not known.
    undirected: u64,
}

impl Samples {
    /// The access of a sample; `None` if its address or direction is not known.
    pub fn access(&mut self, sample: &Sample) -> Option<ImportedAccess> {
        let Sample { clock, thread, pc, address, direction, weight } = *sample;
        if address == 0 {
            self.unaddressed += 1;
            return None;
        }
        self.undirected += u64::from(direction.is_none());
        let direction = direction?;
        if let Some(weight) = weight {
            self.weighted += 1;
            self.weights = self.weights.saturating_add(weight);
            self.highest_weight = self.highest_weight.max(weight);
        }
        Some(ImportedAccess { clock, thread, pc, ..ImportedAccess::new(direction, address) })
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        let Samples { weighted, weights, highest_weight, unaddressed, undirected } = *self;
        let mut notes = vec!["each sample counts once, whatever its period".to_owned()];
        if weighted > 0 {
            let mean = weights as f64 / weighted as f64;
            notes.push(format!(
                "weights, which are latencies in cycles, are not used: {weighted} samples have one, {mean:.1} on average and {highest_weight} at most"
            ));
        }
        if unaddressed > 0 {
            notes.push(format!("{unaddressed} samples have no address, and are left out"));
        }
        if undirected > 0 {
            notes.push(format!(
                "of {undirected} samples it is not known whether they read or write, and they are left out"
            ));
        }
        notes
    }
}
