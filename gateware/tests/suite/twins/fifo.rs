//! Tests packet FIFO and pointer crossing between clocks of unrelated periods.

use fastrand::Rng;
use gateware::fifo::packet_fifo::{BLOCK_WORDS, PacketFifo, SPACE_LATENCY};
use gateware::fifo::pointer_crossing::PointerCrossing;

use crate::direct::{chance, pulse, settled, with_seeds};

/// Two clocks with random periods and a random phase.
struct Clocks {
    periods: [u64; 2],
    next: [u64; 2],
}

impl Clocks {
    fn new(rng: &mut Rng) -> Self {
        let periods = [rng.u64(700..4000), rng.u64(700..4000)];
        Self { periods, next: periods.map(|period| rng.u64(0..period)) }
    }

    /// Returns the clock with the next edge, 0 or 1.
    fn tick(&mut self) -> usize {
        let which = usize::from(self.next[1] < self.next[0]);
        self.next[which] += self.periods[which];
        which
    }
}

#[test]
fn a_crossing_outputs_only_stable_values_in_order() {
    with_seeds(0..40, |rng| {
        let mut crossing = settled(PointerCrossing::<10>::default());
        let (mut clocks, mut value, mut seen) = (Clocks::new(rng), 0u64, 0);
        let mut arrivals = 0;
        for _ in 0..8000 {
            if clocks.tick() == 0 {
                // The value only grows, and all its bits change at once when it passes a power of
                // two.
                value += if chance(rng, 30) { rng.u64(0..20) } else { 0 };
                crossing.value.next = (value & 0x3ff).into();
                pulse(&mut crossing, |crossing| &mut crossing.from_clock);
            } else {
                pulse(&mut crossing, |crossing| &mut crossing.to_clock);
                let behind = (value - crossing.crossed.val().to_u64()) & 0x3ff;
                assert!(behind <= value - seen, "{behind} behind {value} after {seen}");
                arrivals += u32::from(value - behind > seen);
                seen = value - behind;
            }
        }
        assert!(arrivals > 100, "{arrivals} values arrived");
        for _ in 0..40 {
            pulse(&mut crossing, |crossing| &mut crossing.from_clock);
            pulse(&mut crossing, |crossing| &mut crossing.to_clock);
        }
        assert_eq!(crossing.crossed.val().to_u64(), value & 0x3ff, "what stands arrives");
    });
}

/// Writes blocks of random words when there is space, as the block writer does, sometimes half
/// words.
#[derive(Default)]
struct Writer {
    half: Option<u64>,
    committed: u64,
    offset: u64,
    length: u64,
    wait: u32,
}

impl Writer {
    fn drive(&mut self, fifo: &mut PacketFifo<10>, rng: &mut Rng, words: &mut Vec<u64>) {
        fifo.write.high_enable.next = false;
        fifo.write.low_enable.next = false;
        if self.length == 0 {
            self.wait = self.wait.saturating_sub(1);
            if self.wait == 0 && fifo.space_available.val() && chance(rng, 60) {
                self.length = if rng.bool() { BLOCK_WORDS } else { rng.u64(1..=BLOCK_WORDS) };
            }
            return;
        }
        let begun = self.half.take();
        let word = begun.unwrap_or_else(|| rng.u64(..));
        let whole = begun.is_none() && rng.bool();
        let (high, low) = (whole || begun.is_none(), whole || begun.is_some());
        fifo.write.address.next = ((self.committed + self.offset) & 0x3ff).into();
        fifo.write.high_enable.next = high;
        fifo.write.low_enable.next = low;
        // A half that is not enabled must have no effect.
        fifo.write.high.next = (if high { word >> 32 } else { rng.u32(..).into() }).into();
        fifo.write.low.next = (if low { word & 0xffff_ffff } else { rng.u32(..).into() }).into();
        if !low {
            self.half = Some(word);
            return;
        }
        words.push(word);
        self.offset += 1;
        if self.offset == self.length {
            self.committed = (self.committed + self.length) & 0x3ff;
            *self = Self {
                committed: self.committed,
                wait: SPACE_LATENCY as u32 + 1,
                ..Self::default()
            };
        }
    }
}

/// Reads available words, at most one per clock, and frees them at times.
#[derive(Default)]
struct Reader {
    at: u64,
    addressed: Option<u64>,
    read: Vec<u64>,
}

impl Reader {
    fn drive(&mut self, fifo: &mut PacketFifo<10>, rng: &mut Rng, percent: u32) {
        if self.addressed.take().is_some() {
            let word = fifo.read.high.val().to_u64() << 32 | fifo.read.low.val().to_u64();
            self.read.push(word);
            self.at = (self.at + 1) & 0x3ff;
        }
        if chance(rng, 10) {
            fifo.read.freed.next = self.at.into();
        }
        fifo.read.address.next = self.at.into();
        if fifo.available.val().to_u64() != self.at && chance(rng, percent) {
            self.addressed = Some(self.at);
        }
    }
}

#[test]
fn blocks_cross_completely_with_any_clocks_and_stalls() {
    with_seeds(0..40, |rng| {
        let mut fifo = settled(PacketFifo::<10>::default());
        let (mut clocks, mut words) = (Clocks::new(rng), Vec::new());
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        let percent = [100, 70, 20][rng.usize(0..3)];
        let mut edges = 0;
        while reader.read.len() < 2500 {
            edges += 1;
            assert!(edges < 1_000_000, "the FIFO is stuck after {} words", reader.read.len());
            if clocks.tick() == 0 {
                // The end moves one clock after the last word.
                fifo.write.committed.next = writer.committed.into();
                writer.drive(&mut fifo, rng, &mut words);
                pulse(&mut fifo, |fifo| &mut fifo.ddr_clock);
            } else {
                reader.drive(&mut fifo, rng, percent);
                pulse(&mut fifo, |fifo| &mut fifo.tx_clock);
            }
        }
        assert_eq!(reader.read, words[..reader.read.len()]);
    });
}

#[test]
fn there_is_space_if_the_longest_block_leaves_a_word_unused() {
    let mut fifo = settled(PacketFifo::<10>::default());
    for freed in [0, 700] {
        fifo.read.freed.next = freed.into();
        for used in (1 << 10) - BLOCK_WORDS - 4..1 << 10 {
            fifo.write.committed.next = ((freed + used) & 0x3ff).into();
            for _ in 0..20 {
                pulse(&mut fifo, |fifo| &mut fifo.tx_clock);
                pulse(&mut fifo, |fifo| &mut fifo.ddr_clock);
            }
            assert_eq!(
                fifo.space_available.val(),
                used + BLOCK_WORDS < 1 << 10,
                "with {used} words used"
            );
        }
    }
}
