//! Several processes change one data set at the same time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hmtt_dataset::Dataset;

use crate::changes::series;
use crate::samples::{BEFORE_THE_HOUR, everything, write};
use crate::{add, staged, visible};

/// Repetitions: which process is first differs.
const TIMES: usize = 12;

/// Starts a process that changes a data set.
fn start(what: &str, root: &Path, captures: &[PathBuf]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_change-dataset"));
    command.arg(what).arg(root).args(captures).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for processes that must succeed.
fn wait(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
    }
}

/// Captures and a log of tags.
fn inputs(folder: &Path) -> Vec<PathBuf> {
    let (mut inputs, _) = series(folder);
    let capture = folder.join("capture.pcapng");
    inputs.push(write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3)));
    inputs.push(crate::logs::log(folder).0);
    inputs
}

#[test]
fn captures_that_processes_add_at_the_same_time_are_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    let whole = Dataset::new(folder.path().join("whole"));
    inputs.iter().for_each(|input| add(&whole, input));
    let whole = visible(whole.root());
    for time in 0..TIMES {
        let root = folder.path().join(format!("together-{time}"));
        // Each process begins with another input, and adds all of them.
        let children = (0..4).map(|process| {
            let mut own = inputs.clone();
            own.rotate_left(process % inputs.len());
            start("add", &root, &own)
        });
        wait(children.collect());
        assert!(visible(&root) == whole, "not the parts of one process, time {time}");
        assert_eq!(staged(&root), ["commit.lock"]);
        let mut check = Dataset::open(&root).unwrap().check().unwrap();
        Dataset::new(&root).recount(&inputs, &mut check).unwrap();
        assert_eq!((check.problems, check.recounted), (Vec::new(), inputs.len() as u64));
    }
}

#[test]
fn parts_that_are_merged_while_others_are_added_are_neither_lost_nor_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path());
    for time in 0..TIMES {
        let root = folder.path().join(format!("merged-{time}"));
        wait(vec![start("add", &root, &inputs[..1])]);
        let mut children: Vec<Child> = Vec::new();
        for input in &inputs[1..] {
            children.push(start("add", &root, std::slice::from_ref(input)));
            children.push(start("compact", &root, &[]));
        }
        wait(children);
        let dataset = Dataset::open(&root).unwrap();
        let mut check = dataset.check().unwrap();
        dataset.recount(&inputs, &mut check).unwrap();
        assert_eq!((check.problems, check.recounted), (Vec::new(), inputs.len() as u64));
        assert_eq!(staged(&root), ["commit.lock"]);
    }
}
