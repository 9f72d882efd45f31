//! Decodes units of threads into executed blocks and accesses, and passes both to a [`Visitor`].
//!
//! [`read`] and [`visit`] decode a whole file. A [`Decoder`] decodes units as they come. Units
//! behind an invalid unit of a chunk are left out, and the chunk is counted in
//! [`Ending::invalid_chunks`].

use std::collections::HashMap;
use std::io::Read;

use hmtt_files::access_trace::{
    BlockAccesses, CUT, FS_BASE, Function, LOST, Made, NATIVE, RecordedRegion, SLOT_BYTES, START,
    Unrecorded, parse_note,
};

use super::content::{Content, ReadError};
use super::kept::LastExecution;
use super::numbers::{Numbered, Numbers, PartOf};
use super::reader::ChunkReader;
use super::visitor::{Accesses, Executed, Gap, ThreadAccess, Visitor};

/// Sums and losses of a file, which are known at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Executed blocks.
    pub blocks: u64,
    /// Accesses. Each element of a string instruction counts as one access.
    pub accesses: u64,
    /// Accesses whose addresses are not known. An access with several elements counts once.
    pub unknown: u64,
    /// Words of 4 bytes that threads have dropped because their rings were full.
    pub dropped: u64,
    /// Threads whose last units are missing in the file.
    pub cut_threads: u64,
    /// Chunks with a unit that is not valid, for example a number without a block. The rest of such
    /// a chunk is left out. Only the program itself can have written such a unit.
    pub invalid_chunks: u64,
    /// Nanoseconds for which the program ran natively, as the user requested, between times in
    /// which it was recorded. This is no loss.
    pub native_ns: u64,
    /// Counts of the code, threads and processes that ran natively although they were to be
    /// recorded.
    pub unrecorded: Unrecorded,
    /// The region that was to be recorded; `None` if the whole program was to be recorded.
    pub region: Option<RecordedRegion>,
    /// Whether the file ends before its last chunk.
    pub is_cut: bool,
    /// Whether only some accesses were to be recorded. This is no loss.
    pub is_chosen: bool,
}

impl Ending {
    /// The sums of a file with an end. `dropped` and `cut_threads` are the numbers in its last
    /// chunk.
    pub fn completed(self, dropped: u64, cut_threads: u64) -> Self {
        // The program itself writes the notes in its units, so their sum may differ from the last
        // chunk. The larger number counts.
        Ending { dropped: dropped.max(self.dropped), cut_threads, is_cut: false, ..self }
    }

    /// A clause that states what is missing of the region that was to be recorded. `None` if
    /// nothing is missing, if there is no region, or if the file is cut: then it is not known.
    pub fn missing_of_region(&self) -> Option<String> {
        self.region.filter(|_| !self.is_cut)?.missing_text()
    }

    /// Whether accesses are missing, or child processes ran that are not in the file.
    pub fn has_loss(&self) -> bool {
        let is_complete = self.dropped == 0 && self.cut_threads == 0 && self.invalid_chunks == 0;
        let has_region = self.region.is_none_or(|region| region.is_complete());
        let has_children = self.unrecorded.children > 0;
        self.is_cut || !is_complete || !has_region || has_children || self.unrecorded.has_loss()
    }
}

/// Passes the executed blocks and the accesses of a thread on to a visitor, and counts them.
struct Counted<'v, V> {
    thread: u32,
    functions: &'v [Function],
    ending: Ending,
    visitor: &'v mut V,
}

impl<'v, V: Visitor> Counted<'v, V> {
    /// Passes on an executed block, or each executed block of a path, and its accesses.
    #[inline]
    fn execute<'n>(
        &mut self,
        number: u32,
        numbered: &Numbered<'n>,
        executed: usize,
        numbers: &'n Numbers,
        (slots, fs): (&[u64], u64),
    ) {
        let recorded = numbered.block;
        let (thread, functions) = (self.thread, self.functions);
        let execution = |number, block: &'n BlockAccesses, instructions| {
            let index = (block.function as usize).checked_sub(1);
            let function = index.and_then(|index| functions.get(index));
            Executed { function, instructions, recorded, ..Executed::alone(thread, number, block) }
        };
        let represented = numbered.represented(executed);
        let mut add = |part: &Executed<'_>, accesses| {
            self.block(part);
            recorded.made_by(accesses, executed, slots, fs, |index, access| {
                let represents = represented
                    .map_or(access.represents, |represented| represented.up_to(index, executed));
                self.access(part, Made { represents, ..access });
            });
        };
        if recorded.parts.is_empty() {
            add(&execution(number, recorded, executed), 0..recorded.accesses.len());
            return;
        }
        for (part, recorded_number) in numbers.parts(numbered).zip(numbered.first..) {
            let PartOf { number, block, instructions, accesses } = part;
            let own = executed.min(instructions.end) - instructions.start.min(executed);
            let first = instructions.start;
            add(&Executed { recorded_number, first, ..execution(number, block, own) }, accesses);
        }
    }

    #[inline]
    fn block(&mut self, executed: &Executed<'_>) {
        self.ending.blocks += 1;
        self.visitor.block(executed);
    }

    #[inline]
    fn access(&mut self, executed: &Executed<'_>, access: Made) {
        self.ending.accesses = self.ending.accesses.saturating_add(access.elements);
        self.ending.unknown += u64::from(access.address.is_none());
        self.visitor.access(executed, ThreadAccess { thread: self.thread, made: access });
    }
}

