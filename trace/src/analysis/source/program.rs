//! Reads traces that `hmtt trace` has written. Each element of a string instruction is an access;
//! too many elements are passed on as a whole ([`Part::Elements`]).

use std::fs::File;
use std::io::BufReader;

#[cfg(feature = "tables")]
use hmtt_files::access_trace::Function;
use hmtt_files::access_trace::Made;
use hmtt_format::Direction;

use super::memories::Memories;
use super::{Batch, Ending, Gap, Known, Part, SourceError, counted};
use crate::access_trace::elements::{is_known, lowest};
use crate::access_trace::{
    self, ChunkReader, Content, Decoder, ElementBudget, Elements, Executed, ThreadAccess, Visitor,
};
use crate::analysis::{AddressSpace, ElementRange};
use crate::identity::CardId;

/// Number of bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Number of accesses that are passed on at once. Their columns fit into a processor's second-level
/// cache.
const BATCH: usize = 4096;

const KNOWN: Known = Known {
    address_space: AddressSpace::Virtual,
    clocks: false,
    tck_ps: None,
    unit_bytes: None,
    sizes: true,
    threads: true,
    instructions: true,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};

/// Collects the accesses of a thread as columns.
pub(super) struct Columns<'m, 'a> {
    memories: &'m mut Memories<'a>,
    memory: usize,
    thread: u32,
    /// Accesses of the current instruction.
    instruction: Vec<Made>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
    sizes: Vec<u32>,
    instructions: Vec<u64>,
    /// Numbers of functions; `None` if they are not wanted.
    functions: Option<Vec<u32>>,
    /// The function of the current instruction; 0 if it is not known.
    function: u32,
    /// Number of elements that may still be passed on one by one.
    budget: ElementBudget,
    unknown: u64,
}

impl Columns<'_, '_> {
    fn pass_on(&mut self) {
        let batch = Batch::new(&self.addresses, &self.writes)
            .with_sizes(&self.sizes)
            .with_instructions(&self.instructions)
            .with_functions(self.functions.as_deref().unwrap_or_default())
            .with_thread(self.thread);
        self.memories.batch(self.memory, batch);
        self.addresses.clear();
        self.writes.clear();
        self.sizes.clear();
        self.instructions.clear();
        self.functions.iter_mut().for_each(Vec::clear);
    }

    /// Accesses of the current instruction.
    #[cfg(feature = "tables")]
    pub fn instruction(&self) -> &[Made] {
        &self.instruction
    }

    /// Sets the thread of the accesses that follow.
    #[cfg(feature = "tables")]
    pub fn set_thread(&mut self, thread: u32) {
        if self.thread != thread {
            self.finish();
            self.thread = thread;
        }
    }

    /// Passes on the next functions.
    #[cfg(feature = "tables")]
    pub fn add_functions(&mut self, functions: &[Function]) {
        if !functions.is_empty() {
            self.memories.functions(self.memory, functions);
        }
    }

    /// Adds an access to the current instruction. `function`: the number of the instruction's
    /// function.
    #[inline]
    pub fn push(&mut self, function: u32, access: Made) {
        self.function = function;
        self.budget.earn();
        if access.elements == 1 && self.instruction.is_empty() {
            // This access has to come before the later accesses of the instruction, however many
            // elements the later accesses have.
            self.add(&Made { address: access.address.filter(|_| is_known(&access)), ..access });
        } else {
            self.instruction.push(access);
        }
    }

    /// Adds an access whose address is known and whose size is not.
    #[cfg(feature = "tables")]
    pub fn push_unsized(&mut self, function: u32, access: &Made) {
        self.end_instruction();
        self.function = function;
        self.budget.earn();
        self.add(access);
    }

    /// Passes on all accesses up to here.
    pub fn finish(&mut self) {
        self.end_instruction();
        self.pass_on();
    }

    /// Adds the accesses of the current instruction.
    #[inline]
    pub fn end_instruction(&mut self) {
        if !self.instruction.is_empty() {
            self.add_elements();
        }
    }

    fn add_elements(&mut self) {
        let instruction = std::mem::take(&mut self.instruction);
        if self.budget.spend(&instruction) {
            Elements::new(&instruction).for_each(|element| self.add(&element));
        } else {
            self.pass_on();
            instruction.iter().for_each(|access| self.add_range(access));
        }
        self.instruction = instruction;
        self.instruction.clear();
    }

    /// Adds all elements of an access as a whole.
    fn add_range(&mut self, access: &Made) {
        let Some(address) = lowest(access) else {
            self.unknown = self.unknown.saturating_add(access.elements);
            return;
        };
        let range = ElementRange {
            address,
            elements: access.elements,
            size: access.size,
            is_write: access.direction == Direction::Write,
            instruction: access.pc,
            function: self.function,
            thread: self.thread,
        };
        self.memories.elements(self.memory, range);
    }

    #[inline]
    fn add(&mut self, access: &Made) {
        let Some(address) = access.address else {
            self.unknown = self.unknown.saturating_add(access.elements);
            return;
        };
        self.addresses.push(address);
        self.writes.push(access.direction == Direction::Write);
        self.sizes.push(access.size);
        self.instructions.push(access.pc);
        if let Some(functions) = &mut self.functions {
            functions.push(self.function);
        }
        if self.addresses.len() == BATCH {
            self.pass_on();
        }
    }
}

impl Visitor for Columns<'_, '_> {
    #[inline]
    fn block(&mut self, _: &Executed<'_>) {
        // The same instruction may be executed again.
        self.end_instruction();
    }

    #[inline]
    fn access(&mut self, executed: &Executed<'_>, ThreadAccess { made: access, .. }: ThreadAccess) {
        if self.instruction.first().is_some_and(|first| first.pc != access.pc) {
            self.end_instruction();
        }
        self.push(executed.block.function, access);
    }

