//! Reports a memory description as text and JSON.

use std::fmt;

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::Axis;
use serde::Serialize;

/// The memory that a card describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// `DDR1` to `DDR4`.
    pub generation: &'static str,
    /// Clock period in picoseconds.
    pub tck_ps: u32,
    /// Width of the data bus, in bytes.
    pub bus_bytes: u32,
    /// Length of a burst, in bus words. If `burst_from_mode_register`, this is the length until the
    /// mode register is written.
    pub burst_length: u8,
    /// Whether the mode register sets the burst length.
    pub burst_from_mode_register: bool,
    /// Size of a cache line, in bytes.
    pub line_bytes: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Whether odd ranks have swapped address pins (address mirroring).
    pub mirror_odd_ranks: bool,
    /// Number of banks of a rank.
    pub banks: u32,
    /// Number of rows of a bank.
    pub rows: u32,
    /// Number of columns of a row.
    pub columns: u32,
    /// Capacity of all ranks, in bytes.
    pub capacity_bytes: u64,
    /// Address map: one entry for each coordinate bit, for example `bank[1]=p15^p18`.
    pub map: Vec<String>,
    /// Distances between commands whose violation is a fault.
    pub limits: Limits,
    /// Greatest distance between bursts of one line that become one record, in clocks.
    pub merge_window_clocks: u16,
    /// Distance between ticks, in clocks.
    pub tick_clocks: u32,
    /// Size of the tag window, in bytes.
    pub tag_window_bytes: u32,
    /// Distance between adjacent configuration registers, in bytes.
    pub register_step_bytes: u32,
    /// Number of accesses to a register that make a configuration command.
    pub register_accesses: u8,
    /// Digest of the description, hexadecimal.
    pub digest: String,
}

/// Least distances between commands, in clocks (JEDEC's timing parameters); distances of 0 and 1
/// are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// tRFC: REFRESH to the next command.
    pub trfc_clocks: u16,
    /// tRCD: ACTIVATE to READ or WRITE.
    pub trcd_clocks: u8,
    /// tRP: PRECHARGE to ACTIVATE.
    pub trp_clocks: u8,
    /// tMRD: MODE REGISTER SET to the next command.
    pub tmrd_clocks: u8,
    /// tXS: end of self refresh to the next command.
    pub txs_clocks: u16,
    /// Longest time without REFRESH, in clocks; 0: not checked.
    pub refresh_limit_clocks: u32,
}

impl Memory {
    /// Describes a memory, with the digest that its report states.
    pub fn new(memory: &MemoryDescription, digest: u64) -> Self {
        Memory {
            generation: memory.generation.name(),
            tck_ps: memory.tck_ps,
            bus_bytes: 1 << memory.bus_log2,
            burst_length: memory.burst_length,
            burst_from_mode_register: memory.burst_from_mode_register,
            line_bytes: 1 << memory.line_log2,
            ranks: 1 << memory.bits(Axis::Rank),
            mirror_odd_ranks: memory.mirror_odd_ranks,
            banks: 1 << memory.bits(Axis::Bank),
            rows: 1 << memory.bits(Axis::Row),
            columns: 1 << memory.bits(Axis::Column),
            capacity_bytes: memory.capacity(),
            map: map_entries(memory),
            limits: Limits {
                trfc_clocks: memory.trfc_clocks,
                trcd_clocks: memory.trcd_clocks,
                trp_clocks: memory.trp_clocks,
                tmrd_clocks: memory.tmrd_clocks,
                txs_clocks: memory.txs_clocks,
                refresh_limit_clocks: memory.refresh_limit_clocks,
            },
            merge_window_clocks: memory.merge_window,
            tick_clocks: memory.tick_clocks,
            tag_window_bytes: 1 << memory.tag_window_log2,
            register_step_bytes: 1 << memory.config_stride_log2,
            register_accesses: memory.config_count,
            digest: format!("{digest:016x}"),
        }
    }
}

fn map_entries(memory: &MemoryDescription) -> Vec<String> {
    let entry = |axis: Axis, bit: u8| {
        let mask = memory.map.mask(axis, bit);
        let sum: Vec<String> = (0..u64::BITS)
            .filter(|bit| mask >> bit & 1 != 0)
            .map(|bit| format!("p{bit}"))
            .collect();
        format!("{}[{bit}]={}", axis.name(), sum.join("^"))
    };
    Axis::ALL
        .into_iter()
        .flat_map(|axis| (0..memory.bits(axis)).map(move |bit| entry(axis, bit)))
        .collect()
}

