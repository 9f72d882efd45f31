//! Tests how tags on the bus, and chunks of a log in any order, become calls.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

use hmtt_files::tag_log::{Chunk, Content, EventEncoder, FunctionId, TagEvent};
use hmtt_format::{Cycles, Direction, Event};
use proptest::prelude::*;

use crate::decode::{Accesses, Gap, Item};
use crate::tags::accesses::bus::Bus;
use crate::tags::accesses::log_calls::{CallEvent, CallEventKind, LogCalls, LogIndex};
use crate::tags::accesses::owners::Owner;
use crate::tags::accesses::regions::Regions;
use crate::tags::call_counts::CallCounts;

/// A random input: a tag, a gap or an access.
#[derive(Clone, Copy, Debug)]
enum Action {
    Tag { number: FunctionId, is_exit: bool },
    Gap,
    Access,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        9 => ((0u32..4).prop_map(FunctionId), any::<bool>()).prop_map(|(number, is_exit)| Action::Tag { number, is_exit }),
        1 => Just(Action::Gap),
        10 => Just(Action::Access),
    ]
}

fn tag(clock: u64, place: u32, direction: Direction) -> Item {
    let clock = Cycles(clock);
    Item::Event(Event::Tag { clock, direction, offset: 64 * place, address: None })
}

/// The model: one stack, in which an exit closes all calls down to its function, if that is open.
fn plain(actions: &[Action]) -> (BTreeMap<Owner, u64>, u64) {
    let (mut stack, mut accesses, mut unmatched) = (Vec::new(), BTreeMap::new(), 0);
    for action in actions {
        match *action {
            Action::Gap => stack.clear(),
            Action::Access => {
                let owner = stack.last().map_or(Owner::Outside, |number| Owner::Function(*number));
                *accesses.entry(owner).or_default() += 1;
            }
            Action::Tag { number, is_exit: false } => stack.push(number),
            Action::Tag { number, is_exit: true } => {
                match stack.iter().rposition(|open| *open == number) {
                    Some(at) => stack.truncate(at),
                    None => unmatched += 1,
                }
            }
        }
    }
    (accesses, unmatched)
}

/// Writes a log of the threads' events in chunks of the given lengths; returns also the threads in
/// the order in which they appear.
fn written(threads: &[Vec<TagEvent>], cuts: Vec<(usize, usize)>) -> (File, LogIndex, Vec<usize>) {
    let (mut file, mut index) = (tempfile::tempfile().unwrap(), LogIndex::default());
    let (mut places, mut offset, mut order) = (vec![0; threads.len()], 0, Vec::new());
    let rest = (0..threads.len()).map(|thread| (thread, usize::MAX));
    for (thread, count) in cuts.into_iter().chain(rest) {
        let left = threads.get(thread).map_or(&[][..], |events| &events[places[thread]..]);
        let events = &left[..count.min(left.len())];
        if events.is_empty() {
            continue;
        }
        if !order.contains(&thread) {
            order.push(thread);
        }
        places[thread] += events.len();
        let mut buffer = vec![0; 1 << 14];
        let mut encoder = EventEncoder::new(&mut buffer, thread as u32, true).unwrap();
        events.iter().for_each(|event| encoder.push(*event).unwrap());
        let length = encoder.finish();
        let (chunk, _) = Chunk::decode(&buffer[..length]).unwrap().unwrap();
        index.note(&chunk, offset);
        offset += length as u64;
        file.write_all(&buffer[..length]).unwrap();
    }
    (file, index, order)
}

