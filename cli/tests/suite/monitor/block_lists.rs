//! Tests the lists of executed blocks by which the next run starts faster: they change nothing but
//! time.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use hmtt_files::block_list::{ListedBlock, header, parse};
use serde_json::Value;

use super::counts::LOOPS;
use crate::skipped;
use crate::tag::build;

/// Runs a program with lists in a folder.
fn run(program: &Path, folder: &Path) -> (Output, Value) {
    let file = folder.with_extension("json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["monitor", "run", "--overwrite", "-o"]).arg(&file);
    let output = command.arg("--block-lists").arg(folder).arg("--").arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let profile: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(profile["unbalanced_blocks"], 0);
    (output, profile)
}

/// Executions of the program's own blocks by address, and the last number of a block.
fn executions(profile: &Value, program: &Path) -> (BTreeMap<String, u64>, u64) {
    let path = program.canonicalize().unwrap();
    let blocks = profile["blocks"].as_array().unwrap();
    let last = blocks.last().unwrap()["number"].as_u64().unwrap();
    let mut counts = BTreeMap::new();
    for block in blocks.iter().filter(|block| block["object"] == path.to_str().unwrap()) {
        let address = block["file_address"].as_str().unwrap().to_owned();
        *counts.entry(address).or_default() += block["entries"].as_u64().unwrap();
    }
    (counts, last)
}

fn lists(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let modified = path.metadata().unwrap().modified().unwrap();
        (path.clone(), (std::fs::read(path).unwrap(), modified))
    };
    files.map(read).collect()
}

fn loops(name: &str) -> Option<PathBuf> {
    let id = "-Wl,--build-id=0x00112233445566778899";
    build(&format!("monitor-lists-{name}"), LOOPS, &["-w", "-O1", id])
}

#[test]
fn the_next_run_translates_what_was_executed() {
    let Some(program) = loops("next") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("lists");
    let (first, profile) = run(&program, folder);
    let (expected, most) = executions(&profile, &program);
    let own = folder.join("00112233445566778899-00112233445566778899.blocks");
    let listed = std::fs::read(&own).unwrap();
    assert_eq!(parse(&listed).unwrap().len(), expected.len());
    let files = lists(folder);
    assert!(files.len() >= 3, "program, dynamic linker and library: {files:?}");
    for _ in 0..2 {
        let (output, profile) = run(&program, folder);
        assert_eq!(output.stdout, first.stdout);
        let (counts, last) = executions(&profile, &program);
        assert_eq!(counts, expected);
        // Blocks that are never executed were translated only without lists.
        assert!(last < most, "{last} of {most}");
        assert!(lists(folder)[&own] == files[&own], "nothing new was executed");
    }
}

#[test]
fn wrong_lists_change_nothing() {
    let Some(program) = loops("wrong") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("lists");
    let (first, profile) = run(&program, folder);
    let expected = executions(&profile, &program).0;
    let (_, profile) = run(&program, folder);
    let fewest = executions(&profile, &program).1;
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // Any offset, with any forms, several times, in any order.
    for span in [1 << 13, 1 << 21, 1 << 62] {
        for (path, (bytes, _)) in lists(folder) {
            let mut blocks: Vec<ListedBlock> = parse(&bytes).unwrap().collect();
            let any = blocks[0];
            blocks.extend((0..3_000).map(|_| ListedBlock { offset: random() % span, ..any }));
            for block in &mut blocks {
                let bits = random();
                (block.direct, block.indirect) = (bits & 1 != 0, bits & 2 != 0);
            }
            blocks.sort_by_cached_key(|_| random());
            let mut bytes = header(blocks.len() as u32).to_vec();
            blocks.iter().for_each(|block| bytes.extend(block.to_bytes()));
            std::fs::write(path, bytes).unwrap();
        }
        let (output, profile) = run(&program, folder);
        assert_eq!(output.stdout, first.stdout);
        let (counts, last) = executions(&profile, &program);
        assert_eq!(counts, expected);
        // Other offsets are hardly in the code.
        assert!(span != 1 << 21 || last > fewest + 300, "{last}, {fewest}");
    }
    for path in lists(folder).into_keys() {
        std::fs::write(path, "HMTTBLKS and no list").unwrap();
    }
    let (output, profile) = run(&program, folder);
    assert_eq!(output.stdout, first.stdout);
    assert_eq!(executions(&profile, &program).0, expected);
}

#[test]
fn without_a_place_there_are_no_lists() {
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path();
    let run = |arguments: &[&str], cache: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(["monitor", "run"]).args(arguments).args(["--", "true"]);
        command.env("XDG_CACHE_HOME", cache).output().unwrap()
    };
    assert!(run(&["--no-block-lists"], cache).status.success());
    assert_eq!(cache.read_dir().unwrap().count(), 0);
    assert!(run(&[], cache).status.success());
    assert!(cache.join("hmtt/blocks").read_dir().unwrap().count() > 0);
    // The folder cannot be used, which the user has not asked for.
    let folder = cache.join("hmtt/blocks");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(run(&[], cache).status.success());
    let output = run(&["--block-lists", folder.to_str().unwrap()], cache);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    let expected = format!(
        "hmtt: cannot keep lists of blocks in {}: it belongs to another user, or others can write to it",
        folder.display()
    );
    assert_eq!(error.lines().next(), Some(&*expected));
}

/// Names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn lists_are_kept_only_below_a_home_of_the_user() {
    let Some(program) = loops("home") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run_at_home = |home: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.env("HOME", home).env_remove("XDG_CACHE_HOME");
        command.args(["monitor", "run", "--overwrite", "-o", "/dev/null", "--"]).arg(&program);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let at = |name: &str| folder.path().join(name);
    for name in ["own", "link", "other", "elsewhere"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    run_at_home(&at("own"));
    assert!(!names(&at("own/.cache/hmtt/blocks")).is_empty());
    assert_eq!(at("own/.cache").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::os::unix::fs::symlink(at("elsewhere"), at("link/.cache")).unwrap();
    run_at_home(&at("link"));
    assert_eq!(names(&at("elsewhere")), [""; 0]);
    if !nix::unistd::Uid::effective().is_root() {
        return skipped("only root can give a folder to another user");
    }
    std::os::unix::fs::chown(at("other"), Some(65534), None).unwrap();
    run_at_home(&at("other"));
    assert_eq!(names(&at("other")), [""; 0]);
}
