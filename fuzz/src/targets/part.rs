//! Checks that any file in place of a data set's part is checked and merged, or is an error, with
//! the same result each time. The first byte chooses the table.

use std::fs;
use std::path::PathBuf;

use hmtt_dataset::{AddOptions, Dataset, Table};
use hmtt_test_support::call_log;

/// Returns the folder of a data set for this process. The folder is in memory if possible.
pub(super) fn folder(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    base.join(format!("hmtt-fuzz-{name}-{}", std::process::id()))
}

/// Checks a data set with one part twice, and merges the part with its copy.
///
/// # Panics
/// If results differ, or a folder cannot be written to.
pub fn check(bytes: &[u8]) {
    let Some((first, part)) = bytes.split_first() else { return };
    let table = Table::ALL[usize::from(*first) % Table::ALL.len()];
    let root = folder("part");
    let partition = root.join(format!("kind={}/run=a/board=b/hour=2023111422", table.name()));
    fs::create_dir_all(&partition).expect("the folder is writable");
    fs::write(partition.join("one.parquet"), part).expect("the folder is writable");
    let dataset = Dataset::new(&root);
    let first_check = dataset.check().expect("the folder can be read");
    assert_eq!(dataset.check().expect("the folder can be read"), first_check);
    fs::write(partition.join("two.parquet"), part).expect("the folder is writable");
    let both = dataset.check().expect("the folder can be read");
    if let Ok(compacted) = dataset.compact() {
        let merged = dataset.check().expect("the folder can be read");
        if compacted.merged == 2 {
            assert_eq!(merged.parts, 1);
            assert_eq!((merged.access_rows, merged.sessions), (both.access_rows, both.sessions));
        }
    }
    fs::remove_dir_all(&root).expect("the folder is writable");
}

/// Returns the parts of a data set, each after the number of its table.
///
/// # Panics
/// If a folder cannot be written to.
pub fn parts(captures: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let root = folder("seeds");
    fs::create_dir_all(&root).expect("the folder is writable");
    let dataset = Dataset::new(root.join("data"));
    let options = AddOptions { run: "a", receiver: None };
    for capture in captures {
        let path = root.join("capture.pcapng");
        fs::write(&path, capture).expect("the folder is writable");
        // Some captures of the seeds are damaged on purpose.
        let _ = dataset.add(&path, &options);
    }
    let log = root.join("prog.tags");
    call_log::write(&log, 1, 3, 0, 5);
    dataset.add(&log, &options).expect("the log is whole");
    let parts = dataset.parts().expect("the folder can be read");
    let seed = |(partition, path): (hmtt_dataset::Partition, PathBuf)| {
        let number = Table::ALL.iter().position(|table| *table == partition.table);
        let part = fs::read(dataset.root().join(path)).expect("the part can be read");
        [&[number.unwrap_or_default() as u8], &part[..]].concat()
    };
    let seeds = parts.into_iter().map(seed).collect();
    fs::remove_dir_all(&root).expect("the folder is writable");
    seeds
}
