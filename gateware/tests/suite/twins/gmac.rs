//! Tests GMAC and Tx thread: the frames that a PHY receives for random frames and blocks.

use std::collections::VecDeque;

use fastrand::Rng;
use gateware::ethernet::gmac::Gmac;
use gateware::ethernet::ports::OctetSource;
use gateware::ethernet::tx_thread::{FrameCounter, MAX_READ_CLOCKS, TxThread};
use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::{self, MAX_FRAME_BYTES, MIN_FRAME_BYTES, PayloadHeader};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};

/// IEEE 802.3 clause 4.4.2: interPacketGap is 96 bits.
const GAP_BYTES: usize = 12;

/// The bytes between MAC and PHY while TX_EN was high, and the gaps before them.
#[derive(Default)]
struct Phy {
    frames: Vec<Vec<u8>>,
    gaps: Vec<usize>,
    gap: usize,
}

impl Phy {
    fn sample(&mut self, gmac: &Gmac) {
        if !gmac.tx_en.val() {
            self.gap += 1;
            return;
        }
        if self.gap > 0 || self.frames.is_empty() {
            self.frames.push(Vec::new());
            self.gaps.push(std::mem::take(&mut self.gap));
        }
        self.frames.last_mut().expect("a frame").push(gmac.txd.val().index() as u8);
    }
}

/// Returns the bytes between start-of-frame delimiter and FCS after checking both.
fn received(frame: &[u8]) -> &[u8] {
    let (preamble, rest) = frame.split_at(8);
    assert_eq!(preamble, [0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5]);
    let (data, check) = rest.split_at(rest.len() - 4);
    assert_eq!(check, crc32fast::hash(data).to_le_bytes(), "frame check sequence");
    assert!(data.len() >= MIN_FRAME_BYTES, "{} bytes", data.len());
    data
}

#[test]
fn frames_are_padded_have_a_valid_fcs_and_keep_the_gap() {
    with_seeds(0..8, |rng| {
        let mut gmac = settled(Gmac::default());
        let mut phy = Phy::default();
        let length = |rng: &mut Rng| match rng.u8(0..4) {
            0 => rng.usize(1..64),
            1 => rng.usize(58..64),
            _ => rng.usize(1..MAX_FRAME_BYTES),
        };
        let sent: Vec<Vec<u8>> =
            (0..30).map(|_| (0..length(rng)).map(|_| rng.u8(..)).collect()).collect();
        for frame in &sent {
            let mut next = 0;
            while next < frame.len() {
                // There are occasional pauses between frames, never within one.
                gmac.octets.valid.next = next > 0 || chance(rng, 70);
                gmac.octets.data.next = u64::from(frame[next]).into();
                gmac.octets.last.next = next + 1 == frame.len();
                settle(&mut gmac);
                next += usize::from(gmac.octets.ready.val());
                phy.sample(&gmac);
                pulse(&mut gmac, |gmac| &mut gmac.clock);
            }
            gmac.octets.valid.next = false;
        }
        for _ in 0..100 {
            phy.sample(&gmac);
            pulse(&mut gmac, |gmac| &mut gmac.clock);
        }
        assert_eq!(phy.frames.len(), sent.len());
        for (frame, sent) in phy.frames.iter().zip(&sent) {
            let data = received(frame);
            assert_eq!(&data[..sent.len()], sent);
            assert!(data.len() == sent.len() || data.len() == MIN_FRAME_BYTES);
            assert!(data[sent.len()..].iter().all(|byte| *byte == 0), "padding is zeros");
        }
        assert!(phy.gaps[1..].iter().all(|gap| *gap >= GAP_BYTES), "{:?}", phy.gaps);
        assert!(phy.gaps[1..].contains(&GAP_BYTES), "no frame follows at once: {:?}", phy.gaps);
    });
}

/// Returns blocks as the block writer writes them to the FIFO: a descriptor, then the words.
fn blocks(rng: &mut Rng) -> Vec<(PayloadHeader, Vec<u64>)> {
    let block = |rng: &mut Rng| {
        let count = [2, 3, 7, 187][rng.usize(0..4)];
        let header = PayloadHeader {
            version: FORMAT_VERSION,
            kind: rng.u8(0..3),
            words: count,
            lost: rng.u16(..),
        };
        (header, (0..count).map(|_| spread(rng, 64)).collect())
    };
    (0..25).map(|_| block(rng)).collect()
}

#[test]
fn blocks_become_the_frames_the_format_defines() {
    with_seeds(0..8, |rng| {
        let (mut thread, mut gmac) = (settled(TxThread::<10>::default()), settled(Gmac::default()));
        let (mut fifo, mut end, mut phy) = (vec![0u64; 1 << 10], 0, Phy::default());
        let sent = blocks(rng);
        // Words that the memory has not returned yet.
        let mut answers = VecDeque::from(vec![0; rng.usize(0..MAX_READ_CLOCKS)]);
        let mut waiting = sent.iter();
        for _ in 0..60_000 {
            let free = (thread.read.freed.val().index() + 1023 - end) & 1023;
            if free > 200
                && chance(rng, 2)
                && let Some((header, words)) = waiting.next()
            {
                fifo[end] = u64::from(u32::from_be_bytes(header.encode()));
                for (place, word) in words.iter().enumerate() {
                    fifo[end + 1 + place & 1023] = *word;
                }
                end = end + 1 + words.len() & 1023;
            }
            thread.available.next = (end as u64).into();
            OctetSource::join(&mut thread.octets, &mut gmac.octets);
            settle(&mut thread);
            OctetSource::join(&mut thread.octets, &mut gmac.octets);
            settle(&mut gmac);
            OctetSource::join(&mut thread.octets, &mut gmac.octets);
            settle(&mut thread);
            phy.sample(&gmac);
            answers.push_back(fifo[thread.read.address.val().index()]);
            let word = answers.pop_front().expect("an answer");
            pulse(&mut thread, |thread| &mut thread.clock);
            pulse(&mut gmac, |gmac| &mut gmac.clock);
            thread.read.high.next = (word >> 32).into();
            thread.read.low.next = (word & 0xffff_ffff).into();
        }
        assert_eq!(phy.frames.len(), sent.len());
        for (counter, (frame, (header, words))) in phy.frames.iter().zip(&sent).enumerate() {
            let mut buffer = [0; MAX_FRAME_BYTES];
            let length = frame::encode(&mut buffer, counter as u64, *header, words);
            assert_eq!(received(frame), &buffer[..length], "frame {counter}");
        }
    });
}

#[test]
fn the_frame_counter_carries_into_its_middle_part() {
    let mut counter = settled(FrameCounter::default());
    // A frame takes at least 84 byte times; the carries need three clocks.
    for count in 1..=(1u64 << 16) + 2 {
        for clock in 0..3 {
            counter.step.next = clock == 0;
            pulse(&mut counter, |counter| &mut counter.clock);
        }
        let (high, mid) = (counter.high.val().index() as u64, counter.mid.val().index() as u64);
        assert_eq!(high << 32 | mid << 16 | counter.low.val().index() as u64, count);
    }
}
