//! Locates times of a log in a trace by marks, and tests how `hmtt tag` makes marks.

use std::fs::File;

use hmtt::tags::log_reader::LogReader;
use hmtt_files::tag_log::Content;
use hmtt_format::Direction;
use hmtt_format::config::MARK_FREE_FIRST;
use hmtt_sim::traffic::Traffic;
use hmtt_tests::run;
use serde_json::{Value, json};

use super::marked::MarkedLog;
use super::program::{Event, Program};
use super::truth::{Share, Truth};
use super::{add_accesses, compare, memory, recorded, report, runs};
use crate::captures::{path, replay_file};
use crate::recording::write_vector;

/// A log and a recording that are built together.
struct Builder {
    traffic: Traffic,
    log: MarkedLog,
    truth: Truth,
    accesses: Box<dyn Iterator<Item = (Direction, u64)>>,
    /// Clocks between an event and the nearest access.
    apart: u64,
}

impl Builder {
    fn add_accesses(&mut self, count: u64) {
        add_accesses(&mut self.accesses, &mut self.traffic, &mut self.truth, count);
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

/// Builds events that are `apart` clocks from any access, with regular marks, some of them lost in
/// the log or on the bus. For some time another thread has a function open, once without the first
/// thread.
fn marked(program: &Program, apart: u64) -> Builder {
    let (traffic, truth) = (Traffic::new(memory()), Truth::new(program));
    let (log, accesses) = (MarkedLog::new(program), Box::new(recorded()));
    let mut builder = Builder { traffic, log, truth, accesses, apart };
    let mut later = program.events[program.events.len() / 2..].iter().map(|event| event.number);
    let other = later.find(|number| !program.blocks.contains_key(number)).unwrap();
    let mut runs = runs();
    builder.mark(true, true);
    builder.add_accesses(30);
    for (at, event) in program.events.iter().enumerate() {
        match at {
            300 => builder.other(other, false),
            400 => builder.other(other, true),
            _ if at % 40 == 39 => builder.mark(at % 7 != 3, at % 11 != 5),
            _ => {}
        }
        builder.event(*event);
        if program.has_accesses_after(*event) {
            builder.add_accesses(runs.next().unwrap());
        }
    }
    builder.other(other, false);
    builder.add_accesses(20);
    builder.other(other, true);
    builder.add_accesses(30);
    builder.mark(true, true);
    builder
}

/// Returns the report for events and accesses that are `apart` clocks from each other, and the
/// truth.
pub fn report_by_marks(program: &Program, apart: u64) -> (Value, Truth) {
    let Builder { traffic, log, truth, .. } = marked(program, apart);
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
fn marks_attribute_accesses_that_are_farther_from_calls_than_the_error() {
    let test = "marks_attribute_accesses_that_are_farther_from_calls_than_the_error";
    let Some(program) = Program::run(test) else { return };
    let (reported, truth) = report_by_marks(&program, 100);
    compare(&reported, &truth, &program);
    assert!(truth.several.reads > 50);
    let sync = &reported["trace"]["sync"];
    let error = sync["error_ns"].as_f64().unwrap();
    // The error is 300 ticks at 20 per clock, plus one clock. Accesses are 100 clocks from events.
    assert!((160.0..900.0).contains(&error), "{error}");
    assert_eq!(sync["uncertain"], json!(0));
    assert!(sync["only_log"].as_u64() > Some(0) && sync["only_trace"].as_u64() > Some(0), "{sync}");
    for function in reported["functions"].as_array().unwrap() {
        for sense in ["self", "inclusive"] {
            let reported = &function["accesses"][sense];
            assert_eq!(reported["at_least"], reported["accesses"], "{function}");
            assert_eq!(reported["at_most"], reported["accesses"], "{function}");
        }
    }
}

#[test]
fn marks_bound_accesses_that_are_nearer_to_calls_than_the_error() {
    let test = "marks_bound_accesses_that_are_nearer_to_calls_than_the_error";
    let Some(program) = Program::run(test) else { return };
    let (reported, truth) = report_by_marks(&program, 3);
    assert_eq!(reported["trace"]["accesses"], json!(truth.accesses));
    assert!(
        reported["trace"]["sync"]["uncertain"].as_u64() > Some(100),
        "{}",
        reported["trace"]["sync"]
    );
    let bounds = |reported: &Value, share: &Share| {
        let count = share.reads + share.writes;
        let [least, most] = ["at_least", "at_most"].map(|key| reported[key].as_u64().unwrap());
        assert!((least..=most).contains(&count), "{least} {count} {most}");
        assert!(least < most);
    };
    for function in reported["functions"].as_array().unwrap() {
        let truth = &truth.functions[&(function["number"].as_u64().unwrap() as u32)];
        bounds(&function["accesses"]["self"], &truth.own);
        bounds(&function["accesses"]["inclusive"], &truth.inclusive);
    }
    bounds(&reported["trace"]["outside"]["self"], &truth.outside);
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
    // The first mark is made before the program continues, the last one after it has ended.
    assert!(marks.len() >= 2 && marks[0].tsc_after < events.start, "{marks:?} {events:?}");
    assert!(marks[marks.len() - 1].tsc_before > events.end, "{marks:?} {events:?}");
    let report = report(&[path(&log)]);
    assert_eq!(report["marks"], json!(marks.len()));
}

#[test]
fn marks_in_a_log_without_times_are_rejected() {
    let arguments = ["tag", "run", "--sink", "log", "--no-time", "-o", "none", "--marks", "none"];
    let output = run("hmtt", &[&arguments[..], &["true"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("times"));
}
