//! Tests the reader with chunks as threads leave them, written word by word.

use std::io::{Read, Seek};

use hmtt_files::tag_log::{Chunk, Ending, HEADER_BYTES, Header};
use proptest::prelude::*;

use super::*;
use crate::control::shared::SlotLayout;
use crate::stubs::layout::WhenFull;

const SHAPE: LogShape =
    LogShape { is_timed: false, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Drop };

/// A thread's slot, and the reader of it.
struct Bench {
    shared: Shared,
    drain: Drain,
    writer: Writer,
    file: std::fs::File,
}

impl Bench {
    fn new() -> Self {
        let shape = SlotLayout { slot_bytes: SHAPE.slot_bytes(), alignment: SHAPE.chunk_bytes };
        let shared = Shared::without_process(shape, 2);
        let drain = Drain::new(&shared, &SHAPE, 7, 1);
        let file = tempfile::tempfile().unwrap();
        let writer = Writer::new(file.try_clone().unwrap(), Header::default()).unwrap();
        writer.numbers.store(1 << 20, Ordering::SeqCst);
        Bench { shared, drain, writer, file }
    }

    fn chunk(&self, number: u64) -> u64 {
        self.drain.at + SHAPE.chunk_at(number)
    }

    /// Writes the word of a record.
    fn put(&self, number: u64, place: u64, word: u32) {
        let at = self.chunk(number) + chunk::GUARD_BYTES + place * 8 + 4;
        self.shared.memory.write(at, word);
    }

    /// Fills a chunk, except for one record.
    fn fill(&self, number: u64, unwritten: Option<u64>) {
        let places = (0..SHAPE.capacity()).filter(|place| Some(*place) != unwritten);
        places.for_each(|place| self.put(number, place, 1 + 2 * place as u32));
    }

    /// Hands a chunk over, as a thread does.
    fn hand_over(&self, number: u64) {
        self.shared.set(self.drain.at + slot::NUMBER, number + 1);
        self.shared.memory.write(self.chunk(number) + chunk::STATE, chunk::FULL);
    }

    /// Begins to fill a chunk, as a thread does.
    fn take(&self, number: u64, dropped: u64, pointer: u64) {
        self.shared.memory.write(self.chunk(number) + chunk::STATE, chunk::FILLING);
        self.shared.set(self.chunk(number) + chunk::LOST, dropped);
        let first = (self.shared.start + self.chunk(number) + chunk::GUARD_BYTES).0;
        self.shared.set(self.drain.at + slot::POINTER, first + pointer * 8);
    }

    fn drain(&mut self) -> bool {
        self.drain.drain(&self.shared, &SHAPE, &mut self.writer)
    }

    fn state(&self, number: u64) -> u32 {
        self.shared.memory.read(self.chunk(number) + chunk::STATE).any()
    }

    /// Contents of the log in order: `e` events, `d` dropped, `x` damaged, `i` interrupted, each
    /// with a count.
    fn finish(mut self) -> Vec<(char, u64)> {
        self.drain.finish(&self.shared, &SHAPE, &mut self.writer);
        self.writer.finish(Ending::Detached).unwrap();
        let mut bytes = Vec::new();
        self.file.rewind().unwrap();
        self.file.read_to_end(&mut bytes).unwrap();
        let mut counts = Vec::new();
        let mut rest = &bytes[HEADER_BYTES..];
        while let Some((chunk, length)) = Chunk::decode(rest).unwrap() {
            rest = &rest[length..];
            match chunk.content {
                Content::Events(events) => counts.push(('e', u64::from(events.count))),
                Content::Lost { count, reason: LossReason::BufferFull } => {
                    counts.push(('d', count))
                }
                Content::Lost { count, reason: LossReason::Damaged } => counts.push(('x', count)),
                Content::Lost { count, .. } => counts.push(('i', count)),
                _ => {}
            }
        }
        counts
    }
}

#[test]
fn a_chunk_with_an_unwritten_record_waits_until_it_is_written() {
    let mut bench = Bench::new();
    bench.fill(0, Some(5));
    bench.hand_over(0);
    bench.take(1, 0, 1);
    bench.put(1, 0, 9);
    assert!(!bench.drain());
    assert_eq!(bench.state(0), chunk::FULL);
    bench.put(0, 5, 3);
    assert!(bench.drain());
    assert_eq!(bench.state(0), chunk::FREE);
    assert_eq!(bench.finish(), [('e', SHAPE.capacity()), ('e', 1)]);
}

