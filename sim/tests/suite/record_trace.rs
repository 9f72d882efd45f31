//! Records files of `hmtt trace run`: as the same accesses in text, and what is missing is
//! reported.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use hmtt::access_trace::Writer;
use hmtt_files::access_trace::{Access, BlockAccesses, OLDEST_VERSION, Place, VERSION};
use hmtt_format::Direction;

fn access(operation: u16, direction: Direction, size: u32, place: Place) -> Access {
    let pc = 0x1000 + 4 * u64::from(operation);
    let (represents, conditional, adds_fs) = (1, false, false);
    Access { pc, operation, direction, represents, size, conditional, adds_fs, place }
}

/// A read, a copy of strings, and a write to an address that is not known.
fn block() -> BlockAccesses {
    let elements = |first| Place::Elements { left: [1, 4], first, pointer: [2, 5] };
    let accesses = vec![
        access(0, Direction::Read, 8, Place::Slot { slot: 0, plus: 8 }),
        access(1, Direction::Read, 4, elements(2)),
        access(1, Direction::Write, 4, elements(3)),
        access(2, Direction::Write, 8, Place::Unknown),
    ];
    BlockAccesses {
        start: 0x1000,
        instructions: 3,
        slots: 6,
        code: vec![0x90; 12],
        accesses,
        ..BlockAccesses::default()
    }
}

/// A trace of two executions, each of another thread.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.blocks(&[block()]).unwrap();
    for (thread, base) in [(7, 0x5000u64), (8, 0x9000)] {
        let slots = [base, 3, base + 0x100, base + 0x2000, 0, base + 0x10c];
        let units: Vec<u8> = [1].iter().chain(&slots).flat_map(|unit| unit.to_le_bytes()).collect();
        writer.units(thread, units).unwrap();
    }
    writer.finish(0, 0).unwrap()
}

/// The accesses of the trace.
fn text() -> String {
    let of_thread = |base: u64| {
        let elements = (0..3).map(|element| {
            let (from, to) = (base + 0x100 + 4 * element, base + 0x2000 + 4 * element);
            format!("R,{from:x},4\nW,{to:x},4\n")
        });
        format!("R,{:x},8\n{}", base + 8, elements.collect::<String>())
    };
    of_thread(0x5000) + &of_thread(0x9000)
}

fn record(directory: &Path, input: &str, output: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sim"));
    command.args(["record", "--accesses", input, "-o", output]).args(more);
    command.current_dir(directory).output().unwrap()
}

#[test]
fn a_trace_is_recorded_as_its_accesses_in_text() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("x.acc"), trace()).unwrap();
    fs::write(at("x.txt"), text()).unwrap();
    for more in [&["--no-caches"][..], &["--limit", "9"], &["--cache", "l1=1K,2,64,lru"]] {
        let of_trace = record(directory.path(), "x.acc", "trace.cmd", &[more, &["-f"]].concat());
        let of_text = record(directory.path(), "x.txt", "text.cmd", &[more, &["-f"]].concat());
        assert_eq!(
            (of_trace.status.code(), of_text.status.code()),
            (Some(0), Some(0)),
            "{of_trace:?}"
        );
        for ending in ["cmd", "truth"] {
            let [trace_bytes, text_bytes] =
                ["trace", "text"].map(|name| fs::read(at(&format!("{name}.{ending}"))).unwrap());
            assert!(trace_bytes == text_bytes && !trace_bytes.is_empty(), "{more:?}");
        }
        let printed = String::from_utf8_lossy(&of_trace.stderr);
        let unknown = if more[0] == "--limit" { 1 } else { 2 };
        let words = format!("{unknown} accesses are left out: their addresses are not known\n");
        assert!(printed.contains(&words), "{printed}");
    }
}

#[test]
fn what_is_missing_in_a_trace_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let whole = trace();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut other = whole.clone();
    other[8] = 99;
    fs::write(directory.path().join("cut"), &whole[..whole.len() - 3]).unwrap();
    fs::write(directory.path().join("damaged"), damaged).unwrap();
    fs::write(directory.path().join("other"), other).unwrap();
    let printed = |input: &str, code: i32| {
        let output = record(directory.path(), input, "x.cmd", &["-f", "-q"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(printed("cut", 3), "hmtt-sim: warning: the trace is cut: what follows is missing\n");
    assert!(directory.path().join("x.cmd").exists());
    let [damaged, other] = ["damaged", "other"].map(|input| printed(input, 2));
    let words = "hmtt-sim: damaged: the chunk at byte ";
    assert!(
        damaged.starts_with(words) && damaged.ends_with("its checksum is wrong\n"),
        "{damaged}"
    );
    let versions = format!("versions {OLDEST_VERSION} to {VERSION}");
    let words = format!("has version 99 of the format; this program reads {versions}");
    assert_eq!(other, format!("hmtt-sim: other: it {words}\n"));
}
