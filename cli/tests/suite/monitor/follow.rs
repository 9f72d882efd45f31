//! Tests `hmtt monitor -f`: children and executed programs behave as without monitoring, and each
//! has counts of its own.

mod leaving;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::counts::executions;
use super::{RESTRICTS, STARTS, hmtt_monitor};
use crate::tag::build;
use crate::{callgrind, skipped};

/// Starts processes in many ways.
const STOPS: &str = include_str!("stops.c");
const FOLLOWS: &str = include_str!("follows.c");
/// A 32-bit program that ends with status 5.
const BITS_32: &str =
    r#"__asm__(".globl _start\n_start: mov $1, %eax\nmov $5, %ebx\nint $0x80\n");"#;
/// Several processes at the same time, some of which execute other programs.
const SCRIPT: &str = "for i in 1 2 3 4 5 6; do (echo $i; exit $i) | cat; x=$(printf '%d' $i | tr 1-9 a-i); echo $x $?; done; \
                      { sleep 0.05; echo late; } & wait; exit 7";

/// The counts of a program of a process.
struct Image {
    /// Its file, as the first block names it, or empty.
    programs: Vec<String>,
    counts: Value,
}

impl Image {
    fn read(path: &Path) -> Image {
        let counts: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for name in ["dropped_numbers", "invalid_numbers", "cut_threads", "unbalanced_blocks"] {
            assert_eq!(counts[name], 0, "{name} of {}", path.display());
        }
        let blocks = counts["blocks"].as_array().unwrap();
        let objects = blocks.iter().map(|block| block["object"].as_str().unwrap().to_owned());
        let mut programs: Vec<String> = objects.collect();
        programs.sort();
        programs.dedup();
        Image { programs, counts }
    }

    /// Whether code of a file was executed whose path ends like this.
    fn has(&self, end: &str) -> bool {
        self.programs.iter().any(|path| path.ends_with(end))
    }
}

/// Paths of all files in a folder whose names begin with `profile`.
fn profiles(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_profile = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("profile"))
    };
    let mut paths: Vec<PathBuf> = entries.filter(is_profile).collect();
    paths.sort();
    paths
}

fn seen(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sorts lines that several processes or threads write in no order.
fn sorted((status, text): (Option<i32>, String)) -> (Option<i32>, Vec<String>) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    (status, lines)
}

/// Runs a program with all its processes monitored, and checks that it behaves as it does alone.
/// Returns the counts, those of the first process first.
fn run_followed(name: &str, words: &[&str]) -> Vec<Image> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let mut command = hmtt_monitor(&["run", "-f", "-o", file.to_str().unwrap(), "--"]);
    let monitored = command.args(words).output().unwrap();
    let error = String::from_utf8_lossy(&monitored.stderr);
    assert_eq!(sorted(seen(&monitored)), sorted(seen(&plain)), "{name}: {error}");
    let named = |path: &&PathBuf| error.contains(&format!(": {}\n", path.display()));
    let paths = profiles(folder.path());
    assert_eq!(paths.iter().filter(named).count() + 1, paths.len(), "{name}: {error}");
    paths.iter().map(|path| Image::read(path)).collect()
}

#[test]
fn processes_that_are_started_in_any_way_are_counted() {
    let Some(program) = build("monitor-follows", FOLLOWS, &["-w"]) else { return };
    let images = run_followed("follows", &[program.to_str().unwrap()]);
    // The threads start 12, and 4 of these are executed programs without a child before; then the
    // child, grandchild, the spawned one and what replaces it, the program after `vfork`, three
    // that signals end, and two programs that replace the first.
    assert_eq!(images.len(), 1 + 12 + 4 + 1 + 3 + 2);
    let natives: Vec<u64> =
        images.iter().map(|image| image.counts["native_children"].as_u64().unwrap()).collect();
    // One could not execute a program, and one shares the memory.
    assert_eq!(natives.iter().sum::<u64>(), 2);
    let replaced = images.iter().filter(|image| image.counts["ending"] == "replaced");
    assert_eq!(replaced.count(), 3);
}

#[test]
fn processes_that_threads_start_at_once_can_be_stopped_and_killed() {
    let Some(program) = build("monitor-stops", STOPS, &["-w", "-pthread"]) else { return };
    let images = run_followed("stops", &["timeout", "60", program.to_str().unwrap()]);
    assert!(images.len() > 1);
}

