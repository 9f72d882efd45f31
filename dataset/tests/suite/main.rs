//! Tests data sets: what they hold, compared with the truth; what interrupted and repeated changes
//! leave; what a database reads.

mod changes;
mod database;
mod documented;
mod full_disk;
mod hostile;
mod kill;
mod logs;
mod pieces;
mod samples;
mod together;
mod truth;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hmtt_dataset::{AddOptions, Added, Dataset};

/// The names with which the tests, and `change_dataset.rs`, add captures.
pub const OPTIONS: AddOptions<'static> = AddOptions { run: "example", receiver: None };

/// Adds a capture that the data set does not have.
pub fn add(dataset: &Dataset, capture: &Path) {
    let added = dataset.add(capture, &OPTIONS).unwrap();
    assert!(matches!(added, Added::New(_)), "{added:?}");
}

/// All files in a folder but locks, with their bytes, in the order of their paths from there. Links
/// are not followed.
pub fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut contents = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_none_or(|end| end != "lock") {
                let relative = path.strip_prefix(root).unwrap().to_owned();
                contents.push((relative, std::fs::read(path).unwrap()));
            }
        }
    }
    contents.sort();
    contents
}

/// Files of a data set that readers see, with their bytes.
pub fn visible(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let parts = Dataset::new(root).parts().unwrap();
    parts
        .into_iter()
        .map(|(_, path)| (path.clone(), std::fs::read(root.join(path)).unwrap()))
        .collect()
}

/// Names in the staging folder.
pub fn staged(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join(".staging")).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
