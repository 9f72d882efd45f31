//! Symbols and unwind ranges to functions that do not overlap, and what belongs to them without being one.
//!
//! Symbols at one address are one function. What a symbol's size leaves open, the next symbol, the unwind
//! range or the section's end closes. An unwind range that no symbol covers is a function without a
//! symbol if it begins as called code does. So do the cold parts, reached by jumps, of functions that keep
//! nothing on the stack: without symbols, they are taken for functions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Function;
use super::frames::Frame;
use super::layout::Layout;
use super::names::{self, Names};
use super::symbols::{Kind, Symbol};

/// A function before it has a name.
#[derive(Default)]
struct Found {
    /// Bytes; 0 while not known.
    size: u64,
    symbols: Vec<Symbol>,
}

/// Functions and fragments by address.
struct Assembly<'a> {
    layout: &'a Layout,
    frames: &'a [Frame],
    found: BTreeMap<u64, Found>,
    /// What may be fragments, in any order, overlapping anything.
    fragments: Vec<Range<u64>>,
    /// Where parts of functions begin.
    cold: BTreeSet<u64>,
    labels: BTreeMap<u64, Vec<Symbol>>,
}

/// Puts a file's functions together; see the module. Then its fragments.
pub(super) fn assemble(
    layout: &Layout,
    symbols: Vec<Symbol>,
    frames: &[Frame],
) -> (Vec<Function>, Vec<Range<u64>>) {
    let mut assembly = Assembly {
        layout,
        frames,
        found: BTreeMap::new(),
        fragments: Vec::new(),
        cold: BTreeSet::new(),
        labels: BTreeMap::new(),
    };
    let room: usize = symbols.iter().map(|symbol| symbol.name.len()).sum();
    assembly.take_symbols(symbols);
    assembly.bound();
    assembly.take_frames();
    assembly.take_entry();
    assembly.bound();
    assembly.finish(Names { room: room.saturating_mul(NAMES) + NAMES_BASE })
}

/// Longest all demangled names may be together, as a multiple of the mangled ones.
const NAMES: usize = 16;
/// Beyond that multiple, in bytes: for files of few names.
const NAMES_BASE: usize = 1 << 20;

impl Assembly<'_> {
    fn take_symbols(&mut self, symbols: Vec<Symbol>) {
        for symbol in symbols {
            let address = symbol.address;
            if !self.layout.is_code(address) {
                continue;
            }
            match symbol.kind {
                Kind::Label => self.labels.entry(address).or_default().push(symbol),
                Kind::Fragment => {
                    self.cold.insert(address);
                    self.fragments.push(address..address.saturating_add(symbol.size));
                }
                Kind::Function | Kind::Resolver => {
                    let found = self.found.entry(address).or_default();
                    found.size = found.size.max(symbol.size);
                    found.symbols.push(symbol);
                }
            }
        }
    }

    /// Gives each function a size that ends before the next one and in its segment.
    fn bound(&mut self) {
        let starts: Vec<u64> = self.found.keys().copied().collect();
        for (index, start) in starts.iter().copied().enumerate() {
            let next = starts.get(index + 1).copied().unwrap_or(u64::MAX);
            let size = self.found[&start].size;
            let claimed = if size == 0 { self.open_end(start) } else { start.saturating_add(size) };
            let segment = self.layout.segment_at(start).map_or(start, |segment| segment.end);
            let claimed = claimed.min(segment);
            if next < claimed {
                self.fragments.push(next..claimed);
            }
            if let Some(found) = self.found.get_mut(&start) {
                found.size = claimed.min(next) - start;
            }
        }
    }

    /// Where a function of unknown size ends at the latest, the next function left aside.
    fn open_end(&self, start: u64) -> u64 {
        let after = self.frames.partition_point(|frame| frame.range.start <= start);
        let inside = after.checked_sub(1).map(|index| self.frames[index].range.end);
        let ends = [
            inside.filter(|end| *end > start),
            self.frames.get(after).map(|frame| frame.range.start),
            self.cold.range(start + 1..).next().copied(),
            self.layout.section_at(start).map(|section| section.range.end),
        ];
        ends.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Whether a function that is bounded has an address.
    fn is_found(&self, address: u64) -> bool {
        let before = self.found.range(..=address).next_back();
        before.is_some_and(|(start, found)| address - start < found.size)
    }

    fn take_frames(&mut self) {
        let frames = self.frames;
        for Frame { range, called, .. } in frames {
            if self.is_found(range.start) {
                continue;
            }
            if *called && !self.cold.contains(&range.start) {
                let size = range.end - range.start;
                let symbols = self.labels.remove(&range.start).unwrap_or_default();
                self.found.insert(range.start, Found { size, symbols });
            } else {
                self.fragments.push(range.clone());
            }
        }
    }

    /// The entry point is a function though nothing may say so.
    fn take_entry(&mut self) {
        let entry = self.layout.entry;
        if self.layout.is_code(entry) && !self.is_found(entry) {
            let symbols = self.labels.remove(&entry).unwrap_or_default();
            self.found.insert(entry, Found { size: 0, symbols });
        }
    }

    fn finish(self, mut names: Names) -> (Vec<Function>, Vec<Range<u64>>) {
        let entry = self.layout.entry;
        let mut functions: Vec<Function> = Vec::with_capacity(self.found.len());
        for (start, Found { size, mut symbols }) in self.found {
            let ifunc = symbols.iter().any(|symbol| symbol.kind == Kind::Resolver);
            symbols.sort_by_cached_key(names::rank);
            symbols.dedup_by(|one, other| one.name == other.name);
            let name = match symbols.first() {
                Some(symbol) => names.name(&symbol.name),
                None if start == entry => "_start".into(),
                None => format!("fn_{start:x}"),
            };
            let symbols = symbols.into_iter().map(|symbol| symbol.name).collect();
            functions.push(Function { name, symbols, start, size, ifunc, source: None });
        }
        let fragments = self.fragments.into_iter().filter_map(|range| {
            let segment = self.layout.segment_at(range.start)?;
            Some(range.start..range.end.min(segment.end))
        });
        let fragments = outside(fragments.collect(), &functions);
        (functions, fragments)
    }
}

/// Ranges in any order to those that overlap neither one another nor a function.
fn outside(mut ranges: Vec<Range<u64>>, functions: &[Function]) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let (mut all, mut done, mut next) = (Vec::new(), 0, 0);
    for range in ranges {
        let mut start = range.start.max(done);
        while let Some(function) = functions.get(next).filter(|f| f.start < range.end) {
            let end = function.start + function.size;
            if start < function.start {
                all.push(start..function.start);
            }
            start = start.max(end);
            if end > range.end {
                break;
            }
            next += 1;
        }
        if start < range.end {
            all.push(start..range.end);
        }
        done = done.max(start).max(range.end);
    }
    all
}
