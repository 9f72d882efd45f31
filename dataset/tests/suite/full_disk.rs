//! Adds captures to a file system that becomes full at each step.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hmtt_dataset::Dataset;
use hmtt_test_support::files::skipped;

use crate::samples::{BEFORE_THE_HOUR, everything, write};
use crate::{OPTIONS, add, staged, visible};

/// A mounted file system of limited size, which is unmounted at the end.
struct Disk<'a>(&'a Path);

impl Disk<'_> {
    /// Mounts or remounts it. `limit`: `size=` or `nr_inodes=`, with a number. Returns whether that
    /// was possible.
    fn mount(&self, limit: &str) -> bool {
        let arguments = ["-t", "tmpfs", "-o", limit, "tmpfs"];
        Command::new("mount")
            .args(arguments)
            .arg(self.0)
            .output()
            .is_ok_and(|done| done.status.success())
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).output();
    }
}

#[test]
fn a_full_disk_leaves_whole_parts_and_a_repetition_completes_them() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let whole = Dataset::new(folder.path().join("whole"));
    add(&whole, &capture);
    let whole = visible(whole.root());
    let sizes = (1..40).map(|pages| ("size", format!("size={}k", 4 * pages)));
    let inodes = (2..90).map(|inodes| ("nr_inodes", format!("nr_inodes={inodes}")));
    let mut failures = 0;
    for (what, limit) in sizes.chain(inodes) {
        let root = folder.path().join("disk");
        std::fs::create_dir_all(&root).unwrap();
        let disk = Disk(&root);
        if !disk.mount(&limit) {
            return skipped("a file system cannot be mounted");
        }
        let dataset = Dataset::new(&root);
        let is_added = dataset.add(&capture, &OPTIONS).is_ok();
        failures += usize::from(!is_added);
        let left = visible(&root);
        let is_whole = |(path, bytes): (&_, &_)| whole.get(path) == Some(bytes);
        assert!(left.iter().all(is_whole), "{limit}");
        assert!(disk.mount(&format!("remount,{what}=1000000")), "{limit}");
        dataset.add(&capture, &OPTIONS).unwrap();
        assert!(visible(&root) == whole, "{limit}");
        assert_eq!(staged(&root), ["commit.lock"], "{limit}");
    }
    // Of each limit, the lower values are too low and the highest ones are not.
    assert!((30..120).contains(&failures), "{failures}");
}