/// Writes one line: a name and its value.
pub(super) fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<25} {value}")
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "memory", format_args!("{}, tCK {} ps", self.generation, self.tck_ps))?;
        let Memory { ranks, banks, rows, columns, bus_bytes, .. } = self;
        row(
            f,
            "geometry",
            format_args!(
                "{ranks} ranks x {banks} banks x {rows} rows x {columns} columns x {bus_bytes} bytes"
            ),
        )?;
        row(f, "capacity", format_args!("{} MiB", self.capacity_bytes >> 20))?;
        if *ranks > 1 {
            let wiring = if self.mirror_odd_ranks { "mirrored" } else { "as in the even ones" };
            row(f, "pins of odd ranks", wiring)?;
        }
        let source =
            if self.burst_from_mode_register { ", then as the mode register says" } else { "" };
        row(f, "burst length", format_args!("{}{source}", self.burst_length))?;
        row(f, "line", format_args!("{} bytes", self.line_bytes))?;
        self.limits.fmt(f)?;
        row(f, "merge window", format_args!("{} clocks", self.merge_window_clocks))?;
        row(f, "tick", format_args!("{} clocks", self.tick_clocks))?;
        row(f, "tag window size", format_args!("{} bytes", self.tag_window_bytes))?;
        let Memory { register_step_bytes: step, register_accesses: count, .. } = self;
        row(f, "registers", format_args!("{step} bytes apart, {count} accesses a command"))?;
        row(f, "description digest", &self.digest)?;
        for axis in Axis::ALL {
            let prefix = format!("{}[", axis.name());
            let of_axis: Vec<&str> = self
                .map
                .iter()
                .map(String::as_str)
                .filter(|map| map.starts_with(&prefix))
                .collect();
            if !of_axis.is_empty() {
                row(f, "map", of_axis.join(" "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distances = [
            ("tRFC", self.trfc_clocks),
            ("tRCD", self.trcd_clocks.into()),
            ("tRP", self.trp_clocks.into()),
            ("tMRD", self.tmrd_clocks.into()),
            ("tXS", self.txs_clocks),
        ];
        let checked: Vec<String> = distances
            .iter()
            .filter(|(_, clocks)| *clocks > 1)
            .map(|(name, clocks)| format!("{name} {clocks}"))
            .collect();
        match checked.as_slice() {
            [] => row(f, "distances checked", "none")?,
            some => row(f, "distances checked", format_args!("{} clocks", some.join(", ")))?,
        }
        match self.refresh_limit_clocks {
            0 => row(f, "longest without REFRESH", "not checked"),
            clocks => row(f, "longest without REFRESH", format_args!("{clocks} clocks")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_format::Generation;
    use hmtt_format::address_map::MapBuilder;

    #[test]
    fn ranks_burst_lengths_and_unchecked_limits_are_printed() {
        let mut map = MapBuilder::default();
        (0..10).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
        (0..3).for_each(|bit| map.bit(Axis::Bank, bit, 1 << (13 + bit)).unwrap());
        (0..14).for_each(|bit| map.bit(Axis::Row, bit, 1 << (17 + bit)).unwrap());
        map.bit(Axis::Rank, 0, 1 << 16).unwrap();
        let map = map.build().unwrap();
        let mut memory = MemoryDescription::new(Generation::Ddr3, map, 8, 8, 2500).unwrap();
        memory.follow_mode_register();
        memory.mirror_odd_ranks = true;
        (memory.trcd_clocks, memory.trp_clocks, memory.refresh_limit_clocks) = (0, 1, 0);
        let text = Memory::new(&memory, 5).to_string();
        for line in [
            "pins of odd ranks         mirrored",
            "burst length              8, then as the mode register says",
            "distances checked         tRFC 36, tMRD 4, tXS 40 clocks",
            "longest without REFRESH   not checked",
            "registers                 64 bytes apart, 32 accesses a command",
        ] {
            assert!(text.lines().any(|other| other == line), "no {line:?} in\n{text}");
        }
    }
}
