//! Writes captures of generated accesses, for benchmarks: half of the accesses are in 16 streams of
//! consecutive lines, half are random in 1 GiB.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_format::Direction;
use hmtt_format::frame::FrameKind;
use hmtt_format::record::Half;

use crate::card::{Card, MAX_ACCESSES};
use crate::random::Xorshift;

/// Seconds since 1970 of the first frame: 2023-11-14 22:13:20 UTC.
const BEGIN_S: u64 = 1_700_000_000;
/// Nanoseconds of a clock.
const CLOCK_NS: u64 = 10;
/// Number of lines in the address range: 1 GiB.
const LINES: u32 = 1 << 24;

/// Generated accesses of a board.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Number of accesses; rounded down to whole frames of [`MAX_ACCESSES`].
    pub accesses: u64,
    /// Clocks of 10 ns from one frame to the next, at least [`MAX_ACCESSES`].
    pub frame_clocks: u64,
    /// Seed of the random numbers; not 0.
    pub seed: u64,
}

impl Traffic {
    /// Accesses without pauses.
    pub fn dense(accesses: u64, seed: u64) -> Self {
        Traffic { accesses, frame_clocks: MAX_ACCESSES, seed }
    }

    /// Writes a capture of the board on the interface `eth1`.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) {
        let output = BufWriter::new(File::create(path).unwrap());
        let mut writer = PcapngWriter::new(output, &[Description::new("eth1")]).unwrap();
        let (mut card, mut accesses) = (Card::new(), Accesses::new(self.seed));
        let mut write = |clock: u64, frame: Vec<u8>| {
            let time = Duration::from_secs(BEGIN_S) + Duration::from_nanos(clock * CLOCK_NS);
            writer.write_frame(0, time, frame.len() as u32, &frame).unwrap();
        };
        write(0, card.info());
        for _ in 0..self.accesses / MAX_ACCESSES {
            let words: Vec<u64> =
                (0..MAX_ACCESSES / 2).map(|_| accesses.half() << 32 | accesses.half()).collect();
            let frame = card.frame(FrameKind::Data, &words);
            card.advance(MAX_ACCESSES, MAX_ACCESSES);
            card.clock += self.frame_clocks - MAX_ACCESSES;
            write(card.clock, frame);
            if self.frame_clocks != MAX_ACCESSES {
                // A full frame has no space for a skip. After a report, the next frame may begin at
                // any clock.
                write(card.clock, card.info());
            }
        }
        write(card.clock, card.end());
        writer.into_output();
    }
}

/// Records of accesses, one after the other.
struct Accesses {
    random: Xorshift,
    streams: [u32; 16],
}

impl Accesses {
    fn new(seed: u64) -> Self {
        let mut random = Xorshift::new(seed);
        let streams = std::array::from_fn(|_| random.number() as u32 % LINES);
        Accesses { random, streams }
    }

    fn half(&mut self) -> u64 {
        let r = self.random.number();
        let stream = &mut self.streams[(r >> 8) as usize & 15];
        *stream = (*stream + 1) % LINES;
        let number = if r & 1 == 0 { *stream } else { (r >> 16) as u32 % LINES };
        let direction = Direction::from_bit((r >> 4).is_multiple_of(3));
        u64::from(Half::Access { direction, delta: 1, number }.encode())
    }
}
