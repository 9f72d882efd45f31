//! Times of a log found in a trace by marks, and how marks are made.

use std::fs::File;

use hmtt::tags::log_reader::LogReader;
use hmtt_format::Direction;
use hmtt_format::config::MARK_FREE_FIRST;
use hmtt_format::tag_log::Content;
use hmtt_sim::traffic::Traffic;
use hmtt_tests::run;
use serde_json::{Value, json};

use super::marked::MarkedLog;
use super::program::{Event, Program};
use super::truth::{Share, Truth};
use super::{compare, memory, recorded, report, runs, some};
use crate::captures::{path, replay_file};
use crate::recording::write_vector;

/// A log and a recording that are made together.
struct Making {
    traffic: Traffic,
    log: MarkedLog,
    truth: Truth,
    accesses: Box<dyn Iterator<Item = (Direction, u64)>>,
    /// Clocks between an event and any access.
    apart: u64,
}

impl Making {
    fn some(&mut self, count: u64) {
        some(&mut self.accesses, &mut self.traffic, &mut self.truth, count);
    }

    fn event(&mut self, event: Event) {
        self.traffic.idle(self.apart);
        self.log.event(event, self.traffic.clocks());
        self.truth.event(event);
        self.traffic.idle(self.apart);
    }

    fn other(&mut self, number: u32, is_exit: bool) {
        self.traffic.idle(self.apart);
        self.log.other(number, is_exit, self.traffic.clocks());
        self.truth.other(number, is_exit);
        self.traffic.idle(self.apart);
    }

    fn mark(&mut self, is_on_bus: bool, is_in_log: bool) {
        self.traffic.idle(self.apart);
        self.log.mark(&mut self.traffic, is_on_bus, is_in_log);
    }
}

/// Events at times that are `apart` clocks from any access; every so often a mark, some of them lost on
/// either side. For a while another thread has a function open, and once it is alone.
fn marked(program: &Program, apart: u64) -> Making {
    let (traffic, truth) = (Traffic::new(memory()), Truth::default());
    let (log, accesses) = (MarkedLog::new(program), Box::new(recorded()));
    let mut making = Making { traffic, log, truth, accesses, apart };
    let (mut runs, other) = (runs(), program.events[program.events.len() / 2].number);
    making.mark(true, true);
    making.some(30);
    for (at, event) in program.events.iter().enumerate() {
        match at {
            300 => making.other(other, false),
            400 => making.other(other, true),
            _ if at % 40 == 39 => making.mark(at % 7 != 3, at % 11 != 5),
            _ => {}
        }
        making.event(*event);
        making.some(runs.next().unwrap());
    }
    making.other(other, false);
    making.some(20);
    making.other(other, true);
    making.some(30);
    making.mark(true, true);
    making
}

/// What is told of events and accesses that are so far apart, and the truth.
fn told_by_marks(program: &Program, apart: u64) -> (Value, Truth) {
    let Making { traffic, log, truth, .. } = marked(program, apart);
    let folder = program.folder.path();
    let (input, capture) = (folder.join("marked.cmd"), folder.join("marked.pcapng"));
    write_vector(&input, &traffic);
    replay_file(&input, &["--granularity", "burst"], &capture);
    let file = folder.join("marked.tags");
    log.finish(&file, traffic.clocks());
    let map = program.map();
    std::fs::write(folder.join("marked.tags.json"), map.to_string()).unwrap();
    (report(&[path(&file), "--trace", path(&capture)]), truth)
}

