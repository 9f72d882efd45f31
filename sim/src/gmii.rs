//! Receives frames from the card's GMII output and checks them as a strict receiver would (IEEE
//! 802.3 clauses 3, 4 and 35.2).
//!
//! ```text
//! tx_en ____/-----------------------------------------\________________
//! txd   ....| 55 x7 | D5 | frame ...            | FCS |  gap, >= 12 bytes
//!                        ^ time of the frame
//! ```
//!
//! A frame with a flaw is dropped, as a network card would drop it, and counted. A gap that is too
//! short is counted, but the frame after it is kept. Nothing is repaired.

use std::time::Duration;

use crate::schedule::{TX_PERIOD_PS, tx_time_ps};

/// Levels that the card drives at one rising edge of the TX clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gmii {
    /// The data byte, valid while `tx_en` is high.
    pub txd: u8,
    /// Whether a frame is being sent.
    pub tx_en: bool,
    /// Whether the card marks the byte as bad.
    pub tx_er: bool,
}

/// Number of preamble bytes before the start frame delimiter.
pub const PREAMBLE_BYTES: u32 = 7;
/// The preamble's byte.
pub const PREAMBLE: u8 = 0x55;
/// The start frame delimiter.
pub const START: u8 = 0xd5;
/// Length of the frame check sequence in bytes.
pub const FCS_BYTES: usize = 4;
/// Shortest frame in bytes, including the FCS.
pub const MIN_BYTES: usize = 64;
/// Longest untagged frame in bytes, including the FCS.
pub const MAX_BYTES: usize = 1518;
/// Shortest gap between frames in byte times.
pub const MIN_GAP: u64 = 12;
/// CRC-32 over a frame and its FCS.
const RESIDUE: u32 = 0x2144_df1c;

/// A frame as an Ethernet interface returns it: destination address first, without FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time of the start frame delimiter since clock 0.
    pub time: Duration,
    /// The frame's bytes.
    pub bytes: Vec<u8>,
    /// The frame check sequence as sent.
    pub fcs: [u8; FCS_BYTES],
}

/// A violation of IEEE 802.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Violation {
    #[error("preamble of {0} bytes, 7 expected")]
    Preamble(u32),
    #[error("{0:#04x} in the preamble, 0x55 or 0xd5 expected")]
    Delimiter(u8),
    #[error("tx_er raised")]
    Error,
    #[error("frame of {0} bytes, 64 to 1518 expected")]
    Length(usize),
    #[error("frame check sequence wrong")]
    Check,
    #[error("gap of {0} byte times between frames, 12 expected")]
    Gap(u64),
    #[error("the simulation ended within a frame")]
    Unfinished,
}

/// State of the receiver: what it waits for.
#[derive(Debug)]
enum Await {
    /// The next frame. `gap`: byte times since the last frame, unbounded before the first.
    Frame { gap: Option<u64> },
    /// The start frame delimiter. `preamble`: number of preamble bytes so far.
    Delimiter { preamble: u32 },
    /// The end of a frame, whose bytes are collected. `time`: time of its delimiter.
    End { time: Duration },
    /// The end of a frame with a flaw, whose bytes are not collected.
    Silence,
}

/// Receives the frames of a link.
#[derive(Debug)]
pub struct Catcher {
    state: Await,
    tx_period_ps: u32,
    edge: u64,
    bytes: Vec<u8>,
}

impl Default for Catcher {
    fn default() -> Self {
        Self::new(TX_PERIOD_PS)
    }
}

impl Catcher {
    /// Creates the receiver of a link with this period of the TX clock in picoseconds.
    pub fn new(tx_period_ps: u32) -> Self {
        let bytes = Vec::with_capacity(MAX_BYTES);
        Catcher { state: Await::Frame { gap: None }, tx_period_ps, edge: 0, bytes }
    }

