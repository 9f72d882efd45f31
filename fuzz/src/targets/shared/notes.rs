//! Compares the patch records that the controller accepts with a model. A process that no
//! controller traces may have forged them.
//!
//! The process is the fuzzer itself. Its pages serve as shared memory of tags, as code of a file,
//! and as an area of stubs.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;

use hmtt_probe::address::RunAddr;
use hmtt_probe::fuzzing::Records;
use hmtt_probe::ptrace::{FileId, Mapping, RunningMemory};
use hmtt_probe::stubs::layout::{MAGIC, PAGE_BYTES, PATCH_BYTES, VERSION, header};
use nix::unistd::Pid;

use super::tracee::value;
use crate::script::Bytes;

const NAME: &str = "/memfd:hmtt-tag-0123456789abcdef (deleted)";
const COOKIE: u64 = 0x1234_5678_9abc_def0;
/// Number of pages of each kind.
const PAGES: usize = 3;
/// Number of words in a patch record, and maximum number of overwritten bytes.
const WORDS: usize = 4;
const OVERWRITTEN: u64 = 8;
const AREA_ENDING: usize = 16;

/// A page of memory, aligned to its size.
#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES as usize]);

/// Pages whose addresses do not change.
struct Pages(Vec<Page>);

impl Pages {
    fn new() -> Pages {
        Pages(vec![Page([0; PAGE_BYTES as usize]); PAGES])
    }

    fn start(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    fn end(&self) -> u64 {
        self.start() + PAGES as u64 * PAGE_BYTES
    }

    fn set(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            if let Some(page) = self.0.get_mut((at / PAGE_BYTES) as usize) {
                page.0[(at % PAGE_BYTES) as usize] = *byte;
            }
        }
    }

    fn get(&self, at: u64, count: u64) -> Option<Vec<u8>> {
        let byte = |at: u64| {
            let page = self.0.get((at / PAGE_BYTES) as usize)?;
            Some(page.0[(at % PAGE_BYTES) as usize])
        };
        (at..at.checked_add(count)?).map(byte).collect()
    }

    fn mapping(&self, path: &str, inode: u64, executable: bool) -> Mapping {
        let file = (inode != 0).then_some(FileId { device: (0, 0), inode });
        let (shared, writable, offset) = (!executable, !executable, 0);
        let (start, end) = (RunAddr(self.start()), RunAddr(self.end()));
        let path = PathBuf::from(path);
        Mapping { readable: true, start, end, writable, executable, shared, file, offset, path }
    }
}

struct Bench {
    memory: Pages,
    text: Pages,
    area: Pages,
    process: RunningMemory,
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

pub(super) fn check(mut script: Bytes) {
    BENCH.with_borrow_mut(|bench| {
        let bench = bench.get_or_insert_with(Bench::new);
        bench.reset();
        let mut notes = 0;
        while bench.act(&mut script, &mut notes).is_some() {}
        bench.check();
    });
}

impl Bench {
    fn new() -> Bench {
        let process = RunningMemory::open(Pid::this()).expect("it is this one");
        Bench { memory: Pages::new(), text: Pages::new(), area: Pages::new(), process }
    }

    fn reset(&mut self) {
        for pages in [&mut self.memory, &mut self.text, &mut self.area] {
            pages.0.iter_mut().for_each(|page| page.0.fill(0));
        }
        self.memory.set(header::MAGIC, &MAGIC.to_le_bytes());
        self.memory.set(header::VERSION, &VERSION.to_le_bytes());
        self.memory.set(header::PATCHES_AT, &PAGE_BYTES.to_le_bytes());
        self.memory.set(header::COOKIE, &COOKIE.to_le_bytes());
        for at in 0..PAGES as u64 * PAGE_BYTES {
            self.text.set(at, &[at as u8]);
        }
    }