#[test]
fn spawned_shells_and_the_program_at_the_end_are_counted() {
    let Some(program) = build("monitor-starts", STARTS, &[]) else { return };
    let images = run_followed("starts", &[program.to_str().unwrap()]);
    assert_eq!(images.len(), 1 + 5 + 5 + 1);
    assert_eq!(images[0].counts["native_children"], 10);
    assert_eq!(images[0].counts["ending"], "replaced");
    // The shells, and one other child.
    assert_eq!(images.iter().filter(|image| image.counts["ending"]["exited"] == 4).count(), 5 + 1);
}

#[test]
fn counts_of_each_process_equal_those_of_callgrind() {
    let name = "monitor-follows-counted";
    let Some(program) = build(name, FOLLOWS, &["-w", "-no-pie"]) else { return };
    let words = [program.to_str().unwrap(), "counted"];
    let Some(processes) = callgrind::instructions_of_all(name, &program, &words) else { return };
    let mut processes = processes.into_iter();
    let first = processes.next().unwrap().1;
    // By exit status. The children that execute no program end with 1, 2 and 3. Of these only what
    // the first process does not execute is known.
    let mut expected = BTreeMap::from([(0, first.clone())]);
    let mut last_child = 0;
    for (command, mut counts) in processes {
        let status = match command.rsplit_once(" exit ") {
            Some((_, number)) => number.parse().unwrap(),
            None => {
                counts.retain(|address, _| !first.contains_key(address));
                last_child += 1;
                last_child
            }
        };
        expected.insert(status, counts);
    }
    let statuses: Vec<u64> = expected.keys().copied().collect();
    assert_eq!(statuses, [0, 1, 2, 3, 5, 6, 7]);
    let images = run_followed("counted", &words);
    assert_eq!(images.len(), expected.len());
    for image in images {
        let status = image.counts["ending"]["exited"].as_u64().unwrap();
        let expected_counts = &expected[&status];
        assert!(expected_counts.len() > 5, "{status}");
        assert_eq!(
            executions(&image.counts, &program, expected_counts),
            *expected_counts,
            "{status}"
        );
    }
}

#[test]
fn installed_programs_and_their_children_behave_as_without_monitoring() {
    let python = "import subprocess, os\n\
                  print(subprocess.run(['echo', 'hi'], capture_output=True).stdout, flush=True)\n\
                  child = os.fork()\n\
                  if child == 0: os._exit(4)\n\
                  print(os.waitpid(child, 0)[1], subprocess.check_output('echo a | wc -c', shell=True))\n\
                  os.execlp('sh', 'sh', '-c', 'exit 9')";
    let commands: [(&[&str], usize); 3] = [
        // Two children and the programs of the pipeline in each turn, and two more at the end.
        (&["bash", "-c", SCRIPT], 1 + 6 * 5 + 2),
        (&["perl", "-e", "print `echo hi`; system('exit 3'); print $? >> 8; exec 'true'"], 3),
        (&["python3", "-c", python], 6),
    ];
    for (words, at_least) in commands {
        if let Err(error) = Command::new(words[0]).arg("--version").output() {
            skipped(format!("{}: {error}", words[0]));
            continue;
        }
        let images = run_followed(words[0], words);
        assert!(images.len() >= at_least, "{}: {}", words[0], images.len());
    }
}

#[test]
fn a_compiler_makes_the_same_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(
        path("a.c"),
        "int f(int x) { return x * 3; }\nint main(void) { return f(2); }\n",
    )
    .unwrap();
    let words = ["-O2", "-save-temps=obj", "-o"];
    let plain = Command::new("gcc").args(words).args([path("plain"), path("a.c")]).output();
    if let Err(error) = plain {
        return skipped(format!("gcc: {error}"));
    }
    let mut command = hmtt_monitor(&["run", "-f", "-o", &path("profile"), "--", "gcc"]);
    let output = command.args(words).args([path("monitored"), path("a.c")]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    assert!(read("plain") == read("monitored"), "the programs are equal");
    assert!(read("plain-a.o") == read("monitored-a.o"), "the objects are equal");
    let images: Vec<Image> = profiles(folder.path()).iter().map(|one| Image::read(one)).collect();
    for program in ["/cc1", "-as", "/collect2"] {
        assert!(images.iter().any(|image| image.has(program)), "{program}");
    }
}

