//! Writes tracks as counters of trace events.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

use super::super::super::slices::SliceUnit;
use super::{Columns, Count, Key, Known, OTHERS, Tracks};
use crate::trace_events::TraceEvents;

/// Maximum number of tracks that are written separately. With 512 slices in each track, the output
/// is at most about 20 MB.
pub const MOST_WRITTEN: usize = 256;
/// Maximum number of characters of a track's name.
const MOST_LETTERS: usize = 200;

/// Picoseconds that an access, or a clock of unknown period, takes in the trace.
const UNKNOWN_PS: u64 = 1000;

/// The numbers of written tracks and of accesses without a track of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Number of tracks that belong to one group and thread.
    pub tracks: usize,
    /// Accesses without a track of their own. They are counted in the tracks of all other accesses.
    pub other_accesses: u64,
    /// Slices of each memory.
    pub slices: Vec<Slices>,
}

/// The slices of time of a memory's tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slices {
    /// Number of the memory, from 1.
    pub source: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit: a power of two.
    pub slice_length: u64,
    /// Picoseconds that a clock or an access takes in the written trace.
    pub unit_ps: u64,
    /// Whether `unit_ps` is the real time of a clock.
    pub is_time_known: bool,
}

impl Slices {
    fn new(memory: usize, known: &Known, log2: u32) -> Slices {
        let slice_unit = if known.clocks { SliceUnit::Clocks } else { SliceUnit::Accesses };
        let period = known.tck_ps.filter(|_| known.clocks);
        Slices {
            source: memory as u64 + 1,
            slice_unit,
            slice_length: 1 << log2,
            unit_ps: period.map_or(UNKNOWN_PS, u64::from),
            is_time_known: period.is_some(),
        }
    }
}

/// A track that is written.
struct Track {
    process: u32,
    name: String,
    /// Picoseconds that a clock or an access takes.
    unit_ps: u64,
    columns: Columns<Count>,
}

impl Tracks {
    /// log2 of the length of each memory's slices: the longest length among the memory's tracks.
    fn lengths(&self) -> BTreeMap<usize, u32> {
        let mut lengths = BTreeMap::new();
        for ((memory, ..), columns) in &self.tracks {
            let length: &mut u32 = lengths.entry(*memory).or_default();
            *length = columns.log2().max(*length);
        }
        lengths
    }

    /// Joins the tracks with fewest accesses into the tracks of all other accesses, so that at most
    /// `most` other tracks are left.
    fn join_smallest(&mut self, most: usize) {
        let sum = |columns: &Columns<Count>| columns.iter().map(|(_, count)| count.0).sum::<u64>();
        let own = self.tracks.iter().filter(|((.., group), _)| group.is_some());
        let mut by_size: Vec<(u64, Key)> = own.map(|(key, slices)| (sum(slices), *key)).collect();
        by_size.sort_unstable_by(|first, second| second.cmp(first));
        for (_, key) in by_size.into_iter().skip(most) {
            if let Some(columns) = self.tracks.remove(&key) {
                self.tracks.entry((key.0, None, None)).or_default().append(columns, 0);
            }
        }
    }

    fn name(&self, group: Option<usize>) -> String {
        let label = group.and_then(|group| self.labels.all().get(group));
        let name = label.map_or_else(
            || OTHERS.to_owned(),
            |label| match label.object.rsplit('/').next().filter(|file| !file.is_empty()) {
                Some(file) => format!("{} [{file}]", label.name),
                None => label.name.clone(),
            },
        );
        name.chars().take(MOST_LETTERS).collect()
    }

    /// Writes the tracks with most accesses as counters, which have the number of accesses in each
    /// slice. Each memory and thread is shown as a process.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(mut self, output: impl Write) -> io::Result<Written> {
        self.join_smallest(MOST_WRITTEN);
        let lengths = self.lengths();
        let mut written = Written::default();
        let known = |memory: usize| {
            let state = self.memories.get(memory).and_then(Option::as_ref);
            state.map_or_else(Known::default, |state| state.known)
        };
        let slices = lengths.iter().map(|(at, log2)| (*at, Slices::new(*at, &known(*at), *log2)));
        let slices: BTreeMap<usize, Slices> = slices.collect();
        written.slices = slices.values().copied().collect();
        let mut processes: Vec<(usize, Option<u32>)> = Vec::new();
        let mut tracks = Vec::new();
        for (key, columns) in &self.tracks {
            let mut columns = columns.clone();
            let (memory, thread, group) = *key;
            columns.lengthen(lengths.get(&memory).copied().unwrap_or(0));
            match group {
                Some(_) => written.tracks += 1,
                None => {
                    written.other_accesses += columns.iter().map(|(_, count)| count.0).sum::<u64>()
                }
            }
            if processes.last() != Some(&(memory, thread)) {
                processes.push((memory, thread));
            }
            let unit_ps = slices.get(&memory).map_or(UNKNOWN_PS, |slices| slices.unit_ps);
            tracks.push(Track {
                process: processes.len() as u32,
                name: self.name(group),
                unit_ps,
                columns,
            });
        }
        let mut events = TraceEvents::new(output, Some(&json!(written)));
        tracks.iter().for_each(|track| track.write(&mut events));
        let name = |(memory, thread): &(usize, Option<u32>)| match thread {
            Some(thread) => format!("thread {thread}, source {}", memory + 1),
            None => format!("source {}", memory + 1),
        };
        let names: Vec<String> = processes.iter().map(name).collect();
        events.finish((1..).zip(&names).map(|(process, name)| (process, None, name.as_str())))?;
        Ok(written)
    }
}

impl Track {
    /// Writes the slices whose number of accesses differs from the slice before.
    fn write(&self, events: &mut TraceEvents<impl Write>) {
        let Track { process, name, unit_ps, columns } = self;
        let length = 1u64 << columns.log2();
        let mut last = 0;
        let mut value = |at: u64, count: u64| {
            if std::mem::replace(&mut last, count) != count {
                let ps = u128::from(at) * u128::from(*unit_ps);
                let ns = u64::try_from(ps / 1000).unwrap_or(u64::MAX);
                let rest = format!(",\"name\":{},\"args\":{{\"accesses\":{count}}}", json!(name));
                events.event('C', *process, 0, ns, &rest);
            }
        };
        for (number, count) in columns.iter() {
            value(number.saturating_mul(length), count.0);
        }
        value(columns.end(), 0);
    }
}
