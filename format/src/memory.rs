//! Everything about one memory slot that the card must know before it can rebuild addresses.

use core::fmt;

use crate::address_map::{AddressMap, Axis};
use crate::command::Generation;
use crate::config;
use crate::record::{NUMBER_BITS, SEGMENT_BITS};

/// Bytes of an x86 page, log2: the unit of page records.
pub const PAGE_LOG2: u8 = 12;
/// Clocks from one tick to the next; ticks bound how long a record waits in the card.
pub const DEFAULT_TICK_CLOCKS: u32 = 1 << 15;
/// Clocks after a line's first burst within which another burst of it belongs to the same access.
pub const DEFAULT_MERGE_WINDOW: u16 = 64;
/// log2 bytes of the tag window.
pub const DEFAULT_TAG_WINDOW_LOG2: u8 = 16;
/// log2 of the bus words of the longest burst.
pub const MAX_BURST_LOG2: u8 = 3;
/// log2 bytes of a cache line.
pub const DEFAULT_LINE_LOG2: u8 = 6;

/// Shortest clock period, in picoseconds: a second of it still fits 32 bits.
pub const MIN_TCK_PS: u32 = 250;

/// A memory description: generation, geometry, map, timing, and the card's choices that depend on
/// them. Read from TOML ([`crate::toml_memory`]) or a vector's header ([`crate::header`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryDescription {
    /// DDR generation.
    pub generation: Generation,
    /// Address bits to row, bank, column, rank and back.
    pub map: AddressMap,
    /// log2 of the bytes of one bus word.
    pub bus_log2: u8,
    /// Bus words of a burst: 2, 4 or 8. With `burst_from_mode_register` that of a bus on which no MODE
    /// REGISTER SET was seen yet.
    pub burst_length: u8,
    /// The burst length is what the mode register says, once it was seen written; else it is fixed.
    pub burst_from_mode_register: bool,
    /// Odd ranks have address pins swapped in pairs, as DDR3 and DDR4 modules may: A3-A4, A5-A6, A7-A8
    /// and BA0-BA1, on DDR4 A11-A13 and, with two bank group bits, BG0-BG1 as well.
    pub mirror_odd_ranks: bool,
    /// Clock period in picoseconds.
    pub tck_ps: u32,
    /// log2 of the bytes of a cache line.
    pub line_log2: u8,
    /// Shortest tRFC that is still legal, in clocks; commands sooner after a REFRESH are faults.
    pub trfc_clocks: u16,
    /// Shortest tRCD that is still legal, in clocks: a READ or WRITE sooner after its bank's ACTIVATE is
    /// a fault. 0 or 1: not checked; so for the next three.
    pub trcd_clocks: u8,
    /// Shortest tRP that is still legal, in clocks: what needs a closed bank sooner after a PRECHARGE.
    pub trp_clocks: u8,
    /// Shortest tMRD that is still legal, in clocks: a command sooner after a MODE REGISTER SET.
    pub tmrd_clocks: u8,
    /// Shortest tXS (DDR1, DDR2: tXSNR) that is still legal, in clocks: a command sooner after the end
    /// of self refresh.
    pub txs_clocks: u16,
    /// Longest time a rank may go without REFRESH, in clocks; 0: not checked.
    pub refresh_limit_clocks: u32,
    /// Clocks from one tick to the next.
    pub tick_clocks: u32,
    /// Clocks within which bursts of one line are merged.
    pub merge_window: u16,
    /// log2 bytes of the tag window.
    pub tag_window_log2: u8,
    /// log2 of the bytes from one configuration register to the next.
    pub config_stride_log2: u8,
    /// Consecutive accesses that make a configuration command.
    pub config_count: u8,
}

/// Why a memory description was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryError {
    /// Not 2, 4 or 8.
    BurstLength(u32),
    /// Not a power of two from 1 to 64 bytes.
    BusBytes(u32),
    /// The column has too few bits for the burst, or none.
    NoColumns,
    /// A count of rows, banks or columns that the map does not have.
    Count { axis: Axis, stated: u64, mapped: u64 },
    /// Address mirroring on a generation whose modules do not have it.
    Mirroring(Generation),
    /// Burst bytes that are not bus bytes * burst length.
    BurstBytes { stated: u32, computed: u32 },
    /// A parameter out of its range.
    OutOfRange { name: &'static str, value: u64, least: u64, most: u64 },
}

