//! Tests data sets: what they hold, compared with the truth; what interrupted and repeated changes leave; what a
//! database reads.

mod changes;
mod database;
mod documented;
mod full_disk;
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

/// Files of a data set that databases see, with their bytes.
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
