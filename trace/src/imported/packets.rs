//! Reads packet traces of gem5, which its `MemTraceProbe` writes.
//!
//! ```text
//! "gem5", then messages, each preceded by a varint with its number of bytes:
//!   header: 1 text, name of the recording component; 3 ticks in a second
//!   packet: 1 tick; 2 command; 3 address; 4 bytes; 7 address of the instruction, if it was recorded
//! ```
//!
//! A command is a number of an enumeration in gem5's source code, which a trace does not explain.
//! The numbers below [`FIRST_VARYING`] are valid for gem5 from version 20 on. In older versions a
//! write-back has a number that means a response from version 20 on. No trace of requests has
//! responses, so a trace of an older version is an error.

mod protobuf;

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use hmtt_format::{Direction, escape};

use super::ImportedAccess;
use crate::table::TableError;
use protobuf::{Fields, MOST_VARINT_BYTES, NoField, Value, varint};

/// First bytes of a file.
pub const MAGIC: [u8; 4] = *b"gem5";
/// Longest accepted message, in bytes. A header is long, because it names all components that send
/// packets.
const MOST_MESSAGE_BYTES: u64 = 1 << 20;
/// Picoseconds in a second.
const SECOND_PS: u64 = 1_000_000_000_000;
/// The first command whose number differs between the versions from 20 on. The commands from it on
/// are swaps, locked accesses and operations on caches.
const FIRST_VARYING: u64 = 30;
/// Number of the header's field with the name of the component.
const NAME: u64 = 1;
/// Number of the header's field with the ticks in a second.
const FREQUENCY: u64 = 3;
/// Number of a packet's field with the time in ticks.
const TICK: u64 = 1;
/// Number of a packet's field with the command.
const COMMAND: u64 = 2;
/// Number of a packet's field with the address.
const ADDRESS: u64 = 3;
/// Number of a packet's field with the number of bytes.
const SIZE: u64 = 4;
/// Number of a packet's field with the address of the instruction.
const PC: u64 = 7;
/// Number of a field in the header. Its value is a nested message in traces of packets, and a
/// number in gem5's traces of instructions.
const IDENTIFIER: u64 = 4;

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// The command reads or writes memory.
    Access(Direction),
    /// The command transfers no data: it upgrades or drops a line of a cache.
    NoAccess,
    /// The command answers a request, or no command has this number.
    Response,
    /// The number means different commands in different versions.
    Varying,
}

impl Command {
    fn of(number: u64) -> Command {
        match number {
            // ReadReq, prefetches by software (2) and hardware, ReadExReq, ReadCleanReq,
            // ReadSharedReq, LoadLockedReq.
            1 | 11..=13 | 22 | 24..=26 => Command::Access(Direction::Read),
            // WriteReq, WritebackDirty, WritebackClean, WriteClean, WriteLineReq, StoreCondReq.
            4 | 7..=9 | 16 | 27 => Command::Access(Direction::Write),
            // CleanEvict, UpgradeReq, SCUpgradeReq, SCUpgradeFailReq, StoreCondFailReq.
            10 | 17 | 18 | 20 | 28 => Command::NoAccess,
            FIRST_VARYING.. => Command::Varying,
            _ => Command::Response,
        }
    }
}

/// Fields of the header.
#[derive(Clone, Debug, Default)]
struct Header {
    name: String,
    frequency: u64,
}

/// Fields of a packet. Fields that are absent are `None`, or 0 for the size.
#[derive(Clone, Copy, Debug, Default)]
struct Packet {
    tick: Option<u64>,
    command: Option<u64>,
    address: Option<u64>,
    size: u64,
    pc: Option<u64>,
}

/// Reads a packet trace message by message.
pub struct PacketReader<R> {
    input: R,
    /// Offset of the next message in the file.
    offset: u64,
    /// The header; `None` before it was read.
    header: Option<Header>,
    message: Vec<u8>,
    /// Number of packets that transfer no data.
    without_access: u64,
    /// Number of packets whose command means different operations in different versions of gem5.
    varying: u64,
    /// Number of packets with the address of an instruction.
    with_pc: u64,
}

impl Header {
    /// Parses the header. The error is a text that says why the message is no header.
    fn parse(message: &[u8]) -> Result<Header, String> {
        let mut header = Header::default();
        for field in Fields(message) {
            match field.map_err(|NoField| "the header is damaged".to_owned())? {
                (NAME, Value::Bytes(name)) => {
                    let name = String::from_utf8_lossy(name);
                    header.name = escape::name(&name).to_string();
                }
                (FREQUENCY, Value::Number(frequency)) => header.frequency = frequency,
                (IDENTIFIER, Value::Number(_)) => {
                    return Err("is a trace of instructions of gem5, and only its traces of packets are read".to_owned());
                }
                _ => {}
            }
        }
        if header.frequency == 0 {
            return Err("expected a header that states the ticks in a second".to_owned());
        }
        Ok(header)
    }
}

impl Packet {
    fn parse(message: &[u8]) -> Result<Packet, NoField> {
        let mut packet = Packet::default();
        for field in Fields(message) {
            match field? {
                (TICK, Value::Number(tick)) => packet.tick = Some(tick),
                (COMMAND, Value::Number(command)) => packet.command = Some(command),
                (ADDRESS, Value::Number(address)) => packet.address = Some(address),
                (SIZE, Value::Number(size)) => packet.size = size,
                (PC, Value::Number(pc)) => packet.pc = Some(pc),
                _ => {}
            }
        }
        Ok(packet)
    }
}

