//! Writes and reads tag maps. A map states which functions, blocks and loops the numbers in a tag
//! log, or in a card's tags, stand for.
//!
//! A map is a JSON file, `LOG.json` beside `LOG`. It is replaced as a whole whenever a tag is added
//! or removed, so that a reader finds the state before or after the change. Functions and blocks
//! share one range of numbers, and a number never changes its meaning.

#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::tag_log::FunctionId;

/// Permissions of a new file, before the umask. Only the owner may read which functions a program
/// executes.
const MODE: u32 = 0o600;

/// Version of the file. A change that a reader must know increments it.
pub const VERSION: u32 = 3;
/// Oldest version that can be read. Version 2 has no loops; version 1 also has other names of
/// fields, which are the aliases below.
const OLDEST_VERSION: u32 = 1;

/// An error of reading or writing a map.
#[derive(Debug, thiserror::Error)]
pub enum TagMapError {
    /// The file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file cannot be written.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// The file does not contain a map.
    #[error("{} is no tag map", .0.display())]
    Parse(PathBuf, #[source] serde_json::Error),
    /// The version of the map is not supported.
    #[error("{}: a tag map of version {found}, not {VERSION}", .path.display())]
    Version {
        /// Path of the map.
        path: PathBuf,
        /// Version that the file states.
        found: u32,
    },
}

/// A tag map: the functions and blocks that have numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagMap {
    /// Version of the format; [`VERSION`] in a map that was loaded.
    pub version: u32,
    /// Identifies the log; the log's header has the same bytes.
    #[serde(with = "hex_bytes")]
    pub id: [u8; 8],
    /// Path of the program file.
    pub program: PathBuf,
    /// Process id.
    pub pid: u32,
    /// The sink, as in `--sink`: `log`, `card`, `count` or `none`.
    pub sink: String,
    /// Whether events have times.
    pub timed: bool,
    /// Frequency of the time stamp counter in Hz; 0 if it is not known.
    pub tsc_hz: u64,
    /// The card's tag window, with the sink `card`.
    pub window: Option<Window>,
    /// Functions that are or were tagged.
    pub functions: Vec<TaggedFunction>,
    /// Basic blocks that are tagged. Their tags are at the entry only.
    pub blocks: Vec<TaggedBlock>,
    /// Natural loops whose heads are tagged. An outer loop precedes its inner loops.
    #[serde(default)]
    pub loops: Vec<TaggedLoop>,
    /// Functions and blocks that were selected but are not tagged.
    pub refused: Vec<RefusedFunction>,
}

/// The card's tag window: physical addresses whose accesses are tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First physical address.
    #[serde(with = "hex_address", alias = "base")]
    pub address: u64,
    /// Distance between the addresses of consecutive numbers, in bytes.
    #[serde(alias = "stride")]
    pub stride_bytes: u32,
    /// Size of the window in bytes.
    pub bytes: u64,
}

/// A function with a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedFunction {
    /// Number in events and tags.
    pub number: FunctionId,
    /// Name for display.
    pub name: String,
    /// Names of all symbols at its address, as in the file.
    pub symbols: Vec<String>,
    /// Path of the program or library that contains the function.
    pub object: PathBuf,
    /// Address of the first instruction in the process.
    #[serde(with = "hex_address", alias = "start")]
    pub code_address: u64,
    /// Address of the first instruction in the file's own address space; not in maps of older
    /// versions.
    #[serde(default, with = "optional_hex_address")]
    pub file_address: Option<u64>,
    /// Size in bytes.
    #[serde(alias = "size")]
    pub size_bytes: u64,
    /// Which of the function's exits are tagged.
    #[serde(alias = "exits")]
    pub tagged_exits: Exits,
    /// Reason why the function's tags were removed; `None` if they were not.
    pub removed: Option<String>,
}

/// Which of the exits of a function or loop are tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exits {
    /// All exits are tagged.
    All,
    /// Some exits are tagged.
    Some,
    /// No exit is tagged.
    None,
}

/// A basic block with a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedBlock {
    /// Number in events and tags.
    pub number: FunctionId,
    /// Number of the function that contains the block.
    #[serde(alias = "function")]
    pub function_number: FunctionId,
    /// Address of the first instruction in the process.
    #[serde(with = "hex_address", alias = "start")]
    pub code_address: u64,
    /// Size in bytes.
    #[serde(alias = "size")]
    pub size_bytes: u64,
    /// Number of the innermost loop of [`TagMap::loops`] that contains the block.
    #[serde(default)]
    pub loop_number: Option<u32>,
}

/// A natural loop whose head is tagged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedLoop {
    /// Number among the loops of the map.
    pub number: u32,
    /// Number of the function that contains the loop.
    pub function_number: FunctionId,
    /// Address of the head's first instruction in the process.
    #[serde(with = "hex_address")]
    pub code_address: u64,
    /// Number of the innermost other loop of the map that contains this loop; `None` if there is
    /// none.
    pub outer_number: Option<u32>,
    /// Which of the loop's exits are tagged. An exit is a block outside of the loop to which a
    /// block of the loop leads.
    pub tagged_exits: Exits,
}

