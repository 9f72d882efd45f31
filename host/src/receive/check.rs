//! The frames of one interface to what is counted of them, and to what its files say of it.

use std::sync::Arc;

use hmtt_format::frame::{FrameKind, MAC_HEADER_BYTES};

use super::Link;
use super::capture_files::Statistics;
use crate::capture::{Captured, Standing};
use crate::decode::wire::WireCounts;
use crate::decode::{Frame, Origin, Wire, earlier_report};
use crate::pcapng::{Description, InterfaceStatistics};

/// Gaps that the comment of a statistics block lists; the frames tell of all.
const COMMENTED_GAPS: usize = 50;

/// One interface's frames, checked.
pub(super) struct Check {
    interface: String,
    standing: Arc<Standing>,
    captured: u64,
    wire: Wire,
    /// The last frame with a report.
    report: Vec<u8>,
}

impl Check {
    /// Of an interface and its source.
    pub fn new((interface, standing): (String, Arc<Standing>)) -> Self {
        Check { interface, standing, captured: 0, wire: Wire::default(), report: Vec::new() }
    }

    /// Checks a frame.
    pub fn frame(&mut self, link: usize, frame: &Captured<'_>) {
        self.captured += 1;
        if is_report(frame.bytes) {
            self.report.clear();
            self.report.extend_from_slice(frame.bytes);
        }
        let (packet, time, link) = (self.captured, Some(frame.time), link as u16);
        let origin = Origin { packet, offset: 0, time, link };
        self.wire.count(origin, frame.bytes, &mut |_, _| {});
    }

    /// What a file says of the interface before its frames.
    pub fn description(&self) -> Description {
        let mut description = Description::of(&self.interface);
        // Of several cards nobody could tell whose it is, and the wrong one is worse than none.
        if !self.report.is_empty() && self.wire.cards().len() <= 1 {
            description.comments.push(earlier_report::comment(&self.report));
        }
        description
    }

    /// Whether every card has ended its capture, and said so this often. From an interface that failed
    /// nobody will hear it.
    pub fn has_ended(&self, times: u64) -> bool {
        let cards = self.wire.cards().len().max(1) as u64;
        self.wire.has_ended() && self.wire.ends() >= times * cards || self.standing.has_failed()
    }

    /// What it has brought so far.
    pub fn link(&self) -> Link {
        self.link_of(self.wire.counted(), self.standing.statistics())
    }

    /// What it has brought, and what its source counted.
    pub fn finish(mut self, statistics: InterfaceStatistics) -> Link {
        let counted = std::mem::take(&mut self.wire).finish_counted(&mut |_, _| {});
        self.link_of(counted, statistics)
    }

    fn link_of(&self, counted: WireCounts, statistics: InterfaceStatistics) -> Link {
        let dropped = statistics.kernel_drops.unwrap_or(0);
        let counts = counted.sum();
        Link {
            interface: self.interface.clone(),
            failed: self.standing.failure(),
            same_frames_as: None,
            captured: self.captured,
            statistics,
            missing_on_wire: counts.order.missing.saturating_sub(dropped),
            counts,
            cards: if counted.cards.len() > 1 { counted.cards } else { Vec::new() },
        }
    }
}

/// Whether a card's report is in the frame. Looks closely only where it may be one.
fn is_report(bytes: &[u8]) -> bool {
    let kinds = [FrameKind::Info, FrameKind::End];
    let code = bytes.get(MAC_HEADER_BYTES).map(|byte| byte & 15);
    kinds.iter().any(|kind| code == Some(*kind as u8))
        && Frame::parse(bytes)
            .and_then(|frame| frame.kind())
            .is_some_and(|kind| kinds.contains(&kind))
}

/// What is written at the end of a file.
pub(super) fn statistics(links: &[Link]) -> Statistics {
    let comment = |link: &Link| {
        let mut link = link.clone();
        link.counts.gaps.truncate(COMMENTED_GAPS);
        link.cards.iter_mut().for_each(|card| card.gaps.clear());
        serde_json::to_string(&link).unwrap_or_default()
    };
    links.iter().map(|link| (link.statistics, comment(link))).collect()
}
