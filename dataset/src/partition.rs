//! Names the folders of a data set: `kind=TABLE/run=RUN/board=BOARD/hour=HOUR`.
//!
//! Names of runs and boards come from users and from captures. In a folder name, each byte other
//! than a letter, a digit, `-`, `_` and `.` is written as `%XX`. Hive writes such names in the same
//! way, and its readers undo this. Invariant: two partitions have two folders.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use crate::hour::Hour;
use crate::identity::CaptureHash;
use crate::schema::Table;

/// The folder of some parts, with the values that all of their rows share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The table.
    pub table: Table,
    /// Name of the run.
    pub run: String,
    /// Name of the board.
    pub board: String,
    /// Hour in which the frames of the rows arrived.
    pub hour: Hour,
}

impl Partition {
    /// Path of the folder, relative to the data set.
    pub fn folder(&self) -> PathBuf {
        let Partition { table, run, board, hour } = self;
        let (table, run, board) = (table.name(), escape(run), escape(board));
        format!("kind={table}/run={run}/board={board}/hour={hour}").into()
    }

    /// Parses the path of a partition's folder, relative to the data set. Returns `None` if a
    /// partition has no such path.
    pub fn parse(folder: &Path) -> Option<Partition> {
        let mut names = folder.components().map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let mut value = |key: &str| names.next()??.strip_prefix(key)?.strip_prefix('=');
        let table = Table::from_name(value("kind")?)?;
        let (run, board) = (unescape(value("run")?)?, unescape(value("board")?)?);
        let hour = Hour::parse(value("hour")?)?;
        names.next().is_none().then_some(Partition { table, run, board, hour })
    }
}

/// Splits the path of a part, relative to the data set, into its partition and its name. Returns
/// `None` for any other path, and for another spelling of a part's path.
pub(crate) fn part(path: &Path) -> Option<(Partition, &str)> {
    let partition = Partition::parse(path.parent()?)?;
    let name = path.file_name()?.to_str()?;
    let is_part = name.strip_suffix(".parquet").is_some_and(|stem| !stem.is_empty());
    let is_same = partition.folder().join(name).as_os_str() == path.as_os_str();
    (is_part && is_same).then_some((partition, name))
}

/// Whether a part has a name that this crate gives: `HASH-NUMBER.parquet` or `merged-HASH.parquet`.
pub(crate) fn is_published_name(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".parquet") else { return false };
    match stem.split_once('-') {
        Some(("merged", hash)) => CaptureHash::parse(hash).is_some(),
        Some((hash, number)) => {
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number && CaptureHash::parse(hash).is_some()
        }
        None => false,
    }
}

/// Extensions of captures.
const CAPTURE_EXTENSIONS: [&str; 2] = [".pcapng", ".pcap"];
/// Extensions of compressed files that can be read.
const COMPRESSIONS: [&str; 3] = [".zst", ".gz", ".lz4"];

/// The name of a run, if the user gives none. It is the file name of the capture or log without
/// extension, and without the text that `hmtt-recv -b` or `hmtt tag -f` appends. Examples:
/// `trace_00001_20261122081500.pcapng` gives `trace`, `prog.tags.4711.2` gives `prog`.
pub fn default_run(capture: &Path) -> String {
    let name = file_name(capture);
    if let Some(stem) = log_stem(&name) {
        return stem.to_owned();
    }
    let stem = uncompressed(&name);
    let stem = CAPTURE_EXTENSIONS.iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    let mut parts = stem.rsplitn(3, '_');
    let is_digits = |part: Option<&str>, least: usize| {
        part.is_some_and(|part| {
            part.len() >= least && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let is_of_series = is_digits(parts.next(), 14) && is_digits(parts.next(), 5);
    match parts.next() {
        Some(series) if is_of_series && !series.is_empty() => series.to_owned(),
        _ => stem.to_owned(),
    }
}

/// Whether a file has the name of a capture.
pub(crate) fn is_capture_name(path: &Path) -> bool {
    let name = file_name(path);
    CAPTURE_EXTENSIONS.iter().any(|end| uncompressed(&name).ends_with(end))
}

/// A file name without the extension of a compression.
fn uncompressed(name: &str) -> &str {
    COMPRESSIONS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Whether a file has the name of a log of tags.
pub(crate) fn is_log_name(path: &Path) -> bool {
    log_stem(&file_name(path)).is_some()
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// The name of a log of tags without its extension, and without the process id and the number of
/// the program. Returns `None` for other names.
fn log_stem(name: &str) -> Option<&str> {
    let mut stem = name;
    for _ in 0..2 {
        let is_number =
            |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
        let Some((before, _)) = stem.rsplit_once('.').filter(|(_, end)| is_number(end)) else {
            break;
        };
        stem = before;
    }
    stem.strip_suffix(".tags").filter(|stem| !stem.is_empty())
}

/// Escapes a name for a folder. Example: `a/b` becomes `a%2Fb`.
pub fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(byte.into());
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Undoes [`escape`]. Returns `None` for a text that [`escape`] cannot return.
pub fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = escaped.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                (u8::from_str_radix(digits, 16).ok()?, after)
            }
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok().filter(|name| escape(name) == escaped)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn folders_parse_back(run in any::<String>(), board in any::<String>(), seconds in any::<u64>()) {
            let hour = Hour::of(Duration::from_secs(seconds));
            let partition = Partition { table: Table::Gaps, run, board, hour };
            let folder = partition.folder();
            prop_assert_eq!(folder.components().count(), 4);
            prop_assert_eq!(Partition::parse(&folder), Some(partition));
        }

        #[test]
        fn any_path_parses_or_is_none(path in "(kind=gaps/run=)?[a%=/.0-9A-F]{0,30}") {
            if let Some(partition) = Partition::parse(Path::new(&path)) {
                prop_assert_eq!(partition.folder(), Path::new(&path));
            }
        }
    }

    #[test]
    fn captures_of_a_series_are_of_one_run() {
        let run = |path: &str| default_run(Path::new(path));
        assert_eq!(run("/a/trace_00001_20261122081500.pcapng"), "trace");
        assert_eq!(run("my_trace_00012_20261122081500.pcapng.zst"), "my_trace");
        assert_eq!(run("trace_1.pcapng"), "trace_1");
        assert_eq!(run("mirror.pcap.gz"), "mirror");
        assert_eq!(run("/a/prog.tags"), "prog");
        assert_eq!(run("prog.tags.4711.2"), "prog");
        assert_eq!(run("prog.tags.4711.2.json"), "prog.tags.4711.2.json");
        assert_eq!(run("_00001_20261122081500.pcapng"), "_00001_20261122081500");
    }

    #[test]
    fn names_are_escaped_as_hive_does() {
        assert_eq!(escape("eth0.3-a_B"), "eth0.3-a_B");
        assert_eq!(escape("a/b=c:ü"), "a%2Fb%3Dc%3A%C3%BC");
        assert_eq!(unescape("%2f"), None, "another spelling");
    }
}
