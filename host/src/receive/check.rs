//! Checks and counts the frames of one interface, and describes the interface in the files.

use std::sync::Arc;

use hmtt::LinkId;
use hmtt::decode::{Counted, Item, LinkCounts, Origin, Wire, earlier_report};
use hmtt::pcapng::{Description, InterfaceStatistics};
use hmtt_format::Report;
use serde::Serialize;

use super::capture_files::Statistics;
use super::{ClockStep, ClockSteps, Link};
use crate::capture::{Captured, SourceStatus};

/// Number of gaps that the comment of a statistics block lists; a reader of the file finds all gaps
/// in the frames.
const COMMENTED_GAPS: usize = 50;
/// Number of outages that the comment lists.
const COMMENTED_OUTAGES: usize = 20;
/// Number of clock steps that the comment lists.
const COMMENTED_STEPS: usize = 20;

/// Checks the frames of one interface.
pub(super) struct Check {
    interface: String,
    status: Arc<SourceStatus>,
    captured: u64,
    wire: Wire,
    /// Last report of the card.
    report: Option<Box<Report>>,
}

impl Check {
    /// Checks the frames of an interface, whose source has this status.
    pub fn new((interface, status): (String, Arc<SourceStatus>)) -> Self {
        Check { interface, status, captured: 0, wire: Wire::default(), report: None }
    }

    /// Checks a frame.
    pub fn frame(&mut self, link: usize, frame: &Captured<'_>) {
        self.captured += 1;
        let (packet, time, link) = (self.captured, Some(frame.time), LinkId(link as u16));
        let origin = Origin { packet, offset: 0, time, link };
        let last = &mut self.report;
        // Uses only reports in a card's trace: with a forged report, the next file would be decoded
        // for another memory.
        let mut sink = Counted(|_, item| {
            if let Item::Report { report, .. } = item {
                *last = Some(report);
            }
        });
        self.wire.push(origin, frame.bytes, &mut sink);
    }

    /// Description of the interface for the start of a file.
    pub fn description(&self) -> Description {
        let mut description = Description::new(&self.interface);
        // With several cards, a reader could not know which one the report describes.
        if let Some(report) = self.report.as_ref().filter(|_| self.wire.cards().len() <= 1) {
            description.comments.push(earlier_report::comment_from_report(report));
        }
        description
    }

    /// Whether every card has ended its capture and sent this number of end frames. True for a
    /// failed interface, from which no end frame can arrive.
    pub fn has_ended(&self, times: u64) -> bool {
        let cards = self.wire.cards().len().max(1) as u64;
        self.wire.has_ended() && self.wire.ends() >= times * cards || self.status.has_failed()
    }

    /// Counts so far.
    pub fn link(&self) -> Link {
        self.link_of(self.wire.counts(), self.status.statistics())
    }

    /// Final counts. `statistics`: final counts of the source.
    pub fn finish(mut self, statistics: InterfaceStatistics) -> Link {
        let counted = std::mem::take(&mut self.wire).finish(&mut Counted(|_, _| {}));
        self.link_of(counted, statistics)
    }

    fn link_of(&self, counted: LinkCounts, statistics: InterfaceStatistics) -> Link {
        let dropped = statistics.kernel_dropped_frames.unwrap_or(0);
        let counts = counted.sum();
        let outages = self.status.outages();
        let cards: Vec<_> = counted.cards.into_iter().map(|card| card.counts).collect();
        Link {
            interface: self.interface.clone(),
            failed: self.status.failure(),
            same_frames_as: None,
            is_down: outages.is_down(),
            outage_count: outages.count,
            outages: outages.listed,
            captured_frames: self.captured,
            statistics,
            wire_lost_frames: counts.order.missing_frames.saturating_sub(dropped),
            counts,
            cards: if cards.len() > 1 { cards } else { Vec::new() },
        }
    }
}

/// Comment on an interface at the end of a file: its counts, and the steps of the wall clock, which
/// stamps its frames.
#[derive(Serialize)]
struct Comment {
    #[serde(flatten)]
    link: Link,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clock_steps: Vec<ClockStep>,
}

/// Statistics for the end of a file.
pub(super) fn statistics(links: &[Link], steps: &ClockSteps) -> Statistics {
    let comment = |link: &Link| {
        let mut link = link.clone();
        link.counts.gaps.truncate(COMMENTED_GAPS);
        link.outages.truncate(COMMENTED_OUTAGES);
        link.cards.iter_mut().for_each(|card| card.gaps.clear());
        let clock_steps = steps.listed.iter().take(COMMENTED_STEPS).copied().collect();
        serde_json::to_string(&Comment { link, clock_steps }).unwrap_or_default()
    };
    links.iter().map(|link| (link.statistics, comment(link))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hmtt_format::FORMAT_VERSION;
    use hmtt_format::address_map::{Axis, MapBuilder};
    use hmtt_format::config::{Granularity, Mode};
    use hmtt_format::frame::{FrameKind, MAX_FRAME_BYTES, PayloadHeader, Sync, encode};
    use hmtt_format::info::StaticWords;
    use hmtt_format::{Generation, MemoryDescription};

    use super::*;

    fn report(tag_window: u64) -> Report {
        let mut map = MapBuilder::default();
        (0..10).for_each(|bit| map.bit(Axis::Column, bit, 1 << bit).unwrap());
        (0..10).for_each(|bit| map.bit(Axis::Row, bit, 1 << (10 + bit)).unwrap());
        let map = map.build().unwrap();
        let memory = MemoryDescription::new(Generation::Ddr1, map, 8, 4, 10_000).unwrap();
        Report {
            version: FORMAT_VERSION,
            running: true,
            mode: Mode::Line,
            frequency: false,
            granularity: Granularity::Line,
            slice_code: 9,
            threshold: 187,
            tag_window: Some(tag_window),
            reads: 0,
            writes: 0,
            faults: 0,
            tags: 0,
            unreported: 0,
            burst_length: Some(4),
            digest: StaticWords::new(&memory).as_slice()[0],
            memory,
        }
    }

    fn info(counter: u64, accesses: u64, report: &Report) -> Vec<u8> {
        let sync = Sync { clock: 0, unit_log2: 6, segment: 0, accesses, lost: 0 }.encode();
        let memory = StaticWords::new(&report.memory);
        let words = [&sync[..], &report.encode_dynamic(), memory.as_slice()].concat();
        let (kind, count) = (FrameKind::Info as u8, words.len() as u8);
        let header = PayloadHeader { version: FORMAT_VERSION, kind, words: count, lost: 0 };
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = encode(&mut buffer, counter, header, &words);
        buffer[..length].to_vec()
    }

    #[test]
    fn a_forged_report_is_not_written_to_the_next_file() {
        let mut check = Check::new(("eth1".to_owned(), Arc::new(SourceStatus::default())));
        let (own, forged) = (report(0x1000_0000), report(0x2000_0000));
        let frames = [
            info(0, 0, &own),
            info(1 << 35, 1 << 30, &forged),
            info(1, 0, &own),
            info(1 << 36, 1 << 31, &forged),
        ];
        for bytes in &frames {
            let original_len = bytes.len() as u32;
            let frame = Captured { time: Duration::ZERO, original_len, bytes };
            check.frame(0, &frame);
            let comments = check.description().comments;
            assert_eq!(earlier_report::from_comments(&comments), Some(own.clone()));
        }
    }
}