/// Reads a file to its end, and calls `add` with the accesses of each thread, in order.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = hmtt::access_trace::Writer::new(Vec::new())?.finish(0, 0)?;
/// let mut written = 0;
/// let ending = hmtt::access_trace::read(&file[..], |access| {
///     if access.made.direction == hmtt_format::Direction::Write {
///         written += access.made.elements * u64::from(access.made.size);
///     }
/// })?;
/// println!("{written} bytes in {} accesses", ending.accesses);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ReadError`]: the input is no such file, is damaged or cannot be read.
pub fn read(input: impl Read, add: impl FnMut(ThreadAccess)) -> Result<Ending, ReadError> {
    visit(input, Accesses(add))
}

/// Reads a file to its end. Passes the executed blocks of each thread on in order, each block
/// before its accesses.
///
/// # Errors
/// [`ReadError`]: the input is no such file, is damaged or cannot be read.
pub fn visit(input: impl Read, mut visitor: impl Visitor) -> Result<Ending, ReadError> {
    let ending = visit_chunks(input, &mut visitor);
    visitor.end();
    ending
}

/// Reads a file to its last chunk, or to the place where it was cut.
fn visit_chunks(input: impl Read, mut visitor: impl Visitor) -> Result<Ending, ReadError> {
    let mut chunks = ChunkReader::new(input)?;
    let mut decoder = Decoder::default();
    decoder.sums.is_chosen = chunks.is_chosen();
    while let Some(content) = chunks.next_chunk()? {
        match content {
            Content::Functions(functions) => decoder.add_functions(functions),
            Content::Blocks(blocks) => decoder.add_blocks(blocks),
            Content::Units { thread, fs, bytes } => {
                decoder.set_base(thread, fs);
                decoder.units(thread, &bytes, &mut visitor);
            }
            Content::Gap { nanoseconds } => {
                decoder.add_native(nanoseconds, &mut visitor);
            }
            Content::Unrecorded(unrecorded) => decoder.set_unrecorded(unrecorded),
            Content::Region(region) => decoder.set_region(region),
            Content::End { dropped, cut_threads } => {
                return Ok(decoder.ending().completed(dropped, cut_threads));
            }
        }
    }
    Ok(decoder.ending())
}

/// Decodes units of threads, from a file or from a running program.
///
/// ```
/// use hmtt::access_trace::{Accesses, Decoder, ThreadAccess};
/// use hmtt_format::Direction;
/// use hmtt_files::access_trace::{Access, BlockAccesses, Place};
///
/// let access = Access {
///     pc: 0x1000,
///     operation: 0,
///     direction: Direction::Read,
///     represents: 1,
///     size: 8,
///     conditional: false,
///     adds_fs: false,
///     place: Place::Slot { slot: 0, plus: 8 },
/// };
/// let accesses = vec![access];
/// let block = BlockAccesses { instructions: 1, slots: 1, accesses, ..BlockAccesses::default() };
/// let mut decoder = Decoder::default();
/// decoder.add_blocks([block]);
/// // Block 1 is executed with 0x5000 in its slot.
/// let units = [1u64, 0x5000].map(u64::to_le_bytes).concat();
/// let mut addresses = Vec::new();
/// let add = |ThreadAccess { made, .. }: ThreadAccess| addresses.push(made.address);
/// decoder.units(7, &units, &mut Accesses(add));
/// assert_eq!(addresses, [Some(0x5008)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    functions: Vec<Function>,
    numbers: Numbers,
    /// The base of the segment `fs`, by thread.
    bases: HashMap<u32, u64>,
    /// Memory that is reused: the units as integers, and the slots of a block with the values
    /// derived from them.
    words: Vec<u64>,
    slots: Vec<u64>,
    sums: Ending,
}

