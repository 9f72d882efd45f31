//! Tests the search with memory of this process that looks like memory of tags and has arbitrary
//! contents.

use std::path::Path;

use nix::unistd::Pid;
use proptest::prelude::*;

use super::*;
use crate::ptrace::RunningMemory;

const NAME: &str = "/memfd:hmtt-tag-0123456789abcdef (deleted)";
const COOKIE: u64 = 0x1234_5678_9abc_def0;

/// Whole pages of this process, at a fixed address.
struct Pages(Vec<[u64; 512]>);

impl Pages {
    fn new(count: usize) -> Self {
        // One page more, so that so many whole pages are inside.
        Pages(vec![[0; 512]; count + 1])
    }

    fn start(&self) -> u64 {
        (self.0.as_ptr() as u64).next_multiple_of(PAGE_BYTES)
    }

    fn end(&self) -> u64 {
        self.start() + (self.0.len() as u64 - 1) * PAGE_BYTES
    }

    /// Sets bytes at an offset from the first page.
    fn set(&mut self, at: u64, bytes: &[u8]) {
        let first = (self.start() - self.0.as_ptr() as u64) + at;
        for (at, byte) in (first..).zip(bytes) {
            let word = &mut self.0[(at / PAGE_BYTES) as usize][(at % PAGE_BYTES / 8) as usize];
            let mut bytes = word.to_le_bytes();
            bytes[(at % 8) as usize] = *byte;
            *word = u64::from_le_bytes(bytes);
        }
    }

    fn mapping(&self, path: &str, inode: u64, executable: bool, shared: bool) -> Mapping {
        let (start, end) = (RunAddr(self.start()), RunAddr(self.end()));
        let file = (inode != 0).then_some(FileId { device: (0, 0), inode });
        let path = Path::new(path).to_owned();
        let (writable, offset) = (shared, 0);
        Mapping { readable: true, start, end, writable, executable, shared, file, offset, path }
    }
}

/// A process that may have tags: their memory, code of a file, and anonymous memory.
struct Bench {
    memory: Pages,
    text: Pages,
    area: Pages,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Bench { memory: Pages::new(4), text: Pages::new(2), area: Pages::new(2) };
        bench.memory.set(header::MAGIC, &MAGIC.to_le_bytes());
        bench.memory.set(header::VERSION, &VERSION.to_le_bytes());
        bench.memory.set(header::PATCHES_AT, &PAGE_BYTES.to_le_bytes());
        bench.memory.set(header::COOKIE, &COOKIE.to_le_bytes());
        for at in 0..2 * PAGE_BYTES {
            bench.text.set(at, &[at as u8]);
        }
        bench.area.set(0, &[0xcc]);
        bench
    }

    fn records(&mut self, records: &[[u64; 4]], count: u64) {
        self.memory.set(header::PATCHES, &count.to_le_bytes());
        for (at, record) in records.iter().enumerate() {
            for (word, value) in record.iter().enumerate() {
                let at = PAGE_BYTES + at as u64 * PATCH_BYTES + word as u64 * 8;
                self.memory.set(at, &value.to_le_bytes());
            }
        }
    }

    fn find(&self) -> Records {
        let mut mapped = vec![
            self.memory.mapping(NAME, 3, false, true),
            self.text.mapping("/bin/x", 7, true, false),
            self.area.mapping("", 0, true, false),
        ];
        // The same file is mapped twice.
        mapped.push(mapped[0].clone());
        mapped.sort_by_key(|mapping| mapping.start);
        Records::read(&RunningMemory::open(Pid::this()).unwrap(), &mapped).unwrap()
    }
}

#[test]
fn places_that_are_as_recorded_are_found_in_order() {
    let mut bench = Bench::new();
    let (text, area) = (bench.text.start(), bench.area.start());
    let new = |at: u64| u64::from_le_bytes(std::array::from_fn(|byte| (at as u8) + byte as u8));
    bench.records(
        &[
            [area, 0, 2 * PAGE_BYTES, 0],
            [text + 64, 5, 0x0909_0909_0909, new(64)],
            [text + 16, 5, 0x0909_0909_0909, new(16)],
            // Other contents; too long; no code; already restored.
            [text + 32, 5, 0x0909, 0x7777_7777_7777],
            [text + 48, 9, 0, new(48)],
            [area + 8, 4, 1, 0],
            [text + 96, 4, new(96), 5],
        ],
        7,
    );
    bench.area.set(2 * PAGE_BYTES - COOKIE_BYTES, &ending(COOKIE));
    let Records { places, areas, shared } = bench.find();
    let places: Vec<u64> = places.iter().map(|place| place.address - RunAddr(text)).collect();
    assert_eq!(places, [64, 16]);
    assert_eq!(areas, vec![Range { start: RunAddr(area), end: RunAddr(area + 2 * PAGE_BYTES) }]);
    assert_eq!(shared.len(), 2);
}

#[test]
fn memory_of_the_program_is_no_area() {
    let mut bench = Bench::new();
    let area = bench.area.start();
    bench.records(&[[area, 0, 2 * PAGE_BYTES, 0], [area, 0, PAGE_BYTES, 0]], 2);
    assert!(bench.find().areas.is_empty());
    // Nothing was written to the area yet.
    bench.area.set(0, &[0]);
    assert_eq!(
        bench.find().areas,
        vec![Range { start: RunAddr(area), end: RunAddr(area + PAGE_BYTES) }]
    );
}

#[test]
fn a_record_that_was_never_written_ends_the_list() {
    let mut bench = Bench::new();
    let text = bench.text.start();
    bench.records(&[[text, 1, 9, 0], [0; 4], [text + 1, 1, 9, 1]], u64::MAX);
    assert_eq!(bench.find().places, [Place { address: RunAddr(text), original: vec![9] }]);
}

proptest! {
    #[test]
    fn only_code_of_files_is_changed_whatever_is_recorded(
        forged in prop::collection::vec((0..4u8, any::<u64>(), prop_oneof![0..12u64, any::<u64>()], any::<[u64; 2]>()), 0..300),
        count in any::<u64>(), patches_at in prop_oneof![Just(PAGE_BYTES), any::<u64>()],
    ) {
        let mut bench = Bench::new();
        bench.memory.set(header::PATCHES_AT, &patches_at.to_le_bytes());
        let starts = [bench.text.start(), bench.area.start(), bench.memory.start()];
        let records: Vec<[u64; 4]> = forged.into_iter().map(|(whose, at, length, [old, new])| {
            let address = starts.get(whose as usize).map_or(at, |start| start + at % (2 * PAGE_BYTES));
            [address, length, old, new]
        }).collect();
        bench.records(&records, count);
        let Records { places, areas, .. } = bench.find();
        let text = RunAddr(bench.text.start())..RunAddr(bench.text.end());
        for place in &places {
            prop_assert!((1..=8).contains(&place.original.len()));
            prop_assert!(text.contains(&place.address));
            prop_assert!(place.address + place.original.len() as u64 <= text.end);
        }
        prop_assert!(areas.iter().all(|area| (bench.area.start()..bench.area.end()).contains(&area.start.0)));
    }
}