    fn gap(&mut self, gap: access_trace::Gap) {
        if !matches!(gap, access_trace::Gap::Native { .. }) {
            self.finish();
            self.memories.gap(self.memory, Gap::default());
        }
    }
}

/// Reads accesses into columns with `fill`, which returns the reason if it ended early. Notes in
/// the ending state the accesses that were left out.
pub(super) fn read_with(
    with_functions: bool,
    add: &mut dyn FnMut(usize, Part<'_>),
    fill: impl FnOnce(&mut Columns<'_, '_>) -> Option<SourceError>,
) -> Result<Ending, SourceError> {
    let mut memories = Memories::new(add);
    let memory = memories.of(CardId(0), || KNOWN)?;
    let mut columns = Columns {
        memories: &mut memories,
        memory,
        thread: 0,
        instruction: Vec::new(),
        addresses: Vec::with_capacity(BATCH),
        writes: Vec::with_capacity(BATCH),
        sizes: Vec::with_capacity(BATCH),
        instructions: Vec::with_capacity(BATCH),
        functions: with_functions.then(Vec::new),
        function: 0,
        budget: ElementBudget::of_file(),
        unknown: 0,
    };
    let failure = fill(&mut columns);
    let (unknown, refused) = (columns.unknown, columns.budget.refused());
    let mut ending = memories.finish();
    ending.only_summed.extend(refused.map(|refused| format!("known in sums only: {refused}")));
    if unknown > 0 {
        ending.notes.push(counted(
            unknown,
            "access has an address that is not known, and is left out",
            "accesses have addresses that are not known, and are left out",
        ));
    }
    Ok(Ending { failure, ..ending })
}

/// Reads a trace of a program, with the functions of accesses if they are wanted.
pub fn read(
    file: File,
    with_functions: bool,
    add: &mut dyn FnMut(usize, Part<'_>),
) -> Result<Ending, SourceError> {
    let mut chunks = ChunkReader::new(BufReader::with_capacity(BUFFER_BYTES, file))?;
    let is_chosen = chunks.is_chosen();
    let mut file_ending = Found::default();
    let mut ending = read_with(with_functions, add, |columns| {
        let failure = match pass_on(&mut chunks, columns) {
            Ok(complete_ending) => {
                file_ending = complete_ending;
                None
            }
            Err(stopped) => {
                let (early_ending, error) = *stopped;
                file_ending = early_ending;
                Some(error.into())
            }
        };
        // Dropped words have caused a gap at their place already.
        if (Found { dropped: 0, ..file_ending }).has_loss() {
            columns.memories.gap(columns.memory, Gap::default());
        }
        failure
    })?;
    ending.missing.splice(0..0, what_is_missing(&file_ending));
    if file_ending.native_ns > 0 {
        let seconds = file_ending.native_ns as f64 / 1e9;
        ending.notes.push(format!("the program ran natively for {seconds:.3} s, as was asked for"));
    }
    if let Some(region) = file_ending.region {
        ending.notes.push(region.request_text());
    }
    if is_chosen {
        ending.notes.push("only some of the accesses were to be recorded".to_owned());
    }
    Ok(ending)
}

type Found = access_trace::Ending;

/// Passes on all accesses. Returns the losses, and the error if reading ended early.
fn pass_on(
    chunks: &mut ChunkReader<BufReader<File>>,
    columns: &mut Columns<'_, '_>,
) -> Result<Found, Box<(Found, access_trace::ReadError)>> {
    let mut decoder = Decoder::default();
    loop {
        match chunks.next_chunk() {
            Ok(None) => return Ok(decoder.ending()),
            Ok(Some(Content::Functions(functions))) => {
                columns.memories.functions(columns.memory, &functions);
                decoder.add_functions(functions);
            }
            Ok(Some(Content::Blocks(blocks))) => decoder.add_blocks(blocks),
            Ok(Some(Content::Units { thread, fs, bytes })) => {
                columns.thread = thread;
                decoder.set_base(thread, fs);
                decoder.units(thread, &bytes, columns);
                columns.finish();
            }
            Ok(Some(Content::Gap { nanoseconds })) => decoder.add_native(nanoseconds, columns),
            Ok(Some(Content::Unrecorded(unrecorded))) => decoder.set_unrecorded(unrecorded),
            Ok(Some(Content::Region(region))) => decoder.set_region(region),
            Ok(Some(Content::End { dropped, cut_threads })) => {
                return Ok(decoder.ending().completed(dropped, cut_threads));
            }
            Err(error) => return Err(Box::new((decoder.ending(), error))),
        }
    }
}

fn what_is_missing(file_ending: &Found) -> Vec<String> {
    let Found { dropped, cut_threads, invalid_chunks, is_cut, .. } = *file_ending;
    let losses = [
        (
            dropped > 0,
            counted(dropped, "word of 4 bytes was dropped", "words of 4 bytes were dropped"),
        ),
        (
            cut_threads > 0,
            format!(
                "the last accesses of {} are missing",
                counted(cut_threads, "thread", "threads")
            ),
        ),
        (
            invalid_chunks > 0,
            counted(invalid_chunks, "chunk could not be read", "chunks could not be read")
                + " to the end",
        ),
        (is_cut, "the file is cut: what follows is missing".to_owned()),
    ];
    let counts = losses.into_iter().filter_map(|(is_so, what)| is_so.then_some(what));
    let unrecorded =
        file_ending.unrecorded.missing().into_iter().chain(file_ending.unrecorded.children_text());
    counts.chain(unrecorded).chain(file_ending.missing_of_region()).collect()
}