impl core::error::Error for MemoryError {}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::BurstLength(length) => write!(f, "burst length {length} is not 2, 4 or 8"),
            MemoryError::BusBytes(bytes) => {
                write!(f, "bus width of {bytes} bytes is not a power of two from 1 to 64")
            }
            MemoryError::NoColumns => {
                f.write_str("the map has fewer column bits than a burst needs")
            }
            MemoryError::Mirroring(generation) => {
                write!(f, "{} modules do not mirror addresses", generation.name())
            }
            MemoryError::Count { axis, stated, mapped } => {
                write!(f, "{stated} {}s stated, but the map has {mapped}", axis.name())
            }
            MemoryError::BurstBytes { stated, computed } => {
                write!(
                    f,
                    "burst of {stated} bytes stated, but bus width * burst length is {computed}"
                )
            }
            MemoryError::OutOfRange { name, value, least, most } => {
                write!(f, "{name} = {value} is out of range {least} to {most}")
            }
        }
    }
}

impl MemoryDescription {
    /// A description with this project's defaults for what is not given.
    ///
    /// `bus_bytes`: width of the data bus. `burst_length`: bus words of a burst. `tck_ps`: clock
    /// period in picoseconds.
    ///
    /// # Errors
    /// [`MemoryError::BusBytes`] or [`MemoryError::BurstLength`] for a size that no module has, or the errors
    /// of [`MemoryDescription::check`].
    pub fn new(
        generation: Generation,
        map: AddressMap,
        bus_bytes: u32,
        burst_length: u32,
        tck_ps: u32,
    ) -> Result<Self, MemoryError> {
        if !bus_bytes.is_power_of_two() || bus_bytes > 64 {
            return Err(MemoryError::BusBytes(bus_bytes));
        }
        if !matches!(burst_length, 2 | 4 | 8) {
            return Err(MemoryError::BurstLength(burst_length));
        }
        let bus_log2 = bus_bytes.trailing_zeros() as u8;
        let mut memory = MemoryDescription {
            generation,
            map,
            bus_log2,
            burst_length: burst_length as u8,
            burst_from_mode_register: false,
            mirror_odd_ranks: false,
            tck_ps,
            line_log2: DEFAULT_LINE_LOG2,
            trfc_clocks: default_trfc(generation, tck_ps),
            trcd_clocks: default_trcd(generation, tck_ps),
            trp_clocks: default_trcd(generation, tck_ps),
            tmrd_clocks: default_tmrd(generation),
            txs_clocks: default_txs(generation, tck_ps),
            refresh_limit_clocks: default_refresh_limit(generation, tck_ps),
            tick_clocks: DEFAULT_TICK_CLOCKS,
            merge_window: DEFAULT_MERGE_WINDOW,
            tag_window_log2: DEFAULT_TAG_WINDOW_LOG2,
            config_stride_log2: config::DEFAULT_STRIDE_LOG2,
            config_count: config::DEFAULT_COUNT,
        };
        memory.fit_line();
        memory.check()?;
        Ok(memory)
    }

    /// A line record tells up to eight units of its line apart: takes the cache line nearest to the
    /// default for which that is so.
    fn fit_line(&mut self) {
        let unit = self.burst_log2();
        self.line_log2 = DEFAULT_LINE_LOG2.clamp(unit, unit + 3);
    }

    /// Lets the mode register set the burst length; `burst_length` holds until it is written. Records
    /// and configuration registers get the sizes that go with every length: units as small as the
    /// smallest burst, registers as far apart as the largest is long.
    pub fn follow_mode_register(&mut self) {
        self.burst_from_mode_register = true;
        self.config_stride_log2 = self.config_stride_log2.max(self.bus_log2 + MAX_BURST_LOG2);
        self.fit_line();
    }

