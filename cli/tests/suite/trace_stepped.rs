//! All accesses of whole programs, in order and with their addresses, equal those that follow from
//! the registers of single steps, which programs compute that have nothing of this project
//! (`trace/steps.c`, `tests/readers/stepped_accesses.py`).

use std::path::Path;
use std::process::Command;

use crate::python::python;
use crate::tag::build;
use crate::trace::{ACCESSES, decoded, each_access, number};
use crate::trace_selected::{TUNABLES, traced};
use crate::{LargeFile, skipped};

const STEPS: &str = include_str!("trace/steps.c");
const VARIED: &str = include_str!("trace/varied.c");

/// An access: instruction, direction, address, size.
type Access = ((u64, char), u64, u64);

/// What follows from single steps of a program, and how many of its accesses are not described.
fn stepped(python: &Path, steps: &Path, name: &str, program: &Path) -> (Vec<Access>, usize) {
    let file = LargeFile::new(&format!("stepped-{name}.steps"));
    let plain = Command::new(program).output().unwrap();
    // Addresses of the stack depend on the environment and on the program's path, which are those
    // of the traced run.
    let mut setarch = Command::new("setarch");
    setarch.env(TUNABLES.0, TUNABLES.1).arg("-R").arg(steps).arg(&*file).arg(program);
    let ran = setarch.output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout), (plain.status.code(), plain.stdout), "{name}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/readers/stepped_accesses.py");
    let output = Command::new(python).arg(script).arg(program).arg(&*file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut accesses, mut undescribed) = (Vec::new(), 0);
    for line in std::str::from_utf8(&output.stdout).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pc, direction, address, size] = words[..] else {
            undescribed += 1;
            continue;
        };
        let direction = direction.chars().next().unwrap();
        accesses.push(((number(pc), direction), number(address), size.parse().unwrap()));
    }
    (accesses, undescribed)
}

#[test]
fn all_accesses_are_those_of_single_steps() {
    let Some(python) = python("capstone") else { return skipped("no Python has capstone") };
    let Some(steps) = build("trace-steps", STEPS, &["-w"]) else { return };
    // Steps are slow.
    let few = ACCESSES
        .replace("updates(5000)", "updates(50)")
        .replace("i < 2000", "i < 20")
        .replace("sums(10000)", "sums(1000)")
        .replace("recurses(15)", "recurses(9)");
    for (name, source) in [("accesses", &*few), ("varied", VARIED)] {
        let flags = ["-O1", "-static", "-no-pie", "-w"];
        let Some(program) = build(&format!("stepped-{name}"), source, &flags) else { return };
        let Some(file) = traced(&format!("stepped-{name}"), &program, &[]) else { return };
        let (expected, undescribed) = stepped(&python, &steps, name, &program);
        assert!(expected.len() > 20_000, "{}", expected.len());
        let text = decoded(&file);
        let unknown = text.lines().filter(|line| line.split(' ').nth(3) == Some("?")).count();
        assert_eq!(unknown > 0, undescribed > 0, "{name}: {unknown} {undescribed}");
        let mut accesses = Vec::new();
        each_access(&text, |place, address, size| accesses.push((place, address, size)));
        let differs = accesses.iter().zip(&expected).position(|(one, other)| one != other);
        let around = differs.map(|at| {
            (at, &accesses[at.saturating_sub(2)..][..4], &expected[at.saturating_sub(2)..][..4])
        });
        assert!(differs.is_none(), "{name}: {around:x?}");
        assert_eq!(accesses.len(), expected.len(), "{name}");
    }
}
