//! Compares the calls that are read from tag logs with a simple model.

mod contexts;
mod model;

use std::collections::BTreeMap;

use hmtt::tags::call_counts::{CallCounts, Totals};
use hmtt::tags::log_reader::{LogReader, TagLogError};
use hmtt::tags::stack::{Exit, GROUPS, REGION};
use hmtt::tags::threads::Threads;
use hmtt_files::tag_log::{Content, Ending, FunctionId, Header, LossReason, TagEvent};
use hmtt_test_support::tag_log::Log;
use proptest::prelude::*;

use model::{Deed, Model, deed};

/// Reads a log to its end.
fn read(log: &Log, is_timed: bool, blocks: &[FunctionId]) -> Threads<CallCounts> {
    let mut reader = LogReader::new(&log.0[..]).unwrap();
    let blocks = blocks.iter().map(|block| (*block, FunctionId(0)));
    let mut threads = Threads::new(is_timed, blocks, CallCounts::default());
    while let Some(chunk) = reader.next_chunk().unwrap() {
        threads.chunk(&chunk).unwrap();
    }
    assert_eq!(reader.cut_at(), None);
    threads.finish();
    threads
}

/// Counts the events of one thread.
fn counted(events: &[(u32, u32, bool)], blocks: &[FunctionId]) -> Threads<CallCounts> {
    let mut log = Log::new(&Header { is_timed: true, ..Header::default() });
    let event = |(at, event): (usize, &(u32, u32, bool))| {
        let (number, sp, is_exit) = *event;
        TagEvent { tsc: 10 * at as u64, sp, number: FunctionId(number), is_exit }
    };
    let events: Vec<TagEvent> = events.iter().enumerate().map(event).collect();
    log.events(1, &events, true);
    read(&log, true, blocks)
}

type Work = (Vec<(Deed, u64)>, bool);

fn threads() -> impl Strategy<Value = Vec<Work>> {
    let work = prop::collection::vec((deed(), 0u64..50), 0..120);
    prop::collection::vec((work, any::<bool>()), 1..4)
}

proptest! {
    #[test]
    fn reported_calls_equal_those_of_the_model(
        threads in threads(),
        cuts in prop::collection::vec((0usize..4, 1usize..40), 0..40),
        is_timed: bool,
        ending in prop::sample::select(vec![Some(Ending::Exited(3)), Some(Ending::Detached), None]),
    ) {
        let rest = if matches!(ending, Some(Ending::Exited(_))) { Exit::Ended } else { Exit::Open };
        let mut models = Vec::new();
        for (work, _) in &threads {
            let mut model = Model::new(1000);
            work.iter().for_each(|(deed, ticks)| model.does(*deed, *ticks));
            models.push(model);
        }
        let mut log = Log::new(&Header { is_timed, ..Header::default() });
        let mut places = vec![0; models.len()];
        let last = (0..models.len()).map(|thread| (thread, usize::MAX));
        for (thread, count) in cuts.into_iter().chain(last) {
            let Some(place) = places.get_mut(thread) else { continue };
            let events = &models[thread].events[*place..];
            let count = count.min(events.len());
            log.events(thread as u32, &events[..count], is_timed);
            *place += count;
        }
        for (thread, (model, (_, has_ended))) in models.iter_mut().zip(&threads).enumerate() {
            if *has_ended {
                log.chunk(thread as u32, Content::ThreadEnd);
            }
            model.end(if *has_ended { Exit::Ended } else { rest });
        }
        if let Some(ending) = ending {
            log.chunk(0, Content::End(ending));
        }
        let read = read(&log, is_timed, &[]);
        let timeless = |totals: Totals| if is_timed { totals } else { Totals { inclusive: 0, own: 0, ..totals } };
        let mut edges = BTreeMap::<_, Totals>::new();
        for (place, thread) in read.threads.iter().enumerate() {
            let model = &models[thread.number as usize];
            let functions: BTreeMap<FunctionId, Totals> =
                model.functions().into_iter().map(|(number, sum)| (number, timeless(sum))).collect();
            prop_assert_eq!(&read.listener.threads[place], &functions);
            prop_assert_eq!(thread.events, model.events.len() as u64);
            prop_assert_eq!((thread.unmatched, thread.shared), (0, model.shared));
            model.edges().into_iter().for_each(|(key, sum)| *edges.entry(key).or_default() += timeless(sum));
        }
        prop_assert_eq!(&read.listener.edges, &edges);
    }

    #[test]
    fn any_events_are_counted_once(
        events in prop::collection::vec((0u32..5, prop_oneof![0u32..99, any::<u32>()], any::<bool>()), 0..300),
    ) {
        let read = counted(&events, &[]);
        let entries = |FunctionId(number)| events.iter().filter(|event| event.0 == number && !event.2).count() as u64;
        let functions = read.listener.functions();
        for (number, sum) in &functions {
            prop_assert_eq!(sum.calls, entries(*number));
            prop_assert_eq!(sum.returned + sum.abandoned + sum.open, sum.calls);
            prop_assert!(sum.own <= sum.inclusive * sum.calls);
        }
        let exits = events.iter().filter(|event| event.2).count() as u64;
        let returned: u64 = functions.values().map(|sum| sum.returned).sum();
        prop_assert_eq!(returned + read.threads.first().map_or(0, |thread| thread.unmatched), exits);
    }

    #[test]
    fn a_truncated_log_is_read_to_its_last_whole_chunk(count in 1usize..20, cut in 48usize..2000) {
        let mut log = Log::new(&Header::default());
        let mut ends = vec![log.0.len()];
        for at in 0..count {
            log.events(1, &vec![TagEvent::default(); at], false);
            ends.push(log.0.len());
        }
        let cut = cut.min(log.0.len());
        let mut reader = LogReader::new(&log.0[..cut]).unwrap();
        let mut read = 0;
        while reader.next_chunk().unwrap().is_some() {
            read += 1;
        }
        prop_assert!(ends[read] <= cut && ends.get(read + 1).is_none_or(|end| *end > cut));
        prop_assert_eq!(reader.cut_at(), (ends[read] != cut).then_some(ends[read] as u64));
    }
}

