//! `hmtt tag run -f`: children, and the programs that processes become, have tags and counts of their own.

mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hmtt_format::tag_log::Ending;
use hmtt_probe::elf::Image;
use hmtt_probe::tag_map::TagMap;
use serde_json::Value;

use crate::tag::{FORKS, THREADS, build, hmtt_tag};
use crate::tag_log::log::{Log, number};
use crate::{callgrind, scratch, skipped};
use programs::*;

/// Calls of the functions of one program in one process, by name.
type Calls = BTreeMap<String, u64>;

/// Which processes ran which programs and called what, in the order in which they began.
struct Counts {
    processes: Vec<(u64, PathBuf, Calls)>,
    sums: Vec<(PathBuf, String, u64)>,
}

fn name_and_calls(function: &Value) -> (String, u64) {
    (function["name"].as_str().unwrap().to_owned(), function["calls"].as_u64().unwrap())
}

fn path(value: &Value) -> PathBuf {
    value.as_str().unwrap().into()
}

impl Counts {
    fn read(file: &Path) -> Counts {
        let counts: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let all = |value: &Value| value.as_array().unwrap().clone();
        let processes = all(&counts["processes"]).into_iter().map(|process| {
            let functions = all(&process["functions"]);
            let calls = functions.iter().map(name_and_calls).collect();
            (process["pid"].as_u64().unwrap(), path(&process["program"]), calls)
        });
        let sums = all(&counts["functions"]).into_iter().map(|function| {
            let (name, calls) = name_and_calls(&function);
            (path(&function["program"]), name, calls)
        });
        let counts = Counts { processes: processes.collect(), sums: sums.collect() };
        counts.check();
        counts
    }

    /// The sums are those of the processes.
    fn check(&self) {
        for (program, name, calls) in &self.sums {
            let of = self.processes.iter().filter(|(_, other, _)| other == program);
            let sum = of.filter_map(|(_, _, calls)| calls.get(name)).sum::<u64>();
            assert_eq!(sum, *calls, "{name} of {}", program.display());
        }
    }

    /// Calls of a function in each process that has it, in the order in which they began.
    fn of(&self, name: &str) -> Vec<u64> {
        self.processes.iter().filter_map(|(_, _, calls)| calls.get(name).copied()).collect()
    }

    fn pids(&self) -> BTreeSet<u64> {
        self.processes.iter().map(|(pid, ..)| *pid).collect()
    }
}

