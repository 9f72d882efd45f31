//! Sums up the accesses of a trace: by thread and function, and the pages and lines that were
//! accessed.
//!
//! Memory is limited: pages beyond a limit are not counted, and a flag states that there are more.
//! In a forged file, a string instruction may access the whole address space. It takes no more time
//! than another access, because its pages are kept as a range.

use std::collections::{BTreeMap, HashMap};

use hmtt_files::access_trace::{Accuracy, Function, Made};
use hmtt_format::Direction;

use super::visitor::{Executed, ThreadAccess, Visitor};
use crate::page_ranges::PageRanges;

const PAGE_LOG2: u32 = 12;
const LINE_LOG2: u32 = 6;
/// Maximum number of pages that are counted one by one (16 GiB). Pages in ranges are counted in
/// addition.
const MOST_PAGES: usize = if cfg!(test) { 1 << 12 } else { 1 << 22 };
/// Maximum number of ranges of pages.
const MOST_RANGES: usize = if cfg!(test) { 1 << 8 } else { 1 << 20 };
/// Entries of the cache of recently accessed pages.
const RECENT: usize = 1 << 10;

/// Sums over the accesses of a thread or of a function. Each element of a string instruction counts
/// as one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Executed blocks.
    pub blocks: u64,
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
    /// Bytes of all accesses. Accesses of unknown size count as 0 bytes.
    pub bytes: u64,
}