/// A function or block that is not tagged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFunction {
    /// Name for display.
    pub name: String,
    /// Reason why the function or block is not tagged.
    pub reason: String,
}

/// Returns a new random [`TagMap::id`].
pub fn new_id() -> [u8; 8] {
    // The hasher's keys are random.
    RandomState::new().build_hasher().finish().to_le_bytes()
}

impl TagMap {
    /// Path of the map of a log.
    pub fn path_beside(log: &Path) -> PathBuf {
        let mut name = OsString::from(log);
        name.push(".json");
        name.into()
    }

    /// Reads a map of this version or of an older one.
    ///
    /// # Errors
    /// [`TagMapError::Read`], [`TagMapError::Parse`], or [`TagMapError::Version`] for any other
    /// version.
    pub fn load(path: &Path) -> Result<Self, TagMapError> {
        let bytes = fs::read(path).map_err(|error| TagMapError::Read(path.into(), error))?;
        let parse = |error| TagMapError::Parse(path.into(), error);
        // A file of another version may lack fields of this one.
        let Stated { version } = serde_json::from_slice(&bytes).map_err(parse)?;
        match version {
            OLDEST_VERSION..=VERSION => {
                let map: TagMap = serde_json::from_slice(&bytes).map_err(parse)?;
                Ok(TagMap { version: VERSION, ..map })
            }
            version => Err(TagMapError::Version { path: path.into(), found: version }),
        }
    }

    /// Writes a file, or replaces it as a whole.
    ///
    /// # Errors
    /// [`TagMapError::Write`]; an existing file is unchanged then.
    pub fn save(&self, path: &Path) -> Result<(), TagMapError> {
        self.save_by(path, |unfinished| fs::rename(unfinished, path))
    }

    /// Writes a file that must not exist yet.
    ///
    /// # Errors
    /// [`TagMapError::Write`]; an existing file is unchanged then.
    pub fn save_new(&self, path: &Path) -> Result<(), TagMapError> {
        self.save_by(path, |unfinished| {
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(CWD, unfinished, CWD, path, flags) {
                // Not every file system supports NOREPLACE.
                Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(path).is_err() => {
                    fs::rename(unfinished, path)
                }
                renamed => Ok(renamed?),
            }
        })
    }

    /// Writes the map to an unfinished file, and calls `rename` to give the file its name.
    fn save_by(
        &self,
        path: &Path,
        rename: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<(), TagMapError> {
        let mut unfinished = OsString::from(path);
        unfinished.push(format!(".{}", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        let create = || {
            // `create_new` follows no symbolic link at this path.
            fs::OpenOptions::new().write(true).create_new(true).mode(MODE).open(&unfinished)
        };
        let write = || {
            let text = serde_json::to_string_pretty(self).map_err(io::Error::from)?;
            let file = create().or_else(|error| match error.kind() {
                // A killed process with the same id has left the file.
                io::ErrorKind::AlreadyExists => {
                    fs::remove_file(&unfinished)?;
                    create()
                }
                _ => Err(error),
            });
            file?.write_all((text + "\n").as_bytes())?;
            rename(&unfinished)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&unfinished);
            TagMapError::Write(path.into(), error)
        })
    }
}

#[derive(Deserialize)]
struct Stated {
    version: u32,
}

/// Converts addresses to hexadecimal text without a prefix, as `hmtt tag list` prints them. Reading
/// accepts a prefix, and numbers.
mod hex_address {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Address {
        Number(u64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{address:x}"))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<u64, D::Error> {
        match Address::deserialize(deserializer)? {
            Address::Number(address) => Ok(address),
            Address::Text(text) => {
                let digits = text.strip_prefix("0x").unwrap_or(&text);
                u64::from_str_radix(digits, 16)
                    .map_err(|_| D::Error::custom(format!("{text} is no address")))
            }
        }
    }
}

/// Converts an address that may be missing, as [`hex_address`] does.
mod optional_hex_address {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::hex_address;

    #[derive(Serialize, Deserialize)]
    struct Address(#[serde(with = "hex_address")] u64);

    pub fn serialize<S: Serializer>(
        address: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        address.map(Address).serialize(serializer)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Address>::deserialize(deserializer)?.map(|Address(address)| address))
    }
}

/// Converts eight bytes to 16 hexadecimal digits, the first byte first, and back.
mod hex_bytes {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8; 8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", u64::from_be_bytes(*bytes)))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<[u8; 8], D::Error> {
        let text = String::deserialize(deserializer)?;
        match u64::from_str_radix(&text, 16) {
            Ok(number) if text.len() == 16 => Ok(number.to_be_bytes()),
            _ => Err(D::Error::custom(format!("{text} is not 16 hexadecimal digits"))),
        }
    }
}
