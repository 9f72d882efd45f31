//! Tests data sets that somebody else has made or can change: nothing outside of them is opened,
//! changed or waited for.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hmtt_dataset::{Added, Check, Compacted, Dataset, DatasetError, Table};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, chown, mkfifo};
use tempfile::TempDir;

use crate::samples::{BEFORE_THE_HOUR, everything, write};
use crate::{OPTIONS, add, files, visible};

/// Longest time for one command. None of them should wait.
const LONGEST: Duration = Duration::from_secs(120);
/// A user who is not root.
const NOBODY: u32 = 65534;
const STAGED: &str = ".staging/1-1";

/// A data set with one capture, and the capture.
struct Set {
    folder: TempDir,
    root: PathBuf,
    capture: PathBuf,
}

impl Set {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, capture) = (folder.path().join("data"), folder.path().join("capture.pcapng"));
        write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
        add(&Dataset::new(&root), &capture);
        Set { folder, root, capture }
    }

    /// A capture that the data set does not have.
    fn other(&self) -> PathBuf {
        let path = self.folder.path().join("other.pcapng");
        write(&path, &everything(), BEFORE_THE_HOUR, Duration::from_micros(7))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Leaves a change in the staging folder, as a killed process does.
    fn leave(&self, journal: &serde_json::Value) {
        std::fs::create_dir_all(self.path(STAGED)).unwrap();
        std::fs::write(self.path(".staging/1-1.lock"), "").unwrap();
        std::fs::write(self.path(STAGED).join("0"), "staged").unwrap();
        std::fs::write(self.path(STAGED).join("journal"), journal.to_string()).unwrap();
        // Whatever the umask is.
        for (name, mode) in [("", 0o755), ("0", 0o644), ("journal", 0o644)] {
            let path = self.path(STAGED).join(name);
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
}

type Outcomes = (
    Result<Check, DatasetError>,
    Result<Added, DatasetError>,
    Result<Compacted, DatasetError>,
    Result<u64, DatasetError>,
);

/// Reads the data set, then changes it in each way. Fails if that takes too long.
fn use_it(set: &Set) -> Outcomes {
    let (root, other) = (set.root.clone(), set.other());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let read = Dataset::open(&root).and_then(|dataset| {
            dataset.plan_pieces()?;
            dataset.check()
        });
        let dataset = Dataset::new(&root);
        let added = dataset.add(&other, &OPTIONS);
        let _ = sender.send((read, added, dataset.compact(), dataset.drop_run("example", None)));
    });
    receiver.recv_timeout(LONGEST).expect("no command waits")
}

/// Asserts that no change is made.
fn assert_unchanged(set: &Set, before: &[(PathBuf, Vec<u8>)]) {
    let (_, added, compacted, dropped) = use_it(set);
    for error in [
        added.map(drop).unwrap_err(),
        compacted.map(drop).unwrap_err(),
        dropped.map(drop).unwrap_err(),
    ] {
        let named = matches!(error, DatasetError::Foreign { .. } | DatasetError::Journal(_));
        assert!(named, "{}", error.in_full());
    }
    assert!(files(&set.root) == before, "the data set is unchanged");
}

#[test]
fn a_journal_of_the_author_moves_and_removes_nothing_outside() {
    let set = Set::new();
    let outside = set.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("keys"), "own").unwrap();
    symlink(&outside, set.path("x")).unwrap();
    let above = format!("../{}/keys", outside.file_name().unwrap().to_str().unwrap());
    for path in ["x/keys", &above, outside.join("keys").to_str().unwrap(), ".staging/commit.lock"] {
        for journal in [
            serde_json::json!([{"place": {"staged": "0", "path": path}}]),
            serde_json::json!([{"remove": {"path": path}}]),
        ] {
            set.leave(&journal);
            assert_unchanged(&set, &files(&set.root));
            assert_eq!(std::fs::read(outside.join("keys")).unwrap(), b"own", "{journal}");
            assert!(set.path(STAGED).join("0").exists(), "{journal}");
        }
    }
}

#[test]
fn a_journal_of_parts_behind_a_link_is_not_followed() {
    let set = Set::new();
    let (outside, kind) = (set.folder.path().join("outside"), set.path("kind=accesses"));
    std::fs::rename(&kind, &outside).unwrap();
    symlink(&outside, &kind).unwrap();
    let before = files(&outside);
    let (read, added, ..) = use_it(&set);
    for error in [read.map(drop).unwrap_err(), added.map(drop).unwrap_err()] {
        let text = error.in_full();
        assert!(text.contains("kind=accesses") && text.contains("link"), "{text}");
    }
    let [(part, _)] = &before[..] else { panic!("one part") };
    set.leave(&serde_json::json!([{"remove": {"path": Path::new("kind=accesses").join(part)}}]));
    drop(use_it(&set));
    assert!(files(&outside) == before, "nothing is placed or removed there");
}

#[test]
fn nothing_but_a_file_is_opened_as_one() {
    let places = [".staging/commit.lock", ".staging/1-1.lock", ".staging/1-1/journal", "part"];
    for place in places {
        for is_fifo in [true, false] {
            let set = Set::new();
            let target = set.folder.path().join("target");
            let part = visible(&set.root).into_keys().next().unwrap();
            let at = if place == "part" {
                set.path("").join(part)
            } else {
                set.leave(&serde_json::json!([{"remove": {"path": part}}]));
                set.path(place)
            };
            std::fs::remove_file(&at).unwrap();
            if is_fifo {
                mkfifo(&at, Mode::S_IRWXU).unwrap()
            } else {
                symlink(&target, &at).unwrap()
            }
            let (read, added, ..) = use_it(&set);
            assert!(added.is_err(), "{place}: {added:?}");
            // Readers open no locks.
            assert_eq!(read.is_ok(), place.ends_with(".lock"), "{place}: {read:?}");
            assert!(!target.exists() && at.symlink_metadata().is_ok(), "{place}");
        }
    }
}