fn seen(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program followed, and beside it untagged: the same but for the counts.
fn follow(name: &str, rules: &[&str], words: &[&str]) -> Counts {
    let counts = scratch(&format!("{name}.json"));
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let options = [&["run", "-f", "-o", counts.to_str().unwrap()], rules, &["--"], words].concat();
    let tagged = hmtt_tag(&options).output().unwrap();
    let text = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(seen(&tagged), seen(&plain), "{text}");
    assert!(!text.contains("untagged"), "{text}");
    Counts::read(&counts)
}

#[test]
fn a_child_counts_for_itself_from_its_first_instruction_on() {
    for (name, flags) in [("tag-f-forks", &[][..]), ("tag-f-forks-static", &["-static"])] {
        let Some(program) = build(name, FORKS, flags) else { return };
        let counts = follow(name, &[], &[program.to_str().unwrap()]);
        assert_eq!(counts.of("step"), [10, 1000], "{name}");
        assert_eq!(counts.of("main"), [1, 0], "{name}");
    }
}

#[test]
fn without_it_children_are_let_go() {
    let Some(program) = build("tag-f-not", FORKS, &[]) else { return };
    let counts = scratch("tag-f-not.json");
    let words = ["run", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
    assert!(hmtt_tag(&words).output().unwrap().status.success());
    let counts: Value = serde_json::from_slice(&std::fs::read(counts).unwrap()).unwrap();
    assert_eq!(counts.as_object().unwrap().len(), 1);
}

#[test]
fn programs_that_are_started_count_what_callgrind_does() {
    let Some(program) = build("tag-f-called", SAYS, &[]) else { return };
    let Some(starter) = build("tag-f-calling", STARTS, &[]) else { return };
    let words = [starter.to_str().unwrap(), program.to_str().unwrap()];
    let counts = follow("tag-f-calling", &[], &words);
    let Some(expected) = callgrind::calls_of_started("tag-f-calling", &words) else { return };
    let image = Image::read(&program).unwrap();
    let of = |function: &str| {
        let mut expected: Vec<u64> =
            expected.iter().map(|calls| callgrind::by_name(&image, calls)[function]).collect();
        let is_it = |(_, other, _): &&(u64, PathBuf, Calls)| other.ends_with("tag-f-called");
        let found = counts.processes.iter().filter(is_it);
        let mut found: Vec<u64> = found.map(|(_, _, calls)| calls[function]).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{function}");
        found
    };
    assert_eq!(of("main"), [1; 4]);
    assert_eq!(of("say"), [11, 22, 33, 44]);
}

#[test]
fn nested_children_all_count() {
    let Some(program) = build("tag-f-nested", NESTED, &[]) else { return };
    let counts = follow("tag-f-nested", &[], &[program.to_str().unwrap()]);
    // A process of each depth starts two of the next one, down to depth 4.
    let mut nodes = counts.of("leaf");
    nodes.sort_unstable();
    let expected = (0..=4u64).flat_map(|depth| vec![100 + depth; 1 << depth]);
    assert_eq!(nodes, expected.collect::<Vec<u64>>());
    assert_eq!(counts.pids().len(), 31);
}

#[test]
fn a_program_with_threads_forks() {
    let Some(program) = build("tag-f-threads", FORKING_THREADS, &[]) else { return };
    let counts = follow("tag-f-threads", &[], &[program.to_str().unwrap()]);
    let mut of = counts.of("leaf");
    // The threads of the first process, then those of the children, which have the one that forked.
    assert_eq!(of.remove(0), 4 * 50 * 30);
    of.sort_unstable();
    let expected = (0..4).flat_map(|thread| vec![1000 + thread; 50]);
    assert_eq!(of, expected.collect::<Vec<u64>>());
}

#[test]
fn a_child_starts_threads() {
    let Some(program) = build("tag-f-starts-threads", THREADS, &[]) else { return };
    let Some(starter) = build("tag-f-starter", FORKS_AND_BECOMES, &[]) else { return };
    let words = [starter.to_str().unwrap(), program.to_str().unwrap()];
    let counts = follow("tag-f-starts-threads", &[], &words);
    assert_eq!(counts.of("leaf"), [3 * 5 * 20 * 1000]);
    assert_eq!(counts.of("starts"), [1, 0]);
}

#[test]
fn programs_that_are_started_in_any_way_are_tagged() {
    let Some(program) = build("tag-f-started", SAYS, &[]) else { return };
    let Some(starter) = build("tag-f-starting", STARTS, &[]) else { return };
    let words = [starter.to_str().unwrap(), program.to_str().unwrap()];
    let counts = follow("tag-f-starting", &["-i", "say", "-i", "begin"], &words);
    // posix_spawn, system, popen, vfork.
    let mut said = counts.of("say");
    said.sort_unstable();
    assert_eq!(said, [11, 22, 33, 44]);
    assert_eq!(counts.of("begin"), [4]);
}

#[test]
fn a_child_that_has_its_parents_memory_counts_for_it() {
    let Some(program) = build("tag-f-vfork", VFORKS, &[]) else { return };
    let counts = follow("tag-f-vfork", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.of("step"), [20 * (100 + 7)]);
    let Some(program) = build("tag-f-clone", CLONES, &[]) else { return };
    let counts = follow("tag-f-clone", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.of("step"), [2 * 3_000_000]);
}

#[test]
fn a_program_becomes_itself() {
    let Some(program) = build("tag-f-becomes", BECOMES, &[]) else { return };
    let counts = follow("tag-f-becomes", &[], &[program.to_str().unwrap(), "5"]);
    assert_eq!(counts.of("step"), [5, 4, 3, 2, 1, 0]);
    assert_eq!(counts.pids().len(), 1);
}

#[test]
fn a_thread_becomes_a_program() {
    let Some(program) = build("tag-f-thread-becomes", THREAD_BECOMES, &[]) else { return };
    let counts = follow("tag-f-thread-becomes", &[], &[program.to_str().unwrap(), "3"]);
    assert_eq!(counts.of("step"), [3, 2, 1, 0]);
    assert_eq!(counts.pids().len(), 1);
}

#[test]
fn a_pipeline_of_a_shell_is_followed() {
    let Some(program) = build("tag-f-pipeline", SAYS, &[]) else { return };
    let line = format!("{0} 5 | {0} 6; {0} 7 & wait; (exec {0} 8)", program.display());
    let counts = follow("tag-f-pipeline", &["-i", "say"], &["sh", "-c", &line]);
    let mut said = counts.of("say");
    said.sort_unstable();
    assert_eq!(said, [5, 6, 7, 8]);
}

#[test]
fn what_cannot_be_run_changes_nothing() {
    let Some(program) = build("tag-f-missing", MISSING, &[]) else { return };
    let counts = follow("tag-f-missing", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.of("step"), [2, 1, 1]);
}

#[test]
fn a_child_outlives_its_parent() {
    let Some(program) = build("tag-f-outlives", OUTLIVES, &[]) else { return };
    let counts = follow("tag-f-outlives", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.of("step"), [3, 5000]);
}

#[test]
fn a_child_that_is_killed_ends_nothing_else() {
    let Some(program) = build("tag-f-killed", KILLED, &[]) else { return };
    let counts = follow("tag-f-killed", &[], &[program.to_str().unwrap()]);
    let of = counts.of("step");
    assert_eq!((of.len(), of[0]), (61, 60), "{of:?}");
    assert!(of[1..].iter().all(|calls| *calls > 0), "{of:?}");
}

#[test]
fn libraries_of_children_are_tagged() {
    let Some(program) = build("tag-f-libraries", FORKS, &[]) else { return };
    let rules = ["-i", "library=libc.so*/_exit", "-i", "step"];
    let counts = follow("tag-f-libraries", &rules, &[program.to_str().unwrap()]);
    assert_eq!(counts.of("step"), [10, 1000]);
    // It has two names.
    let exits = |name: &str| counts.of(name).get(1).copied().unwrap_or(0);
    assert_eq!(exits("_exit") + exits("_Exit"), 1);
}

/// A path for a log, without logs beside it of processes that had the same numbers.
fn fresh(name: &str) -> PathBuf {
    let file = scratch(&format!("{name}.tags"));
    for entry in std::fs::read_dir(file.parent().unwrap()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("{name}.tags.")) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    file
}

/// Runs a program followed, with a log of each process, and untagged: the same.
fn log(name: &str, more: &[&str], words: &[&str]) -> PathBuf {
    let file = fresh(name);
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let options = ["run", "-f", "--sink", "log", "-o", file.to_str().unwrap()];
    let tagged = hmtt_tag(&[&options, more, &["--"], words].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(seen(&tagged), seen(&plain), "{text}");
    // Each but the first is named.
    for log in logs(&file).iter().filter(|log| **log != file) {
        assert!(text.contains(&format!(": {}\n", log.display())), "{text}");
    }
    file
}

/// The first log and those of other processes.
fn logs(first: &Path) -> Vec<PathBuf> {
    let name = first.file_name().unwrap().to_string_lossy().into_owned();
    let is_log = |path: &PathBuf| {
        let other = path.file_name().unwrap().to_string_lossy();
        other.starts_with(&name) && !other.ends_with(".json")
    };
    let entries = std::fs::read_dir(first.parent().unwrap()).unwrap().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_log).collect();
    found.sort();
    found
}

#[test]
fn each_process_has_a_log_of_its_own() {
    let Some(program) = build("tag-f-log", NESTED, &[]) else { return };
    for more in [&[][..], &["--no-time", "--buffer-kb", "8", "--buffers", "2"]] {
        let first = log("tag-f-log", more, &[program.to_str().unwrap()]);
        let logs = logs(&first);
        assert_eq!(logs.len(), 31);
        let mut leaves = Vec::new();
        for file in &logs {
            let (log, map) = (Log::read(file), TagMap::load(&TagMap::path_beside(file)).unwrap());
            assert_eq!((log.lost(), log.begun, log.ended), (0, 1, 1));
            assert!(matches!(log.ending, Some(Ending::Exited(_))));
            assert_eq!(map.program, program.canonicalize().unwrap());
            let name = file.to_string_lossy();
            assert!(*file == first || name.ends_with(&format!(".tags.{}", map.pid)), "{name}");
            leaves.push(log.entries(number(file, "leaf"))[0]);
            let report = hmtt_tag(&["report", "--json", &name]).output().unwrap();
            assert!(report.status.success(), "{report:?}");
        }
        leaves.sort_unstable();
        let expected = (0..=4u64).flat_map(|depth| vec![100 + depth; 1 << depth]);
        assert_eq!(leaves, expected.collect::<Vec<u64>>());
    }
}

#[test]
fn a_log_ends_where_a_program_becomes_another() {
    let Some(program) = build("tag-f-log-becomes", BECOMES, &[]) else { return };
    let first = log("tag-f-log-becomes", &["-i", "step"], &[program.to_str().unwrap(), "3"]);
    let mut found: Vec<(Option<Ending>, u64)> = logs(&first)
        .iter()
        .map(|file| {
            let log = Log::read(file);
            (log.ending, log.entries(number(file, "step")).iter().sum())
        })
        .collect();
    found.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    let replaced = Some(Ending::Replaced);
    let expected = [(replaced, 3), (replaced, 2), (replaced, 1), (Some(Ending::Exited(4)), 0)];
    assert_eq!(found, expected);
    let pid = TagMap::load(&TagMap::path_beside(&first)).unwrap().pid;
    let names: Vec<String> = logs(&first).iter().map(|file| file.display().to_string()).collect();
    let base = first.display();
    assert_eq!(
        names,
        ["", ".P", ".P.2", ".P.3"]
            .map(|end| format!("{base}{}", end.replace('P', &pid.to_string())))
    );
}

#[test]
fn a_fork_within_a_handler_that_came_within_a_tag_is_counted_once() {
    let Some(program) = build("tag-f-handler", FORKS_IN_HANDLER, &[]) else { return };
    let options = ["-i", "step", "-i", "tick", "--buffer-kb", "8"];
    let file = fresh("tag-f-handler");
    let words = [&["run", "-f", "--sink", "log", "-o", file.to_str().unwrap()], &options[..]];
    let output = hmtt_tag(&words.concat()).arg("--").arg(&program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Each process says what it has done itself: which, steps, ticks.
    let mut count = 0;
    for line in text.lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let own = PathBuf::from(format!("{}.{}", file.display(), words[0]));
        let own = if own.exists() { own } else { file.clone() };
        let log = Log::read(&own);
        let entries = |name| log.entries(number(&own, name)).iter().sum::<u64>();
        let (steps, ticks) = (entries("step"), entries("tick"));
        assert_eq!((ticks, log.lost()), (words[2], 0), "{line}");
        // The one in which it was forked may have been entered before, and done after.
        assert!((steps..=steps + u64::from(own != file)).contains(&words[1]), "{line}: {steps}");
        count += 1;
    }
    assert_eq!(count, 201, "{text}");
}

/// A family that waits, and what it says.
struct Family {
    hmtt: Child,
    output: BufReader<std::process::ChildStdout>,
    pids: Vec<i32>,
}

impl Family {
    fn start(program: &Path, counts: &Path) -> Family {
        let words = ["run", "-f", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
        let mut command = hmtt_tag(&words);
        let mut hmtt = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(hmtt.stdout.take().unwrap());
        let mut pids = Vec::new();
        while pids.len() < 4 {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
            pids.push(line.trim().parse().unwrap());
        }
        Family { hmtt, output, pids }
    }
}

/// What a process has mapped of its own program's instructions, and whether anything is of ours.
fn text_of(pid: i32, program: &Path) -> (Vec<u8>, bool) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| {
        line.contains("r-xp") && line.ends_with(program.canonicalize().unwrap().to_str().unwrap())
    });
    let range = line.unwrap().split(' ').next().unwrap();
    let (start, end) = range.split_once('-').unwrap();
    let address = |text| u64::from_str_radix(text, 16).unwrap();
    let mut bytes = vec![0; (address(end) - address(start)) as usize];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, address(start)).unwrap();
    (bytes, maps.contains("hmtt-tag"))
}

