//! Defines the memory description: what the card must know of a memory slot to compute addresses.

use core::fmt;

use crate::address_map::{AddressMap, Axis};
use crate::command::{Command, Generation, Pins, encode_to, mirror};
use crate::config;
use crate::record::{NUMBER_BITS, SEGMENT_BITS};

/// log2 of the size in bytes of an x86 page, the unit of page records.
pub const PAGE_LOG2: u8 = 12;
/// Clocks from one tick to the next. Ticks limit the time that a record waits in the card.
pub const DEFAULT_TICK_CLOCKS: u32 = 1 << 15;
/// Number of clocks after a line's first burst. Further bursts of the line within this time belong
/// to the same access.
pub const DEFAULT_MERGE_WINDOW: u16 = 64;
/// log2 of the size in bytes of the tag window of a card that is built from a description in TOML,
/// unless the description states another size: 2 MiB, for the tags of 16,384 functions.
pub const DEFAULT_TAG_WINDOW_LOG2: u8 = 21;
/// log2 of the size in bytes of the tag window of all other cards, such as cards that are described
/// by the header of a recording: 64 KiB.
pub const SMALL_TAG_WINDOW_LOG2: u8 = 16;
/// log2 of the length of the longest burst in bus words.
pub const MAX_BURST_LOG2: u8 = 3;
/// log2 of the size of a cache line in bytes.
pub const DEFAULT_LINE_LOG2: u8 = 6;

/// Shortest clock period in picoseconds; with it, the clocks of a second still fit in 32 bits.
pub const MIN_TCK_PS: u32 = 250;

/// Ranks whose address pins are never mirrored, one bit for each.
const EVEN_RANKS: u8 = 0b0101;

/// A memory description: generation, geometry, address map, timing, and the card's parameters that
/// depend on them. It is read from TOML ([`crate::toml_memory`]) or from a vector's header
/// ([`crate::header`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryDescription {
    /// DDR generation.
    pub generation: Generation,
    /// The address map.
    pub map: AddressMap,
    /// log2 of the size of a bus word in bytes.
    pub bus_log2: u8,
    /// Bus words of a burst: 2, 4 or 8. With `burst_from_mode_register`, the length until the first
    /// MODE REGISTER SET is seen.
    pub burst_length: u8,
    /// Whether the mode register sets the burst length, after the first MODE REGISTER SET;
    /// otherwise the length is fixed.
    pub burst_from_mode_register: bool,
    /// Whether pairs of address pins are swapped in odd ranks, as on some DDR3 and DDR4 modules:
    /// A3-A4, A5-A6, A7-A8 and BA0-BA1; on DDR4 also A11-A13 and, with two bank group bits,
    /// BG0-BG1.
    pub mirror_odd_ranks: bool,
    /// Clock period in picoseconds.
    pub tck_ps: u32,
    /// log2 of the size of a cache line in bytes.
    pub line_log2: u8,
    /// Shortest legal tRFC in clocks; an earlier command after a REFRESH is a fault.
    pub trfc_clocks: u16,
    /// Shortest legal tRCD in clocks; an earlier READ or WRITE after its bank's ACTIVATE is a
    /// fault. 0 and 1 disable the check, as in the next three fields.
    pub trcd_clocks: u8,
    /// Shortest legal tRP in clocks; an earlier command after a PRECHARGE is a fault if it needs a
    /// closed bank.
    pub trp_clocks: u8,
    /// Shortest legal tMRD in clocks; an earlier command after a MODE REGISTER SET is a fault.
    pub tmrd_clocks: u8,
    /// Shortest legal tXS (DDR1 and DDR2: tXSNR) in clocks; an earlier command after the end of
    /// self refresh is a fault.
    pub txs_clocks: u16,
    /// Longest legal time of a rank without REFRESH in clocks; 0 disables the check.
    pub refresh_limit_clocks: u32,
    /// Clocks from one tick to the next.
    pub tick_clocks: u32,
    /// Clocks within which bursts of one line are merged.
    pub merge_window: u16,
    /// log2 of the size of the tag window in bytes.
    pub tag_window_log2: u8,
    /// log2 of the distance between configuration registers in bytes.
    pub config_stride_log2: u8,
    /// Number of consecutive accesses that are a configuration command.
    pub config_count: u8,
}

