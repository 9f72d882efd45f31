//! What the numbers in a tag log or in a card's tags stand for, to a file beside the log and back.
//!
//! The file is JSON, `LOG.json` beside `LOG`, replaced as a whole whenever something is tagged or no longer
//! is: who reads it finds one state or the next. Functions and blocks share one space of numbers, and a number
//! never changes its meaning.

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

/// Permissions of a new file, less what the umask takes away: it says what a program does.
const MODE: u32 = 0o600;

/// Version of the file. Any change that a reader must know of raises it.
pub const VERSION: u32 = 2;

/// Why a map cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TagMapError {
    /// The file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file cannot be written.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// It holds something else.
    #[error("{} is no tag map", .0.display())]
    Parse(PathBuf, #[source] serde_json::Error),
    /// It is of a version this is not a reader of.
    #[error("{}: a tag map of version {found}, not {VERSION}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// What numbers stand for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagMap {
    /// [`VERSION`].
    pub version: u32,
    /// The same in the log.
    #[serde(with = "hex_bytes")]
    pub id: [u8; 8],
    /// The program's file.
    pub program: PathBuf,
    /// The process.
    pub pid: u32,
    /// Where tags go: `log`, or another of `--sink`.
    pub sink: String,
    /// Events have times.
    pub timed: bool,
    /// Ticks of the time stamp counter in a second; 0 if they are not known.
    pub tsc_hz: u64,
    /// Where the card sees tags, if it does.
    pub window: Option<Window>,
    /// What is tagged, or was.
    pub functions: Vec<TaggedFunction>,
    /// Basic blocks that are tagged: they are entered, never left.
    pub blocks: Vec<TaggedBlock>,
    /// What was chosen and is not tagged.
    pub refused: Vec<RefusedFunction>,
}

/// Physical addresses that are tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first.
    #[serde(with = "hex_address")]
    pub address: u64,
    /// From one number's to the next one's.
    pub stride_bytes: u32,
    /// Size of the whole.
    pub bytes: u64,
}

/// A function with a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedFunction {
    /// In events.
    pub number: u32,
    /// For people.
    pub name: String,
    /// All the names that its symbols have, as they are in the file.
    pub symbols: Vec<String>,
    /// The program or library it is in.
    pub object: PathBuf,
    /// Its address in the process.
    #[serde(with = "hex_address")]
    pub code_address: u64,
    /// Its bytes.
    pub size_bytes: u64,
    /// Which of its exits are tagged.
    pub tagged_exits: Exits,
    /// Why it is not tagged any more.
    pub removed: Option<String>,
}

/// Which of a function's exits are tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exits {
    /// All.
    All,
    /// Some.
    Some,
    /// None.
    None,
}

/// A basic block with a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedBlock {
    /// In events.
    pub number: u32,
    /// The function it is part of.
    pub function_number: u32,
    /// Its address in the process.
    #[serde(with = "hex_address")]
    pub code_address: u64,
    /// Its bytes.
    pub size_bytes: u64,
}

/// A function that is not tagged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFunction {
    /// For people.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// What links a log to its map: another each time.
pub fn new_id() -> [u8; 8] {
    // The hasher's keys are random.
    RandomState::new().build_hasher().finish().to_le_bytes()
}

impl TagMap {
    /// Where the map of a log is.
    pub fn path_beside(log: &Path) -> PathBuf {
        let mut name = OsString::from(log);
        name.push(".json");
        name.into()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`TagMapError`].
    pub fn load(path: &Path) -> Result<Self, TagMapError> {
        let bytes = fs::read(path).map_err(|error| TagMapError::Read(path.into(), error))?;
        let parse = |error| TagMapError::Parse(path.into(), error);
        // Another version's may lack what this one's has.
        let Stated { version } = serde_json::from_slice(&bytes).map_err(parse)?;
        match version {
            VERSION => serde_json::from_slice(&bytes).map_err(parse),
            found => Err(TagMapError::Version { path: path.into(), found }),
        }
    }

    /// Writes a file, or replaces it as a whole.
    ///
    /// # Errors
    /// [`TagMapError::Write`]; what was there still is.
    pub fn save(&self, path: &Path) -> Result<(), TagMapError> {
        self.save_by(path, |unfinished| fs::rename(unfinished, path))
    }