#[test]
fn all_go_on_without_tags_when_it_is_asked_to_leave() {
    let Some(program) = build("tag-f-asked", WAITS, &[]) else { return };
    let counts = scratch("tag-f-asked.json");
    let mut family = Family::start(&program, &counts);
    // SAFETY: asks a child of ours to leave.
    assert_eq!(unsafe { libc::kill(family.hmtt.id() as i32, libc::SIGINT) }, 0);
    let mut input = family.hmtt.stdin.take();
    assert_eq!(family.hmtt.wait().unwrap().code(), Some(0));
    let image = Image::read(&program).unwrap();
    for pid in &family.pids {
        let (text, is_tagged) = text_of(*pid, &program);
        let expected = &image.text[0].bytes;
        assert!(text.windows(expected.len()).any(|part| part == expected), "{pid}");
        assert!(!is_tagged, "{pid}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains("TracerPid:\t0"), "{status}");
    }
    input.as_mut().unwrap().write_all(b"go").unwrap();
    drop(input);
    let mut text = String::new();
    family.output.read_to_string(&mut text).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["right"; 4]);
    let counts = Counts::read(&counts);
    let mut pids: Vec<u64> = family.pids.iter().map(|pid| *pid as u64).collect();
    pids.sort_unstable();
    assert_eq!(counts.pids().into_iter().collect::<Vec<_>>(), pids);
    assert!(counts.of("step").iter().all(|calls| *calls > 0));
}

