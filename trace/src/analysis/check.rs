//! Checks conditions that must hold in every trace: clocks do not go back, addresses are in memory,
//! accesses have sizes and are aligned.
//!
//! All violations are counted, and the first [`MOST_PLACES`] of each kind are kept with their
//! places. Memory is constant. [`Analysis::append`] compares the clocks on both sides, and is
//! exact. [`Analysis::merge`] adds the counts; places in merged memories state the number of the
//! memory. A condition is not checked if the source does not know the facts for it, and the result
//! says so.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::pages::{from_hexadecimal, hexadecimal};
use super::{Analysis, Batch, Detail, Gap, Known, PAGE_LOG2, PageRun};

/// Maximum number of places that are kept for each kind of violation.
pub const MOST_PLACES: usize = 20;

/// The condition that an access violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The clock is lower than the clock of the access before, without a restart in between.
    ClockBack,
    /// The address is not in the memory that the source describes.
    BeyondMemory,
    /// The address is no multiple of the unit that the source states.
    Unaligned,
    /// The last byte would be beyond the end of the address space.
    BeyondEnd,
    /// The size of the access is not known.
    NoSize,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] =
        [Kind::ClockBack, Kind::BeyondMemory, Kind::Unaligned, Kind::BeyondEnd, Kind::NoSize];
}

/// An access that violates a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The kind of violation.
    pub kind: Kind,
    /// Number of the memory, from 1.
    pub source: u64,
    /// Number of the access to this memory, from 1.
    pub access: u64,
    /// Clock of the access, if it has one.
    pub clock: Option<u64>,
    /// Address of the access.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "from_hexadecimal")]
    pub address: u64,
}

/// Number of violations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Violations {
    /// The kind of violation.
    pub kind: Kind,
    /// Whether the source knows the facts that are needed for the check.
    pub checked: bool,
    /// Accesses with such a violation.
    pub violations: u64,
}

/// The result of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Number of accesses.
    pub accesses: u64,
    /// Number of violations of each kind, in the order of [`Kind::ALL`].
    pub kinds: Vec<Violations>,
    /// The first violations of each kind.
    pub places: Vec<Place>,
    /// Places at which accesses are missing.
    pub gap_count: u64,
    /// Accesses that are missing at these places, as far as their numbers are known.
    pub lost_accesses: u64,
    /// Number of times that the clock began at 0 again.
    pub restarts: u64,
}

impl Checked {
    /// Whether there are violations of any kind.
    pub fn has_violations(&self) -> bool {
        self.kinds.iter().any(|kind| kind.violations > 0)
    }
}

/// Checks accesses.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, check::{Check, Kind}};
///
/// let mut check = Check::default();
/// check.add(&Batch::new(&[0, 64], &[false; 2]).with_clocks(&[7, 6]));
/// let place = check.result().places[0];
/// assert_eq!((place.kind, place.access, place.clock), (Kind::ClockBack, 2, Some(6)));
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Check {
    known: Known,
    accesses: u64,
    counts: [u64; Kind::ALL.len()],
    checked: [bool; Kind::ALL.len()],
    #[serde(deserialize_with = "places")]
    places: Vec<Place>,
    /// Clock and address of the first access, if no restart was before it.
    first: Option<(u64, u64)>,
    /// Clock and address of the last access, if no restart was after it.
    last: Option<(u64, u64)>,
    gap_count: u64,
    lost_accesses: u64,
    restarts: u64,
    /// Number of merged memories, without this memory.
    merged: u64,
    merged_accesses: u64,
}

/// Reads places, and rejects more than [`MOST_PLACES`] times the number of kinds.
fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Place>, D::Error> {
    let places = Vec::<Place>::deserialize(deserializer)?;
    if places.len() > MOST_PLACES * Kind::ALL.len() {
        return Err(D::Error::custom("more places are listed than there can be"));
    }
    Ok(places)
}

impl Check {
    fn violation(&mut self, kind: Kind, access: u64, clock: Option<u64>, address: u64) {
        let count = &mut self.counts[kind as usize];
        *count = count.saturating_add(1);
        if *count <= MOST_PLACES as u64 {
            self.places.push(Place { kind, source: 1, access, clock, address });
        }
    }

    /// Reports each row for which `is_wrong` is true.
    fn each(&mut self, kind: Kind, batch: &Batch<'_>, is_wrong: impl Fn(usize, u64) -> bool) {
        self.checked[kind as usize] = true;
        for (row, address) in batch.addresses().iter().enumerate() {
            if is_wrong(row, *address) {
                let clock = batch.clocks().map(|clocks| clocks[row]);
                let access = self.accesses.saturating_add(row as u64 + 1);
                self.violation(kind, access, clock, *address);
            }
        }
    }