    /// Writes a file that must not exist yet.
    ///
    /// # Errors
    /// [`TagMapError::Write`]; what was there still is.
    pub fn save_new(&self, path: &Path) -> Result<(), TagMapError> {
        self.save_by(path, |unfinished| {
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(CWD, unfinished, CWD, path, flags) {
                // Not every file system can do that at once.
                Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(path).is_err() => {
                    fs::rename(unfinished, path)
                }
                renamed => Ok(renamed?),
            }
        })
    }

    /// `rename`: gives the finished file its name.
    fn save_by(
        &self,
        path: &Path,
        rename: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<(), TagMapError> {
        let mut unfinished = OsString::from(path);
        unfinished.push(format!(".{}", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        let create = || {
            // No link that somebody has put there is followed.
            fs::OpenOptions::new().write(true).create_new(true).mode(MODE).open(&unfinished)
        };
        let write = || {
            let text = serde_json::to_string_pretty(self).map_err(io::Error::from)?;
            let file = create().or_else(|error| match error.kind() {
                // Left by a process of the same number that was killed.
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

/// Addresses as `hmtt tag list` prints them: hexadecimal, no prefix. Numbers are taken as well.
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

/// Eight bytes as 16 hexadecimal digits, the first byte first.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TagMap {
        let function = TaggedFunction {
            number: 0,
            name: "main".into(),
            symbols: vec!["main".into(), "start_here".into()],
            object: "/bin/prog".into(),
            code_address: 0x5555_0000_1139,
            size_bytes: 40,
            tagged_exits: Exits::All,
            removed: Some("over budget".into()),
        };
        TagMap {
            version: VERSION,
            id: [0, 1, 2, 3, 4, 5, 6, 0xff],
            program: "/bin/prog".into(),
            pid: 7,
            sink: "log".into(),
            timed: true,
            tsc_hz: 2_400_000_000,
            window: Some(Window { address: 1 << 40, stride_bytes: 64, bytes: 4096 }),
            functions: vec![function],
            blocks: vec![TaggedBlock {
                number: 1,
                function_number: 0,
                code_address: 0x5555_0000_1140,
                size_bytes: 5,
            }],
            refused: vec![RefusedFunction { name: "tiny".into(), reason: "too short".into() }],
        }
    }

    #[test]
    fn a_map_survives_its_file_and_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = TagMap::path_beside(&folder.path().join("tags.log"));
        assert_eq!(path, folder.path().join("tags.log.json"));
        TagMap { pid: 8, ..map() }.save(&path).unwrap();
        map().save(&path).unwrap();
        assert_eq!(TagMap::load(&path).unwrap(), map());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"id\": \"00010203040506ff\""), "{text}");
        assert!(text.contains("\"code_address\": \"555500001139\""), "{text}");
        assert!(text.contains("\"tagged_exits\": \"all\""), "{text}");
    }

    #[test]
    fn addresses_may_be_numbers() {
        let text = serde_json::to_string(&map()).unwrap();
        for other in ["0x555500001139", "555500001139"] {
            let text = text.replace("555500001139", other);
            assert_eq!(serde_json::from_str::<TagMap>(&text).unwrap(), map());
        }
        let text = text.replace("\"555500001139\"", "93823560585529");
        assert_eq!(serde_json::from_str::<TagMap>(&text).unwrap(), map());
        let text = text.replace("93823560585529", "\"main\"");
        assert!(serde_json::from_str::<TagMap>(&text).is_err());
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            TagMap::load(&path).unwrap_err().to_string()
        };
        assert!(refused("{\"version\": 1}").contains("x.json: a tag map of version 1, not 2"));
        assert!(refused("[]").contains("x.json is no tag map"));
        assert!(refused("{\"version\": 2}").contains("x.json is no tag map"));
        fs::remove_file(&path).unwrap();
        assert!(TagMap::load(&path).unwrap_err().to_string().contains("cannot read"));
        assert!(map().save(&path.join("y")).unwrap_err().to_string().contains("cannot write"));
    }

    #[test]
    fn ids_differ() {
        assert_ne!(new_id(), new_id());
    }
}