    /// Checks what [`MemoryDescription::new`] leaves open; call it after changing a field.
    ///
    /// # Errors
    /// [`MemoryError::Mirroring`] if modules of the generation do not mirror addresses,
    /// [`MemoryError::NoColumns`] if the map has too few column bits for a burst,
    /// [`MemoryError::OutOfRange`] for the first parameter that is out of its range.
    pub fn check(&self) -> Result<(), MemoryError> {
        let burst_bits = if self.burst_from_mode_register {
            MAX_BURST_LOG2
        } else {
            self.burst_length.trailing_zeros() as u8
        };
        if self.mirror_odd_ranks && self.generation < Generation::Ddr3 {
            return Err(MemoryError::Mirroring(self.generation));
        }
        if self.map.bits(Axis::Column) < burst_bits.max(1) {
            return Err(MemoryError::NoColumns);
        }
        let burst = u64::from(self.burst_log2());
        let highest = 63 - u64::from(self.map.named_bits().leading_zeros());
        let range = |name, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(MemoryError::OutOfRange { name, value, least, most })
            }
        };
        let unit_bits = u64::from(NUMBER_BITS + SEGMENT_BITS);
        range("log2 of the bytes a burst covers without a hole", burst, 1, PAGE_LOG2.into())?;
        range("highest address bit", highest, 0, burst + unit_bits - 1)?;
        range("bank bits", self.map.bits(Axis::Bank).into(), 0, 4)?;
        range("tck_ps", self.tck_ps.into(), MIN_TCK_PS.into(), 1_000_000)?;
        range("line_log2", self.line_log2.into(), burst, (burst + 3).min(PAGE_LOG2.into()))?;
        range("trfc_clocks", self.trfc_clocks.into(), 0, 4095)?;
        range("trcd_clocks", self.trcd_clocks.into(), 0, 255)?;
        range("trp_clocks", self.trp_clocks.into(), 0, 255)?;
        range("tmrd_clocks", self.tmrd_clocks.into(), 0, 255)?;
        range("txs_clocks", self.txs_clocks.into(), 0, 4095)?;
        let limit = u64::from(self.refresh_limit_clocks);
        range("refresh_limit_clocks", limit, 0, (1 << 24) - 1)?;
        range("tick_clocks", self.tick_clocks.into(), 256, 1 << 15)?;
        range("merge_window", self.merge_window.into(), 1, 255)?;
        range("tag_window_log2", self.tag_window_log2.into(), 3, 30)?;
        // A burst is told by its start where the mode register says how long it is.
        let stride = if self.burst_from_mode_register { self.bus_log2 + MAX_BURST_LOG2 } else { 3 };
        let stride = u64::from(stride.max(3));
        range("config_stride_log2", self.config_stride_log2.into(), stride, 12)?;
        range("config_count", self.config_count.into(), 2, 255)
    }

    /// log2 of the unit of burst records: the bytes a burst covers without a hole from its start. All
    /// of the burst, unless the map scatters the columns within it over the address; then the unit is
    /// smaller, so that no two bursts share one.
    pub fn burst_log2(&self) -> u8 {
        let within = self.smallest_burst_log2();
        let straight = |bit: &u8| self.map.mask(Axis::Column, *bit) == 1 << (self.bus_log2 + bit);
        self.bus_log2 + (0..within).take_while(straight).count() as u8
    }

    /// log2 of the bus words of the smallest burst that can occur.
    pub const fn smallest_burst_log2(&self) -> u8 {
        match (self.burst_from_mode_register, self.generation) {
            (false, _) => self.burst_length.trailing_zeros() as u8,
            (true, Generation::Ddr1) => 1,
            (true, _) => 2,
        }
    }

    /// Ranks: 1, 2 or 4.
    pub fn ranks(&self) -> u8 {
        1 << self.map.bits(Axis::Rank)
    }

    /// Bytes one READ or WRITE moves, at the stated burst length.
    pub fn burst_bytes(&self) -> u32 {
        u32::from(self.burst_length) << self.bus_log2
    }

    /// How many bits an axis has.
    pub fn bits(&self, axis: Axis) -> u8 {
        self.map.bits(axis)
    }

    /// Bytes the map can address, for display.
    pub fn capacity(&self) -> u64 {
        let bits: u32 = Axis::ALL.iter().map(|axis| u32::from(self.map.bits(*axis))).sum();
        1 << (bits + u32::from(self.bus_log2))
    }
}

