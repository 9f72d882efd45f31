//! Tests heartbeats: their times and content, and when the DDR clock counts as lost.

use gateware::ethernet::clock_watch::{ClockWatch, LOST_AFTER, TOGGLE_CLOCKS};
use gateware::ethernet::gmac::Gmac;
use gateware::ethernet::heartbeat::{Heartbeat, TICK_CLOCKS};
use gateware::ethernet::ports::{BeatSink, OctetSource};
use gateware::ethernet::tx_thread::TxThread;
use hmtt_format::frame::{self, FrameKind, HEARTBEAT_WORDS, MAX_FRAME_BYTES, PayloadHeader};
use hmtt_format::{FORMAT_VERSION, frame::Heartbeat as Contents};

use crate::direct::{chance, pulse, settle, settled, with_seeds};

/// The transmit side without a FIFO, which sends only heartbeats.
struct Bench {
    heartbeat: Heartbeat,
    thread: TxThread<10>,
    gmac: Gmac,
    clocks: u64,
    /// Frames without preamble and FCS, and the clock of their first octet.
    frames: Vec<(u64, Vec<u8>)>,
    sending: bool,
}

impl Bench {
    fn new(quiet_ticks: u64) -> Self {
        Bench {
            heartbeat: settled(Heartbeat::after(quiet_ticks)),
            thread: settled(TxThread::default()),
            gmac: settled(Gmac::default()),
            clocks: 0,
            frames: Vec::new(),
            sending: false,
        }
    }

    fn clock(&mut self) {
        let Bench { heartbeat, thread, gmac, .. } = self;
        let mut join = |thread: &mut TxThread<10>| {
            OctetSource::join(&mut thread.octets, &mut gmac.octets);
            BeatSink::join(&mut thread.beat, &mut heartbeat.beat);
        };
        // The thread's outputs depend on its inputs within a clock; those of the other blocks do
        // not.
        join(thread);
        settle(thread);
        join(thread);
        if gmac.tx_en.val() {
            if !self.sending {
                self.frames.push((self.clocks, Vec::new()));
            }
            let octets = &mut self.frames.last_mut().expect("a frame").1;
            octets.push(gmac.txd.val().index() as u8);
        }
        self.sending = gmac.tx_en.val();
        pulse(heartbeat, |heartbeat| &mut heartbeat.clock);
        pulse(thread, |thread| &mut thread.clock);
        pulse(gmac, |gmac| &mut gmac.clock);
        self.clocks += 1;
    }

    /// Returns the heartbeats so far after checking everything else in their frames.
    fn contents(&self) -> Vec<Contents> {
        let heartbeat = |(counter, (_, octets)): (usize, &(u64, Vec<u8>))| {
            let data = &octets[8..octets.len() - 4];
            let (words, _) = data[18..].as_chunks::<8>();
            let words = [u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1])];
            let header = PayloadHeader {
                version: FORMAT_VERSION,
                kind: FrameKind::Heartbeat as u8,
                words: HEARTBEAT_WORDS,
                lost: 0,
            };
            let mut buffer = [0; MAX_FRAME_BYTES];
            let length = frame::encode(&mut buffer, counter as u64, header, &words);
            assert_eq!(data, &buffer[..length]);
            Contents::decode(words)
        };
        self.frames.iter().enumerate().map(heartbeat).collect()
    }
}

#[test]
fn a_lost_clock_is_reported_at_once_and_when_it_is_found_again() {
    let mut bench = Bench::new(1);
    for clock in 0..3000 {
        bench.heartbeat.lost.next = (1000..2000).contains(&clock);
        bench.clock();
    }
    let contents = bench.contents();
    let states: Vec<(bool, u16)> =
        contents.iter().map(|contents| (contents.running, contents.losses)).collect();
    assert_eq!(states, [(false, 1), (true, 1)]);
    for (contents, at) in contents.iter().zip([1000, 2000]) {
        assert!((at..at + 8).contains(&contents.transmit_clocks), "{contents:?}");
    }
}

#[test]
fn short_losses_are_counted_if_their_heartbeat_must_wait() {
    let mut bench = Bench::new(1);
    for clock in 0..500 {
        bench.heartbeat.lost.next =
            [10..20, 30..40, 50..60].iter().any(|lost| lost.contains(&clock));
        bench.clock();
    }
    assert_eq!(
        bench.contents().last().map(|contents| (contents.running, contents.losses)),
        Some((true, 3))
    );
}

#[test]
fn a_heartbeat_is_sent_after_each_second_of_silence_and_its_clock_carries() {
    let mut bench = Bench::new(1);
    for _ in 0..4 * TICK_CLOCKS + 2000 {
        bench.clock();
    }
    let contents = bench.contents();
    assert_eq!(contents.len(), 4, "{contents:?}");
    // Both heartbeats are sent with the same delay after the clock that they state.
    let lag = bench.frames[0].0.abs_diff(contents[0].transmit_clocks);
    for (index, ((sent, _), contents)) in bench.frames.iter().zip(&contents).enumerate() {
        assert!((contents.running, contents.losses) == (true, 0));
        assert!(
            contents.transmit_clocks.abs_diff((index as u64 + 1) * TICK_CLOCKS) < 10,
            "{contents:?}"
        );
        assert_eq!(sent.abs_diff(contents.transmit_clocks), lag);
    }
}

#[test]
fn a_clock_is_lost_exactly_if_it_stops() {
    with_seeds(0..6, |rng| {
        let mut watch = settled(ClockWatch::default());
        let (tx_period, ddr_period) = (8000, rng.u64(600..20_000));
        let (mut now, mut next_ddr, mut lost_at) = (0, rng.u64(0..ddr_period), None);
        // Number of transmit clocks, from the 2000th on, during which the DDR clock is stopped.
        let pause = LOST_AFTER as u64 + if chance(rng, 50) { 200 } else { 2000 };
        let slack = TOGGLE_CLOCKS as u64 * ddr_period / tx_period + 8;
        for clock in 0..8000u64 {
            now += tx_period;
            while next_ddr < now {
                if !(2000..2000 + pause).contains(&clock) {
                    pulse(&mut watch, |watch| &mut watch.ddr_clock);
                }
                next_ddr += ddr_period;
            }
            pulse(&mut watch, |watch| &mut watch.tx_clock);
            if watch.lost.val() && lost_at.is_none() {
                lost_at = Some(clock);
            }
            let after = 2000 + LOST_AFTER as u64;
            if clock < after - slack || clock > 2000 + pause + slack {
                assert!(!watch.lost.val(), "lost at {clock}, DDR period {ddr_period} ps");
            }
            if (after + slack..2000 + pause).contains(&clock) {
                assert!(watch.lost.val(), "not lost at {clock}, DDR period {ddr_period} ps");
            }
        }
        assert!(lost_at.is_some());
    });
}
