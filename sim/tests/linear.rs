//! Tests that readers of recordings use memory linear in the size of the input (docs/readers.md),
//! whatever the decompressed size.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use hmtt_format::toml_memory;
use hmtt_sim::input::lines::{self, Lines};
use hmtt_sim::input::pin_map::PinMap;
use hmtt_sim::input::{self, InputError};
use hmtt_sim::machine::accesses::AccessReader;
use hmtt_sim::machine::controller::{CommandSink, Issued};
use hmtt_sim::machine::{Machine, MachineConfiguration, Parts};

/// An allocator that counts the allocated bytes.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MEMORY: &str = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\n\
    burst_length = 4\n[map]\ncolumn = ['p3-p13']\nbank = ['p14', 'p15']\nrow = ['p16-p28']\n";
const PINS: &str = "clock='ck'\ncke='p.cke'\ncs_n='cs'\nras_n='ras'\ncas_n='cas'\nwe_n='we'\n\
    ba=['ba0','ba1']\na='a'\n";
const SIGNALS: &str = "$scope module p $end\n\
    $var wire 1 ! ck $end $var wire 1 \" cke $end $var wire 1 # cs $end\n\
    $var wire 1 $ ras $end $var wire 1 % cas $end $var wire 1 & we $end\n\
    $var wire 1 ' ba0 $end $var wire 1 ( ba1 $end $var wire 13 ) a [12:0] $end\n$upscope $end\n";
const CLOCKS: &str =
    "$enddefinitions $end\n#0 0! 1\" 1# 1$ 1% 1& 0' 0( b0 )\n#5 1!\n#10 0!\n#15 1!\n";

/// Maximum memory in bytes apart from the input's share: buffers, and one command.
const BASE_BYTES: usize = 4 << 20;

/// Reads a recording to its end. Returns the number of clocks, and the maximum of bytes allocated
/// at once.
fn read(bytes: &[u8]) -> (Result<u64, InputError>, usize) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let path = PathBuf::from(file.path());
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let recording = input::open(&path, toml_memory::parse(MEMORY).ok(), PinMap::parse(PINS).ok());
    let clocks = recording.and_then(|recording| {
        recording.spans.map(|span| span.map(|span| span.clocks)).sum::<Result<u64, _>>()
    });
    (clocks, PEAK.load(Ordering::Relaxed) - before)
}

fn gzip(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    parts.for_each(|part| encoder.write_all(&part).unwrap());
    encoder.finish().unwrap()
}

fn deep_scopes(count: usize) -> Vec<u8> {
    let scopes = "$scope module a $end\n".repeat(count);
    let signals = "$var wire 1 ~ b $end\n".repeat(count);
    [&scopes, &signals, SIGNALS, CLOCKS].concat().into_bytes()
}

struct Discarded;

impl CommandSink for Discarded {
    type Error = std::convert::Infallible;

    fn issue(&mut self, _: Issued) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Makes accesses to `count` pages on a machine with little cache. Returns the size of their text
/// and the maximum of bytes allocated at once.
fn accesses_to_pages(count: u64) -> (usize, usize) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = (0..count).map(|page| format!("W,{page:x}000,1\n")).collect();
    std::fs::write(file.path(), &text).unwrap();
    let bytes = text.len();
    drop(text);
    let memory = toml_memory::parse(MEMORY).unwrap();
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let levels = vec!["1K,2,64,lru".parse().unwrap()];
    let configuration = MachineConfiguration { levels, ..MachineConfiguration::default() };
    let parts = Parts::new(&configuration, &memory).unwrap();
    let Ok(mut machine) = Machine::start(parts, Discarded);
    for access in AccessReader::new(Lines::new(file.path(), lines::open(file.path()).unwrap())) {
        let access = access.unwrap();
        machine.access(0, access.kind, access.address, access.size).unwrap();
    }
    let Ok((_, counts)) = machine.finish();
    assert_eq!((counts.pages, counts.line_reads), (count, count));
    (bytes, PEAK.load(Ordering::Relaxed) - before)
}

// There is only one test in this file, because allocations of other tests would be counted.
#[test]
fn memory_is_used_only_for_signals_that_the_pin_map_names() {
    for count in [5_000, 20_000] {
        let input = deep_scopes(count);
        let (clocks, peak) = read(&input);
        assert_eq!(clocks.unwrap(), 2);
        assert!(peak < BASE_BYTES + 2 * input.len(), "{count} scopes: {peak} bytes");
    }
    let signals =
        (0..20_000).map(|at| format!("$var wire 1 {at} s{at} $end\n")).collect::<String>();
    let many = [&signals, SIGNALS, CLOCKS].concat().into_bytes();
    let (clocks, peak) = read(&many);
    assert_eq!(clocks.unwrap(), 2);
    assert!(peak < BASE_BYTES + 2 * many.len(), "many signals: {peak} bytes");

    for count in [25_000, 100_000] {
        let (bytes, peak) = accesses_to_pages(count);
        assert!(peak < BASE_BYTES / 4 + 16 * bytes, "{count} pages: {peak} bytes");
    }

    let zeros = || vec![b'0'; 1 << 20];
    let begin = |text: &str| std::iter::once(text.as_bytes().to_vec());
    let bombs: [(&str, &str); 5] = [
        ("$comment ", "the file ends within $comment"),
        ("$scope module ", "a command is longer"),
        ("$enddefinitions $end b", "clock"),
        ("# ddr command-bus vector 1\n", "lines shorter than 4096 bytes"),
        ("", "lines shorter than 4096 bytes"),
    ];
    for (text, expected) in bombs {
        let bomb = gzip(begin(text).chain((0..64).map(|_| zeros())));
        let (clocks, peak) = read(&bomb);
        let error = clocks.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(peak < BASE_BYTES, "{text}: {peak} bytes for {} of a file", bomb.len());
    }
}
