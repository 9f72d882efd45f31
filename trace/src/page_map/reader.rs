//! Reads a map of pages chunk by chunk.

use std::io::Read;

use hmtt_files::page_map::{
    CHUNK_HEADER_BYTES, Chunk, Entry, HEADER_BYTES, MapError, Place, Scan, decode_header,
};

use super::history::{Held, History};
use super::{MappedProcess, PageMap, PageMapError};

/// Fills a buffer. Returns the number of bytes, which is smaller than the buffer only at the end of
/// the input.
pub(super) fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The reason why reading ended before the end of the map.
enum Stop {
    /// The file ends within the map.
    Cut,
    /// The file is damaged.
    Damaged(MapError),
    /// A chunk is not allowed after the chunks before it.
    Order(&'static str),
    /// The file cannot be read.
    File(std::io::Error),
}

/// The part of a map that was read so far.
#[derive(Default)]
struct State {
    map: PageMap,
    histories: Vec<History>,
    /// Changes of pages, each with its process. They become valid when the reading of the process
    /// is complete.
    pending: Vec<(u32, Entry)>,
}

impl PageMap {
    /// Reads a map from any reader.
    ///
    /// # Errors
    /// The errors of [`PageMap::open`].
    pub fn read(mut input: impl Read) -> Result<PageMap, PageMapError> {
        let mut header = [0; HEADER_BYTES];
        let length = fill(&mut input, &mut header)?;
        decode_header(&header[..length])?;
        let mut state = State::default();
        let mut offset = HEADER_BYTES as u64;
        let stop = loop {
            match next(&mut input, &mut offset) {
                Ok(chunk) => match state.chunk(chunk) {
                    Ok(false) => {}
                    Ok(true) => break None,
                    Err(stop) => break Some(stop),
                },
                Err(stop) => break Some(stop),
            }
        };
        let missing = match stop {
            None => None,
            Some(Stop::Cut) => {
                Some(format!("the map is cut at offset {offset}, and may have gone on"))
            }
            Some(Stop::Damaged(error)) => {
                Some(format!("what follows offset {offset} of the map: {error}"))
            }
            Some(Stop::Order(what)) => {
                Some(format!("what follows offset {offset} of the map: {what}"))
            }
            Some(Stop::File(error)) => return Err(error.into()),
        };
        state.finish(missing)
    }
}

/// Reads the next chunk. `offset`: offset of the chunk in the file. It becomes the offset of the
/// next chunk.
fn next(input: &mut impl Read, offset: &mut u64) -> Result<Chunk, Stop> {
    let mut chunk = vec![0; CHUNK_HEADER_BYTES];
    if fill(input, &mut chunk).map_err(Stop::File)? < CHUNK_HEADER_BYTES {
        return Err(Stop::Cut);
    }
    let length = Chunk::length(&chunk).map_err(Stop::Damaged)?.ok_or(Stop::Cut)?;
    chunk.resize(length, 0);
    let payload = fill(input, &mut chunk[CHUNK_HEADER_BYTES..]).map_err(Stop::File)?;
    chunk.truncate(CHUNK_HEADER_BYTES + payload);
    let (chunk, length) = Chunk::decode(&chunk).map_err(Stop::Damaged)?.ok_or(Stop::Cut)?;
    *offset += length as u64;
    Ok(chunk)
}

impl State {
    /// Processes a chunk. Returns whether it is the last chunk of the map.
    fn chunk(&mut self, chunk: Chunk) -> Result<bool, Stop> {
        let is_first = self.map.machine.page_log2 == 0;
        if is_first != matches!(chunk, Chunk::Machine(_)) {
            return Err(Stop::Order("the machine is not described first, and once"));
        }
        match chunk {
            Chunk::Machine(machine) => self.map.machine = machine,
            Chunk::Process(process) => {
                self.map.processes.push(MappedProcess { process, ..MappedProcess::default() });
                self.histories.push(History::new(self.map.processes.len() as u32));
            }
            Chunk::Mappings { process, mappings } => {
                self.place(process)?;
                self.map.mappings.extend(mappings.into_iter().map(|mapping| (process, mapping)));
            }
            Chunk::Pages { process, entries } => {
                self.place(process)?;
                if entries.iter().any(|entry| !self.is_known(process, entry.place)) {
                    return Err(Stop::Order(
                        "a page is in a mapping that its process does not have",
                    ));
                }
                self.pending.extend(entries.into_iter().map(|entry| (process, entry)));
            }
            Chunk::Scan(scan) => self.scan(&scan)?,
            Chunk::Gone { process, .. } => {
                let (place, snapshot) = (self.place(process)?, self.snapshot());
                self.pending.clear();
                self.histories[place].end(snapshot, &mut self.map.held);
                self.map.processes[place].is_gone = true;
            }
            Chunk::Snapshot(snapshot) => self.map.snapshots.push(snapshot),
            Chunk::End(ending) => {
                self.map.ending = Some(ending);
                return Ok(true);
            }
            Chunk::Unknown(_) => {}
        }
        Ok(false)
    }

    /// Index of the snapshot that is being read, which equals the number of complete snapshots.
    fn snapshot(&self) -> u32 {
        u32::try_from(self.map.snapshots.len()).unwrap_or(u32::MAX)
    }

    fn place(&self, process: u32) -> Result<usize, Stop> {
        let place = (process as usize).checked_sub(1).filter(|at| *at < self.histories.len());
        place.ok_or(Stop::Order("a process is not described"))
    }

    fn is_known(&self, process: u32, place: Option<Place>) -> bool {
        let Some(place) = place else { return true };
        let mapping =
            (place.mapping as usize).checked_sub(1).and_then(|at| self.map.mappings.get(at));
        mapping.is_some_and(|(owner, _)| *owner == process)
    }

    fn scan(&mut self, scan: &Scan) -> Result<(), Stop> {
        let (place, snapshot) = (self.place(scan.process)?, self.snapshot());
        let (history, held) = (&mut self.histories[place], &mut self.map.held);
        for (process, entry) in self.pending.drain(..) {
            if process == scan.process {
                history.change(&entry, snapshot, held);
            }
        }
        let process = &mut self.map.processes[place];
        let time_ns = scan.end_ns.saturating_sub(scan.begin_ns);
        process.longest_scan_ns = process.longest_scan_ns.max(time_ns);
        if process.scans > 0 {
            let stale_ns = scan.end_ns.saturating_sub(process.last_begin_ns);
            process.longest_stale_ns = process.longest_stale_ns.max(stale_ns);
        }
        process.scans += 1;
        process.last_begin_ns = scan.begin_ns;
        let Scan { present_pages, swapped_pages, hidden_pages, .. } = *scan;
        (process.present_pages, process.swapped_pages) = (present_pages, swapped_pages);
        process.hidden_pages = hidden_pages;
        Ok(())
    }

    /// Ends all histories after the last complete snapshot. `missing`: a sentence on why the map is
    /// incomplete.
    fn finish(mut self, missing: Option<String>) -> Result<PageMap, PageMapError> {
        let snapshots = self.snapshot();
        if snapshots == 0 {
            return Err(PageMapError::Empty(
                missing.map_or_else(String::new, |what| format!(": {what}")),
            ));
        }
        for history in &mut self.histories {
            history.end(snapshots, &mut self.map.held);
        }
        self.map.held.retain(|held: &Held| held.first < snapshots && held.first <= held.last);
        self.map.missing.extend(missing);
        Ok(self.map)
    }
}