#[test]
fn a_build_with_two_jobs_makes_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let makefile =
        "all: a.txt b.txt c.txt d.txt\n%.txt:\n\t@echo $* | tr a-d A-D > $@; sleep 0.01; cat $@\n";
    std::fs::write(path("Makefile"), makefile).unwrap();
    if let Err(error) = Command::new("make").arg("--version").output() {
        return skipped(format!("make: {error}"));
    }
    let profile = path("profile");
    let mut command = hmtt_monitor(&["run", "-f", "-o", &profile, "--", "make", "-s", "-j2"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = sorted(seen(&output)).1;
    assert_eq!(lines, ["A", "B", "C", "D"]);
    let images: Vec<Image> = profiles(folder.path()).iter().map(|one| Image::read(one)).collect();
    for program in ["/tr", "/sleep", "/cat"] {
        assert_eq!(images.iter().filter(|image| image.has(program)).count(), 4, "{program}");
    }
}

#[test]
fn tables_name_the_process_and_its_program() {
    let output = hmtt_monitor(&["run", "-f", "--", "bash", "-c", "/bin/true; exit 3"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stderr).unwrap();
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("process ")).collect();
    assert_eq!(headings.len(), 3, "{text}");
    assert!(headings.iter().any(|line| line.ends_with("/true:")), "{text}");
}

#[test]
fn vectors_are_beside_each_profile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    let words = ["run", "-f", "--bbv", "10000", "-o", file.to_str().unwrap(), "--"];
    let output = hmtt_monitor(&words).args(["bash", "-c", "/bin/true; exit 3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let paths = profiles(folder.path());
    let (vectors, counts): (Vec<_>, Vec<_>) =
        paths.iter().partition(|path| path.extension().is_some_and(|end| end == "bb"));
    assert_eq!((vectors.len(), counts.len()), (3, 3), "{paths:?}");
}

#[test]
fn translation_alone_follows_too() {
    let output = hmtt_monitor(&["run", "-f", "--translate-only", "bash", "-c", SCRIPT]).output();
    let plain = Command::new("bash").args(["-c", SCRIPT]).output().unwrap();
    let output = output.unwrap();
    assert_eq!(seen(&output), seen(&plain));
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn existing_files_are_replaced_only_if_asked() {
    // The first process executes itself again, so that the name of the second file is known to it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    let script = format!("echo kept > {}.$$; exec true", file.display());
    let words = ["run", "-f", "-o", file.to_str().unwrap(), "--", "sh", "-c", &script];
    let output = hmtt_monitor(&words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    // What the second program has executed is not counted.
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("continues natively: cannot write"), "{text}");
    let other = profiles(folder.path()).into_iter().find(|path| *path != file).unwrap();
    assert_eq!(std::fs::read_to_string(other).unwrap(), "kept\n");
}

/// Runs a command of bash with all its processes monitored. Returns its status and what `hmtt`
/// says.
fn run_bash(script: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    let mut command = hmtt_monitor(&["run", "-f", "-o", file.to_str().unwrap(), "--"]);
    let output = command.args(["bash", "-c", script]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_32_bit_program_goes_on_natively_with_a_warning() {
    let flags = ["-m32", "-nostdlib", "-static"];
    let Some(program) = build("monitor-bits-32", BITS_32, &flags) else { return };
    let program = program.display();
    let (status, text) = run_bash(&format!("{program}; [ $? = 5 ] && /bin/true; exit 3"));
    let warnings = || text.lines().filter(|line| line.contains("continues natively"));
    assert_eq!((status, warnings().count()), (Some(3), 1), "{text}");
    assert!(warnings().all(|line| line.contains("bits-32") && line.contains("32-bit program")));
    assert!(text.contains("/true: "), "{text}");
    let (status, text) = run_bash(&format!("{program}; true"));
    assert_eq!(status, Some(3), "{text}");
    let (status, text) = run_bash(&format!("exec {program}"));
    assert_eq!(status, Some(5), "{text}");
    assert!(text.contains("continues natively: it is a 32-bit program"), "{text}");
}

#[test]
fn other_processes_are_followed_after_one_was_left() {
    let Some(program) = build("monitor-restricts", RESTRICTS, &["-w"]) else { return };
    let script = format!("{0} gs; {0} seccomp; /bin/true; exit 3", program.display());
    let (status, text) = run_bash(&script);
    assert_eq!(status, Some(3), "{text}");
    for why in ["it uses gs", "it restricts its system calls by seccomp"] {
        let left = text.lines().find(|line| line.contains(why)).unwrap();
        assert!(left.starts_with("hmtt: warning: process "), "{text}");
    }
    assert!(text.contains("/true: "), "{text}");
}

#[test]
fn processes_without_space_for_the_cache_go_on_natively() {
    let (status, text) = run_bash("(ulimit -v 16000; exec true) && exit 3");
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("/true, continues natively: "), "{text}");
}
