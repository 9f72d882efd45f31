//! Tests that direct reads ahead return the bytes of the file.

use std::fs::{File, OpenOptions};
use std::io::{IoSliceMut, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hmtt::CardId;
use hmtt::capture_reader::CaptureReader;
use hmtt::decode::{Item, Sink};
use hmtt::pcapng::{Reading, Source};
use hmtt::report::info::{Info, Packets};
use proptest::prelude::*;
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::card::{Card, MAX_ACCESSES};
use crate::{capture, scratch, skipped};

const PAGE: usize = 4096;
/// Number of pieces in a reader.
const PIECES: usize = 4;
/// File size from which files are read ahead.
const LARGE_BYTES: u64 = 64 << 20;

fn ahead(path: &Path, piece_bytes: usize) -> Source {
    Source::open(path, Reading::Ahead { piece_bytes }).unwrap()
}

fn rest(mut source: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Returns bytes in which no two pages are equal.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// Whether the page at `offset` is in the page cache; `None` if the file system does not report it.
fn is_cached(file: &File, offset: u64) -> Option<bool> {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Removes a file from the page cache. Returns whether that worked and the file can be read past
/// the cache.
fn forget(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    options.open(path).is_ok() && is_cached(&file, 0) == Some(false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Files of any length, in pieces of any size, read in portions of any size, in the page cache
    /// or not.
    #[test]
    fn a_file_is_read_unchanged(
        length in prop_oneof![
            0usize..300_000,
            (0usize..40).prop_map(|pages| pages * PAGE),
            (1usize..40, -1isize..=1).prop_map(|(pages, off)| (pages * PAGE).saturating_add_signed(off)),
        ],
        piece_bytes in prop_oneof![Just(PAGE), Just(4 * PAGE), 1usize..100_000],
        portions in proptest::collection::vec(0usize..50_000, 0..20),
        cached: bool,
    ) {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("a");
        let whole = bytes(length);
        std::fs::write(&path, &whole).unwrap();
        if !cached {
            forget(&path);
        }
        let mut source = ahead(&path, piece_bytes);
        let mut read = Vec::new();
        for portion in portions {
            let mut buffer = vec![0; portion];
            let count = source.read(&mut buffer).unwrap();
            read.extend_from_slice(&buffer[..count]);
        }
        read.extend(rest(&mut source));
        prop_assert!(read == std::fs::read(&path).unwrap());
        prop_assert_eq!(source.read(&mut [0]).unwrap(), 0, "it has ended");
    }
}

/// Reads the first byte of a file of 64 pages, changes the file, and reads the rest.
fn changed_while_read(name: &str, change: impl FnOnce(&File)) -> (Vec<u8>, Vec<u8>) {
    let path = scratch(name);
    let whole = bytes(64 * PAGE);
    std::fs::write(&path, &whole).unwrap();
    let mut source = ahead(&path, PAGE);
    let mut read = vec![0];
    source.read_exact(&mut read).unwrap();
    change(&OpenOptions::new().append(true).open(&path).unwrap());
    read.extend(rest(source));
    (whole, read)
}

#[test]
fn a_file_that_is_cut_while_it_is_read_ends_where_it_is_cut() {
    // Nothing beyond these pieces can have been read before the first one was returned.
    let cut = PIECES * PAGE + 1000;
    let (whole, read) = changed_while_read("cut-ahead", |file| file.set_len(cut as u64).unwrap());
    assert!(read == whole[..cut]);
    // Data beyond the new end may have been read or not. What was read is not mixed.
    let (whole, read) = changed_while_read("cut-behind", |file| file.set_len(10).unwrap());
    assert!(read == whole[..read.len()] && read.len() <= PIECES * PAGE);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_read_to_its_new_end() {
    let more = bytes(10_001);
    let (whole, read) = changed_while_read("grows", |mut file| file.write_all(&more).unwrap());
    assert!(read == [whole, more].concat());
}

#[test]
fn a_reader_that_is_dropped_early_leaves_no_file_open() {
    let path = scratch("dropped");
    std::fs::write(&path, bytes(64 * PAGE)).unwrap();
    let is_open = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == path)
    };
    for read in [0, 1, PAGE, 3 * PAGE + 5, 64 * PAGE] {
        let mut source = ahead(&path, PAGE);
        source.read_exact(&mut vec![0; read]).unwrap();
        assert!(is_open() || read == 64 * PAGE);
        drop(source);
        assert!(!is_open(), "after {read} bytes");
    }
}

#[test]
fn a_file_in_memory_is_read_too() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("there is no /dev/shm");
    };
    let path = folder.path().join("a");
    let whole = bytes(100_001);
    std::fs::write(&path, &whole).unwrap();
    assert!(rest(ahead(&path, PAGE)) == whole);
    File::options().write(true).open(&path).unwrap().set_len(LARGE_BYTES + 1).unwrap();
    let read = rest(Source::open(&path, Reading::Once).unwrap());
    assert!(read.len() as u64 == LARGE_BYTES + 1 && read.starts_with(&whole));
}

#[test]
fn a_pipe_is_read_as_data_arrives() {
    let path = scratch("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let whole = bytes(300_000);
    let (path, written) = (&path, &whole);
    let read = std::thread::scope(|scope| {
        scope.spawn(move || std::fs::write(path, written).unwrap());
        rest(ahead(path, PAGE))
    });
    assert!(read == whole);
}

#[derive(Default)]
struct Items(Vec<String>, Info);

impl Sink for Items {
    fn item(&mut self, card: CardId, item: Item) {
        self.0.push(format!("{card} {item:?}"));
        self.1.item(card, &item);
    }
}

/// Returns the items of a capture, and the output of `hmtt info --json`.
fn info(path: &Path, reading: Reading) -> (Vec<String>, String) {
    let mut reader = CaptureReader::open_as(path, reading).unwrap();
    let (mut packets, mut items) = (Packets::default(), Items::default());
    while let Some(mut next) = reader.next_packet().unwrap() {
        packets.packet(&next.packet);
        next.decode(&mut items);
    }
    let counted = reader.finish(&mut items);
    let interfaces = reader.interfaces().to_vec();
    let Items(items, info) = items;
    let info = info.finish(packets, counted.sum(), counted.cards, interfaces);
    (items, serde_json::to_string(&info).unwrap())
}

#[test]
fn a_capture_is_decoded_the_same_in_every_way_of_reading() {
    let (frames, truth) = Card::new().session(300, MAX_ACCESSES);
    let whole = capture(&frames);
    let plain = scratch("ahead.pcapng");
    std::fs::write(&plain, &whole).unwrap();
    let compressed = scratch("ahead.pcapng.zst");
    std::fs::write(&compressed, zstd::encode_all(&whole[..], 1).unwrap()).unwrap();
    let expected = info(&plain, Reading::Shared);
    assert!(expected.0.len() > truth.len());
    for path in [plain, compressed] {
        for piece_bytes in [PAGE, 5 * PAGE, 1 << 20] {
            forget(&path);
            assert!(info(&path, Reading::Ahead { piece_bytes }) == expected);
        }
        assert!(info(&path, Reading::Once) == expected);
    }
}

#[test]
fn a_large_capture_is_read_past_the_page_cache_unless_cached() {
    let path = scratch("large.pcapng");
    let mut card = Card::new();
    let frames: Vec<_> = (0..48_000).map(|_| card.data(MAX_ACCESSES).0).collect();
    std::fs::write(&path, capture(&frames)).unwrap();
    let length = path.metadata().unwrap().len();
    assert!(length > LARGE_BYTES);
    let info = || {
        let info = hmtt_test_support::captures::info(&path);
        assert!(info["counts"]["frames"].as_u64() > Some(0), "{info}");
        info
    };
    let file = File::open(&path).unwrap();
    // Of 64 places. The attempts of the reader and of this test each load a page or a few.
    let mostly_cached =
        || (0..64).filter(|place| is_cached(&file, length / 64 * place) == Some(true)).count() > 32;
    let expected = info();
    if forget(&path) {
        assert!(info() == expected);
        assert!(!mostly_cached());
    } else {
        skipped("no direct reads here");
    }
    std::fs::read(&path).unwrap();
    assert!(info() == expected);
    std::fs::remove_file(&path).unwrap();
}
