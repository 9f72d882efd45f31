//! The frames of interfaces to which of them carries the same frames as another: a mirror port, most
//! likely, whose accesses would then be counted twice.
//!
//! Of each interface the frames with the lowest hashes are kept in mind. Whether a frame is among them
//! depends on its bytes alone, so that copies agree, whatever else came and in whatever order.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Link;

/// Frames kept in mind of each interface.
const SAMPLED: usize = 64;
/// Fewer in common say nothing: cards that are switched on together may begin alike.
const ENOUGH: usize = 16;
/// Bytes of a frame that tell it from all others: MAC header with the counter, sync, first records.
const TELLING_BYTES: usize = 64;

/// Which frames came from one interface, some of them.
#[derive(Debug, Default)]
pub(super) struct Sample {
    lowest: BTreeSet<u64>,
}

impl Sample {
    pub fn frame(&mut self, bytes: &[u8]) {
        let mut hasher = DefaultHasher::new();
        bytes[..bytes.len().min(TELLING_BYTES)].hash(&mut hasher);
        let hash = hasher.finish();
        if hash > self.known_to() {
            return;
        }
        self.lowest.insert(hash);
        if self.lowest.len() > SAMPLED {
            self.lowest.pop_last();
        }
    }

    /// The hash up to which all frames are in mind.
    fn known_to(&self) -> u64 {
        let is_full = self.lowest.len() >= SAMPLED;
        self.lowest.last().filter(|_| is_full).map_or(u64::MAX, |last| *last)
    }

    /// Whether all frames are among those of another interface, by what is known of both.
    fn is_within(&self, other: &Sample) -> bool {
        let mut known = self.lowest.range(..=other.known_to());
        known.clone().count() >= ENOUGH && known.all(|hash| other.lowest.contains(hash))
    }
}

/// Says of each interface whether one before it has all its frames, or it all frames of that one.
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

    /// The interface, by its number, that each has the frames of.
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
    fn frames_of_their_own_make_no_mirror() {
        assert_eq!(found(&[sample(0..5000), sample(2500..7500)]), [None, None]);
        assert_eq!(found(&[sample(0..5000), sample(5000..5001)]), [None, None]);
        assert_eq!(found(&[sample(0..5), sample(0..5)]), [None, None], "too few to say");
        assert_eq!(found(&[sample(0..0), sample(0..0)]), [None, None]);
        assert_eq!(found(&[sample(0..5000)]), [None]);
    }
}