#[test]
fn a_folder_of_another_user_is_read_and_never_changed() {
    if !Uid::effective().is_root() {
        println!("skipped: only root can give files to another user");
        return;
    }
    for is_of_other in ["", ".staging", ".staging/commit.lock", STAGED, ".staging/1-1/journal"] {
        let set = Set::new();
        let part = visible(&set.root).into_keys().next().unwrap();
        if is_of_other.contains("1-1") {
            set.leave(&serde_json::json!([{"remove": {"path": part}}]));
        }
        chown(&set.path(is_of_other), Some(NOBODY.into()), None).unwrap();
        let before = files(&set.root);
        let (read, ..) = use_it(&set);
        read.unwrap();
        assert_unchanged(&set, &before);
    }
    // What others can write to is not trusted either.
    let set = Set::new();
    let part = visible(&set.root).into_keys().next().unwrap();
    set.leave(&serde_json::json!([{"remove": {"path": part}}]));
    let journal = set.path(STAGED).join("journal");
    std::fs::set_permissions(journal, Permissions::from_mode(0o666)).unwrap();
    assert_unchanged(&set, &files(&set.root));
}

#[test]
fn a_link_of_another_user_to_a_folder_is_not_followed_for_changes() {
    if !Uid::effective().is_root() {
        println!("skipped: only root can give links to another user");
        return;
    }
    let set = Set::new();
    let (own, link) = (set.folder.path().join("own"), set.folder.path().join("link"));
    std::fs::create_dir(&own).unwrap();
    symlink(&own, &link).unwrap();
    add(&Dataset::new(&link), &set.capture);
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
    let text = Dataset::new(&link).add(&set.capture, &OPTIONS).unwrap_err().in_full();
    assert!(text.contains("symbolic link of user 65534"), "{text}");
    assert_eq!(files(&own), []);
}

/// Leaves a change that an earlier process began: some parts are placed, and others are not.
fn interrupt(set: &Set, placed: usize) -> Vec<PathBuf> {
    let parts: Vec<PathBuf> = visible(&set.root).into_keys().collect();
    let steps: Vec<serde_json::Value> = (parts.iter().zip(0..))
        .map(|(path, at)| serde_json::json!({"place": {"staged": at.to_string(), "path": path}}))
        .collect();
    set.leave(&steps.into());
    std::fs::remove_file(set.path(STAGED).join("0")).unwrap();
    for (at, part) in parts.iter().enumerate().skip(placed) {
        std::fs::rename(set.path("").join(part), set.path(STAGED).join(at.to_string())).unwrap();
    }
    parts
}

#[test]
fn a_reader_sees_all_of_an_unfinished_change_or_nothing_and_the_next_writer_completes_it() {
    let count = visible(&Set::new().root).len();
    assert!(count > 3);
    for placed in 0..=count {
        let set = Set::new();
        let whole = visible(&set.root);
        interrupt(&set, placed);
        let before = files(&set.root);
        let dataset = Dataset::open(&set.root).unwrap();
        let seen = if placed == count { count } else { 0 };
        assert_eq!(dataset.parts().unwrap().len(), seen, "{placed} placed");
        assert_eq!(dataset.unfinished_changes().unwrap(), 1);
        let check = dataset.check().unwrap();
        assert_eq!((check.problem_count, check.parts), (0, seen as u64));
        assert!(files(&set.root) == before, "a reader changes nothing");
        assert!(matches!(dataset.add(&set.capture, &OPTIONS).unwrap(), Added::Present));
        assert!(visible(&set.root) == whole);
        assert_eq!(dataset.unfinished_changes().unwrap(), 0);
    }
}

#[test]
fn a_reader_sees_nothing_of_what_is_being_removed() {
    let set = Set::new();
    let parts: Vec<PathBuf> = visible(&set.root).into_keys().collect();
    let steps: Vec<serde_json::Value> =
        parts.iter().map(|path| serde_json::json!({"remove": {"path": path}})).collect();
    set.leave(&steps.into());
    let dataset = Dataset::open(&set.root).unwrap();
    assert_eq!(dataset.parts().unwrap(), []);
    std::fs::remove_file(set.path("").join(&parts[0])).unwrap();
    assert_eq!(dataset.parts().unwrap(), []);
    add(&dataset, &set.capture);
}

#[test]
fn a_reader_beside_writers_sees_whole_captures() {
    let set = Set::new();
    let other = set.other();
    let dataset = Dataset::open(&set.root).unwrap();
    let whole = dataset.parts().unwrap().len();
    let whole_runs = dataset.parts_of(Table::Runs).unwrap().len();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let dataset = Dataset::new(&set.root);
            for _ in 0..40 {
                dataset.drop_run("example", None).unwrap();
                add(&dataset, &set.capture);
                add(&dataset, &other);
            }
            sender.send(()).unwrap();
        });
        let mut seen = std::collections::BTreeSet::new();
        while receiver.try_recv().is_err() {
            let parts = dataset.parts().unwrap();
            let runs = parts.iter().filter(|(of, _)| of.table == Table::Runs).count();
            assert_eq!(
                (parts.len() % whole, parts.len() / whole),
                (0, runs / whole_runs),
                "{parts:?}"
            );
            seen.insert(parts.len());
        }
        println!("{seen:?}");
    });
}
