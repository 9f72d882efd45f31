//! Tests that a file holds exactly the bytes that were written, drained, flushed and reclaimed, in
//! any order.

use super::reservation::RESERVE_BYTES;
use super::*;
use proptest::prelude::*;

fn file(name: &str) -> (tempfile::TempDir, DiskFile) {
    let folder = tempfile::tempdir().unwrap();
    let entry = Entry::find(&folder.path().join(name)).unwrap().unwrap();
    let file = DiskFile::create(&entry, 0o600, false).unwrap();
    (folder, file)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// All bytes that are written, drained and flushed, in pieces of any size, are in the file.
    /// After each flush the file already has all bytes so far.
    #[test]
    fn what_is_written_is_in_the_file(
        steps in proptest::collection::vec((0usize..20_000, 0u8..4), 1..40),
    ) {
        let (_folder, mut file) = file("a");
        let path = file.path().to_owned();
        let mut expected = Vec::new();
        for (length, action) in steps {
            let bytes: Vec<u8> = (0..length).map(|i| (i + expected.len()) as u8).collect();
            file.write_all(&bytes).unwrap();
            file.mark(1);
            expected.extend(bytes);
            match action {
                0 => file.drain(false).unwrap(),
                1 => file.drain(true).unwrap(),
                2 => {
                    DiskFile::flush(&mut file).unwrap();
                    prop_assert!(std::fs::read(&path).unwrap() == expected);
                }
                _ => {}
            }
        }
        prop_assert_eq!(file.finish().length, expected.len() as u64);
        prop_assert!(std::fs::read(&path).unwrap() == expected);
    }

    /// The reclaimed units and the units that stay in the file are together the written ones, and
    /// the file ends at a mark.
    #[test]
    fn a_reclaimed_file_ends_at_a_mark(
        units in proptest::collection::vec((1usize..9000, 0u8..4), 1..30),
    ) {
        let (_folder, mut file) = file("b");
        let path = file.path().to_owned();
        let (mut expected, mut ends) = (Vec::new(), vec![0]);
        for (length, action) in &units {
            let bytes = vec![expected.len() as u8; *length];
            file.write_all(&bytes).unwrap();
            file.mark(1);
            expected.extend(bytes);
            ends.push(expected.len());
            match action {
                0 => file.drain(false).unwrap(),
                1 => DiskFile::flush(&mut file).unwrap(),
                _ => {}
            }
        }
        let leftover = file.reclaim().unwrap();
        let length = file.finish().length as usize;
        prop_assert!(ends.contains(&length));
        prop_assert_eq!(leftover.units as usize, ends.iter().filter(|end| **end > length).count());
        let mut whole = std::fs::read(&path).unwrap();
        prop_assert_eq!(whole.len(), length);
        whole.extend(leftover.bytes);
        prop_assert!(whole == expected);
    }
}

#[test]
fn what_is_reserved_and_not_used_is_given_back() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, mut file) = file("c");
    file.write_all(&vec![1; DRAIN_BYTES]).unwrap();
    file.drain(false).unwrap();
    let path = file.path().to_owned();
    let usage = || std::fs::metadata(&path).unwrap().blocks() * 512;
    if usage() < RESERVE_BYTES {
        eprintln!("skipped: this file system reserves nothing");
        return;
    }
    file.trim().unwrap();
    assert!(usage() < 2 * DRAIN_BYTES as u64, "{} bytes taken", usage());
    file.write_all(&[2; 10]).unwrap();
    assert_eq!(file.finish().length, DRAIN_BYTES as u64 + 10);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), DRAIN_BYTES as u64 + 10);
}
