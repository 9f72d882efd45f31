//! Assembles functions and the separate parts of functions from symbols and unwind ranges. The
//! functions do not overlap.
//!
//! Symbols at one address name one function. If a symbol has no size, the function ends at the next
//! symbol, at the end of the unwind range or at the end of the section. An unwind range that no
//! symbol covers is a function without a symbol if its stack is in the state that a call leaves. In
//! a file without symbols this includes the cold parts of functions that keep nothing on the stack.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Function;
use super::frames::Frame;
use super::layout::Layout;
use super::names::{self, Demangler};
use super::symbols::{Kind, Symbol};

/// A function before it is named.
#[derive(Default)]
struct Found {
    /// Size in bytes; 0 while it is not known.
    size: u64,
    symbols: Vec<Symbol>,
}

/// Functions and separate parts, while they are assembled.
struct FunctionTable<'a> {
    layout: &'a Layout,
    frames: &'a [Frame],
    found: BTreeMap<u64, Found>,
    /// Candidates for separate parts, in any order. They may overlap each other and functions.
    fragments: Vec<Range<u64>>,
    /// Starts of cold parts of functions.
    cold: BTreeSet<u64>,
    labels: BTreeMap<u64, Vec<Symbol>>,
}

/// Assembles the functions and the separate parts of a file, both by address.
pub(super) fn assemble(
    layout: &Layout,
    symbols: Vec<Symbol>,
    frames: &[Frame],
) -> (Vec<Function>, Vec<Range<u64>>) {
    let mut assembly = FunctionTable {
        layout,
        frames,
        found: BTreeMap::new(),
        fragments: Vec::new(),
        cold: BTreeSet::new(),
        labels: BTreeMap::new(),
    };
    let mangled_bytes: usize = symbols.iter().map(|symbol| symbol.name.len()).sum();
    assembly.take_symbols(symbols);
    assembly.bound();
    assembly.take_frames();
    assembly.take_entry();
    assembly.bound();
    assembly.finish(Demangler { bytes_left: mangled_bytes.saturating_mul(NAMES) + NAMES_BASE })
}

/// Maximum total size of demangled names, as a multiple of the total size of the mangled names.
const NAMES: usize = 16;
/// Bytes that are allowed in addition, for files with few names.
const NAMES_BASE: usize = 1 << 20;

impl FunctionTable<'_> {
    /// Adds the functions, parts and labels of a symbol table.
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
                    let function = self.found.entry(address).or_default();
                    function.size = function.size.max(symbol.size);
                    function.symbols.push(symbol);
                }
            }
        }
    }

    /// Limits the size of each function by the next function and the end of the segment.
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
            if let Some(function) = self.found.get_mut(&start) {
                function.size = claimed.min(next) - start;
            }
        }
    }

    /// Latest possible end of a function of unknown size. The next function may limit it further.
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

    /// Whether a function contains an address. Sizes must be limited before.
    fn is_found(&self, address: u64) -> bool {
        let before = self.found.range(..=address).next_back();
        before.is_some_and(|(start, found)| address - start < found.size)
    }

    /// Adds functions and parts for unwind ranges that no function covers.
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

    /// Adds a function at the entry point, which may have no symbol and no unwind range.
    fn take_entry(&mut self) {
        let entry = self.layout.entry;
        if self.layout.is_code(entry) && !self.is_found(entry) {
            let symbols = self.labels.remove(&entry).unwrap_or_default();
            self.found.insert(entry, Found { size: 0, symbols });
        }
    }

    /// Names the functions, and removes overlaps from the separate parts.
    fn finish(self, mut names: Demangler) -> (Vec<Function>, Vec<Range<u64>>) {
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

/// Splits ranges so that they overlap neither each other nor a function. The ranges may be in any
/// order. For example, the range 0..100 and a function at 40..60 give the ranges 0..40 and 60..100.
fn outside(mut ranges: Vec<Range<u64>>, functions: &[Function]) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let (mut pieces, mut done, mut next) = (Vec::new(), 0, 0);
    for range in ranges {
        let mut start = range.start.max(done);
        while let Some(function) = functions.get(next).filter(|f| f.start < range.end) {
            let end = function.start + function.size;
            if start < function.start {
                pieces.push(start..function.start);
            }
            start = start.max(end);
            if end > range.end {
                break;
            }
            next += 1;
        }
        if start < range.end {
            pieces.push(start..range.end);
        }
        done = done.max(start).max(range.end);
    }
    pieces
}
