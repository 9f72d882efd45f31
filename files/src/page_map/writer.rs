//! Writes a map, chunk after chunk.

use std::io::{self, Write};

use super::chunk::Chunk;
use super::content::{Ending, Entry, Machine, Mapping, Process, Scan, Snapshot};
use super::header;

/// Maximum number of entries of a chunk. An entry has at most 40 bytes.
const CHUNK_ENTRIES: usize = 16 << 10;
/// Maximum number of mappings of a chunk. A mapping has at most 2^14 bytes of text, and 70 more.
const CHUNK_MAPPINGS: usize = 32;

/// Writes a map. At any time, a reader can read the map up to its last whole chunk.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    processes: u32,
    mappings: u32,
}

impl<W: Write> Writer<W> {
    /// Creates a writer, and writes the header and the chunk of the machine.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(mut output: W, machine: &Machine) -> io::Result<Self> {
        output.write_all(&header())?;
        let mut writer = Writer { output, processes: 0, mappings: 0 };
        writer.chunk(&Chunk::Machine(machine.clone()))?;
        Ok(writer)
    }

    fn chunk(&mut self, chunk: &Chunk) -> io::Result<()> {
        self.output.write_all(&chunk.encode())
    }

    /// Writes a process. Returns its number, from 1 on.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn process(&mut self, process: &Process) -> io::Result<u32> {
        self.chunk(&Chunk::Process(process.clone()))?;
        self.processes += 1;
        Ok(self.processes)
    }

    /// Writes mappings of a process. Returns the number of the first one; the others have the next
    /// numbers.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn mappings(&mut self, process: u32, mappings: &[Mapping]) -> io::Result<u32> {
        let first = self.mappings + 1;
        for some in mappings.chunks(CHUNK_MAPPINGS) {
            self.chunk(&Chunk::Mappings { process, mappings: some.to_vec() })?;
            self.mappings += some.len() as u32;
        }
        Ok(first)
    }

    /// Writes the changes of a process since its last reading. The entries must be in order and
    /// must not overlap.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn pages(&mut self, process: u32, entries: &[Entry]) -> io::Result<()> {
        entries
            .chunks(CHUNK_ENTRIES)
            .try_for_each(|some| self.chunk(&Chunk::Pages { process, entries: some.to_vec() }))
    }

    /// Writes the end of the reading of a process.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn scan(&mut self, scan: Scan) -> io::Result<()> {
        self.chunk(&Chunk::Scan(scan))
    }

    /// Writes that a process has ended.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn gone(&mut self, process: u32, time_ns: u64) -> io::Result<()> {
        self.chunk(&Chunk::Gone { process, time_ns })
    }

    /// Writes the end of a snapshot, and flushes the output.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn snapshot(&mut self, snapshot: Snapshot) -> io::Result<()> {
        self.chunk(&Chunk::Snapshot(snapshot))?;
        self.output.flush()
    }

    /// Writes the end of the map, and returns the flushed output.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn finish(mut self, ending: Ending) -> io::Result<W> {
        self.chunk(&Chunk::End(ending))?;
        self.output.flush()?;
        Ok(self.output)
    }
}
