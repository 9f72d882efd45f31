//! Builds the report of calls from the counts of a log.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hmtt_files::tag_log::{Ending, FunctionId, Header, LossReason};
use hmtt_files::tag_map::{TaggedBlock, TaggedLoop};

use super::{
    Block, Calls, CallsInThread, Edge, Exits, Function, Loop, Lost, Sum, TaggingEnd, Thread, Times,
};
use crate::tags::call_counts::{CallCounts, Totals};
use crate::tags::names::Names;
use crate::tags::nanoseconds;
use crate::tags::stack::Listener;
use crate::tags::threads::{self, Threads};

impl Lost {
    fn new(lost: &BTreeMap<LossReason, u64>) -> Self {
        let mut sum = Lost::default();
        for (reason, count) in lost {
            let of_reason = match reason {
                LossReason::BufferFull => &mut sum.buffer_full,
                LossReason::Interrupted => &mut sum.interrupted,
                LossReason::Damaged => &mut sum.damaged,
                LossReason::Unknown(_) => &mut sum.other,
            };
            *of_reason = of_reason.saturating_add(*count);
            sum.events = sum.events.saturating_add(*count);
        }
        sum
    }
}

/// Converts ticks to the times of a report.
#[derive(Clone, Copy)]
struct Clock {
    is_timed: bool,
    tsc_hz: u64,
}

impl Clock {
    fn sum(self, totals: &Totals) -> Sum {
        let Totals { calls, returned, abandoned, ended, open, inclusive, own } = *totals;
        let ns =
            |ticks| (self.is_timed && self.tsc_hz != 0).then(|| nanoseconds(ticks, self.tsc_hz));
        let raw = |ticks| (self.is_timed && self.tsc_hz == 0).then_some(ticks);
        let times = Times {
            inclusive_ns: ns(inclusive),
            self_ns: ns(own),
            inclusive_ticks: raw(inclusive),
            self_ticks: raw(own),
        };
        Sum { calls, exits: Exits { returned, abandoned, ended, open }, times }
    }
}

impl Calls {
    /// Builds the report of a log whose threads have all ended.
    pub fn new<L: Listener>(
        header: &Header,
        program: Option<String>,
        threads: &Threads<L>,
        counts: &CallCounts,
        names: &Names,
        cut_at: Option<u64>,
    ) -> Self {
        let clock = Clock { is_timed: header.is_timed, tsc_hz: header.tsc_hz };
        let seconds = threads.span.filter(|_| header.tsc_hz != 0);
        Calls {
            program,
            pid: header.pid,
            timed: header.is_timed,
            tsc_hz: header.tsc_hz,
            start_time_ns: header.start_ns,
            duration_seconds: seconds.map(|(first, last)| {
                nanoseconds(last.saturating_sub(first), header.tsc_hz) as f64 / 1e9
            }),
            ending: threads.ending.map(|ending| match ending {
                Ending::Detached => TaggingEnd::Detached,
                Ending::Exited(status) => TaggingEnd::Exited(status),
                Ending::Signaled(signal) => TaggingEnd::Signaled(signal),
                Ending::Replaced => TaggingEnd::Replaced,
            }),
            events: threads.threads.iter().map(|thread| thread.events).sum(),
            functions: functions(clock, threads, counts, names),
            edges: edges(clock, counts, names),
            blocks: blocks(threads, names),
            loops: loops(threads, names),
            threads: threads.threads.iter().map(Thread::new).collect(),
            marks: threads.marks,
            lost: Lost::new(&threads.lost()),
            unmatched_exits: threads.threads.iter().map(|thread| thread.unmatched).sum(),
            shared_exits: threads.threads.iter().map(|thread| thread.shared).sum(),
            cut_at,
            trace: None,
        }
    }
}

impl Thread {
    fn new(thread: &threads::Thread) -> Self {
        Thread {
            thread: thread.number,
            name: thread.name.clone(),
            events: thread.events,
            lost: Lost::new(&thread.lost),
            unmatched_exits: thread.unmatched,
        }
    }
}