impl Sums {
    /// Reads and writes.
    pub fn accesses(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    #[inline]
    fn add(&mut self, access: &Made) {
        // There is no branch on the direction, because no processor could predict it.
        let writes = access.elements * u64::from(access.direction == Direction::Write);
        self.reads = self.reads.saturating_add(access.elements - writes);
        self.writes = self.writes.saturating_add(writes);
        let bytes = access.elements.saturating_mul(access.size.into());
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.reads = self.reads.saturating_add(other.reads);
        self.writes = self.writes.saturating_add(other.writes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The pages and cache lines that were accessed.
#[derive(Clone, Debug)]
struct Touched {
    /// For each page, by its number, a bit for each of its cache lines.
    lines: HashMap<u64, u64>,
    /// A direct-mapped cache of `lines`: a page's number and its lines, at the index of the
    /// number's lowest bits. An entry without lines is empty.
    recent: Box<[(u64, u64); RECENT]>,
    /// Pages whose lines were all accessed by one string instruction.
    ranges: PageRanges,
    /// Whether pages or ranges were left out, because there were too many.
    is_limited: bool,
}

impl Default for Touched {
    fn default() -> Self {
        let recent = Box::new([(0, 0); RECENT]);
        let ranges = PageRanges::default();
        Touched { lines: HashMap::new(), recent, ranges, is_limited: false }
    }
}

impl Touched {
    /// Adds all lines from the line of address `first` to the line of address `last`.
    #[inline]
    fn add(&mut self, first: u64, last: u64) {
        let [first, last] = [first, last].map(|address| address >> LINE_LOG2);
        let (known, lines) = self.recent[(first >> (PAGE_LOG2 - LINE_LOG2)) as usize % RECENT];
        let is_known = known == first >> (PAGE_LOG2 - LINE_LOG2) && lines >> (first % 64) & 1 != 0;
        if first != last || !is_known {
            self.add_all(first, last);
        }
    }

    /// Adds the lines `first` to `last`: whole pages as a range, and others by page.
    fn add_all(&mut self, first: u64, last: u64) {
        let is_full = self.ranges.len() == MOST_RANGES;
        let most_pages = |(from, to): (u64, u64)| to - from <= 64 << (PAGE_LOG2 - LINE_LOG2);
        if is_full && !most_pages((first, last)) {
            self.is_limited = true;
            return;
        }
        let parts = if is_full {
            [Some((first, last)), None]
        } else {
            self.ranges.add_lines(first, last, PAGE_LOG2 - LINE_LOG2)
        };
        parts.into_iter().flatten().for_each(|(first, last)| self.add_pages(first, last));
    }

    /// Adds the lines `first` to `last`, page by page.
    fn add_pages(&mut self, first: u64, last: u64) {
        let (first_page, last_page) =
            (first >> (PAGE_LOG2 - LINE_LOG2), last >> (PAGE_LOG2 - LINE_LOG2));
        for page in first_page..=last_page {
            let of_page = |line: u64| (line % 64) as u32;
            let from = if page == first_page { of_page(first) } else { 0 };
            let to = if page == last_page { of_page(last) } else { 63 };
            self.add_lines(page, u64::MAX << from & u64::MAX >> (63 - to));
        }
    }

    /// The bits of the lines of each page that is in no range.
    fn single(&self) -> impl Iterator<Item = u64> {
        let pages = self.lines.iter().filter(|(page, _)| !self.ranges.contains(**page));
        pages.map(|(_, lines)| *lines)
    }

    /// Adds lines of one page, as bits.
    fn add_lines(&mut self, page: u64, lines: u64) {
        let recent = &mut self.recent[page as usize % RECENT];
        if recent.0 == page && recent.1 & lines == lines {
            return;
        }
        let is_full = self.lines.len() == MOST_PAGES;
        let known = match self.lines.get_mut(&page) {
            Some(known) => known,
            None if is_full => {
                self.is_limited = true;
                return;
            }
            None => self.lines.entry(page).or_default(),
        };
        *known |= lines;
        *recent = (page, *known);
    }
}

/// Lowest and highest accessed byte address.
#[derive(Clone, Copy, Debug)]
struct Span {
    lowest: u64,
    highest: u64,
}

impl Default for Span {
    /// The span of no accesses: its lowest address is above its highest one.
    fn default() -> Self {
        Span { lowest: u64::MAX, highest: 0 }
    }
}

/// Sums up a trace, as a [`Visitor`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hmtt::access_trace::{Summary, Writer, visit};
///
/// let file = Writer::new(Vec::new())?.finish(0, 0)?;
/// let mut summary = Summary::default();
/// let ending = visit(&file[..], &mut summary)?;
/// assert!(!ending.has_loss());
/// assert_eq!(summary.sums().accesses(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Summary {
    threads: BTreeMap<u32, Sums>,
    /// Sums of consecutive blocks of one thread and function. They are not added to `threads` and
    /// `functions` yet.
    open: Sums,
    /// Numbers of the thread and of the function to which `open` belongs.
    place: (u32, u32),
    /// By number of the function. The first element is for accesses of no known function.
    functions: Vec<(Option<Function>, Sums)>,
    touched: Touched,
    /// Lowest and highest address of all accesses.
    span: Span,
    unknown: u64,
    /// Executions of blocks, by the number of the description that recorded them.
    recorded: Vec<Recorded>,
    /// The accuracy of the execution that was recorded first of each block, by the number of the
    /// block.
    blocks: Vec<Option<Accuracy>>,
}

/// The executions of a block that one description has recorded: the description of the block
/// itself, or of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Recorded {
    /// The accuracy of one execution.
    accuracy: Accuracy,
    executions: u64,
    /// Number of the block's function.
    function: u32,
}

/// The element with index `number`. Missing elements up to it are added with default values.
#[inline]
fn grown<T: Clone + Default>(elements: &mut Vec<T>, number: u32) -> &mut T {
    let number = number as usize;
    if elements.len() <= number {
        elements.resize(number + 1, T::default());
    }
    &mut elements[number]
}

impl Summary {
    /// How many accesses the recorded accesses account for. The first sum counts each executed
    /// block once, as it was recorded first. The second sum counts all executions.
    pub fn accuracy(&self) -> [Accuracy; 2] {
        let sum = |accuracies: &mut dyn Iterator<Item = Accuracy>| {
            let mut sum = Accuracy::default();
            accuracies.for_each(|accuracy| sum += accuracy);
            sum
        };
        let mut executions =
            self.recorded.iter().map(|recorded| recorded.accuracy.times(recorded.executions));
        [sum(&mut self.blocks.iter().flatten().copied()), sum(&mut executions)]
    }

    /// How many accesses the recorded accesses account for in all executions of each function, by
    /// the function's number.
    fn accuracy_by_function(&self) -> Vec<Accuracy> {
        let mut sums = vec![Accuracy::default(); self.functions.len()];
        for Recorded { accuracy, executions, function } in &self.recorded {
            if let Some(sum) = sums.get_mut(*function as usize) {
                *sum += accuracy.times(*executions);
            }
        }
        sums
    }

    /// Adds the open sums to the sums of their thread and function.
    fn close(&mut self) {
        let (open, (thread, function)) = (std::mem::take(&mut self.open), self.place);
        if open.blocks > 0 {
            *self.threads.entry(thread).or_default() += open;
            if let Some((_, sums)) = self.functions.get_mut(function as usize) {
                *sums += open;
            }
        }
    }

    /// Sums over all threads.
    pub fn sums(&self) -> Sums {
        self.threads.values().fold(Sums::default(), |mut sum, thread_sums| {
            sum += *thread_sums;
            sum
        })
    }

    /// Sums of each thread, by its number in the system.
    pub fn threads(&self) -> &BTreeMap<u32, Sums> {
        &self.threads
    }

    /// The functions with the most accesses, at most `most` of them, in descending order. `None`
    /// stands for code in no known file. If a function has several parts, each part is one entry.
    pub fn hottest(&self, most: usize) -> Vec<(Option<&Function>, Sums, Accuracy)> {
        let accuracies = self.accuracy_by_function();
        let functions =
            self.functions.iter().zip(accuracies).filter(|((_, sums), _)| sums.accesses() > 0);
        let mut hottest: Vec<_> = functions
            .map(|((function, sums), accuracy)| (function.as_ref(), *sums, accuracy))
            .collect();
        hottest.sort_by_key(|(_, sums, _)| std::cmp::Reverse(sums.accesses()));
        hottest.truncate(most);
        hottest
    }

    /// Number of accesses whose addresses are not known. An access with several elements counts
    /// once.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Number of distinct pages of 4 KiB that were accessed.
    pub fn pages(&self) -> u64 {
        self.touched.ranges.pages().saturating_add(self.touched.single().count() as u64)
    }

    /// Number of distinct cache lines of 64 bytes that were accessed.
    pub fn lines(&self) -> u64 {
        let single: u64 = self.touched.single().map(|lines| u64::from(lines.count_ones())).sum();
        (self.touched.ranges.pages() << (PAGE_LOG2 - LINE_LOG2)).saturating_add(single)
    }

    /// Whether more pages and lines were accessed than [`pages`](Self::pages) and
    /// [`lines`](Self::lines) count. At most 16 GiB of single pages are counted, and about a
    /// million ranges of pages of long string instructions.
    pub fn has_more_pages(&self) -> bool {
        self.touched.is_limited
    }

    /// The lowest and the highest accessed byte address; `None` without accesses at known
    /// addresses.
    pub fn span(&self) -> Option<(u64, u64)> {
        let Span { lowest, highest } = self.span;
        (lowest <= highest).then_some((lowest, highest))
    }

    /// Adds the pages and lines of all elements of an access. Counts an access without a known
    /// address.
    #[inline]
    fn touch(&mut self, access: &Made) {
        let Some(address) = access.address else {
            self.unknown += 1;
            return;
        };
        let size = u64::from(access.size.max(1));
        let distance = (access.elements.max(1) - 1).saturating_mul(size);
        let first = if access.is_down { address.saturating_sub(distance) } else { address };
        let end = if access.is_down { address } else { address.saturating_add(distance) };
        let last = end.saturating_add(size - 1);
        self.touched.add(first, last);
        self.span.lowest = self.span.lowest.min(first);
        self.span.highest = self.span.highest.max(last);
    }
}

impl Visitor for Summary {
    #[inline]
    fn block(&mut self, executed: &Executed<'_>) {
        let place = (executed.thread, executed.block.function);
        if place != self.place {
            self.close();
            self.place = place;
        }
        self.open.blocks += 1;
        let function = executed.block.function;
        let recorded = grown(&mut self.recorded, executed.recorded_number);
        if recorded.executions == 0 {
            let instructions =
                executed.first..executed.first + usize::from(executed.block.instructions);
            recorded.accuracy = executed.recorded.accuracy(instructions);
            recorded.function = function;
            grown(&mut self.blocks, executed.number).get_or_insert(recorded.accuracy);
        }
        recorded.executions += 1;
        let (function, _) = grown(&mut self.functions, function);
        if function.is_none() {
            *function = executed.function.cloned();
        }
    }

    #[inline]
    fn access(&mut self, _: &Executed<'_>, ThreadAccess { made: access, .. }: ThreadAccess) {
        self.open.add(&access);
        self.touch(&access);
    }

    fn end(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(address: u64, size: u32, elements: u64, is_down: bool) -> Made {
        let (direction, address) = (Direction::Read, Some(address));
        let (represents, conditional) = (1, false);
        Made { pc: 0, direction, address, represents, size, elements, is_down, conditional }
    }

    #[test]
    fn pages_lines_and_span_are_those_of_all_elements() {
        let mut summary = Summary::default();
        summary.touch(&made(0x1fff, 2, 1, false));
        assert_eq!((summary.pages(), summary.lines()), (2, 2));
        summary.touch(&made(0x5000, 8, 0x200, true));
        assert_eq!((summary.pages(), summary.lines()), (4, 2 + 64 + 1));
        summary.touch(&made(0x2000, 4, 17, false));
        assert_eq!((summary.pages(), summary.lines()), (4, 2 + 64 + 2));
        assert_eq!(summary.span(), Some((0x1fff, 0x5007)));
        assert!(!summary.has_more_pages());
    }

    proptest! {
        #[test]
        fn lines_are_those_of_single_bytes(
            accesses in prop::collection::vec((0..1u64 << 16, 1..300u32, 1..40u64, any::<bool>()), 0..20),
        ) {
            let mut summary = Summary::default();
            let (mut lines, mut pages) = (Vec::new(), Vec::new());
            for (address, size, elements, is_down) in accesses {
                let address = (1 << 20) + address;
                summary.touch(&made(address, size, elements, is_down));
                for element in 0..elements {
                    let distance = element * u64::from(size);
                    let at = if is_down { address - distance } else { address + distance };
                    lines.extend((at..at + u64::from(size)).map(|byte| byte / 64));
                    pages.extend((at..at + u64::from(size)).map(|byte| byte / 4096));
                }
            }
            for numbers in [&mut lines, &mut pages] {
                numbers.sort_unstable();
                numbers.dedup();
            }
            prop_assert_eq!(summary.lines(), lines.len() as u64);
            prop_assert_eq!(summary.pages(), pages.len() as u64);
        }
    }

    #[test]
    fn pages_beyond_the_limit_are_not_told_apart() {
        let mut summary = Summary::default();
        (0..MOST_PAGES as u64).for_each(|page| summary.touch(&made(page << 13, 1, 1, false)));
        assert_eq!(summary.pages(), MOST_PAGES as u64);
        assert!(!summary.has_more_pages());
        summary.touch(&made(u64::MAX, 8, 1, false));
        assert_eq!(summary.pages(), MOST_PAGES as u64);
        assert!(summary.has_more_pages());
    }

    #[test]
    fn all_of_memory_is_one_range() {
        let mut summary = Summary::default();
        summary.touch(&made(0x1040, 8, 1, false));
        summary.touch(&made(0, 1, u64::MAX, false));
        summary.touch(&made(u64::MAX, 8, 1, true));
        assert_eq!((summary.pages(), summary.lines()), (1 << 52, 1 << 58));
        assert_eq!(summary.span(), Some((0, u64::MAX)));
        assert!(!summary.has_more_pages());
    }

    #[test]
    fn ranges_are_limited_in_number() {
        let mut summary = Summary::default();
        for range in 0..MOST_RANGES as u64 + 1 {
            summary.touch(&made(range << 20, 1, 10 << PAGE_LOG2, false));
        }
        assert_eq!(
            (summary.pages(), summary.has_more_pages()),
            (10 * (MOST_RANGES as u64 + 1), false)
        );
        summary.touch(&made(u64::MAX >> 1, 1, 100 << PAGE_LOG2, false));
        assert!(summary.has_more_pages());
    }
}