#[test]
fn it_leaves_while_a_process_waits_for_another_with_its_memory() {
    let Some(program) = build("tag-f-left", LODGES, &[]) else { return };
    let counts = scratch("tag-f-left.json");
    let words = ["run", "-f", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
    let mut command = hmtt_tag(&words);
    let mut hmtt = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(hmtt.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "lodges\n");
    let mut input = hmtt.stdin.take();
    // SAFETY: asks a child of ours to leave.
    assert_eq!(unsafe { libc::kill(hmtt.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(hmtt.wait().unwrap().code(), Some(0));
    input.as_mut().unwrap().write_all(b"x").unwrap();
    drop(input);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "5 0\n");
    assert!(Counts::read(&counts).of("step")[0] > 0);
}

#[test]
fn children_of_a_running_program_are_followed() {
    let Some(program) = build("tag-f-storm", STORM, &[]) else { return };
    let counts = scratch("tag-f-storm.json");
    for turn in 0..3 {
        let mut command = Command::new(&program);
        let child = command.arg("300").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let words = ["attach", "-f", "-o", counts.to_str().unwrap(), &child.id().to_string()];
        let tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
        let maps = format!("/proc/{}/maps", child.id());
        while !std::fs::read_to_string(&maps).unwrap().contains("hmtt-tag") {
            std::thread::yield_now();
        }
        // It begins when it is told to.
        child.stdin.take().unwrap().write_all(b"x").unwrap();
        if turn > 0 {
            let mut text = String::new();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "0\n");
        } else {
            // SAFETY: asks a child of ours to leave.
            assert_eq!(unsafe { libc::kill(tag.id() as i32, libc::SIGINT) }, 0);
        }
        let tag = tag.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&tag.stderr);
        assert!(tag.status.success() && !errors.contains("untagged"), "{errors}");
        assert!(child.wait().unwrap().success());
        if turn > 0 {
            let of = Counts::read(&counts).of("step");
            // Each of three threads: 60 children of each kind, of which two kinds have two processes, and the
            // threads beside them.
            let whole = of[1..].iter().filter(|calls| **calls == 100).count();
            assert_eq!((of[0], whole), (3 * 60 * 100, 3 * 60 * 5), "{of:?}");
        }
    }
}

#[test]
fn a_program_that_cannot_be_tagged_is_named_and_what_it_starts_is_tagged() {
    let Some(program) = build("tag-f-after", SAYS, &[]) else { return };
    let (source, object, other) =
        (scratch("tag-f-32.s"), scratch("tag-f-32.o"), scratch("tag-f-32"));
    std::fs::write(&source, BITS_32).unwrap();
    let run = |program: &str, words: &[&str]| {
        Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
    };
    let [source, object, other] = [&source, &object, &other].map(|path| path.to_str().unwrap());
    if !run("as", &["--32", "-o", object, source])
        || !run("ld", &["-m", "elf_i386", "-o", other, object])
        || Command::new(other).status().map(|status| status.code()).ok() != Some(Some(7))
    {
        return skipped("no programs of 32 bits");
    }
    let counts = scratch("tag-f-after.json");
    let line = format!("{other}; echo $?; {} 3", program.display());
    let options = ["run", "-f", "-i", "say", "-i", "fn_*", "-o", counts.to_str().unwrap()];
    let output = hmtt_tag(&options).args(["--", "sh", "-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(seen(&output), (Some(3), "7\n3\n".to_owned()), "{text}");
    assert!(text.contains("tag-f-32") && text.contains("goes on untagged"), "{text}");
    assert_eq!(Counts::read(&counts).of("say"), [3]);
}

#[test]
fn what_follows_is_of_many_processes() {
    let Some(program) = build("tag-f-refused", SAYS, &[]) else { return };
    for (words, message) in [
        (&["--sink", "card", "--window", "/dev/null"][..], "--sink card"),
        (&["--sink", "log", "-o", "/dev/null", "--marks", "/dev/null"], "--marks"),
    ] {
        let run = [&["run", "-f"], words, &["--", program.to_str().unwrap()]].concat();
        let output = hmtt_tag(&run).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--follow") && text.contains(message), "{text}");
    }
}