    fn clocks(&mut self, batch: &Batch<'_>) {
        let Some(clocks) = batch.clocks().filter(|clocks| !clocks.is_empty()) else { return };
        let before = self.last.map_or(0, |(clock, _)| clock);
        self.each(Kind::ClockBack, batch, |row, _| {
            clocks[row] < row.checked_sub(1).map_or(before, |row| clocks[row])
        });
        let end = clocks.len() - 1;
        if self.restarts == 0 && self.first.is_none() {
            self.first = Some((clocks[0], batch.addresses()[0]));
        }
        self.last = Some((clocks[end], batch.addresses()[end]));
    }

    fn places(&mut self, places: &[Place], sources: u64, accesses: u64) {
        for place in places {
            let kept = self.places.iter().filter(|kept| kept.kind == place.kind).count();
            if kept < MOST_PLACES {
                let access = place.access.saturating_add(accesses);
                self.places.push(Place {
                    source: place.source.saturating_add(sources),
                    access,
                    ..*place
                });
            }
        }
    }

    fn add_counts(&mut self, other: &Check) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, more)| add(sum, more));
        self.checked.iter_mut().zip(other.checked).for_each(|(own, more)| *own |= more);
        add(&mut self.gap_count, other.gap_count);
        add(&mut self.lost_accesses, other.lost_accesses);
    }
}

impl Analysis for Check {
    type Result = Checked;

    fn known(&mut self, known: &Known) {
        self.known = *known;
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.clocks(batch);
        if let Some(capacity) = self.known.capacity_bytes {
            self.each(Kind::BeyondMemory, batch, |_, address| address >= capacity);
        }
        if let Some(unit) = batch.unit_bytes().filter(|unit| *unit > 0) {
            self.each(Kind::Unaligned, batch, |_, address| address % u64::from(unit) != 0);
        }
        if let Some(sizes) = batch.sizes() {
            self.each(Kind::NoSize, batch, |row, _| sizes[row] == 0);
            self.each(Kind::BeyondEnd, batch, |row, address| {
                address.checked_add(u64::from(sizes[row].max(1)) - 1).is_none()
            });
        }
        self.accesses = self.accesses.saturating_add(batch.len() as u64);
    }

    fn needs(&self) -> Detail {
        Detail::Page
    }

    /// Checks the run like an access to the first byte of its page.
    fn page_run(&mut self, run: &PageRun) {
        let (addresses, writes, clocks) = ([run.address], [run.reads == 0], [run.clock]);
        let first = Batch::new(&addresses, &writes).with_clocks(&clocks);
        self.add(&first.with_unit(Some(1 << PAGE_LOG2)));
        let others = run.accesses().saturating_sub(1);
        self.accesses = self.accesses.saturating_add(others);
    }

    fn gap(&mut self, gap: &Gap) {
        self.gap_count = self.gap_count.saturating_add(1);
        let lost = gap.lost_accesses.unwrap_or(0);
        self.lost_accesses = self.lost_accesses.saturating_add(lost);
    }

    fn restart(&mut self) {
        self.restarts = self.restarts.saturating_add(1);
        self.last = None;
    }

    fn append(&mut self, later: Self) {
        if let (Some((before, _)), Some((clock, address))) = (self.last, later.first)
            && clock < before
        {
            self.violation(Kind::ClockBack, self.accesses.saturating_add(1), Some(clock), address);
        }
        self.places(&later.places, 0, self.accesses);
        self.add_counts(&later);
        if self.restarts == 0 && self.first.is_none() {
            self.first = later.first;
        }
        self.last = if later.restarts > 0 { later.last } else { later.last.or(self.last) };
        self.restarts = self.restarts.saturating_add(later.restarts);
        self.accesses = self.accesses.saturating_add(later.accesses);
        self.merged = self.merged.saturating_add(later.merged);
        self.merged_accesses = self.merged_accesses.saturating_add(later.merged_accesses);
    }

    fn merge(&mut self, other: Self) {
        self.places(&other.places, self.merged.saturating_add(1), 0);
        self.add_counts(&other);
        self.restarts = self.restarts.saturating_add(other.restarts);
        self.merged = self.merged.saturating_add(other.merged).saturating_add(1);
        let more = other.accesses.saturating_add(other.merged_accesses);
        self.merged_accesses = self.merged_accesses.saturating_add(more);
    }

    fn result(&self) -> Checked {
        let kinds = Kind::ALL.into_iter().map(|kind| Violations {
            kind,
            checked: self.checked[kind as usize],
            violations: self.counts[kind as usize],
        });
        Checked {
            accesses: self.accesses.saturating_add(self.merged_accesses),
            kinds: kinds.collect(),
            places: self.places.clone(),
            gap_count: self.gap_count,
            lost_accesses: self.lost_accesses,
            restarts: self.restarts,
        }
    }
}
