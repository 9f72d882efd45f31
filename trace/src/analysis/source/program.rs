//! Reads what `hmtt trace` writes. Each element of a string instruction is an access.

use std::fs::File;
use std::io::BufReader;

use hmtt_format::Direction;
use hmtt_format::access_trace::Made;

use super::memories::Memories;
use super::{Batch, Ending, Gap, Known, Part, SourceError, counted};
use crate::access_trace::{
    self, ChunkReader, Content, Decoder, Elements, Executed, MOST_ELEMENTS, ThreadAccess, Visitor,
};
use crate::analysis::AddressSpace;
use crate::identity::CardId;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Accesses that are passed on at once: few enough for a processor's second-level cache.
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
};

/// Collects the accesses of a thread as columns.
struct Columns<'m, 'a> {
    memories: &'m mut Memories<'a>,
    memory: usize,
    thread: u32,
    /// Accesses of the current instruction.
    instruction: Vec<Made>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
    sizes: Vec<u32>,
    instructions: Vec<u64>,
    /// How many elements besides first ones are still passed on one by one: as many as real files have.
    left: u64,
    /// Elements that were too many.
    unmade: u64,
    unknown: u64,
}

impl Columns<'_, '_> {
    fn pass_on(&mut self) {
        let batch = Batch::new(&self.addresses, &self.writes)
            .with_sizes(&self.sizes)
            .with_instructions(&self.instructions)
            .with_thread(self.thread);
        self.memories.batch(self.memory, batch);
        self.addresses.clear();
        self.writes.clear();
        self.sizes.clear();
        self.instructions.clear();
    }

    /// Adds the accesses of an instruction.
    fn end_instruction(&mut self) {
        let instruction = std::mem::take(&mut self.instruction);
        // Forged files have more elements than time allows. A file has a first one for each.
        let more = |one: &Made| one.elements.saturating_sub(1);
        let elements = instruction.iter().fold(0u64, |sum, one| sum.saturating_add(more(one)));
        match self.left.checked_sub(elements) {
            Some(left) => {
                self.left = left;
                Elements::new(&instruction).for_each(|one| self.add(&one));
            }
            None => self.unmade = self.unmade.saturating_add(elements).saturating_add(1),
        }
        self.instruction = instruction;
        self.instruction.clear();
    }

    fn add(&mut self, made: &Made) {
        let Some(address) = made.address else {
            self.unknown = self.unknown.saturating_add(made.elements);
            return;
        };
        self.addresses.push(address);
        self.writes.push(made.direction == Direction::Write);
        self.sizes.push(made.size);
        self.instructions.push(made.pc);
        if self.addresses.len() == BATCH {
            self.pass_on();
        }
    }
}

impl Visitor for Columns<'_, '_> {
    fn block(&mut self, _: &Executed<'_>) {
        // The same instruction may be executed again.
        self.end_instruction();
    }

    fn access(&mut self, _: &Executed<'_>, ThreadAccess { made, .. }: ThreadAccess) {
        if self.instruction.first().is_some_and(|first| first.pc != made.pc) {
            self.end_instruction();
        }
        self.instruction.push(made);
    }

    fn gap(&mut self, gap: access_trace::Gap) {
        if matches!(gap, access_trace::Gap::Dropped { .. }) {
            self.end_instruction();
            self.pass_on();
            self.memories.gap(self.memory, Gap::default());
        }
    }
}

/// Reads a trace of a program.
pub fn read(file: File, add: &mut dyn FnMut(usize, Part<'_>)) -> Result<Ending, SourceError> {
    let mut chunks = ChunkReader::new(BufReader::with_capacity(BUFFER_BYTES, file))?;
    let mut memories = Memories::new(add);
    let memory = memories.of(CardId(0), || KNOWN)?;
    let is_chosen = chunks.is_chosen();
    let mut columns = Columns {
        memories: &mut memories,
        memory,
        thread: 0,
        instruction: Vec::new(),
        addresses: Vec::with_capacity(BATCH),
        writes: Vec::with_capacity(BATCH),
        sizes: Vec::with_capacity(BATCH),
        instructions: Vec::with_capacity(BATCH),
        left: MOST_ELEMENTS,
        unmade: 0,
        unknown: 0,
    };
    let (found, failure) = match pass_on(&mut chunks, &mut columns) {
        Ok(found) => (found, None),
        Err((found, error)) => (found, Some(error.into())),
    };
    let (unknown, unmade) = (columns.unknown, columns.unmade);
    // Gaps of dropped words are where they are.
    if (Found { dropped: 0, ..found }).has_loss() {
        memories.gap(memory, Gap::default());
    }
    let mut ending = memories.finish();
    ending.missing = what_is_missing(&found);
    if unmade > 0 {
        ending.missing.push(counted(
            unmade,
            "element of a string instruction is left out, because there are too many",
            "elements of string instructions are left out, because there are too many",
        ));
    }
    if unknown > 0 {
        ending.notes.push(counted(
            unknown,
            "access has an address that is not known, and is left out",
            "accesses have addresses that are not known, and are left out",
        ));
    }
    if found.native_ns > 0 {
        let seconds = found.native_ns as f64 / 1e9;
        ending.notes.push(format!("the program ran natively for {seconds:.3} s, as was asked for"));
    }
    if is_chosen {
        ending.notes.push("only some of the accesses were to be recorded".to_owned());
    }
    Ok(Ending { failure, ..ending })
}

type Found = access_trace::Ending;

/// Passes on all accesses. Returns what was lost, and why reading ended early.
fn pass_on(
    chunks: &mut ChunkReader<BufReader<File>>,
    columns: &mut Columns<'_, '_>,
) -> Result<Found, (Found, access_trace::ReadError)> {
    let mut decoder = Decoder::default();
    loop {
        match chunks.next_chunk() {
            Ok(None) => return Ok(decoder.ending()),
            Ok(Some(Content::Functions(functions))) => decoder.add_functions(functions),
            Ok(Some(Content::Blocks(blocks))) => decoder.add_blocks(blocks),
            Ok(Some(Content::Units { thread, fs, bytes })) => {
                columns.thread = thread;
                decoder.set_base(thread, fs);
                decoder.units(thread, &bytes, columns);
                columns.end_instruction();
                columns.pass_on();
            }
            Ok(Some(Content::Gap { nanoseconds })) => decoder.add_native(nanoseconds, columns),
            Ok(Some(Content::End { dropped, cut_threads })) => {
                return Ok(decoder.ending().completed(dropped, cut_threads));
            }
            Err(error) => return Err((decoder.ending(), error)),
        }
    }
}

fn what_is_missing(found: &Found) -> Vec<String> {
    let Found { dropped, cut_threads, invalid_chunks, is_cut, .. } = *found;
    let all = [
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
    all.into_iter().filter_map(|(is_so, what)| is_so.then_some(what)).collect()
}