#[test]
fn an_unwritten_record_is_lost_when_its_thread_has_filled_all_other_chunks() {
    let mut bench = Bench::new();
    bench.fill(0, Some(5));
    bench.hand_over(0);
    bench.fill(1, None);
    assert!(!bench.drain());
    bench.hand_over(1);
    assert!(bench.drain());
    let capacity = SHAPE.capacity();
    assert_eq!(bench.finish(), [('e', 5), ('i', 1), ('e', capacity - 6), ('e', capacity)]);
}

#[test]
fn records_that_are_reserved_and_never_written_are_lost() {
    let bench = Bench::new();
    bench.take(0, 0, 4);
    bench.put(0, 0, 1);
    bench.put(0, 2, 5);
    assert_eq!(bench.finish(), [('e', 1), ('i', 1), ('e', 1), ('i', 1)]);
}

#[test]
fn a_pointer_behind_the_last_record_means_a_full_chunk() {
    for behind in [0, 3, 511] {
        let bench = Bench::new();
        bench.take(0, 0, SHAPE.capacity() + behind);
        bench.fill(0, None);
        assert_eq!(bench.finish(), [('e', SHAPE.capacity())]);
    }
}

#[test]
fn dropped_records_are_reported_where_they_were_dropped() {
    let mut bench = Bench::new();
    for number in [0, 1] {
        bench.fill(number, None);
        bench.hand_over(number);
    }
    assert!(bench.drain());
    bench.take(2, 1000, 1);
    bench.put(2, 0, 1);
    bench.shared.set(bench.drain.at + slot::DROPPED, 1000);
    let capacity = SHAPE.capacity();
    assert_eq!(bench.finish(), [('e', capacity), ('e', capacity), ('d', 1000), ('e', 1)]);
}

#[test]
fn records_in_a_partly_filled_spare_chunk_count_as_dropped() {
    let bench = Bench::new();
    bench.fill(0, None);
    bench.hand_over(0);
    bench.shared.memory.write(bench.drain.at + slot::DROPPING, 1);
    bench.shared.set(bench.drain.at + slot::DROPPED, 1024);
    let spare = (bench.shared.start + bench.drain.at + chunk::GUARD_BYTES).0;
    bench.shared.set(bench.drain.at + slot::POINTER, spare + 3 * 8);
    assert_eq!(bench.finish(), [('e', SHAPE.capacity()), ('d', 1027)]);
}

#[test]
fn numbers_that_were_never_assigned_are_damage() {
    let bench = Bench::new();
    bench.writer.numbers.store(3, Ordering::SeqCst);
    bench.take(0, 0, 5);
    for (place, word) in [1, 0xffff_fffe, 7, 6, 2].into_iter().enumerate() {
        bench.put(0, place as u64, word);
    }
    // Entries and exits of the numbers 0 to 2 have the words 1 to 6.
    assert_eq!(bench.finish(), [('e', 1), ('x', 2), ('e', 2)]);
}

#[test]
fn impossible_counts_of_dropped_records_are_damage() {
    for lie in [u64::MAX, u64::MAX / 2, 1 << 60] {
        let mut bench = Bench::new();
        for number in [0, 1] {
            bench.fill(number, None);
            bench.hand_over(number);
        }
        assert!(bench.drain());
        bench.take(2, lie, 1);
        bench.put(2, 0, 1);
        bench.shared.set(bench.drain.at + slot::DROPPED, 5);
        let capacity = SHAPE.capacity();
        let expected = [('e', capacity), ('e', capacity), ('x', 1), ('e', 1), ('d', 5)];
        assert_eq!(bench.finish(), expected);
    }
}

#[test]
fn a_pointer_outside_the_chunk_and_an_unknown_state_are_damage() {
    for pointer in [0, u64::MAX, 1 << 40] {
        let bench = Bench::new();
        bench.shared.set(bench.drain.at + slot::POINTER, pointer);
        assert_eq!(bench.finish(), [('x', 1)]);
    }
    let bench = Bench::new();
    bench.shared.memory.write(bench.chunk(0) + chunk::STATE, 77);
    assert_eq!(bench.finish(), [('x', 1)]);
}

