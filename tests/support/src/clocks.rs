//! Generates captures of cards whose clocks differ.

use std::path::PathBuf;
use std::time::Duration;

use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_format::record::{TagSource, WordRecord};

use crate::card::Card;
use crate::files::scratch;

/// Rate, offset and frame latency of a card's clock.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// Clocks of the card for each clock of the true time.
    pub rate: f64,
    /// Clock of the card at time 0.
    pub begin: f64,
    /// Smallest latency of the card's frames, in nanoseconds.
    pub latency: u64,
}

impl Running {
    /// Clock of the card at a true time.
    pub fn clock(&self, time: f64) -> u64 {
        (self.begin + time * self.rate).round() as u64
    }

    /// True time of a clock of the card.
    pub fn time(&self, clock: u64) -> f64 {
        (clock as f64 - self.begin) / self.rate
    }
}

/// A card whose clock has the true rate.
pub const STEADY: Running = Running { rate: 1.0, begin: 1000.0, latency: 5_000 };
/// A card whose clock is fast, and whose frames have a larger latency.
pub const FAST: Running = Running { rate: 1.000_08, begin: 3_000_000.0, latency: 90_000 };
/// Clocks of 10 ns from one frame to the next.
pub const STEP: f64 = 40_000.0;
/// Number of data frames in a capture.
pub const STEPS: u32 = 600;

/// Writes a capture of a card with this clock: [`STEPS`] frames of accesses, about [`STEP`] clocks
/// apart, and a mark every 20 frames if `marked`.
///
/// # Panics
/// If the file cannot be written.
pub fn capture(name: &str, running: Running, marked: bool) -> PathBuf {
    let mut card = Card::new();
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::new("eth1")]).unwrap();
    let mut write = |frame: Vec<u8>, time: f64, late: u64| {
        let nanos = (time * 10.0) as u64 + running.latency + late;
        let arrival = Duration::from_secs(1_700_000_000) + Duration::from_nanos(nanos);
        writer.write_frame(0, arrival, frame.len() as u32, &frame).unwrap();
    };
    card.clock = running.clock(0.0);
    write(card.info(), 0.0, 0);
    for step in 0..STEPS {
        let time = f64::from(step) * STEP + f64::from(step * step % 997);
        card.clock = running.clock(time);
        let late = u64::from(step * 7919 % 13) * 10_000;
        let end = running.time(card.clock + 60);
        write(card.data(20).0, end, late);
        if marked && step % 20 == 7 {
            card.clock = running.clock(time + 500.0);
            let value = 0x100 + step / 20 % 3;
            let mark = WordRecord::Tag { delta: 0, source: TagSource::Mark, value };
            write(card.records(&[mark], 0, 0), time + 500.0, late);
        }
    }
    let end = f64::from(STEPS) * STEP;
    card.clock = running.clock(end);
    write(card.end(), end, 0);
    let path = scratch(&format!("{name}.pcapng"));
    std::fs::write(&path, writer.into_output()).unwrap();
    path
}
