//! Counts accesses by address and time, in a histogram with a bounded number of rows and columns.
//!
//! Rows are blocks of addresses that have accesses. If there are more than [`MOST_ROWS`], blocks
//! become twice as large; so a program's stack and heap, far apart, take few rows each. Columns of
//! time are described in [`columns`](super::columns). Memory: at most 512 KiB. [`Analysis::append`]
//! is exact if columns are of clocks. [`Analysis::merge`] keeps each memory apart.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::clock::Clock;
use super::columns::{Column, Columns};
use super::hash::Table;
use super::slices::SliceUnit;
use super::{Analysis, Batch, Detail, FrequencySlice, Gap, Known, LINE_LOG2, PAGE_LOG2, PageRun};

/// Maximum number of blocks of addresses.
pub const MOST_ROWS: usize = 128;

/// Number of accesses whose rows are found at once.
const TOGETHER: usize = 256;

/// The accesses of a column, by row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Cells(Vec<u64>);

impl Cells {
    #[inline]
    fn add(&mut self, row: usize, count: u64) {
        if self.0.len() <= row {
            self.0.resize(row + 1, 0);
        }
        self.0[row] = self.0[row].saturating_add(count);
    }
}

impl Column for Cells {
    fn join(&mut self, later: &Self) {
        later.0.iter().enumerate().for_each(|(row, count)| self.add(row, *count));
    }
}

/// The accesses to a block of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeatRow {
    /// Address of the first byte.
    #[serde(serialize_with = "super::pages::hexadecimal")]
    pub address: u64,
    /// Accesses in each slice, from the first one.
    pub counts: Vec<u64>,
}

/// The accesses to a memory, by address and time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryHeat {
    /// Number of the memory, from 1.
    pub source: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit: a power of two.
    pub slice_length: u64,
    /// The length in seconds, if slices are of clocks whose period is known.
    pub slice_seconds: Option<f64>,
    /// Number of the first slice: it begins at this multiple of the length.
    pub first_slice: u64,
    /// Bytes of a block: a power of two.
    pub block_bytes: u64,
    /// Blocks with accesses, by address.
    pub blocks: Vec<HeatRow>,
}

/// The histogram of one memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Memory {
    clock: Clock,
    block_log2: u32,
    /// Numbers of the blocks. The index of a block is its row.
    #[serde(deserialize_with = "blocks")]
    blocks: Vec<u64>,
    /// Row of each block that was looked up since blocks last became larger.
    #[serde(skip)]
    rows: Table<u32>,
    columns: Columns<Cells>,
}

/// Reads the numbers of blocks, and rejects more than [`MOST_ROWS`].
fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let blocks = Vec::<u64>::deserialize(deserializer)?;
    if blocks.len() > MOST_ROWS {
        return Err(D::Error::custom("a heat map has more blocks than it can have"));
    }
    Ok(blocks)
}

impl Default for Memory {
    fn default() -> Self {
        let (clock, blocks, rows, columns) = Default::default();
        Memory { clock, block_log2: LINE_LOG2, blocks, rows, columns }
    }
}

impl Memory {
    fn block_log2(&self) -> u32 {
        // A deserialised state may have any number.
        self.block_log2.clamp(LINE_LOG2, 63)
    }

    /// Adds at most [`TOGETHER`] accesses.
    fn add(&mut self, batch: &Batch<'_>) {
        let mut rows = [0; TOGETHER];
        loop {
            let block_log2 = self.block_log2();
            for (row, address) in rows.iter_mut().zip(batch.addresses()) {
                *row = self.row(*address);
            }
            // Rows that were found before blocks became larger are wrong, and are looked up again.
            if self.block_log2() == block_log2 {
                break;
            }
        }
        let Memory { clock, columns, blocks, .. } = self;
        clock.each_column(batch, columns, |within, _, _, cells| {
            if cells.0.len() < blocks.len() {
                cells.0.resize(blocks.len(), 0);
            }
            rows[within].iter().for_each(|row| cells.0[*row] = cells.0[*row].saturating_add(1));
        });
    }

    fn count(&mut self, at: u64, address: u64, count: u64) {
        let row = self.row(address);
        self.columns.at(at).add(row, count);
    }

    /// Counts a page run. Makes blocks at least as large as a page, because the lines of the run
    /// are not known.
    fn count_page(&mut self, at: u64, run: &PageRun) {
        while self.block_log2() < PAGE_LOG2 {
            self.double();
        }
        self.count(at, run.address, run.accesses());
    }

    /// The row of an address. If there are too many rows, blocks become larger until the address
    /// has a row.
    #[inline]
    fn row(&mut self, address: u64) -> usize {
        match self.rows.get(address >> self.block_log2()) {
            Some(row) => row as usize,
            None => self.find_row(address),
        }
    }

    /// Does the same as [`Memory::row`] for a block that is not in the table, and adds the block to
    /// the table.
    #[cold]
    fn find_row(&mut self, address: u64) -> usize {
        loop {
            let block = address >> self.block_log2();
            let position = self.blocks.iter().position(|other| *other == block);
            if position.is_none() && self.blocks.len() >= MOST_ROWS {
                self.double();
                continue;
            }
            let row = position.unwrap_or(self.blocks.len());
            if position.is_none() {
                self.blocks.push(block);
            }
            *self.rows.entry(block) = row as u32;
            return row;
        }
    }