/// Sort key of tables, for decreasing order: the own time, and then the number of calls. Without
/// times, only the number of calls decides.
pub(super) fn rank(sum: &Sum) -> impl Ord + use<> {
    Reverse((sum.times.self_ns.or(sum.times.self_ticks), sum.calls))
}

fn functions<L: Listener>(
    clock: Clock,
    threads: &Threads<L>,
    counts: &CallCounts,
    names: &Names,
) -> Vec<Function> {
    let mut in_threads = BTreeMap::<FunctionId, Vec<CallsInThread>>::new();
    for (place, functions) in counts.threads.iter().enumerate() {
        let thread = threads.threads[place].number;
        for (number, totals) in functions {
            let in_thread = CallsInThread { thread, sum: clock.sum(totals), place };
            in_threads.entry(*number).or_default().push(in_thread);
        }
    }
    let function_counts = counts.functions();
    let function = |(number, totals): (&FunctionId, &Totals)| {
        let mapped = names.function(*number);
        Function {
            number: *number,
            name: names.get(*number).into_owned(),
            object: object(names, *number),
            removed: mapped.and_then(|function| function.removed.clone()),
            sum: clock.sum(totals),
            accesses: None,
            outside_blocks: None,
            threads: in_threads.remove(number).unwrap_or_default(),
        }
    };
    let mut functions: Vec<Function> = function_counts.iter().map(function).collect();
    functions.sort_by_cached_key(|function| (rank(&function.sum), function.name.clone()));
    functions
}

fn edges(clock: Clock, counts: &CallCounts, names: &Names) -> Vec<Edge> {
    let edge = |(numbers, totals): (&(Option<FunctionId>, FunctionId), &Totals)| Edge {
        caller: numbers.0.map(|caller| names.shared(caller)),
        callee: names.shared(numbers.1),
        sum: clock.sum(totals),
        numbers: *numbers,
    };
    counts.edges.iter().map(edge).collect()
}

/// The file that contains a function.
fn object(names: &Names, function: FunctionId) -> Option<String> {
    names.function(function).map(|function| function.object.display().to_string())
}

/// Converts an address in a function to an address in the function's file, hexadecimal. `None` if
/// the map does not state the function's address in the file.
fn file_address(names: &Names, function: FunctionId, code_address: u64) -> Option<String> {
    let function = names.function(function)?;
    let offset = code_address.wrapping_sub(function.code_address);
    Some(format!("{:#x}", function.file_address?.wrapping_add(offset)))
}

fn blocks<L: Listener>(threads: &Threads<L>, names: &Names) -> Vec<Block> {
    let block = |block: &TaggedBlock| Block {
        number: block.number,
        function: names.get(block.function_number).into_owned(),
        code_address: format!("{:#x}", block.code_address),
        object: object(names, block.function_number),
        file_address: file_address(names, block.function_number, block.code_address),
        entries: threads.blocks.get(&block.number).map_or(0, |block| block.entries),
        accesses: None,
        function_number: block.function_number,
    };
    names.blocks.values().map(block).filter(|block| block.entries != 0).collect()
}

fn loops<L: Listener>(threads: &Threads<L>, names: &Names) -> Vec<Loop> {
    let head = |block: &TaggedBlock| ((block.function_number, block.code_address), block.number);
    let heads: BTreeMap<(FunctionId, u64), FunctionId> = names.blocks.values().map(head).collect();
    let loop_row = |tagged_loop: &TaggedLoop| {
        let head = heads.get(&(tagged_loop.function_number, tagged_loop.code_address));
        let head = head.and_then(|head| threads.blocks.get(head));
        Loop {
            number: tagged_loop.number,
            function: names.get(tagged_loop.function_number).into_owned(),
            code_address: format!("{:#x}", tagged_loop.code_address),
            object: object(names, tagged_loop.function_number),
            file_address: file_address(
                names,
                tagged_loop.function_number,
                tagged_loop.code_address,
            ),
            outer_number: tagged_loop.outer_number,
            tagged_exits: tagged_loop.tagged_exits,
            entries: head.map_or(0, |head| head.entries),
            accesses: None,
        }
    };
    names.loops.values().map(loop_row).filter(|row| row.entries != 0).collect()
}