proptest! {
    #[test]
    fn tags_on_the_bus_keep_one_stack(actions in prop::collection::vec(action(), 0..200)) {
        let mut bus = Bus::new(None, Regions::default(), CallCounts::default());
        for (clock, action) in (0..).zip(&actions) {
            match *action {
                Action::Tag { number, is_exit } => {
                    let place = 2 * number.0 + u32::from(is_exit);
                    bus.item(&tag(clock, place, Direction::Write));
                    bus.item(&tag(clock, place, Direction::Read));
                }
                Action::Gap => {
                    let after = Some(Cycles(clock));
                    bus.item(&Item::Gap(Box::new(Gap { after, ..Gap::default() })));
                }
                Action::Access => bus.accesses(&Accesses {
                    clocks: &[clock],
                    addresses: &[clock << 12],
                    writes: &[true],
                }),
            }
        }
        prop_assert_eq!(bus.finish(), 0);
        let (accesses, unmatched) = plain(&actions);
        let ledger = &bus.threads.listener.1.ledger;
        for owner in (0..4).map(FunctionId).map(Owner::Function).chain([Owner::Outside]) {
            let writes = ledger.share_of(owner).map_or(0, |[own, _]| own.traffic.writes);
            // The first pages of memory hold the card's registers.
            let count = accesses.get(&owner).copied().unwrap_or_default();
            let registers = u64::from(matches!(actions.first(), Some(Action::Access)) && owner == Owner::Outside);
            prop_assert_eq!(writes, count - registers, "{:?}", owner);
        }
        let entries = actions.iter().filter(|action| matches!(action, Action::Tag { is_exit: false, .. }));
        let calls: u64 = bus.threads.listener.0.functions().values().map(|sum| sum.calls).sum();
        prop_assert_eq!(calls, entries.count() as u64);
        let total: u64 = bus.threads.threads.iter().map(|thread| thread.unmatched).sum();
        prop_assert_eq!(total, unmatched);
        prop_assert_eq!(ledger.total.clocks, bus.steps.last);
    }

    #[test]
    fn calls_of_all_threads_come_in_the_order_of_time(
        gaps in prop::collection::vec(prop::collection::vec(1u64..50, 0..60), 1..5),
        cuts in prop::collection::vec((0usize..5, 1usize..9), 0..60),
    ) {
        // Each thread enters and leaves one function after another.
        let event = |thread: usize, at: usize, tsc| TagEvent {
            tsc: 1000 + tsc * 5 + thread as u64,
            sp: 0x8000,
            number: FunctionId((at / 2 % 3) as u32),
            is_exit: !at.is_multiple_of(2),
        };
        let threads: Vec<Vec<TagEvent>> = gaps.iter().enumerate().map(|(thread, gaps)| {
            let times = gaps.iter().scan(0, |time, gap| { *time += gap; Some(*time) });
            times.enumerate().map(|(at, time)| event(thread, at, time)).collect()
        }).collect();
        let (file, mut index, order) = written(&threads, cuts);
        let mut expected: Vec<CallEvent> = threads.iter().enumerate().flat_map(|(thread, events)| {
            let place = order.iter().position(|other| *other == thread).unwrap_or_default();
            events.iter().map(move |event| CallEvent {
                tsc: event.tsc,
                thread: place,
                number: event.number,
                kind: if event.is_exit { CallEventKind::Exit } else { CallEventKind::Entry },
            })
        }).collect();
        expected.sort_by_key(|call| call.tsc);
        let end = Content::Clocks(hmtt_files::tag_log::ClockPair { tsc: 1 << 20, ..Default::default() });
        index.note(&Chunk { thread: 0, content: end }, 0);
        // Calls that are open at the end of the log end there.
        let open = |events: &Vec<TagEvent>| events.last().is_some_and(|event| !event.is_exit);
        let still_open = threads.iter().filter(|events| open(events)).count();
        let mut calls = LogCalls::new(file, index, []);
        let mut events = Vec::new();
        while let Some(call) = calls.next_call().unwrap() { events.push(call) }
        let ends = events.split_off(expected.len());
        prop_assert_eq!(events, expected);
        prop_assert_eq!(ends.len(), still_open);
        prop_assert!(ends.iter().all(|end| end.tsc == 1 << 20 && end.kind == CallEventKind::Exit));
    }
}
