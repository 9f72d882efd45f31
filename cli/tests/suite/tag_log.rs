//! Tests `hmtt tag --sink log` and `card` on real programs that are built here: every event is
//! recorded or counted as lost, and the programs behave as without tags.

pub mod log;
mod programs;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hmtt_files::tag_log::Ending;
use hmtt_files::tag_map::TagMap;

use crate::tag::{FORKS, THREADS, build, hmtt_tag};
use crate::{scratch, wait_for};
use log::{Log, number};
use programs::{ASKED, EIGHT, ENDLESS, JUMPS, STORM, TIMER, TREE};

fn log_words<'a>(file: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["--sink", "log", "--overwrite", "-o", file.to_str().unwrap()], more].concat()
}

/// Runs a program with its entries logged.
fn log_run(name: &str, program: &Path, more: &[&str]) -> (Output, PathBuf) {
    let file = scratch(&format!("{name}.tags"));
    let program = program.to_str().unwrap();
    let words = [&["run"], &log_words(&file, more)[..], &["--", program]].concat();
    (hmtt_tag(&words).output().unwrap(), file)
}

/// As `log_run`, and checks that the program behaves the same without tags.
fn log_same(name: &str, program: &Path, more: &[&str]) -> PathBuf {
    let plain = Command::new(program).output().unwrap();
    let (tagged, file) = log_run(name, program, more);
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    assert_eq!(seen(&tagged), seen(&plain), "{}", String::from_utf8_lossy(&tagged.stderr));
    file
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

fn tree(is_left: bool, n: i64, order: &mut Vec<bool>) {
    order.push(is_left);
    if n >= 2 {
        tree(true, n - 1, order);
        tree(false, n - 2, order);
    }
}

#[test]
fn every_entry_is_in_the_log_in_order() {
    let Some(program) = build("tag-log-tree", TREE, &["-fno-optimize-sibling-calls"]) else {
        return;
    };
    let mut expected = Vec::new();
    tree(true, 19, &mut expected);
    for more in [&[][..], &["--no-time"], &["--buffer-kb", "8", "--buffers", "2"]] {
        let file = log_same("tag-log-tree", &program, more);
        let log = Log::read(&file);
        let (left, right) = (number(&file, "left"), number(&file, "right"));
        let events = log.threads.values().next().unwrap().iter().filter(|event| !event.is_exit);
        let events = events.filter(|event| [left, right].contains(&event.number));
        assert!(events.clone().map(|event| event.number == left).eq(expected.iter().copied()));
        assert_eq!((log.lost(), log.begun, log.ended), (0, 1, 1));
        assert_eq!(log.ending, Some(Ending::Exited(3)));
        if log.is_timed {
            assert!(events.clone().map(|event| event.tsc).is_sorted());
            let (first, last) = (log.clocks[0], log.clocks[log.clocks.len() - 1]);
            assert!(events.clone().all(|event| (first.tsc..last.tsc).contains(&event.tsc)));
        }
    }
}

#[test]
fn a_frame_has_one_stack_pointer() {
    let Some(program) = build("tag-log-frames", TREE, &["-fno-optimize-sibling-calls"]) else {
        return;
    };
    let file = log_same("tag-log-frames", &program, &["-i", "left", "-i", "right"]);
    let log = Log::read(&file);
    let entries = log.threads.values().next().unwrap().iter().filter(|event| !event.is_exit);
    let pointers: Vec<u32> = entries.map(|event| event.sp).collect();
    let mut distinct = pointers.clone();
    distinct.sort_unstable_by(|a, b| b.cmp(a));
    distinct.dedup();
    // There is one stack pointer for each depth, with the outermost first.
    assert_eq!(distinct.len(), 19);
    assert_eq!(pointers[0], distinct[0]);
}

#[test]
fn every_exit_belongs_to_the_frame_entered_last() {
    let Some(program) = build("tag-log-exits", TREE, &["-fno-optimize-sibling-calls"]) else {
        return;
    };
    for more in [&["--buffer-kb", "8"][..], &["--no-time"]] {
        let more = [&["-i", "left", "-i", "right", "-i", "main"], more].concat();
        let log = Log::read(&log_same("tag-log-exits", &program, &more));
        let mut frames = Vec::new();
        for event in log.threads.values().next().unwrap() {
            let frame = (event.number, event.sp);
            if event.is_exit { assert_eq!(frames.pop(), Some(frame)) } else { frames.push(frame) }
        }
        assert_eq!(frames, []);
    }
}

#[test]
fn threads_that_wait_for_buffers_lose_nothing() {
    let Some(program) = build("tag-log-eight", EIGHT, &[]) else { return };
    for more in [&["--buffer-kb", "8", "--buffers", "2"][..], &["--no-time", "--buffer-kb", "16"]] {
        let file = log_same("tag-log-eight", &program, more);
        let log = Log::read(&file);
        let mut entries = log.entries(number(&file, "leaf"));
        entries.sort_unstable();
        assert_eq!(entries, (1..=8).map(|turns| turns * 20000).collect::<Vec<u64>>());
        assert_eq!((log.lost(), log.begun, log.ended), (0, 9, 9));
    }
}

#[test]
fn consecutive_threads_have_their_own_logs() {
    let Some(program) = build("tag-log-threads", THREADS, &[]) else { return };
    let file = log_same("tag-log-threads", &program, &["--buffer-kb", "8"]);
    let log = Log::read(&file);
    assert_eq!(log.entries(number(&file, "leaf")), [20 * 1000; 15]);
    assert_eq!((log.lost(), log.begun, log.ended), (0, 16, 16));
}

/// A program that prints when it has started, with pipes to its input and output.
struct Interactive {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Interactive {
    fn start(mut command: Command) -> Interactive {
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let mut child = command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut talking = Interactive { child, output };
        assert_eq!(talking.line(), "started\n");
        talking
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn say(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

#[test]
fn dropped_events_are_counted() {
    let Some(program) = build("tag-log-asked", ASKED, &[]) else { return };
    let file = scratch("tag-log-asked.tags");
    let small = ["-i", "leaf", "--full", "drop", "--buffer-kb", "8", "--buffers", "2"];
    let words =
        [&["run"], &log_words(&file, &small)[..], &["--", program.to_str().unwrap()]].concat();
    let mut program = Interactive::start(hmtt_tag(&words));
    // While hmtt is stopped, no buffers are emptied.
    signal(&program.child, libc::SIGSTOP);
    program.say();
    let (line, expected) = (program.line(), (0..200_000u64).map(|n| n * 3 + 1).sum::<u64>());
    assert_eq!(line, format!("{expected}\n"));
    signal(&program.child, libc::SIGCONT);
    program.say();
    let ended = program.child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{text}");
    let log = Log::read(&file);
    let received: u64 = log.entries(number(&file, "leaf")).iter().sum();
    let exits = log.threads.values().flatten().filter(|event| event.is_exit).count() as u64;
    assert!(log.dropped >= 200_000 - 3 * 256, "{}", log.dropped);
    // Each call is an entry, and an exit if exits are tagged.
    let each = if exits == 0 { 1 } else { 2 };
    assert_eq!((received + exits + log.dropped, log.interrupted), (each * 200_000, 0));
    assert!(
        text.contains(&format!("{} of {} events were dropped", log.dropped, each * 200_000)),
        "{text}"
    );
}

#[test]
fn tags_of_signal_handlers_are_logged_in_between() {
    let Some(program) = build("tag-log-timer", TIMER, &[]) else { return };
    for more in [&["--buffer-kb", "8", "--buffers", "4"][..], &["--no-time", "--buffer-kb", "8"]] {
        let (output, file) = log_run("tag-log-timer", &program, more);
        let text = String::from_utf8(output.stdout).unwrap();
        let counted: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let log = Log::read(&file);
        let logged = ["step", "tick"].map(|name| log.entries(number(&file, name))[0]);
        assert_eq!((logged.to_vec(), log.lost()), (counted, 0));
    }
}

#[test]
fn threads_handlers_and_children_at_once_lose_nothing() {
    let Some(program) = build("tag-log-storm", STORM, &["-fno-optimize-sibling-calls"]) else {
        return;
    };
    for more in [&["--buffer-kb", "8", "--buffers", "2"][..], &["--no-time"]] {
        let file = log_same("tag-log-storm", &program, more);
        let log = Log::read(&file);
        let total = |name| log.entries(number(&file, name)).iter().sum::<u64>();
        let turns = 5 * (6 * 1000 + 15);
        assert_eq!((total("sum"), log.lost()), (turns * 21, 0));
        assert_eq!(total("leaf"), turns * 20 + total("tick"));
        assert!(total("tick").is_multiple_of(30));
    }
}

#[test]
fn a_jump_out_of_a_handler_leaves_no_record_unwritten() {
    let Some(program) = build("tag-log-jumps", JUMPS, &[]) else { return };
    let more = ["-i", "step", "-i", "handler", "--buffer-kb", "8", "--buffers", "2"];
    let (output, file) = log_run("tag-log-jumps", &program, &more);
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [steps, jumps] = printed[..] else { panic!("{text}") };
    let log = Log::read(&file);
    let [entries, handled] = ["step", "handler"].map(|name| log.entries(number(&file, name))[0]);
    assert_eq!((handled, log.dropped, log.interrupted), (jumps, 0, 0));
    // Some calls were entered, and left before they did anything.
    assert!((steps..=steps + jumps).contains(&entries), "{steps} {entries}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_program_continues_when_hmtt_is_killed() {
    let Some(program) = build("tag-log-endless", ENDLESS, &[]) else { return };
    let file = scratch("tag-log-endless.tags");
    let mut running = Interactive::start(Command::new(&program));
    let pid = running.child.id().to_string();
    let words = [&["attach"], &log_words(&file, &["--buffer-kb", "8"])[..], &[&pid]].concat();
    let mut hmtt = hmtt_tag(&words).spawn().unwrap();
    wait_for_events(&mut hmtt, &file);
    hmtt.kill().unwrap();
    hmtt.wait().unwrap();
    running.say();
    let expected = (0..3_000_000u64).sum::<u64>();
    assert_eq!(running.line(), format!("{expected}\n"));
    assert_eq!(running.child.wait().unwrap().code(), Some(7));
}

/// Waits until a log has events.
fn wait_for_events(hmtt: &mut Child, file: &Path) {
    wait_for(hmtt, "the log has events", || {
        std::fs::metadata(file).is_ok_and(|about| about.len() >= 4096)
    });
}

#[test]
fn a_log_of_a_part_of_a_run_is_complete() {
    let Some(program) = build("tag-log-part", ENDLESS, &[]) else { return };
    let mut running = Interactive::start(Command::new(&program));
    let pid = running.child.id().to_string();
    for cycle in 0..5 {
        let file = scratch(&format!("tag-log-part-{cycle}.tags"));
        let words = [&["attach"], &log_words(&file, &[])[..], &[&pid]].concat();
        let mut hmtt = hmtt_tag(&words).spawn().unwrap();
        wait_for_events(&mut hmtt, &file);
        signal(&hmtt, libc::SIGINT);
        let ended = hmtt.wait_with_output().unwrap();
        let log = Log::read(&file);
        assert_eq!(log.ending, Some(Ending::Detached));
        // At most the record that was being written when the thread was stopped.
        assert!(log.dropped == 0 && log.interrupted <= 1);
        assert_eq!(ended.status.code(), Some(if log.interrupted == 0 { 0 } else { 3 }));
        assert!(log.entries(number(&file, "leaf"))[0] > 0);
    }
    running.say();
    let mut text = String::new();
    running.output.read_to_string(&mut text).unwrap();
    assert_eq!(text, format!("{}\n", (0..3_000_000u64).sum::<u64>()));
    assert_eq!(running.child.wait().unwrap().code(), Some(7));
}

#[test]
fn children_leave_nothing_in_the_log() {
    let Some(program) = build("tag-log-forks", FORKS, &[]) else { return };
    let file = log_same("tag-log-forks", &program, &[]);
    let log = Log::read(&file);
    assert_eq!((log.entries(number(&file, "step")), log.lost()), (vec![10], 0));
}

#[test]
fn the_card_sink_writes_each_function_to_its_own_address() {
    let Some(program) = build("tag-card", TREE, &[]) else { return };
    let (window, map) = (scratch("tag-card.window"), scratch("tag-card.tags"));
    std::fs::write(&window, vec![0; 3 << 12]).unwrap();
    let place = format!("{}:0x1000", window.display());
    let map = map.to_str().unwrap();
    let tags = [
        "--sink",
        "card",
        "--window",
        &place,
        "--window-base",
        "0x380000000",
        "-o",
        map,
        "--overwrite",
    ];
    let run = [&["run"], &tags[..], &["--", program.to_str().unwrap()]].concat();
    let output = hmtt_tag(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let map = TagMap::load(&TagMap::path_beside(Path::new(map))).unwrap();
    let of_map = map.window.unwrap();
    assert_eq!((of_map.address, of_map.stride_bytes, of_map.bytes), (0x3_8000_0000, 64, 2 << 12));
    let bytes = std::fs::read(&window).unwrap();
    assert!(bytes[..0x1000].iter().all(|byte| *byte == 0));
    for function in &map.functions {
        let at = 0x1000 + 64 * 2 * function.number.index();
        let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let expected = 1 + 2 * function.number.0;
        assert!(word == expected || word == 0, "{}: {word}", function.name);
        assert!(word != 0 || !["main", "left", "right"].contains(&function.name.as_str()));
    }
}

#[test]
fn unusable_log_options_are_errors() {
    let Some(program) = build("tag-log-refused", TREE, &[]) else { return };
    let window = scratch("tag-log-refused.window");
    std::fs::write(&window, vec![0; 128]).unwrap();
    let (small, odd) = (window.display().to_string(), format!("{}:64", window.display()));
    for (words, status, message) in [
        (&["--sink", "log"][..], 1, "-o FILE"),
        (&["--sink", "log", "-o", "/nonexistent/file"], 1, "/nonexistent/file"),
        (&["--sink", "log", "-o", "/dev/full"], 1, "cannot begin the log /dev/full"),
        (&["--sink", "log", "--buffer-kb", "24"], 2, "power of two"),
        (&["--sink", "card"], 1, "--window"),
        (&["--sink", "card", "--window", "/nonexistent/file"], 1, "/nonexistent/file"),
        (&["--sink", "card", "--window", &small], 1, "128 are there"),
        (&["--sink", "card", "--window", &odd], 1, "a multiple of 4096"),
    ] {
        let run = [&["run"], words, &["--", program.to_str().unwrap()]].concat();
        let output = hmtt_tag(&run).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
        assert!(text.contains(message), "{words:?}: {text}");
    }
}