#[test]
fn exits_without_an_entry_are_unmatched() {
    let events = [(1, 5000, true), (2, 4000, false), (1, 4500, true), (3, REGION * 4, true)];
    let read = counted(&events, &[]);
    assert_eq!(read.threads[0].unmatched, 3);
    let sum = read.listener.functions()[&FunctionId(2)];
    assert_eq!((sum.calls, sum.abandoned, sum.inclusive, sum.own), (1, 1, 10, 10));
}

#[test]
fn blocks_are_counted_but_not_as_calls() {
    // Function 1 enters blocks 7 and 8, and between them calls 2, whose exit has no tag.
    let events = [
        (1, 5000, false),
        (7, 5000, false),
        (2, 4900, false),
        (7, 4800, false),
        (8, 4950, false),
        (1, 5000, true),
    ];
    let read = counted(&events, &[FunctionId(7), FunctionId(8)]);
    let entries = [7, 8].map(|block| read.blocks[&FunctionId(block)].entries);
    assert_eq!(entries, [2, 1]);
    let functions = read.listener.functions();
    let sum = functions[&FunctionId(2)];
    assert_eq!((sum.abandoned, sum.inclusive, functions.len()), (1, 20, 2));
    assert_eq!((functions[&FunctionId(1)].returned, functions[&FunctionId(1)].own), (1, 30));
}

#[test]
fn too_many_contexts_discard_the_oldest() {
    // One context runs, and the others are suspended.
    let count = GROUPS + 2;
    let far = |at: usize| 0x000f_0000 * at as u32 + 100;
    let mut events: Vec<_> = (0..count).map(|at| (at as u32, far(at), false)).collect();
    events.extend((0..count).map(|at| (at as u32, far(at), true)));
    let read = counted(&events, &[]);
    let functions = read.listener.functions();
    assert_eq!((functions[&FunctionId(0)].abandoned, read.threads[0].unmatched), (1, 1));
    assert!(functions.iter().skip(1).all(|(_, sum)| sum.returned == 1), "{functions:?}");
}

#[test]
fn a_thread_that_starts_again_is_another_thread() {
    let mut log = Log::new(&Header::default());
    for name in [&b"first"[..], b"second"] {
        log.chunk(5, Content::ThreadStart { name });
        log.events(5, &[TagEvent { number: FunctionId(1), sp: 800, ..TagEvent::default() }], false);
        log.chunk(5, Content::Lost { count: 4, reason: LossReason::Interrupted });
    }
    let read = read(&log, false, &[]);
    let names: Vec<_> = read.threads.iter().map(|thread| thread.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(read.lost(), BTreeMap::from([(LossReason::Interrupted, 8)]));
    let sum = read.listener.functions()[&FunctionId(1)];
    assert_eq!((sum.calls, sum.ended, sum.open), (2, 1, 1));
}

#[test]
fn damage_is_reported_with_its_position() {
    let mut log = Log::new(&Header::default());
    log.chunk(1, Content::ThreadEnd);
    let place = log.0.len();
    log.chunk(1, Content::ThreadEnd);
    log.0[place + 1] ^= 1;
    let mut reader = LogReader::new(&log.0[..]).unwrap();
    assert!(reader.next_chunk().unwrap().is_some());
    let error = reader.next_chunk().unwrap_err();
    assert_eq!(format!("{:#}", anyhow::Error::from(error)), "offset 64: a damaged chunk");
    assert!(matches!(LogReader::new(&b"#!/bin/sh"[..]), Err(TagLogError::Log { offset: 0, .. })));
}