#[test]
fn marks_split_accesses_that_are_farther_from_calls_than_the_error() {
    let test = "marks_split_accesses_that_are_farther_from_calls_than_the_error";
    let Some(program) = Program::run(test) else { return };
    let (told, truth) = told_by_marks(&program, 100);
    compare(&told, &truth, &program);
    assert!(truth.several.reads > 50);
    let sync = &told["trace"]["sync"];
    let error = sync["error_ns"].as_f64().unwrap();
    // 300 ticks of 20 a clock, and a clock; accesses are 100 clocks away.
    assert!((160.0..900.0).contains(&error), "{error}");
    assert_eq!(sync["uncertain"], json!(0));
    assert!(sync["only_log"].as_u64() > Some(0) && sync["only_trace"].as_u64() > Some(0), "{sync}");
    for function in told["functions"].as_array().unwrap() {
        for sense in ["self", "inclusive"] {
            let told = &function["accesses"][sense];
            assert_eq!(told["at_least"], told["accesses"], "{function}");
            assert_eq!(told["at_most"], told["accesses"], "{function}");
        }
    }
}

#[test]
fn marks_bound_accesses_that_are_nearer_to_calls_than_the_error() {
    let test = "marks_bound_accesses_that_are_nearer_to_calls_than_the_error";
    let Some(program) = Program::run(test) else { return };
    let (told, truth) = told_by_marks(&program, 3);
    assert_eq!(told["trace"]["accesses"], json!(truth.accesses));
    assert!(told["trace"]["sync"]["uncertain"].as_u64() > Some(100), "{}", told["trace"]["sync"]);
    let bounds = |told: &Value, share: &Share| {
        let count = share.reads + share.writes;
        let [least, most] = ["at_least", "at_most"].map(|key| told[key].as_u64().unwrap());
        assert!((least..=most).contains(&count), "{least} {count} {most}");
        assert!(least < most);
    };
    for function in told["functions"].as_array().unwrap() {
        let truth = &truth.functions[&(function["number"].as_u64().unwrap() as u32)];
        bounds(&function["accesses"]["self"], &truth.own);
        bounds(&function["accesses"]["inclusive"], &truth.inclusive);
    }
    bounds(&told["trace"]["outside"]["self"], &truth.outside);
}

#[test]
fn marks_are_made_while_a_program_runs() {
    let Some(program) = Program::run("marks_are_made_while_a_program_runs") else { return };
    let registers = program.folder.path().join("registers");
    std::fs::write(&registers, [0; 8192]).unwrap();
    let log = program.folder.path().join("timed.tags");
    let place = format!("{}:4096", path(&registers));
    program.tag(&log, &["--marks", &place, "--mark-every", "200us"]);
    let mut reader = LogReader::new(File::open(&log).unwrap()).unwrap();
    let (mut marks, mut events) = (Vec::new(), 0..0);
    while let Some(chunk) = reader.next_chunk().unwrap() {
        match chunk.content {
            Content::Mark(mark) => marks.push(mark),
            Content::Events(of_chunk) if events.is_empty() => {
                events = of_chunk.tsc..of_chunk.decode(true).last().unwrap().unwrap().tsc;
            }
            Content::Events(of_chunk) => {
                events.end = of_chunk.decode(true).last().unwrap().unwrap().tsc;
            }
            _ => {}
        }
    }
    for (at, mark) in marks.iter().enumerate() {
        assert_eq!(mark.register, u32::from(MARK_FREE_FIRST) + at as u32 % 256);
        assert!(mark.tsc_before < mark.tsc_after);
    }
    assert!(marks.is_sorted_by(|one, other| one.tsc_after <= other.tsc_before));
    // The first is made before the program goes on, the last when it has ended.
    assert!(marks.len() >= 2 && marks[0].tsc_after < events.start, "{marks:?} {events:?}");
    assert!(marks[marks.len() - 1].tsc_before > events.end, "{marks:?} {events:?}");
    let report = report(&[path(&log)]);
    assert_eq!(report["marks"], json!(marks.len()));
}

#[test]
fn marks_without_times_to_find_are_refused() {
    let arguments = ["tag", "run", "--sink", "log", "--no-time", "-o", "none", "--marks", "none"];
    let output = run("hmtt", &[&arguments[..], &["true"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("times"));
}