/// JEDEC's smallest tRFC of the generation over all densities and speeds, rounded down to clocks:
/// what is flagged below it is a fault on any device. DDR1 70 ns (JESD79 table 11), DDR2 75 ns
/// (JESD79-2), DDR3 90 ns (JESD79-3), DDR4 160 ns (JESD79-4).
pub const fn default_trfc(generation: Generation, tck_ps: u32) -> u16 {
    let picos = match generation {
        Generation::Ddr1 => 70_000,
        Generation::Ddr2 => 75_000,
        Generation::Ddr3 => 90_000,
        Generation::Ddr4 => 160_000,
    };
    let clocks = picos / (if tck_ps == 0 { 1 } else { tck_ps });
    if clocks == 0 {
        1
    } else if clocks > 4095 {
        4095
    } else {
        clocks as u16
    }
}

/// JEDEC's smallest tRCD of the generation over all speed bins, in clocks; its smallest tRP is the same.
/// DDR1 15 ns (JESD79F, DDR400), DDR2 10 ns (JESD79-2F, DDR2-800C), DDR3 9.38 ns (JESD79-3F,
/// DDR3-2133K), DDR4 12.5 ns (JESD79-4). Rounded up, as JEDEC does: a clock less is too soon on every
/// device, and rounded down nothing would be left to check at the slow speeds. `tck_ps`: clock period.
pub const fn default_trcd(generation: Generation, tck_ps: u32) -> u8 {
    let picos: u32 = match generation {
        Generation::Ddr1 => 15_000,
        Generation::Ddr2 => 10_000,
        Generation::Ddr3 => 9_375,
        Generation::Ddr4 => 12_500,
    };
    let clocks = picos.div_ceil(if tck_ps == 0 { 1 } else { tck_ps });
    if clocks > 255 { 255 } else { clocks as u8 }
}

/// JEDEC's tMRD in clocks: DDR1 and DDR2 2, DDR3 4, DDR4 8.
pub const fn default_tmrd(generation: Generation) -> u8 {
    match generation {
        Generation::Ddr1 | Generation::Ddr2 => 2,
        Generation::Ddr3 => 4,
        Generation::Ddr4 => 8,
    }
}

/// JEDEC's smallest time from self-refresh exit to a command that needs no DLL, rounded down to clocks:
/// DDR1 tXSNR 75 ns (JESD79F), DDR2 tXSNR = tRFC + 10 ns (JESD79-2F), DDR3 tXS = tRFC + 10 ns
/// (JESD79-3F), DDR4 tXS_ABORT = tRFC4 + 10 ns of 2 Gb, 100 ns (JESD79-4). `tck_ps`: clock period.
pub const fn default_txs(generation: Generation, tck_ps: u32) -> u16 {
    let picos = match generation {
        Generation::Ddr1 => 75_000,
        Generation::Ddr2 => 85_000,
        Generation::Ddr3 => 100_000,
        Generation::Ddr4 => 100_000,
    };
    let clocks = picos / (if tck_ps == 0 { 1 } else { tck_ps });
    if clocks > 4095 { 4095 } else { clocks as u16 }
}

/// Longest legal time between two REFRESHes of a rank, in clocks: nine average intervals, since eight
/// may be postponed. tREFI is 7.8 us; for DDR1 the 15.6 us of the smaller devices is taken. `tck_ps`:
/// clock period.
pub const fn default_refresh_limit(generation: Generation, tck_ps: u32) -> u32 {
    let picos: u64 = match generation {
        Generation::Ddr1 => 9 * 15_600_000,
        Generation::Ddr2 | Generation::Ddr3 | Generation::Ddr4 => 9 * 7_800_000,
    };
    let clocks = picos.div_ceil(if tck_ps == 0 { 1 } else { tck_ps as u64 });
    if clocks >= 1 << 24 { (1 << 24) - 1 } else { clocks as u32 }
}

/// The clock period of a data rate such as the 200 of DDR-200, in picoseconds (two transfers a clock).
pub const fn tck_of_rate(megatransfers: u32) -> Option<u32> {
    2_000_000u32.checked_div(megatransfers)
}
