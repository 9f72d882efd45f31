//! Encodes and decodes the chunks of a map.
//!
//! ```text
//! offset 0      4        8        12
//!        kind   length   CRC-32   payload      little-endian
//! ```
//!
//! The CRC-32 is computed over the 8 bytes before it and the payload. The payload of a later
//! version may be longer, with additional fields at its end. The payloads of [`Chunk::Mappings`]
//! and [`Chunk::Pages`] cannot have such fields, because they are lists up to the end of the
//! payload.

use super::MapError;
use super::content::{Ending, Entries, Entry, Machine, Mapping, Process, Scan, Snapshot};
use super::fields::{Fields, push};
use crate::crc32;

/// Size of a chunk's header in bytes.
pub const CHUNK_HEADER_BYTES: usize = 12;
/// Longest payload in bytes; a longer one is damage.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
const LENGTH_AT: usize = 4;
const CRC_AT: usize = 8;

const MACHINE: u32 = 1;
const PROCESS: u32 = 2;
const MAPPINGS: u32 = 3;
const PAGES: u32 = 4;
const SCAN: u32 = 5;
const GONE: u32 = 6;
const SNAPSHOT: u32 = 7;
const END: u32 = 8;

/// A part of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// The machine. This is the first chunk.
    Machine(Machine),
    /// The next process. Processes are numbered from 1 on, in the order of the file.
    Process(Process),
    /// Mappings of a process. They are numbered from 1 on, in the order of the file, over all
    /// processes.
    Mappings {
        /// Number of the process.
        process: u32,
        /// The mappings.
        mappings: Vec<Mapping>,
    },
    /// Changes since the last reading of a process. Pages that are not named are unchanged; at
    /// first, no page has a frame.
    Pages {
        /// Number of the process.
        process: u32,
        /// Changed pages in order, which do not overlap.
        entries: Vec<Entry>,
    },
    /// A process was read. The chunks of pages before it belong to this reading.
    Scan(Scan),
    /// A process has ended or has executed another program. Its pages have no frames from now on.
    Gone {
        /// Number of the process.
        process: u32,
        /// Time at which this was seen.
        time_ns: u64,
    },
    /// All processes were read.
    Snapshot(Snapshot),
    /// The end of the map; no chunk follows.
    End(Ending),
    /// A chunk of a kind that a later version defines.
    Unknown(u32),
}

impl Chunk {
    /// Encodes the chunk. The caller divides lists that are longer than a chunk.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let kind = match self {
            Chunk::Machine(machine) => {
                machine.encode(&mut payload);
                MACHINE
            }
            Chunk::Process(process) => {
                process.encode(&mut payload);
                PROCESS
            }
            Chunk::Mappings { process, mappings } => {
                push((*process).into(), &mut payload);
                mappings.iter().for_each(|mapping| mapping.encode(&mut payload));
                MAPPINGS
            }
            Chunk::Pages { process, entries } => {
                push((*process).into(), &mut payload);
                let mut state = Entries::default();
                entries.iter().for_each(|entry| state.encode(entry, &mut payload));
                PAGES
            }
            Chunk::Scan(scan) => {
                scan.encode(&mut payload);
                SCAN
            }
            Chunk::Gone { process, time_ns } => {
                push((*process).into(), &mut payload);
                push(*time_ns, &mut payload);
                GONE
            }
            Chunk::Snapshot(snapshot) => {
                snapshot.encode(&mut payload);
                SNAPSHOT
            }
            Chunk::End(ending) => {
                push(ending.code().into(), &mut payload);
                END
            }
            Chunk::Unknown(kind) => *kind,
        };
        seal(kind, &payload)
    }

    /// Length in bytes of the chunk at the start of `bytes`, which may contain only a part of the
    /// chunk; `None` if the header is truncated.
    ///
    /// # Errors
    /// [`MapError::Length`] if the length is above the limit.
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, MapError> {
        match field(bytes, LENGTH_AT).filter(|_| bytes.len() >= CHUNK_HEADER_BYTES) {
            Some(length) if length as usize > MAX_PAYLOAD_BYTES => Err(MapError::Length(length)),
            length => Ok(length.map(|length| CHUNK_HEADER_BYTES + length as usize)),
        }
    }

    /// Decodes the chunk at the start of `bytes` and returns it with its length in bytes; `None` if
    /// it is truncated.
    ///
    /// # Errors
    /// [`MapError::Length`], [`MapError::Checksum`] or [`MapError::Content`].
    pub fn decode(bytes: &[u8]) -> Result<Option<(Chunk, usize)>, MapError> {
        let Some(length) = Self::length(bytes)? else { return Ok(None) };
        let Some((header, payload)) =
            bytes.get(..length).and_then(|chunk| chunk.split_at_checked(CHUNK_HEADER_BYTES))
        else {
            return Ok(None);
        };
        if Some(crc32(&[&header[..CRC_AT], payload])) != field(header, CRC_AT) {
            return Err(MapError::Checksum);
        }
        let kind = field(header, 0).unwrap_or_default();
        let chunk = Self::content(kind, Fields(payload)).ok_or(MapError::Content(kind))?;
        Ok(Some((chunk, length)))
    }

    fn content(kind: u32, mut fields: Fields<'_>) -> Option<Chunk> {
        let fields = &mut fields;
        Some(match kind {
            MACHINE => Chunk::Machine(Machine::decode(fields)?),
            PROCESS => Chunk::Process(Process::decode(fields)?),
            MAPPINGS => {
                let (process, mut mappings) = (fields.short()?, Vec::new());
                while !fields.0.is_empty() {
                    mappings.push(Mapping::decode(fields)?);
                }
                Chunk::Mappings { process, mappings }
            }
            PAGES => {
                let (process, mut entries) = (fields.short()?, Vec::new());
                let mut state = Entries::default();
                while !fields.0.is_empty() {
                    entries.push(state.decode(fields)?);
                }
                Chunk::Pages { process, entries }
            }
            SCAN => Chunk::Scan(Scan::decode(fields)?),
            GONE => Chunk::Gone { process: fields.short()?, time_ns: fields.number()? },
            SNAPSHOT => Chunk::Snapshot(Snapshot::decode(fields)?),
            END => Chunk::End(Ending::from_code(fields.short()?)),
            kind => Chunk::Unknown(kind),
        })
    }
}

/// Prepends the header of a chunk to a payload.
fn seal(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(CHUNK_HEADER_BYTES + payload.len());
    chunk.extend_from_slice(&kind.to_le_bytes());
    chunk.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32(&[&chunk, payload]);
    chunk.extend_from_slice(&crc.to_le_bytes());
    chunk.extend_from_slice(payload);
    chunk
}

fn field(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