    fn act(&mut self, script: &mut Bytes, notes: &mut u64) -> Option<()> {
        match script.byte()? % 8 {
            0 => {
                let fields = [header::MAGIC, header::VERSION, header::PATCHES_AT, header::PATCHES];
                let field = fields[usize::from(script.byte()? % 4)];
                self.memory.set(field, &value(script)?.to_le_bytes());
            }
            1 => {
                let at = script.number(2)?;
                self.memory.set(at, script.some());
            }
            2 => {
                let at = script.number(2)?;
                self.text.set(at, script.some());
            }
            3 => {
                let at = script.number(2)?;
                self.area.set(at, script.some());
            }
            4 => {
                // An area as a controller leaves it.
                let pages = u64::from(script.byte()? % PAGES as u8) + 1;
                let end = pages * PAGE_BYTES - AREA_ENDING as u64;
                let ending = [MAGIC.to_le_bytes(), COOKIE.to_le_bytes()].concat();
                self.area.set(end, &ending);
                self.note(notes, [self.area.start(), 0, pages * PAGE_BYTES, 0]);
            }
            5 => {
                let first = [self.text.start(), self.area.start()][usize::from(script.byte()? & 1)];
                let at = first.wrapping_add(script.number(2)?);
                let note = [at, value(script)?, value(script)?, value(script)?];
                self.note(notes, note);
            }
            6 => {
                // A patch record that agrees with the memory.
                let (at, length) = (script.number(2)?, u64::from(script.byte()? % 10));
                let there =
                    self.text.get(at, OVERWRITTEN)?.try_into().map_or(0, u64::from_le_bytes);
                self.note(notes, [self.text.start() + at, length, value(script)?, there]);
            }
            _ => {
                let note = [value(script)?, value(script)?, value(script)?, value(script)?];
                self.note(notes, note);
            }
        }
        Some(())
    }

    /// Appends a patch record.
    fn note(&mut self, notes: &mut u64, words: [u64; WORDS]) {
        let at = PAGE_BYTES + *notes * PATCH_BYTES;
        *notes += 1;
        self.memory.set(at, &words.map(u64::to_le_bytes).concat());
        self.memory.set(header::PATCHES, &notes.to_le_bytes());
    }

    fn long(&self, at: u64) -> u64 {
        let bytes = self.memory.get(at, 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }

    /// Compares the accepted records with the model.
    fn check(&self) {
        let mut mapped = vec![
            self.memory.mapping(NAME, 3, false),
            self.text.mapping("/bin/x", 7, true),
            self.area.mapping("", 0, true),
        ];
        // A file may be mapped several times.
        mapped.push(mapped[0].clone());
        mapped.sort_by_key(|one| one.start);
        let records = Records::read(&self.process, &mapped).expect("it can be read");
        let notes = self.notes();
        let mut seen = HashSet::new();
        let is_place = |note: &&[u64; WORDS]| self.is_place(note) && seen.insert(note[0]);
        let places = notes.iter().filter(is_place).map(|[address, length, old, _]| {
            (*address, old.to_le_bytes()[..*length as usize].to_vec())
        });
        let found_places = records.places.iter().map(|one| (one.address.0, one.original.clone()));
        assert!(places.eq(found_places), "{:x?}", records.places);
        let mut end = RunAddr(0);
        for area in &records.areas {
            assert!(end <= area.start && area.start < area.end, "{:x?}", records.areas);
            assert!(self.area.start() <= area.start.0 && area.end.0 <= self.area.end());
            let is_noted = |[start, length, bytes, _]: &[u64; WORDS]| {
                (*start, *length, start.checked_add(*bytes)) == (area.start.0, 0, Some(area.end.0))
            };
            assert!(notes.iter().any(is_noted), "{area:x?}");
            end = area.end;
        }
        let is_ours = records.shared.iter().all(|one| one.start.0 == self.memory.start());
        assert!(is_ours && records.shared.len() <= 2);
    }

    /// Returns all patch records up to the first one that was never written.
    fn notes(&self) -> Vec<[u64; WORDS]> {
        let is_ours =
            self.long(header::MAGIC) == MAGIC && self.long(header::VERSION) as u32 == VERSION;
        let (first, count) = (self.long(header::PATCHES_AT), self.long(header::PATCHES));
        if !is_ours {
            return Vec::new();
        }
        let places = (0..count).map_while(|number| first.checked_add(number * PATCH_BYTES));
        let note = |at| {
            self.memory.get(at, PATCH_BYTES)?;
            let words: [u64; WORDS] = std::array::from_fn(|word| self.long(at + word as u64 * 8));
            Some(words).filter(|words| *words != [0; WORDS])
        };
        places.map_while(note).collect()
    }

    /// Whether the code agrees with a record: each byte is the old or the new one, and at least one
    /// byte is not the old one.
    fn is_place(&self, [address, length, old, new]: &[u64; WORDS]) -> bool {
        let at = address.checked_sub(self.text.start());
        let Some(at) = at.filter(|_| (1..=OVERWRITTEN).contains(length)) else { return false };
        let Some(there) = self.text.get(at, *length) else { return false };
        let (old, new) = (old.to_le_bytes(), new.to_le_bytes());
        let mut bytes = there.iter().zip(old.iter().zip(&new));
        there != old[..there.len()] && bytes.all(|(there, (old, new))| there == old || there == new)
    }
}