    /// Takes `count` TX edges at which the card drove the same levels. Returns a complete frame, a
    /// violation, or nothing.
    pub fn take(&mut self, gmii: Gmii, count: u64) -> Option<Result<Frame, Violation>> {
        if !gmii.tx_en {
            let finished = self.silence(gmii, count);
            self.edge += count;
            return finished;
        }
        let mut result = None;
        for _ in 0..count {
            if let Some(violation) = self.byte(gmii) {
                result = Some(Err(violation));
            }
            self.edge += 1;
        }
        result
    }

    /// Whether the receiver waits for a frame, not for the rest of a frame.
    pub const fn idle(&self) -> bool {
        matches!(self.state, Await::Frame { .. })
    }

    /// Number of TX edges so far.
    pub const fn edges(&self) -> u64 {
        self.edge
    }

    /// Ends the simulation. A frame that is not complete is a violation.
    pub fn finish(self) -> Option<Violation> {
        match self.state {
            Await::Delimiter { .. } | Await::End { .. } => Some(Violation::Unfinished),
            Await::Frame { .. } | Await::Silence => None,
        }
    }

    fn byte(&mut self, gmii: Gmii) -> Option<Violation> {
        if gmii.tx_er && !matches!(self.state, Await::Silence) {
            self.state = Await::Silence;
            return Some(Violation::Error);
        }
        match &mut self.state {
            Await::Frame { gap } => {
                let short = gap.filter(|gap| *gap < MIN_GAP);
                self.state = Await::Delimiter { preamble: 0 };
                self.byte(gmii).or(short.map(Violation::Gap))
            }
            Await::Delimiter { preamble } => match gmii.txd {
                PREAMBLE => {
                    *preamble += 1;
                    None
                }
                START if *preamble == PREAMBLE_BYTES => {
                    self.bytes.clear();
                    let time =
                        Duration::from_nanos(tx_time_ps(self.edge, self.tx_period_ps) / 1000);
                    self.state = Await::End { time };
                    None
                }
                other => {
                    let preamble = *preamble;
                    self.state = Await::Silence;
                    let delimiter = other == START;
                    Some(if delimiter {
                        Violation::Preamble(preamble)
                    } else {
                        Violation::Delimiter(other)
                    })
                }
            },
            Await::End { .. } => {
                self.bytes.push(gmii.txd);
                if self.bytes.len() > MAX_BYTES {
                    self.state = Await::Silence;
                    return Some(Violation::Length(self.bytes.len()));
                }
                None
            }
            Await::Silence => None,
        }
    }

    fn silence(&mut self, gmii: Gmii, count: u64) -> Option<Result<Frame, Violation>> {
        let gap = match self.state {
            Await::Frame { gap } => gap.map(|gap| gap + count),
            _ => Some(count),
        };
        match std::mem::replace(&mut self.state, Await::Frame { gap }) {
            Await::End { time } => Some(self.frame(time)),
            Await::Delimiter { preamble } => Some(Err(Violation::Preamble(preamble))),
            // tx_er with tx_en low is carrier extension or a false carrier. The card has no reason
            // to send either.
            Await::Frame { .. } | Await::Silence if gmii.tx_er => Some(Err(Violation::Error)),
            Await::Frame { .. } | Await::Silence => None,
        }
    }

    fn frame(&mut self, time: Duration) -> Result<Frame, Violation> {
        let length = self.bytes.len();
        if length < MIN_BYTES {
            return Err(Violation::Length(length));
        }
        if crc32fast::hash(&self.bytes) != RESIDUE {
            return Err(Violation::Check);
        }
        let (bytes, fcs) = self.bytes.split_at(length - FCS_BYTES);
        let fcs = fcs.try_into().expect("split off with this length");
        Ok(Frame { time, bytes: bytes.to_vec(), fcs })
    }
}

