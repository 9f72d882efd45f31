//! Tests `hmtt tag symbols` and `--perf-map`, which name stubs for gdb and perf.

use std::fs::Permissions;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hmtt_probe::control::controller;
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::mappings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tag::{build, hmtt_tag};
use crate::{scratch, skipped};

const SPIN: &str = include_str!("tag_unwind/spin.c");
/// A user who is not root.
const NOBODY: u32 = 65534;
/// Number of instructions that gdb steps through.
const STEPS: usize = 80;

/// A program that works until this value is dropped.
struct Spinning {
    child: Child,
    program: PathBuf,
}

impl Spinning {
    fn start(name: &str) -> Option<Self> {
        let program = build(name, SPIN, &[])?;
        let mut child = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
        Some(Spinning { child, program })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn attach(&self, words: &[&str]) -> Command {
        let output = scratch(&format!("tag-symbols-{}", self.pid()));
        let mut command = hmtt_tag(&["attach", "--sink", "log", "--full", "drop"]);
        command.args(words).args(["--overwrite", "-o"]).arg(output).arg(self.pid().to_string());
        command
    }

    /// Returns the targets of jumps at functions' entries, with the functions' names.
    fn jumps(&self) -> Vec<(String, u64)> {
        let image = Image::read(&self.program).unwrap();
        let mapped = mappings(self.pid()).unwrap();
        let mapping = mapped.iter().find(|one| one.executable && one.path == self.program);
        let text = &image.text[0];
        let page = text.offset / 4096 * 4096;
        let bias = mapping.unwrap().start.0 - (text.start - (text.offset - page));
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let jump = |start: u64| {
            let mut bytes = [0; 5];
            memory.read_exact_at(&mut bytes, start + bias).unwrap();
            let [0xe9, a, b, c, d] = bytes else { return None };
            let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
            Some((start + bias + 5).wrapping_add_signed(distance))
        };
        let functions = image.functions.iter();
        functions
            .filter_map(|function| Some((function.name.clone(), jump(function.start)?)))
            .collect()
    }

    /// Waits until the tags are in place.
    fn wait_for(&self, controller: &mut Child) {
        while !self.jumps().iter().any(|(name, _)| name == "leaf") {
            assert!(controller.try_wait().unwrap().is_none(), "hmtt tag attach has ended");
        }
    }

    fn map(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/perf-{}.map", self.pid()))
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.map());
    }
}

/// Parses the lines of a map: addresses and names.
fn lines(map: &Path) -> Vec<(Range<u64>, String)> {
    let text = std::fs::read_to_string(map).unwrap();
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let (start, size) = (number(), number());
        (start..start + size, words.next().unwrap().to_owned())
    };
    text.lines().map(line).collect()
}

#[test]
fn a_perf_map_names_every_stub_until_the_tags_are_removed() {
    let Some(spinning) = Spinning::start("tag-perf-map") else { return };
    let map = spinning.map();
    let mut controller = spinning.attach(&["--perf-map"]).spawn().unwrap();
    spinning.wait_for(&mut controller);
    let jumps = spinning.jumps();
    let names = |stub: u64| {
        let mut lines = lines(&map);
        lines.retain(|(range, _)| range.contains(&stub));
        lines.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    // The map is written when all tags are in place.
    while !map.exists() || lines(&map).iter().all(|(_, name)| name != "leaf@tag") {
        assert!(controller.try_wait().unwrap().is_none(), "hmtt tag attach has ended");
    }
    assert!(jumps.len() > 3, "{jumps:?}");
    for (name, stub) in jumps {
        assert_eq!(names(stub), [format!("{name}@tag")]);
    }
    let mut ranges: Vec<Range<u64>> = lines(&map).into_iter().map(|(range, _)| range).collect();
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start), "{ranges:x?}");
    let program = std::fs::metadata(format!("/proc/{}", spinning.pid())).unwrap();
    let file = std::fs::metadata(&map).unwrap();
    assert_eq!((file.uid(), file.gid()), (program.uid(), program.gid()));
    kill(Pid::from_raw(controller.id() as i32), Signal::SIGINT).unwrap();
    assert!(controller.wait().unwrap().code().is_some());
    assert!(!map.exists());
}

