//! Steps a [`Card`] through the stimulus, edge by edge: the `rust` engine.

use std::ops::ControlFlow;

use super::{Card, Engine, EngineError, Phy};
use crate::schedule::{ClockStop, Schedule};
use crate::stimulus::{Drive, Stimulus};

/// The engine: a card and its clocks.
pub struct Stepper<C> {
    /// The card, just powered on.
    pub card: C,
    /// Period of the DDR clock in picoseconds.
    pub tck_ps: u32,
    /// Period of the TX clock in picoseconds.
    pub tx_period_ps: u32,
    /// When the DDR clock stops, if it does.
    pub stop: Option<ClockStop>,
}

impl<C: Card> Engine for Stepper<C> {
    fn run(&mut self, stimulus: &mut Stimulus, phy: &mut dyn Phy) -> Result<(), EngineError> {
        let mut schedule = Schedule::new(self.tck_ps, self.tx_period_ps);
        let (mut clocks, mut peak) = (0, 0);
        for drive in stimulus.by_ref() {
            let drive = drive?;
            // The clock of this drive before which the DDR clock stops.
            let stop = self.stop.and_then(|stop| Some((stop.at.checked_sub(clocks)?, stop.nanos)));
            if step(&mut self.card, &mut schedule, drive, stop, phy, &mut peak).is_break() {
                return self.card.finish();
            }
            clocks += drive.clocks;
            phy.fifo_peak(peak);
            if phy.progress(clocks, !drive.recorded).is_break() {
                return self.card.finish();
            }
        }
        Err(EngineError::NotFinished { clocks: clocks - stimulus.counts().clocks })
    }

    fn tx_period_ps(&self) -> u32 {
        self.tx_period_ps
    }
}

fn step(
    card: &mut impl Card,
    schedule: &mut Schedule,
    drive: Drive,
    stop: Option<(u64, u64)>,
    phy: &mut dyn Phy,
    peak: &mut u64,
) -> ControlFlow<()> {
    for clock in 0..drive.clocks {
        if let Some((_, nanos)) = stop.filter(|(at, _)| *at == clock) {
            schedule.delay(nanos);
        }
        for _ in 0..schedule.tx_edges() {
            phy.take(card.tx_edge(), 1)?;
        }
        card.ddr_edge(drive.pins, drive.run);
        *peak = card.fifo_words().max(*peak);
    }
    ControlFlow::Continue(())
}