impl Decoder {
    /// Adds functions, which get the next numbers.
    pub fn add_functions(&mut self, functions: impl IntoIterator<Item = Function>) {
        self.functions.extend(functions);
    }

    /// Adds blocks and paths, which get the next numbers.
    pub fn add_blocks(&mut self, blocks: impl IntoIterator<Item = BlockAccesses>) {
        self.numbers.add(blocks);
    }

    /// Adds a time for which the program ran natively, as the user requested.
    pub fn add_native(&mut self, nanoseconds: u64, visitor: &mut impl Visitor) {
        self.sums.native_ns = self.sums.native_ns.saturating_add(nanoseconds);
        visitor.gap(Gap::Native { nanoseconds });
    }

    /// Sets the counts of what ran natively up to here although it was to be recorded.
    pub fn set_unrecorded(&mut self, unrecorded: Unrecorded) {
        self.sums.unrecorded = unrecorded;
    }

    /// Sets the region that was to be recorded, and the part of it that was recorded.
    pub fn set_region(&mut self, region: RecordedRegion) {
        self.sums.region = Some(region);
    }

    /// Sets the base of the segment `fs` of a thread.
    pub fn set_base(&mut self, thread: u32, fs: u64) {
        self.bases.insert(thread, fs);
    }

    /// Decodes the next units of a thread. The first unit is a number or a note. Units behind an
    /// invalid one are left out, and counted as an invalid chunk.
    pub fn units(&mut self, thread: u32, units: &[u8], visitor: &mut impl Visitor) {
        let Decoder { functions, numbers, bases, words, slots, sums } = self;
        let fs = bases.entry(thread).or_insert(0);
        let mut counted = Counted { thread, functions, ending: *sums, visitor };
        let (units, rest) = units.as_chunks::<SLOT_BYTES>();
        words.clear();
        words.extend(units.iter().map(|unit| u64::from_le_bytes(*unit)));
        let is_valid = decode(words, numbers, fs, slots, &mut counted) && rest.is_empty();
        *sums = counted.ending;
        sums.invalid_chunks += u64::from(!is_valid);
    }

    /// The sums up to here. They have [`is_cut`](Ending::is_cut) set, as for a file that ends here.
    pub fn ending(&self) -> Ending {
        Ending { is_cut: true, ..self.sums }
    }
}

/// Decodes units of a thread. `fs`: the base of the segment, which notes change. `slots`: memory
/// for slots. Returns whether all units are valid. Units behind an invalid one are left out.
fn decode<V: Visitor>(
    units: &[u64],
    numbers: &Numbers,
    fs: &mut u64,
    slots: &mut Vec<u64>,
    counted: &mut Counted<'_, V>,
) -> bool {
    let (mut at, mut last) = (0, LastExecution::default());
    while let Some(&unit) = units.get(at) {
        at += 1;
        match parse_note(unit as u32) {
            Some((FS_BASE, _)) => {
                let Some(base) = units.get(at) else { return false };
                *fs = *base;
                at += 1;
            }
            Some((LOST, _)) => {
                let Some(words) = units.get(at) else { return false };
                let words = *words;
                counted.ending.dropped = counted.ending.dropped.saturating_add(words);
                counted.visitor.gap(Gap::Dropped { thread: counted.thread, words });
                at += 1;
            }
            Some((NATIVE, _)) => counted.visitor.gap(Gap::Unrecorded { thread: counted.thread }),
            // Starts and system calls have no accesses. A CUT was read with the block before it.
            Some((START.., _)) => {}
            None => {
                let Ok(number) = u32::try_from(unit) else { return false };
                let Some(numbered) = numbers.get(number) else { return false };
                let Some(values) = units.get(at..at + usize::from(numbered.slots)) else {
                    return false;
                };
                at += values.len();
                let next = units.get(at).map(|unit| *unit as u32);
                let executed = match next.and_then(parse_note) {
                    Some((CUT, instructions)) => instructions as usize,
                    _ => usize::from(numbered.instructions),
                };
                let needs_values = numbered.derived > 0 || numbered.block.repeated.taken > 0;
                let values = if needs_values {
                    slots.clear();
                    slots.extend(values);
                    if !last.hand_over(&numbered, slots) {
                        return false;
                    }
                    numbered.block.derive(slots, numbered.derived);
                    &slots[..]
                } else {
                    values
                };
                last.keep(&numbered, executed, values);
                counted.execute(number, &numbered, executed, numbers, (values, *fs));
            }
        }
    }
    true
}