    /// Makes blocks twice as large: joins the blocks 2n and 2n + 1.
    fn double(&mut self) {
        self.block_log2 = self.block_log2() + 1;
        self.rows = Table::default();
        let old = std::mem::take(&mut self.blocks);
        let place = |block: u64| {
            let position = self.blocks.iter().position(|other| *other == block / 2);
            position.unwrap_or_else(|| {
                self.blocks.push(block / 2);
                self.blocks.len() - 1
            })
        };
        let places: Vec<usize> = old.into_iter().map(place).collect();
        for cells in self.columns.cells_mut() {
            let counts = std::mem::take(&mut cells.0);
            counts.into_iter().zip(&places).for_each(|(count, place)| cells.add(*place, count));
        }
    }

    fn append(&mut self, later: &Memory) {
        let (shift, log2) = (self.clock.shift(), later.block_log2());
        self.columns.lengthen(later.columns.log2());
        for (number, cells) in later.columns.iter() {
            let at = number.saturating_mul(1 << later.columns.log2()).saturating_add(shift);
            for (block, count) in later.blocks.iter().zip(&cells.0).filter(|(_, count)| **count > 0)
            {
                while self.block_log2() < log2 {
                    self.double();
                }
                self.count(at, block.saturating_mul(1 << log2), *count);
            }
        }
        self.clock.append(&later.clock);
    }

    fn result(&self, source: u64) -> MemoryHeat {
        let (log2, block_log2) = (self.columns.log2(), self.block_log2());
        let mut blocks: Vec<HeatRow> = Vec::new();
        for (row, block) in self.blocks.iter().enumerate() {
            let count = |(_, cells): (u64, &Cells)| cells.0.get(row).copied().unwrap_or(0);
            let counts = self.columns.iter().map(count).collect();
            blocks.push(HeatRow { address: block.saturating_mul(1 << block_log2), counts });
        }
        blocks.sort_by_key(|row| row.address);
        MemoryHeat {
            source,
            slice_unit: self.clock.unit(),
            slice_length: 1 << log2,
            slice_seconds: self.clock.seconds(1 << log2),
            first_slice: self.columns.first(),
            block_bytes: 1 << block_log2,
            blocks,
        }
    }
}

/// Accesses by address and time. An access counts in the block of its first byte.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, heat_map::HeatMap};
///
/// let mut heat = HeatMap::default();
/// heat.add(&Batch::new(&[0x1000, 0xffff_0000, 0x1008], &[false; 3]));
/// let found = &heat.result()[0];
/// let rows: Vec<_> = found.blocks.iter().map(|row| (row.address, &row.counts[..])).collect();
/// assert_eq!(rows, [(0x1000, &[1, 0, 1][..]), (0xffff_0000, &[0, 1, 0])]);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeatMap {
    memories: Vec<Memory>,
}

impl Default for HeatMap {
    fn default() -> Self {
        HeatMap { memories: vec![Memory::default()] }
    }
}

impl Analysis for HeatMap {
    type Result = Vec<MemoryHeat>;

    fn known(&mut self, known: &Known) {
        self.memories.iter_mut().take(1).for_each(|memory| memory.clock.known(known));
    }

    fn add(&mut self, batch: &Batch<'_>) {
        let Some(memory) = self.memories.first_mut() else { return };
        for from in (0..batch.len()).step_by(TOGETHER) {
            memory.add(&batch.rows(from..batch.len().min(from + TOGETHER)));
        }
    }

    fn needs(&self) -> Detail {
        Detail::Page
    }

    fn page_run(&mut self, run: &PageRun) {
        if let Some(memory) = self.memories.first_mut() {
            let (at, _) = memory.clock.of_record(run.clock, run.clock, run.accesses());
            memory.count_page(at, run);
        }
    }

    /// Adds the columns that the [timeline](super::timeline) has for the slice, so that heat map
    /// and timeline have the same columns.
    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        if let Some(memory) = self.memories.first_mut() {
            let last = slice.last_clock();
            let (first, last) = memory.clock.of_record(slice.clock, last, slice.accesses());
            memory.columns.at(first);
            memory.columns.at(last);
        }
    }

    /// Adds the column that the [timeline](super::timeline) has for the gap, so that heat map and
    /// timeline have the same columns.
    fn gap(&mut self, gap: &Gap) {
        if let Some(memory) = self.memories.first_mut() {
            memory.columns.at(memory.clock.of_gap(gap));
        }
    }

    fn restart(&mut self) {
        let own = self.memories.iter_mut().take(1);
        own.for_each(|memory| memory.clock.restart(memory.columns.end()));
    }

    fn append(&mut self, later: Self) {
        let mut later = later.memories.into_iter();
        if let (Some(own), Some(more)) = (self.memories.first_mut(), later.next()) {
            own.append(&more);
        }
        self.memories.extend(later);
    }

    fn merge(&mut self, other: Self) {
        self.memories.extend(other.memories);
    }

    fn result(&self) -> Vec<MemoryHeat> {
        self.memories.iter().zip(1..).map(|(memory, source)| memory.result(source)).collect()
    }
}
