//! Writes a tag log of random calls, and returns the calls.

use std::path::Path;

use hmtt_files::tag_log::{ClockPair, Content, Ending, FunctionId, Header, LossReason, TagEvent};
use serde_json::json;

use crate::tag_log::Log;

/// Ticks per second: a tick is a microsecond.
pub const TSC_HZ: u64 = 1_000_000;
/// Name of function 0. The others have the next letters.
const FIRST_NAME: u8 = b'a';
/// Number of functions. Event numbers below this number are functions.
const FUNCTIONS: u32 = 7;
/// Event number of a block of function 0.
const BLOCK: u32 = FUNCTIONS;
/// Maximum number of events in a chunk.
const CHUNK_EVENTS: usize = 40;
/// Tick at which the log begins.
const FIRST_TICK: u64 = 1_000;
const MAP_ID: [u8; 8] = [7; 8];

/// A call of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrueCall {
    /// Number of the thread in the log, from 0.
    pub session: i64,
    /// The kernel's number of the thread.
    pub thread: i64,
    /// Start in nanoseconds since the Unix epoch.
    pub start_time_ns: i64,
    /// End in nanoseconds since the Unix epoch.
    pub end_time_ns: i64,
    /// Name of the function.
    pub function: String,
    /// Name of the caller.
    pub caller: Option<String>,
    /// Number of calls that are open around this call.
    pub depth: i64,
    /// Nanoseconds from start to end, without the time in the calls that this call made.
    pub self_ns: i64,
    /// How the call ended.
    pub exit: &'static str,
}

/// A thread that makes calls.
struct Caller {
    session: i64,
    number: u32,
    begin_ns: u64,
    now: u64,
    random: u64,
    events: Vec<TagEvent>,
    calls: Vec<TrueCall>,
}

impl Caller {
    fn next(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn event(&mut self, number: u32, sp: u32, is_exit: bool) -> u64 {
        self.now += 1 + self.next(2_000);
        let (tsc, number) = (self.now, FunctionId(number));
        self.events.push(TagEvent { tsc, sp, number, is_exit });
        self.now
    }

    /// Makes a call, which makes other calls. Returns its duration in ticks. `is_open`: whether the
    /// call does not return.
    fn call(&mut self, sp: u32, caller: Option<u32>, depth: i64, is_open: bool) -> u64 {
        let function = self.next(u64::from(FUNCTIONS)) as u32;
        let start = self.event(function, sp, false);
        let mut callees = 0;
        if function == 0 {
            self.event(BLOCK, sp - 8, false);
        }
        for _ in 0..self.next(if depth < 6 { 4 } else { 1 }) {
            callees += self.call(sp - 64, Some(function), depth + 1, false);
        }
        if is_open {
            callees += self.call(sp - 64, Some(function), depth + 1, depth < 2);
        }
        let end = if is_open { self.now } else { self.event(function, sp, true) };
        let ns = |ticks: u64| (ticks * 1_000) as i64;
        let time = |tick: u64| self.begin_ns as i64 + ns(tick - FIRST_TICK);
        self.calls.push(TrueCall {
            session: self.session,
            thread: self.number.into(),
            start_time_ns: time(start),
            end_time_ns: time(end),
            function: name(function),
            caller: caller.map(name),
            depth,
            self_ns: ns(end - start - callees),
            exit: if is_open { "ended" } else { "returned" },
        });
        end - start
    }
}

fn name(function: u32) -> String {
    char::from(FIRST_NAME + function as u8).into()
}

/// Writes a log and its map. Each thread makes `calls` outermost calls, the last of which does not
/// return. Returns all calls. `begin_ns`: time of the first tick in nanoseconds since the Unix
/// epoch.
///
/// # Panics
/// If a file cannot be written.
pub fn write(path: &Path, threads: u32, calls: u32, begin_ns: u64, seed: u64) -> Vec<TrueCall> {
    let header =
        Header { is_timed: true, pid: 4711, tsc_hz: TSC_HZ, start_ns: begin_ns, map_id: MAP_ID };
    let mut log = Log::new(&header);
    let clocks = |ticks: u64| {
        let ns = ticks * 1_000;
        let tsc = FIRST_TICK + ticks;
        Content::Clocks(ClockPair { tsc, monotonic_ns: ns, realtime_ns: begin_ns + ns })
    };
    log.chunk(0, clocks(0));
    let mut callers: Vec<Caller> = (0..threads)
        .map(|thread| Caller {
            session: thread.into(),
            number: 4711 + thread,
            begin_ns,
            now: FIRST_TICK + 10,
            random: seed + u64::from(thread),
            events: Vec::new(),
            calls: Vec::new(),
        })
        .collect();
    for caller in &mut callers {
        log.chunk(caller.number, Content::ThreadStart { name: b"worker" });
        for call in 1..=calls {
            caller.call(1 << 20, None, 0, call == calls);
        }
    }
    let longest = callers.iter().map(|caller| caller.events.len()).max().unwrap_or_default();
    for at in (0..longest).step_by(CHUNK_EVENTS) {
        for caller in &callers {
            let events = caller.events.iter().skip(at).take(CHUNK_EVENTS).copied();
            let events: Vec<TagEvent> = events.collect();
            if !events.is_empty() {
                log.events(caller.number, &events, true);
            }
        }
        log.chunk(0, clocks(at as u64 * 100));
    }
    let lost = Content::Lost { count: 3, reason: LossReason::BufferFull };
    log.chunk(4711, lost);
    for caller in &callers {
        log.chunk(caller.number, Content::ThreadEnd);
    }
    log.chunk(0, Content::End(Ending::Exited(0)));
    std::fs::write(path, log.0).unwrap();
    let mut map_path = path.as_os_str().to_owned();
    map_path.push(".json");
    std::fs::write(map_path, map()).unwrap();
    let mut calls: Vec<TrueCall> = callers.into_iter().flat_map(|caller| caller.calls).collect();
    calls.sort();
    calls
}

/// The map of the functions and blocks in the logs.
fn map() -> String {
    let function = |number: u32| {
        json!({
            "number": number, "name": name(number), "symbols": [], "object": "prog",
            "code_address": format!("{:x}", 0x1000 + 16 * number), "size_bytes": 16,
            "tagged_exits": "all", "removed": null,
        })
    };
    let block = json!({
        "number": BLOCK, "function_number": 0, "code_address": "1008", "size_bytes": 8,
        "loop_number": null,
    });
    let functions: Vec<_> = (0..FUNCTIONS).map(function).collect();
    json!({
        "version": 2, "id": "0707070707070707", "program": "/usr/bin/prog", "pid": 4711,
        "sink": "log", "timed": true, "tsc_hz": TSC_HZ, "window": null, "functions": functions,
        "blocks": [block], "refused": [],
    })
    .to_string()
}