impl<R: BufRead> PacketReader<R> {
    pub fn new(input: R) -> Self {
        PacketReader {
            input,
            offset: 0,
            header: None,
            message: Vec::new(),
            without_access: 0,
            varying: 0,
            with_pc: 0,
        }
    }

    /// Reads the next message, and adds the packet's access to `add` if there is one. Returns
    /// `false` at the end of the file.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, ends within a message, or is no trace of packets.
    pub fn advance(&mut self, add: &mut VecDeque<ImportedAccess>) -> Result<bool, TableError> {
        if self.header.is_none() {
            self.read_header()?;
            return Ok(true);
        }
        let offset = self.offset;
        if !self.read_message()? {
            return Ok(false);
        }
        let failed = |problem: String| TableError::Record { offset, problem };
        let access = self.packet().map_err(failed)?;
        add.extend(access);
        Ok(true)
    }

    fn read_header(&mut self) -> Result<(), TableError> {
        let mut magic = [0; MAGIC.len()];
        let failed = |problem: String| TableError::Record { offset: 0, problem };
        self.input.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(failed("expected `gem5`, with which its traces begin".to_owned()));
        }
        self.offset = MAGIC.len() as u64;
        if !self.read_message()? {
            return Err(failed("the file ends before the header".to_owned()));
        }
        self.header = Some(Header::parse(&self.message).map_err(failed)?);
        Ok(())
    }

    /// Reads the next message into `self.message`. Returns `false` at the end of the file.
    fn read_message(&mut self) -> Result<bool, TableError> {
        let offset = self.offset;
        let failed = |problem: String| TableError::Record { offset, problem };
        let mut length = Vec::new();
        while length.last().is_none_or(|last| *last >= 0x80) {
            let Some(byte) = self.input.fill_buf()?.first().copied() else {
                if length.is_empty() {
                    return Ok(false);
                }
                return Err(failed("the file ends within the length of a message".to_owned()));
            };
            self.input.consume(1);
            length.push(byte);
            if length.len() > MOST_VARINT_BYTES {
                return Err(failed("expected the length of a message".to_owned()));
            }
        }
        let bytes = varint(&length).filter(|bytes| *bytes <= MOST_MESSAGE_BYTES);
        let Some(bytes) = bytes else {
            return Err(failed(format!(
                "expected a message of at most {MOST_MESSAGE_BYTES} bytes"
            )));
        };
        self.message.clear();
        let read = self.input.by_ref().take(bytes).read_to_end(&mut self.message)? as u64;
        if read < bytes {
            return Err(failed(format!("the file ends within a message of {bytes} bytes")));
        }
        self.offset += length.len() as u64 + bytes;
        Ok(true)
    }

    /// The access of the packet in `self.message`; `None` if the packet makes no access. The error
    /// is a text that says why the message is no packet.
    fn packet(&mut self) -> Result<Option<ImportedAccess>, String> {
        let packet = Packet::parse(&self.message);
        let packet = packet.map_err(|NoField| "the message is damaged".to_owned())?;
        let Packet { tick: Some(clock), command: Some(command), address: Some(address), .. } =
            packet
        else {
            return Err("expected a packet with a tick, a command and an address".to_owned());
        };
        self.with_pc += u64::from(packet.pc.is_some());
        match Command::of(command) {
            Command::Access(direction) => {
                let size = u32::try_from(packet.size).map_err(|_| "a packet has 4 GiB or more")?;
                let access = ImportedAccess::new(direction, address);
                return Ok(Some(ImportedAccess { clock, size, ..access }));
            }
            Command::NoAccess => self.without_access += 1,
            Command::Varying => self.varying += 1,
            Command::Response => {
                return Err(format!(
                    "command {command} is no request of gem5 20 or later; older versions number commands in another way, and \
                     their traces are not read"
                ));
            }
        }
        Ok(None)
    }
}

impl<R> PacketReader<R> {
    /// Picoseconds in a tick; `None` if this is no whole number, or if the header was not read yet.
    pub fn tck_ps(&self) -> Option<u32> {
        let frequency = self.header.as_ref()?.frequency;
        let is_whole = frequency > 0 && SECOND_PS.is_multiple_of(frequency);
        is_whole.then(|| u32::try_from(SECOND_PS / frequency).ok())?
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        let PacketReader { header, without_access, with_pc, .. } = self;
        let mut notes = Vec::new();
        if let Some(Header { name, .. }) = header {
            notes.push(format!("accesses are the packets that gem5 has recorded at {name}"));
        }
        if *without_access > 0 {
            notes.push(format!(
                "{without_access} packets transfer no data (upgrades and clean evictions), and are left out"
            ));
        }
        if *with_pc > 0 {
            notes.push(format!(
                "{with_pc} packets have an address of an instruction, which is not used"
            ));
        }
        notes
    }

    /// A sentence on accesses that may be missing; `None` if none are.
    pub fn missing(&self) -> Option<String> {
        (self.varying > 0).then(|| {
            format!(
                "{} packets have commands from number {FIRST_VARYING} on, which versions of gem5 number differently (swaps, locked \
                 accesses, operations on caches): they were left out",
                self.varying
            )
        })
    }
}
