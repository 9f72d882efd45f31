//! Finds interfaces that carry the same frames as another one. Most likely one of them is a mirror
//! port, so the accesses are counted twice.
//!
//! For each interface, the lowest frame hashes are kept (a bottom-k sample). Whether a frame is in
//! the sample depends on its bytes alone, so samples of copies agree whatever other frames arrived
//! and in whatever order.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Link;

/// Number of hashes that are kept for each interface.
const SAMPLED: usize = 64;
/// Smallest number of common hashes that is evidence: cards that are switched on together may begin
/// with equal frames.
const MIN_COMMON: usize = 16;
/// Number of bytes of a frame that are hashed. These bytes distinguish the frame from all others:
/// MAC header with the counter, sync, first records.
const HASHED_BYTES: usize = 64;

/// Sample of the frames of one interface.
#[derive(Debug, Default)]
pub(super) struct Sample {
    lowest: BTreeSet<u64>,
}

impl Sample {
    pub fn frame(&mut self, bytes: &[u8]) {
        let mut hasher = DefaultHasher::new();
        bytes[..bytes.len().min(HASHED_BYTES)].hash(&mut hasher);
        let hash = hasher.finish();
        if hash > self.complete_up_to() {
            return;
        }
        self.lowest.insert(hash);
        if self.lowest.len() > SAMPLED {
            self.lowest.pop_last();
        }
    }

    /// Hash up to which the sample contains all frames.
    fn complete_up_to(&self) -> u64 {
        let is_full = self.lowest.len() >= SAMPLED;
        self.lowest.last().filter(|_| is_full).map_or(u64::MAX, |last| *last)
    }

    /// Whether all frames of this sample are also frames of another interface, as far as the
    /// samples show.
    fn is_within(&self, other: &Sample) -> bool {
        let mut known = self.lowest.range(..=other.complete_up_to());
        known.clone().count() >= MIN_COMMON && known.all(|hash| other.lowest.contains(hash))
    }
}

/// Sets `same_frames_as` of an interface if its frames contain all frames of an earlier interface,
/// or if an earlier interface's frames contain all of its frames.
pub(super) fn find(links: &mut [Link], samples: &[Sample]) {
    for (at, sample) in samples.iter().enumerate() {
        let is_mirror = |other: &Sample| sample.is_within(other) || other.is_within(sample);
        if let Some(other) = samples[..at].iter().position(is_mirror) {
            links[at].same_frames_as = Some(links[other].interface.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(frames: impl Iterator<Item = u32>) -> Sample {
        let mut sample = Sample::default();
        frames.for_each(|frame| sample.frame(&frame.to_be_bytes()));
        sample
    }

    /// For each interface, the interface that it mirrors.
    fn found(samples: &[Sample]) -> Vec<Option<String>> {
        let link = |at| Link { interface: format!("{at}"), ..Link::default() };
        let mut links: Vec<Link> = (0..samples.len()).map(link).collect();
        find(&mut links, samples);
        links.into_iter().map(|link| link.same_frames_as).collect()
    }

    #[test]
    fn copies_are_found_in_any_order_and_among_others() {
        let same = |of: &str| Some(of.to_owned());
        let (few, many) = (|| sample(0..20), || sample((0..5000).rev()));
        assert_eq!(found(&[few(), few()]), [None, same("0")]);
        assert_eq!(found(&[sample(0..5000), many()]), [None, same("0")]);
        assert_eq!(
            found(&[sample(9000..14_000), many(), sample(0..4000)]),
            [None, None, same("1")]
        );
        assert_eq!(found(&[sample(0..4000), many()]), [None, same("0")]);
    }

    #[test]
    fn interfaces_with_different_frames_are_no_mirrors() {
        assert_eq!(found(&[sample(0..5000), sample(2500..7500)]), [None, None]);
        assert_eq!(found(&[sample(0..5000), sample(5000..5001)]), [None, None]);
        assert_eq!(found(&[sample(0..5), sample(0..5)]), [None, None], "too few frames");
        assert_eq!(found(&[sample(0..0), sample(0..0)]), [None, None]);
        assert_eq!(found(&[sample(0..5000)]), [None]);
    }
}
