//! Reads and writes journals. A journal lists the steps of a change of a data set.
//!
//! A data set may come from another person, so a journal may name only parts of its own data set.
//! Each path must consist of a partition and the name of a part, and the name of each staged file
//! must be a number. All parts are placed before any part is removed.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::partition::{Partition, is_published_name, part};

/// Name of a complete journal in its staging folder.
pub const JOURNAL: &str = "journal";
/// Name of a journal until the journal is complete.
pub const UNFINISHED_JOURNAL: &str = "journal.new";
/// Longest journal that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A step of a change. Paths are relative to the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Place a staged file as a new part.
    Place {
        /// Name in the staging folder.
        staged: String,
        /// Path of the part.
        path: PathBuf,
    },
    /// Remove a part.
    Remove {
        /// Path of the part.
        path: PathBuf,
    },
}

/// A step whose path is split into partition and name.
#[derive(Clone, Debug)]
pub enum PartStep<'a> {
    /// Place the staged file as this part.
    Place(&'a str, Partition, &'a str),
    /// Remove this part.
    Remove(Partition, &'a str),
}

impl Step {
    /// Splits the path of the step. Returns `None` if the names cannot belong to a data set.
    pub fn parts(&self) -> Option<PartStep<'_>> {
        match self {
            Step::Place { staged, path } => {
                let is_number =
                    !staged.is_empty() && staged.bytes().all(|byte| byte.is_ascii_digit());
                let (partition, name) = part(path)?;
                let is_part = is_number && is_published_name(name);
                is_part.then_some(PartStep::Place(staged, partition, name))
            }
            Step::Remove { path } => {
                part(path).map(|(partition, name)| PartStep::Remove(partition, name))
            }
        }
    }

    /// Path of the part.
    pub fn path(&self) -> &Path {
        match self {
            Step::Place { path, .. } | Step::Remove { path } => path,
        }
    }

    /// Whether the step places a part.
    pub fn is_place(&self) -> bool {
        matches!(self, Step::Place { .. })
    }
}

/// Reads a journal. Returns `None` if it is damaged, or has steps that no change of a data set has.
pub fn read(file: File) -> std::io::Result<Option<Vec<Step>>> {
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Ok(None);
    }
    let steps: Option<Vec<Step>> = serde_json::from_slice(&text).ok();
    let is_change = |steps: &Vec<Step>| {
        steps.iter().all(|step| step.parts().is_some())
            && steps.is_sorted_by_key(|step| !step.is_place())
    };
    Ok(steps.filter(is_change))
}

/// Whether a name is the name of a staging folder: a process id, a hyphen, and a time.
pub fn is_staging_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('-').is_some_and(|(process, time)| is_number(process) && is_number(time))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn parsed(text: &str) -> Option<Vec<Step>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        read(file).unwrap()
    }

    fn place(staged: &str, path: &str) -> String {
        serde_json::json!({"place": {"staged": staged, "path": path}}).to_string()
    }

    #[test]
    fn journals_name_parts_of_the_data_set_alone() {
        const FOLDER: &str = "kind=accesses/run=a/board=b/hour=2026112217";
        let name = format!("{}-0.parquet", "0123456789abcdef".repeat(2));
        let good = place("0", &format!("{FOLDER}/{name}"));
        let remove = format!("{{\"remove\":{{\"path\":\"{FOLDER}/other.parquet\"}}}}");
        assert_eq!(parsed(&format!("[{good},{remove}]")).unwrap().len(), 2);
        assert_eq!(parsed(&format!("[{remove},{good}]")), None, "removed before others are placed");
        let paths = [
            "x/authorized_keys".to_owned(),
            name.clone(),
            format!("/{FOLDER}/{name}"),
            format!("../{FOLDER}/{name}"),
            format!("{FOLDER}/../{name}"),
            format!("./{FOLDER}/{name}"),
            format!("{FOLDER}//{name}"),
            format!("{FOLDER}/{name}/"),
            format!("{FOLDER}/x/{name}"),
            format!("{FOLDER}/other.parquet"),
            format!("{FOLDER}/.parquet"),
            format!("kind=accesses/run=a/board=b/{name}"),
        ];
        for path in paths {
            assert_eq!(parsed(&format!("[{}]", place("0", &path))), None, "{path}");
        }
        for staged in ["", "..", "../0", "/etc/passwd", "journal", "0/1"] {
            let path = format!("{FOLDER}/{name}");
            assert_eq!(parsed(&format!("[{}]", place(staged, &path))), None, "{staged}");
        }
        assert_eq!(parsed("[{\"remove\":{\"path\":\"x/shadow\"}}]"), None);
    }
}