/// The reason why a memory description is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryError {
    /// The burst length is not 2, 4 or 8.
    BurstLength(u32),
    /// The bus width is not a power of two from 1 to 64 bytes.
    BusBytes(u32),
    /// The column has no bits, or too few for a burst.
    NoColumns,
    /// The stated number of rows, banks, columns or ranks is not the map's.
    Count { axis: Axis, stated: u64, mapped: u64 },
    /// Address mirroring was selected, and modules of the generation do not have it.
    Mirroring(Generation),
    /// The stated size of a burst is not bus width * burst length.
    BurstBytes { stated: u32, computed: u32 },
    /// A parameter is out of its range.
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
    /// Creates a description, with this project's defaults for all other parameters.
    ///
    /// `bus_bytes`: width of the data bus. `burst_length`: bus words of a burst. `tck_ps`: clock
    /// period in picoseconds.
    ///
    /// # Errors
    /// [`MemoryError::BusBytes`] or [`MemoryError::BurstLength`] for a size that no module has, or
    /// the errors of [`MemoryDescription::check`].
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
            tag_window_log2: SMALL_TAG_WINDOW_LOG2,
            config_stride_log2: config::DEFAULT_STRIDE_LOG2,
            config_count: config::DEFAULT_COUNT,
        };
        memory.fit_line();
        memory.check()?;
        Ok(memory)
    }

    /// Sets the size of a cache line. A line record can distinguish at most eight units, so the
    /// size is the one nearest to the default that has one to eight units.
    fn fit_line(&mut self) {
        let unit = self.burst_log2();
        self.line_log2 = DEFAULT_LINE_LOG2.clamp(unit, unit + 3);
    }

    /// Lets the mode register set the burst length; `burst_length` is the length until the mode
    /// register is written. The sizes of records and registers then fit every length: the unit is
    /// the smallest burst, the distance of registers the largest one.
    pub fn follow_mode_register(&mut self) {
        self.burst_from_mode_register = true;
        self.config_stride_log2 = self.config_stride_log2.max(self.bus_log2 + MAX_BURST_LOG2);
        self.fit_line();
    }

    /// Checks all parameters. A caller that changes a field must call this function.
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
        // If the mode register sets the burst length, only the start of a burst identifies it.
        let stride = if self.burst_from_mode_register { self.bus_log2 + MAX_BURST_LOG2 } else { 3 };
        let stride = u64::from(stride.max(3));
        range("config_stride_log2", self.config_stride_log2.into(), stride, 12)?;
        range("config_count", self.config_count.into(), 2, 255)
    }

    /// log2 of the unit of burst records: the number of contiguous bytes at the start of a burst.
    /// The unit is the whole burst, unless the map distributes the columns within a burst over the
    /// address. In that case the unit is smaller, so that no two bursts share a unit.
    pub fn burst_log2(&self) -> u8 {
        let within = self.smallest_burst_log2();
        let straight = |bit: &u8| self.map.mask(Axis::Column, *bit) == 1 << (self.bus_log2 + bit);
        self.bus_log2 + (0..within).take_while(straight).count() as u8
    }

    /// log2 of the length in bus words of the smallest burst that can occur.
    pub const fn smallest_burst_log2(&self) -> u8 {
        match (self.burst_from_mode_register, self.generation) {
            (false, _) => self.burst_length.trailing_zeros() as u8,
            (true, Generation::Ddr1) => 1,
            (true, _) => 2,
        }
    }

    /// Number of ranks: 1, 2 or 4.
    pub fn ranks(&self) -> u8 {
        1 << self.map.bits(Axis::Rank)
    }

    /// The slot's pin levels for a command to some ranks (one bit for each rank). Pins are swapped
    /// only if all of `ranks` are mirrored. A command to mirrored and to other ranks must not
    /// depend on the pins that are swapped.
    pub fn pins(&self, command: Command, ranks: u8) -> Pins {
        let mut pins = encode_to(self.generation, command, ranks);
        if self.mirror_odd_ranks && ranks & EVEN_RANKS == 0 {
            (pins.ba, pins.a) = mirror(self.generation, self.bits(Axis::Bank), pins.ba, pins.a);
        }
        pins
    }

    /// Size of a burst in bytes, with the stated burst length.
    pub fn burst_bytes(&self) -> u32 {
        u32::from(self.burst_length) << self.bus_log2
    }

    /// Number of bits of an axis.
    pub fn bits(&self, axis: Axis) -> u8 {
        self.map.bits(axis)
    }

    /// Capacity of the memory in bytes, for display.
    pub fn capacity(&self) -> u64 {
        let bits: u32 = Axis::ALL.iter().map(|axis| u32::from(self.map.bits(*axis))).sum();
        1 << (bits + u32::from(self.bus_log2))
    }
}

/// JEDEC's smallest tRFC of the generation over all densities and speeds, rounded down to clocks,
/// so that a shorter distance is a fault on any device. DDR1 70 ns (JESD79 table 11), DDR2 75 ns
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

/// JEDEC's smallest tRCD of the generation over all speed bins, in clocks; the smallest tRP is
/// equal. DDR1 15 ns (JESD79F, DDR400), DDR2 10 ns (JESD79-2F, DDR2-800C), DDR3 9.38 ns (JESD79-3F,
/// DDR3-2133K), DDR4 12.5 ns (JESD79-4). The value is rounded up, as JEDEC does: one clock less is
/// too early on every device. Rounding down would leave nothing to check at low speeds. `tck_ps`:
/// clock period in picoseconds.
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

/// JEDEC's smallest time from the end of self refresh to a command that needs no DLL, rounded down
/// to clocks: DDR1 tXSNR 75 ns (JESD79F), DDR2 tXSNR = tRFC + 10 ns (JESD79-2F), DDR3 tXS = tRFC +
/// 10 ns (JESD79-3F), DDR4 tXS_ABORT = tRFC4 of 2 Gb + 10 ns, 100 ns (JESD79-4). `tck_ps`: clock
/// period in picoseconds.
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

/// Longest legal time between two REFRESH commands of a rank, in clocks: nine average intervals,
/// since eight commands may be postponed. tREFI is 7.8 us. For DDR1 it is 15.6 us here, the value
/// of small devices. `tck_ps`: clock period in picoseconds.
pub const fn default_refresh_limit(generation: Generation, tck_ps: u32) -> u32 {
    let picos: u64 = match generation {
        Generation::Ddr1 => 9 * 15_600_000,
        Generation::Ddr2 | Generation::Ddr3 | Generation::Ddr4 => 9 * 7_800_000,
    };
    let clocks = picos.div_ceil(if tck_ps == 0 { 1 } else { tck_ps as u64 });
    if clocks >= 1 << 24 { (1 << 24) - 1 } else { clocks as u32 }
}

/// Converts a data rate such as the 200 of DDR-200 to the clock period in picoseconds; a clock has
/// two transfers.
pub const fn tck_of_rate(megatransfers: u32) -> Option<u32> {
    2_000_000u32.checked_div(megatransfers)
}