#[test]
fn no_perf_map_is_created_where_the_user_of_the_process_may_not_create_it() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root follows processes of other users");
    }
    let Some(program) = build("tag-perf-map-mounted", SPIN, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    // The process has a folder of root as its `/tmp`.
    let script = r#"mount --bind "$1" /tmp && exec "$2""#;
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "-m", "sh", "-c", script, "sh"]).arg(folder.path()).arg(&program);
    let command = command.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return skipped("no program unshare") };
    let has_begun = child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).is_ok();
    let spinning = Spinning { child, program };
    if !has_begun {
        return skipped("another user can make no user namespace here, or not execute the program");
    }
    let output = spinning.attach(&["--perf-map"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot create its /tmp/perf-") && text.contains("denied"), "{text}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{text}");
}

#[test]
fn a_perf_map_overwrites_no_file_and_follows_no_link() {
    let Some(spinning) = Spinning::start("tag-perf-map-there") else { return };
    let (map, other) = (spinning.map(), scratch("tag-perf-map-other"));
    std::fs::write(&other, "mine").unwrap();
    let refused = || {
        let output = spinning.attach(&["--perf-map"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains("cannot create its /tmp/perf-"),
            "{text}"
        );
        assert_eq!(spinning.jumps(), [], "nothing was changed");
        assert_eq!(controller(spinning.pid()).unwrap(), None);
    };
    std::fs::write(&map, "theirs").unwrap();
    refused();
    assert_eq!(std::fs::read_to_string(&map).unwrap(), "theirs");
    std::fs::remove_file(&map).unwrap();
    symlink(&other, &map).unwrap();
    refused();
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    assert!(map.is_symlink());
    std::fs::remove_file(&map).unwrap();
    // A link to a missing file is not followed either.
    symlink(scratch("tag-perf-map-missing"), &map).unwrap();
    refused();
    assert!(!scratch("tag-perf-map-missing").exists());
}

#[test]
fn gdb_unwinds_abandoned_stubs_with_their_symbols() {
    let Some(spinning) = Spinning::start("tag-gdb") else { return };
    let mut controller = spinning.attach(&[]).stderr(Stdio::null()).spawn().unwrap();
    spinning.wait_for(&mut controller);
    controller.kill().unwrap();
    controller.wait().unwrap();
    let symbols = scratch("tag-gdb.symbols");
    let pid = spinning.pid().to_string();
    let output = hmtt_tag(&["symbols", &pid, "--overwrite", "-o", symbols.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-ex", "set confirm off", "-ex"]);
    gdb.arg(format!("add-symbol-file {}", symbols.display())).args(["-p", &pid]);
    for _ in 0..STEPS {
        gdb.args(["-ex", "stepi", "-ex", "info symbol $pc", "-ex", "backtrace"]);
    }
    let output = match gdb.output() {
        Err(error) => return skipped(format!("gdb: {error}")),
        Ok(output) => output,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let frames = || text.lines().filter(|line| line.starts_with('#'));
    let in_main = frames().filter(|line| line.contains(" in main ()")).count();
    let unknown = frames().filter(|line| line.contains("?? ()")).count();
    let frames = frames().filter(|line| line.starts_with("#0 ")).count();
    assert_eq!((in_main, frames, unknown), (STEPS, STEPS, 0), "{text}");
    for name in ["leaf@tag", "leaf@tag + "] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_process_without_tags_has_no_symbols() {
    let Some(spinning) = Spinning::start("tag-no-symbols") else { return };
    let file = scratch("tag-no-symbols.symbols");
    let words =
        ["symbols", &spinning.pid().to_string(), "--overwrite", "-o", file.to_str().unwrap()];
    let output = hmtt_tag(&words).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no tags"), "{output:?}");
    assert!(!file.exists());
}
