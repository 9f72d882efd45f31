//! Defines the order of clock edges that every engine keeps.
//!
//! DDR clock `k` rises at `k * tCK`. TX clock `j` rises at `j * 8000 + 1000` ps, or with a longer
//! period if the link is slowed. If both rise at one time, the DDR clock comes first. Falling edges
//! change no state of the card and are left out. The order decides at which TX edge a word that
//! crosses the clock domains is seen, so engines with different orders would produce different
//! frames. The Verilator harness uses the same arithmetic.

/// Period of the TX clock (125 MHz: one gigabit a second) in picoseconds.
pub const TX_PERIOD_PS: u32 = 8_000;
/// Time of the first rising TX edge in picoseconds.
pub const TX_OFFSET_PS: i64 = 1_000;

/// Returns the period of the TX clock in picoseconds for a link speed in megabits per second. GMII
/// transfers one byte per clock.
pub const fn tx_period_of(megabits: u32) -> u32 {
    8_000_000 / megabits
}

/// Returns the time in picoseconds from clock 0 to TX edge `edge`.
pub const fn tx_time_ps(edge: u64, tx_period_ps: u32) -> u64 {
    edge * tx_period_ps as u64 + TX_OFFSET_PS as u64
}

/// A stop of the DDR clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStop {
    /// The DDR clock before which it stops.
    pub at: u64,
    /// Duration of the stop in nanoseconds.
    pub nanos: u64,
}

/// Interleaves the two clocks. Only the distance between the next edges of both is stored, so it
/// does not overflow, however long the recording is.
#[derive(Clone, Debug)]
pub struct Schedule {
    tck_ps: i64,
    tx_period_ps: i64,
    /// Time of the next TX edge minus time of the next DDR edge.
    ahead_ps: i64,
}

impl Schedule {
    /// Creates a schedule that starts before the first edge of either clock. Both periods are in
    /// picoseconds.
    pub const fn new(tck_ps: u32, tx_period_ps: u32) -> Self {
        Schedule {
            tck_ps: tck_ps as i64,
            tx_period_ps: tx_period_ps as i64,
            ahead_ps: TX_OFFSET_PS,
        }
    }

    /// Delays the next DDR edge, and all edges after it.
    pub const fn delay(&mut self, nanos: u64) {
        self.ahead_ps -= nanos as i64 * 1_000;
    }

    /// Returns the number of TX edges before the next DDR edge. To be called once for each DDR
    /// clock. With DDR edges at 0, 10 and 20 ns and TX edges at 1, 9 and 17 ns it returns 0, 2 and
    /// 1.
    pub const fn tx_edges(&mut self) -> u32 {
        let mut edges = 0;
        while self.ahead_ps < 0 {
            self.ahead_ps += self.tx_period_ps;
            edges += 1;
        }
        self.ahead_ps -= self.tck_ps;
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(tck_ps: u32, clocks: u32) -> String {
        let mut schedule = Schedule::new(tck_ps, TX_PERIOD_PS);
        (0..clocks).map(|_| "t".repeat(schedule.tx_edges() as usize) + "D").collect()
    }

    #[test]
    fn edges_come_in_order_of_time() {
        // DDR 0 10 20 30 40 ns, TX 1 9 17 25 33 ns.
        assert_eq!(order(10_000, 5), "DttDtDtDtD");
        // DDR 0 2.5 5 7.5 10 ns.
        assert_eq!(order(2_500, 5), "DtDDDtD");
    }

    #[test]
    fn the_transmit_clock_continues_while_the_ddr_clock_is_stopped() {
        let mut schedule = Schedule::new(10_000, TX_PERIOD_PS);
        assert_eq!([schedule.tx_edges(), schedule.tx_edges()], [0, 2]);
        schedule.delay(80);
        // The DDR edge of 20 ns is delayed to 100 ns: TX 17, 25 ... 97 ns.
        assert_eq!(schedule.tx_edges(), 11);
    }

    #[test]
    fn the_ddr_edge_is_first_if_both_rise_at_once() {
        // DDR 0 1 2 ... 9 ns, TX 1 and 9 ns.
        assert_eq!(order(1_000, 11), "DDtDDDDDDDDtD");
    }

    #[test]
    fn edges_agree_with_absolute_times() {
        for (tck_ps, period) in [
            (1_071u32, TX_PERIOD_PS),
            (7_500, TX_PERIOD_PS),
            (10_000, TX_PERIOD_PS),
            (10_000, tx_period_of(100)),
            (1_000_000, TX_PERIOD_PS),
        ] {
            let mut schedule = Schedule::new(tck_ps, period);
            let mut edge = 0;
            for clock in 0..2_000u64 {
                let before = u64::from(schedule.tx_edges());
                edge += before;
                let now = clock * u64::from(tck_ps);
                assert!(tx_time_ps(edge, period) >= now);
                assert!(before == 0 || tx_time_ps(edge - 1, period) < now);
            }
        }
    }
}
