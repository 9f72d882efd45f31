//! Defines what a source knows of its accesses ([`Known`]), and the accesses that the source lacks
//! ([`Gap`]).

use serde::{Deserialize, Serialize};

use super::bank_map::BankMap;

/// Whether addresses are physical or virtual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressSpace {
    /// Addresses of physical memory, as on the bus.
    Physical,
    /// Addresses in the memory of a process.
    Virtual,
    /// Not known.
    #[default]
    Unknown,
}

/// What a source knows of its accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Whether addresses are physical or virtual.
    pub address_space: AddressSpace,
    /// Whether accesses have clocks.
    pub clocks: bool,
    /// Clock period in picoseconds.
    pub tck_ps: Option<u32>,
    /// Bytes of each access, if accesses have no sizes of their own.
    pub unit_bytes: Option<u32>,
    /// Whether accesses have sizes of their own.
    pub sizes: bool,
    /// Whether accesses have threads.
    pub threads: bool,
    /// Whether accesses have instructions.
    pub instructions: bool,
    /// Bytes of memory: all addresses are lower.
    pub capacity_bytes: Option<u64>,
    /// Bytes that the memory's data bus transfers on each edge of the clock.
    pub bus_bytes: Option<u32>,
    /// The map from addresses to banks and rows.
    pub bank_map: Option<BankMap>,
    /// Number of the board in a data set. Memories with the same number are runs of one board, one
    /// after the other.
    pub board: Option<u32>,
}

impl Known {
    /// The facts that are not known, as text for people.
    pub fn absent(&self) -> Vec<&'static str> {
        let facts = [
            (self.address_space == AddressSpace::Unknown, "whether addresses are physical"),
            (!self.clocks, "clocks"),
            (self.clocks && self.tck_ps.is_none(), "the period of the clock"),
            (!self.sizes && self.unit_bytes.is_none(), "sizes of accesses"),
            (!self.threads, "threads"),
            (!self.instructions, "instructions"),
        ];
        facts.into_iter().filter_map(|(is_absent, what)| is_absent.then_some(what)).collect()
    }

    /// Takes over what a later piece knows. A piece that knows nothing is empty, and changes
    /// nothing.
    pub fn append(&mut self, later: &Known) {
        if *later != Known::default() {
            *self = *later;
        }
    }

    /// Maximum number of bytes that the data bus can transfer in a second: two transfers in each
    /// clock. `None` if the clock period or the width of the bus is not known.
    pub fn bus_bytes_per_second(&self) -> Option<f64> {
        let seconds = self.seconds(1).filter(|seconds| *seconds > 0.0)?;
        Some(2.0 * f64::from(self.bus_bytes?) / seconds)
    }

    /// Duration of `clocks` clocks in seconds; `None` if accesses have no clocks, or if the period
    /// is not known.
    pub fn seconds(&self, clocks: u64) -> Option<f64> {
        self.tck_ps.filter(|_| self.clocks).map(|period| clocks as f64 * f64::from(period) * 1e-12)
    }
}

/// Missing accesses, and the clocks before and after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Number of missing accesses, if it is known.
    pub lost_accesses: Option<u64>,
    /// Clock of the last record before the gap.
    pub after_clock: Option<u64>,
    /// Clock with which the trace continues.
    pub before_clock: Option<u64>,
}