#[test]
fn an_impossible_number_of_chunks_delays_nothing() {
    let mut bench = Bench::new();
    bench.fill(0, Some(5));
    bench.hand_over(0);
    bench.shared.set(bench.drain.at + slot::NUMBER, u64::MAX);
    assert!(bench.drain());
    bench.take(1, 0, 0);
    let capacity = SHAPE.capacity();
    assert_eq!(bench.finish(), [('e', 5), ('i', 1), ('e', capacity - 6)]);
}

#[test]
fn draining_ends_although_chunks_stay_full() {
    let Bench { shared, mut drain, mut writer, .. } = Bench::new();
    let states = [0, 1].map(|number| drain.at + SHAPE.chunk_at(number) + chunk::STATE);
    shared.set(drain.at + slot::NUMBER, u64::MAX);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                states.iter().for_each(|state| shared.memory.write(*state, chunk::FULL));
            }
        });
        drain.drain(&shared, &SHAPE, &mut writer);
        let looked = drain.number;
        drain.finish(&shared, &SHAPE, &mut writer);
        stop.store(true, Ordering::SeqCst);
        // All chunks once: the thread makes chunks full again meanwhile.
        assert!(looked <= SHAPE.chunks && drain.number - looked <= SHAPE.chunks + 1);
    });
}

/// An action between two checks of the slot.
#[derive(Clone, Debug)]
enum Act {
    /// The program writes a 32-bit word.
    Write(u64, u32),
    /// The program writes a 64-bit word into the slot's fields, or at the start of a chunk.
    Field(u64, u64),
    /// The controller drains the slot.
    Look,
}

fn act() -> impl Strategy<Value = Act> {
    let slot_bytes = SHAPE.slot_bytes();
    let word = prop_oneof![any::<u32>(), 0..8u32, Just(u32::MAX), Just(u32::MAX - 1)];
    let fields = prop_oneof![
        Just(slot::POINTER),
        Just(slot::NUMBER),
        Just(slot::DROPPED),
        Just(slot::DROPPING & !7),
        Just(slot::FREED),
        Just(SHAPE.chunk_at(0) + chunk::STATE),
        Just(SHAPE.chunk_at(1) + chunk::STATE),
        Just(SHAPE.chunk_at(0) + chunk::LOST),
        Just(SHAPE.chunk_at(1) + chunk::LOST),
    ];
    let inside = (0..slot_bytes).prop_map(move |at| (1 << 40) + 8192 + slot_bytes + at);
    let value = prop_oneof![any::<u64>(), 0..4u64, inside, Just(u64::MAX)];
    prop_oneof![
        (0..slot_bytes / 4, word).prop_map(|(at, word)| Act::Write(at * 4, word)),
        (fields, value).prop_map(|(at, value)| Act::Field(at, value)),
        Just(Act::Look),
    ]
}

proptest! {
    #[test]
    fn the_log_is_readable_whatever_is_written_over_a_slot(
        acts in prop::collection::vec(act(), 0..64), numbers in 0..50u64,
    ) {
        let mut bench = Bench::new();
        bench.writer.numbers.store(numbers, Ordering::SeqCst);
        let looks = 1 + acts.iter().filter(|act| matches!(act, Act::Look)).count() as u64;
        for act in acts {
            match act {
                Act::Write(at, word) => bench.shared.memory.write(bench.drain.at + at, word),
                Act::Field(at, value) => bench.shared.set(bench.drain.at + at, value),
                Act::Look => drop(bench.drain()),
            }
        }
        let calls = bench.writer.calls.len() as u64;
        prop_assert!(calls <= numbers);
        let events: u64 = bench.finish().iter().filter(|(kind, _)| *kind != 'd').map(|one| one.1).sum();
        // Each check takes what fits into the chunks, once; a false value in a field is one piece
        // of damage.
        prop_assert!(events <= (looks + 2) * SHAPE.chunks * (SHAPE.capacity() + 2) + 3);
    }
}
