//! Reads files of other programs and passes on their accesses.

use std::fs::File;
use std::io::BufReader;

use hmtt_format::Direction;

use super::memories::Memories;
use super::{Batch, Ending, Known, Part, SourceError};
use crate::analysis::AddressSpace;
use crate::compression::Begin;
use crate::identity::CardId;
use crate::imported::{
    Contents, ImportedAccess, ImportedAddresses, ImportedFormat, ImportedReader,
};

/// Number of bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Number of accesses that are passed on at once.
const BATCH: usize = 4096;
fn known(contents: Contents) -> Known {
    let Contents { clocks, tck_ps, sizes, threads, instructions, addresses, .. } = contents;
    let address_space = match addresses {
        ImportedAddresses::Virtual => AddressSpace::Virtual,
        ImportedAddresses::Physical => AddressSpace::Physical,
        ImportedAddresses::Unknown => AddressSpace::Unknown,
    };
    Known { address_space, clocks, tck_ps, sizes, threads, instructions, ..Known::default() }
}

/// Accesses of a thread that were not passed on yet.
struct Columns<'m> {
    memories: Memories<'m>,
    memory: usize,
    contents: Contents,
    thread: u32,
    clocks: Vec<u64>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
    sizes: Vec<u32>,
    instructions: Vec<u64>,
}

impl Columns<'_> {
    fn push(&mut self, access: &ImportedAccess) {
        if self.thread != access.thread || self.addresses.len() == BATCH {
            self.pass_on();
            self.thread = access.thread;
        }
        self.clocks.push(access.clock);
        self.addresses.push(access.address);
        self.writes.push(access.direction == Direction::Write);
        self.sizes.push(access.size);
        self.instructions.push(access.pc);
    }

    fn pass_on(&mut self) {
        let Contents { clocks, sizes, threads, instructions, .. } = self.contents;
        let mut batch = Batch::new(&self.addresses, &self.writes);
        if clocks {
            batch = batch.with_clocks(&self.clocks);
        }
        if sizes {
            batch = batch.with_sizes(&self.sizes);
        }
        if instructions {
            batch = batch.with_instructions(&self.instructions);
        }
        if threads {
            batch = batch.with_thread(self.thread);
        }
        self.memories.batch(self.memory, batch);
        self.clocks.clear();
        self.addresses.clear();
        self.writes.clear();
        self.sizes.clear();
        self.instructions.clear();
    }
}

/// Reads a file. For a file of samples, the ending states that accesses are missing. `begin`: bytes
/// that were already read.
pub fn read(
    format: ImportedFormat,
    begin: Begin,
    file: File,
    add: &mut dyn FnMut(usize, Part<'_>),
) -> Result<Ending, SourceError> {
    let input = BufReader::with_capacity(BUFFER_BYTES, begin.decompress(file)?);
    let mut reader = ImportedReader::new(format, input);
    // The reader knows which columns the file has once its first access was read.
    let mut next = reader.next_access();
    let contents = reader.contents();
    let mut memories = Memories::new(add);
    let memory = memories.of(CardId(0), || known(contents))?;
    let mut columns = Columns {
        memories,
        memory,
        contents,
        thread: 0,
        clocks: Vec::with_capacity(BATCH),
        addresses: Vec::with_capacity(BATCH),
        writes: Vec::with_capacity(BATCH),
        sizes: Vec::with_capacity(BATCH),
        instructions: Vec::with_capacity(BATCH),
    };
    let failure = loop {
        match next {
            Ok(Some(access)) => columns.push(&access),
            Ok(None) => break None,
            Err(error) => break Some(SourceError::Table(error)),
        }
        next = reader.next_access();
    };
    columns.pass_on();
    let mut ending = columns.memories.finish();
    ending.notes.extend(reader.notes());
    ending.missing.extend(reader.missing());
    Ok(Ending { failure, ..ending })
}