/// Returns the bytes of a frame on the wire: preamble, delimiter, frame padded to 60 bytes, FCS.
pub fn encode(frame: &[u8]) -> Vec<u8> {
    let mut padded = frame.to_vec();
    padded.resize(frame.len().max(MIN_BYTES - FCS_BYTES), 0);
    let fcs = crc32fast::hash(&padded).to_le_bytes();
    [&[PREAMBLE; PREAMBLE_BYTES as usize][..], &[START], &padded, &fcs].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Gmii = Gmii { txd: 0, tx_en: false, tx_er: false };

    fn catch(catcher: &mut Catcher, bytes: &[u8], gap: u64) -> Vec<Result<Frame, Violation>> {
        let mut results: Vec<_> = bytes
            .iter()
            .filter_map(|txd| catcher.take(Gmii { txd: *txd, tx_en: true, tx_er: false }, 1))
            .collect();
        results.extend(catcher.take(IDLE, gap));
        results
    }

    #[test]
    fn the_check_sequence_is_the_crc_of_802_3() {
        // The FCS of 60 zero bytes.
        assert_eq!(encode(&[])[68..], [0x08, 0x89, 0x12, 0x04]);
    }

    #[test]
    fn a_frame_has_the_time_of_its_delimiter() {
        let mut catcher = Catcher::default();
        assert_eq!(catcher.take(IDLE, 5), None);
        let results = catch(&mut catcher, &encode(&[7; 100]), 12);
        // Edge 5 + 7 bytes of preamble = edge 12, at 12 * 8 + 1 ns.
        let wire = encode(&[7; 100]);
        let fcs = wire[wire.len() - FCS_BYTES..].try_into().unwrap();
        let frame = Frame { time: Duration::from_nanos(97), bytes: vec![7; 100], fcs };
        assert_eq!(results, [Ok(frame)]);
        assert_eq!(catch(&mut catcher, &encode(&[8; 60]), 12).len(), 1);
        assert_eq!(catcher.finish(), None);
    }

    #[test]
    fn a_frame_after_a_violation_is_received() {
        let good = encode(&[1; 64]);
        let mut flipped = good.clone();
        flipped[20] ^= 4;
        let mut early = good.clone();
        early.remove(0);
        let mut late = good.clone();
        late[7] = 0x5d;
        for (wire, violation) in [
            (flipped, Violation::Check),
            (early, Violation::Preamble(6)),
            (late, Violation::Delimiter(0x5d)),
            (good[..40].to_vec(), Violation::Length(32)),
            (good[..3].to_vec(), Violation::Preamble(3)),
            (encode(&[0; 1515]), Violation::Length(1519)),
        ] {
            let mut catcher = Catcher::default();
            assert_eq!(catch(&mut catcher, &wire, 12), [Err(violation)]);
            assert!(matches!(catch(&mut catcher, &good, 12)[..], [Ok(_)]), "{violation}");
        }
    }

    #[test]
    fn a_short_gap_is_a_violation_and_the_frame_is_kept() {
        let mut catcher = Catcher::default();
        assert_eq!(catch(&mut catcher, &encode(&[1; 60]), 11).len(), 1);
        let results = catch(&mut catcher, &encode(&[2; 60]), 12);
        assert!(matches!(results[..], [Err(Violation::Gap(11)), Ok(_)]));
    }

    #[test]
    fn a_frame_with_tx_er_is_dropped() {
        let mut catcher = Catcher::default();
        let mut results = Vec::new();
        for (at, txd) in encode(&[3; 60]).into_iter().enumerate() {
            results.extend(catcher.take(Gmii { txd, tx_en: true, tx_er: at == 30 }, 1));
        }
        results.extend(catcher.take(IDLE, 1));
        assert_eq!(results, [Err(Violation::Error)]);
        assert_eq!(catcher.take(Gmii { tx_er: true, ..IDLE }, 1), Some(Err(Violation::Error)));
    }

    #[test]
    fn an_end_within_a_frame_is_a_violation() {
        let mut catcher = Catcher::default();
        catch(&mut catcher, &[], 1);
        catcher.take(Gmii { txd: PREAMBLE, tx_en: true, tx_er: false }, 3);
        assert_eq!(catcher.finish(), Some(Violation::Unfinished));
    }
}
