//! Tests several contexts on one thread: coroutines, signal stacks and stacks that move. The times
//! of their calls add up.

use std::collections::BTreeMap;

use hmtt::tags::call_counts::{CallCounts, Totals};
use hmtt::tags::threads::Threads;
use hmtt_files::tag_log::{FunctionId, Header, TagEvent};
use hmtt_test_support::tag_log::Log;
use proptest::prelude::*;

use super::{counted, read};

/// Size of a stack in bytes, and end of the first one.
const STACK: u32 = 64 << 10;
const FIRST: u32 = 0x2000_0000;
/// Frame size of every function.
const FRAME: u32 = 96;

/// The next action of a thread with coroutines.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Call(FunctionId),
    Return,
    /// Switches to another coroutine: `swapcontext`, which is not tagged.
    Switch(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (1u32..5).prop_map(FunctionId).prop_map(Deed::Call),
        4 => Just(Deed::Return),
        3 => (0usize..6).prop_map(Deed::Switch),
    ]
}

/// Returns the events of coroutines on adjacent stacks. Each starts with its own function, which
/// never returns.
fn events(deeds: &[(Deed, u64)]) -> Vec<TagEvent> {
    let (mut events, mut now, mut here) = (Vec::new(), 1000, 0);
    let mut stacks: Vec<Vec<(FunctionId, u32)>> = vec![Vec::new(); 6];
    for (deed, ticks) in deeds {
        now += ticks;
        match deed {
            Deed::Switch(to) => here = *to,
            _ if stacks[here].is_empty() => {}
            Deed::Call(number) if stacks[here].len() < 30 => {
                let sp = stacks[here].last().unwrap().1 - FRAME;
                stacks[here].push((*number, sp));
                events.push(TagEvent { tsc: now, sp, number: *number, is_exit: false });
            }
            Deed::Return if stacks[here].len() > 1 => {
                let (number, sp) = stacks[here].pop().unwrap();
                events.push(TagEvent { tsc: now, sp, number, is_exit: true });
            }
            Deed::Call(_) | Deed::Return => {}
        }
        if stacks[here].is_empty() {
            let (number, sp) = (FunctionId(10 + here as u32), FIRST + here as u32 * STACK - 64);
            stacks[here].push((number, sp));
            events.push(TagEvent { tsc: now, sp, number, is_exit: false });
        }
    }
    // All functions return, which shows which of them were taken for abandoned.
    for stack in stacks {
        for (number, sp) in stack.into_iter().rev() {
            now += 1;
            events.push(TagEvent { tsc: now, sp, number, is_exit: true });
        }
    }
    events
}

fn thread(events: &[TagEvent]) -> Threads<CallCounts> {
    let mut log = Log::new(&Header { is_timed: true, ..Header::default() });
    events.chunks(1000).for_each(|events| log.events(1, events, true));
    read(&log, true, &[])
}

fn own(functions: &BTreeMap<FunctionId, Totals>) -> u64 {
    functions.values().map(|sum| sum.own).sum()
}

proptest! {
    #[test]
    fn coroutines_on_adjacent_stacks_are_separated(
        deeds in prop::collection::vec((deed(), 0u64..50), 0..300),
    ) {
        let events = events(&deeds);
        let read = thread(&events);
        let functions = read.listener.functions();
        let entries = events.iter().filter(|event| !event.is_exit).count() as u64;
        let returned: u64 = functions.values().map(|sum| sum.returned).sum();
        prop_assert_eq!(returned, entries);
        let unmatched = read.threads.first().map_or(0, |thread| thread.unmatched);
        prop_assert_eq!(unmatched, 0);
        let span = read.span.map_or(0, |(first, last)| last - first);
        // Time after the last known call of a context has returned belongs to no function.
        prop_assert!(own(&functions) <= span);
    }

    #[test]
    fn own_times_never_add_up_to_more_than_a_thread_ran(
        events in prop::collection::vec(
            (0u32..5, prop_oneof![0u32..9, 0u32..9000, any::<u32>()], any::<bool>(), 0u64..30),
            0..400,
        ),
        block in 0u32..9,
    ) {
        let mut now = 0;
        let event = |(number, sp, is_exit, ticks): &(u32, u32, bool, u64)| {
            now += ticks;
            TagEvent { tsc: now, number: FunctionId(*number), sp: sp.wrapping_mul(16), is_exit: *is_exit }
        };
        let events: Vec<TagEvent> = events.iter().map(event).collect();
        let mut log = Log::new(&Header { is_timed: true, ..Header::default() });
        log.events(1, &events, true);
        let read = read(&log, true, &[FunctionId(block)]);
        let functions = read.listener.functions();
        let span = read.span.map_or(0, |(first, last)| last - first);
        prop_assert!(own(&functions) <= span);
        for sum in functions.values() {
            prop_assert!(sum.inclusive <= span);
            prop_assert_eq!(sum.returned + sum.abandoned + sum.open, sum.calls);
        }
    }
}

#[test]
fn time_in_a_handler_on_a_signal_stack_is_not_that_of_the_interrupted_function() {
    let handler = 0xf000_0000;
    let events = [(1, 5000, false), (2, handler, false), (2, handler, true), (1, 5000, true)];
    let read = counted(&events, &[]);
    let functions = read.listener.functions();
    assert_eq!([1, 2].map(|number| functions[&FunctionId(number)].own), [20, 10]);
    assert_eq!([1, 2].map(|number| functions[&FunctionId(number)].inclusive), [20, 10]);
}

#[test]
fn a_stack_that_moves_keeps_its_calls() {
    // The stack of 1 and 2 is copied when 3 is entered, and again before 1 returns.
    let (old, new, last) = (0x10_0000, 0x40_0000, 0x20_0000);
    let events = [
        (1, old, false),
        (2, old - 200, false),
        (3, new - 400, false),
        (3, new - 400, true),
        (2, new - 200, true),
        (4, new - 200, false),
        (4, new - 200, true),
        (1, last, true),
    ];
    let read = counted(&events, &[]);
    let functions = read.listener.functions();
    assert!(functions.values().all(|sum| sum.returned == 1 && sum.abandoned == 0), "{functions:?}");
    assert_eq!(read.threads[0].unmatched, 0);
    // After 3 has returned, the address of the stack is unknown until 2 has returned.
    assert_eq!(own(&functions), 60);
}

#[test]
fn deep_contexts_are_read_in_linear_time() {
    // Two recursions alternate: each event is in the other one.
    let deep = 20_000;
    let both = [FIRST, FIRST + (8 << 20)];
    let mut events = Vec::new();
    for top in both {
        events.extend((0..deep).map(|depth| (1, top - depth * 32, false)));
    }
    for depth in (0..deep).rev() {
        events.extend(both.map(|top| (1, top - depth * 32, true)));
    }
    let event = |(tsc, event): (u64, &(u32, u32, bool))| {
        let (number, sp, is_exit) = *event;
        TagEvent { tsc, sp, number: FunctionId(number), is_exit }
    };
    let events: Vec<TagEvent> = (0..).zip(&events).map(event).collect();
    let read = thread(&events);
    let sum = read.listener.functions()[&FunctionId(1)];
    assert_eq!((sum.returned, read.threads[0].unmatched), (2 * u64::from(deep), 0));
}
