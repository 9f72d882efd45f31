//! Replays recordings of simulated machines through cards: every access of the list, and nothing
//! else, must be recorded.

use std::path::Path;
use std::process::Command;

use hmtt_format::config::{Granularity, Mode};
use hmtt_format::{Cycles, MemoryDescription, toml_memory};
use hmtt_sim::engine::{self, Options, Settings};
use hmtt_sim::fuzz::memories;
use hmtt_sim::input::lines::{self, Lines};
use hmtt_sim::machine::accesses::AccessReader;
use hmtt_sim::machine::cache::AccessKind;
use hmtt_sim::machine::controller::PagePolicy;
use hmtt_sim::machine::pages::{Allocation, VirtAddr};
use hmtt_sim::machine::recording::{RecordingPaths, RecordingWriter};
use hmtt_sim::machine::{Counts, DEFAULT_MEMORY, Machine, MachineConfiguration, Parts};
use hmtt_sim::replay::Outcome;
use hmtt_sim::{input, truth};

use crate::support;

/// An access of a process.
type Wanted = (u32, AccessKind, u64, u32);

/// Returns accesses of two processes: runs of neighbouring words, and random ones.
fn accesses(number: usize) -> impl Iterator<Item = Wanted> {
    let mut state = 12345u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let mut run = 0;
    (0..number).map(move |at| {
        let kind = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch][random() as usize % 3];
        if at % 16 == 0 {
            run = random() % 0x80_0000;
        }
        run += 8;
        let address = if random() % 4 == 0 { random() % 0x4_0000 } else { run };
        ((at / 100 % 2) as u32, kind, address, 1 + (random() % 16) as u32)
    })
}

fn small_caches() -> MachineConfiguration {
    let level = |text: &str| text.parse().unwrap();
    MachineConfiguration {
        levels: vec![level("1K,2,64,lru"), level("8K,4,64,tree-plru")],
        instructions: Some(level("1K,2,64,lru")),
        ..MachineConfiguration::default()
    }
}

fn record(
    path: &Path,
    memory: &MemoryDescription,
    configuration: &MachineConfiguration,
    accesses: impl IntoIterator<Item = Wanted>,
) -> Counts {
    let paths = RecordingPaths::new(path).unwrap();
    let writer = RecordingWriter::create(&paths, memory, configuration.policy, true).unwrap();
    let parts = Parts::new(configuration, memory).unwrap();
    let mut machine = Machine::start(parts, writer).unwrap();
    for (process, kind, address, size) in accesses {
        machine.access(process, kind, VirtAddr(address), size).unwrap();
    }
    let (writer, counts) = machine.finish().unwrap();
    writer.finish(Cycles(counts.clocks)).unwrap();
    counts
}

/// Compares what a card sent with the list of accesses, and the numbers of both with the machine's
/// counts.
fn compare(path: &Path, memory: &MemoryDescription, settings: Settings, outcome: &Outcome) {
    let list = truth::read(&RecordingPaths::new(path).unwrap().truth).unwrap();
    assert_eq!((&outcome.violations[..], &outcome.flaws[..]), (&[][..], &[][..]));
    assert_eq!(outcome.summary.protocol_faults, 0);
    assert_eq!(outcome.summary.lost_records, 0);
    let clocks = outcome.summary.clocks;
    for comparison in truth::check(&list, &outcome.events, memory, settings, clocks) {
        assert!(comparison.equal(), "{comparison}");
    }
}

/// Replays a recording through the software card and compares the result.
fn check(path: &Path, described: &MemoryDescription, counts: &Counts) {
    let burst = Settings { granularity: Granularity::Burst, ..Settings::default() };
    let page = Settings { mode: Mode::Page, ..Settings::default() };
    for (memory, settings) in
        [(None, Settings::default()), (Some(described), burst), (Some(described), page)]
    {
        let recording = input::open(path, memory.cloned(), None).unwrap();
        assert_eq!(recording.clocks, Some(counts.clocks));
        let memory = recording.memory;
        let outcome = support::replay(recording.spans, &memory, settings, vec![]).unwrap();
        assert_eq!(outcome.summary.clocks, counts.clocks);
        assert_eq!(outcome.summary.commands, counts.commands.commands);
        compare(path, &memory, settings, &outcome);
    }
}

#[test]
fn every_access_of_every_memory_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let others = [
        DEFAULT_MEMORY,
        "generation = 'DDR2'\ntck_ns = 3.0\nbus_bytes = 8\nburst_length = 4\n\
         [map]\ncolumn = ['p3', 'p4', 'p8-p15']\nbank = ['p5', 'p6', 'p7']\nrow = ['p16-p29']\n",
        "generation = 'DDR3'\nspeed = 'DDR3-1600'\nbus_bytes = 8\nburst_length = 8\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13^p16', 'p14^p17', 'p15^p18']\nrow = ['p16-p30']\n",
        "generation = 'DDR4'\ntck_ns = 1.071\nbus_bytes = 8\nburst_length = 8\n\
         [map]\ncolumn = ['p3-p12']\nbank = ['p13', 'p14', 'p15', 'p16']\nrow = ['p17-p31']\n",
    ];
    for (number, text) in others.iter().chain(&memories::ALL).enumerate() {
        let memory = toml_memory::parse(text).unwrap();
        for policy in [PagePolicy::Open, PagePolicy::Closed] {
            let name = if number % 2 == 0 { "x.cmd" } else { "x.cmd.gz" };
            let path = folder.path().join(name);
            let allocation = Allocation::Random { seed: number as u64 };
            let configuration = MachineConfiguration { policy, allocation, ..small_caches() };
            let counts = record(&path, &memory, &configuration, accesses(4000));
            assert!(counts.line_reads > 500 && counts.line_writes > 100, "{counts:?}");
            check(&path, &memory, &counts);
        }
    }
}

#[test]
fn a_machine_without_caches_accesses_memory_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cmd");
    let memory = toml_memory::parse(DEFAULT_MEMORY).unwrap();
    let configuration =
        MachineConfiguration { levels: vec![], instructions: None, ..small_caches() };
    let read = (1, AccessKind::Read, 0x1000, 8);
    // 32 reads of one address in the card's registers would be a command; frames are elsewhere.
    let crossing = [(1, AccessKind::Write, 0x1fff, 2), (1, AccessKind::Write, 0x103f, 2)];
    let wanted = std::iter::repeat_n(read, 100).chain(crossing);
    let counts = record(&path, &memory, &configuration, wanted);
    assert_eq!((counts.accesses, counts.line_reads, counts.line_writes), (102, 100, 4));
    assert_eq!(counts.pages, 2);
    check(&path, &memory, &counts);
}

#[test]
fn the_card_itself_records_every_access() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cmd");
    let memory = toml_memory::parse(DEFAULT_MEMORY).unwrap();
    record(&path, &memory, &small_caches(), accesses(1000));
    let recording = input::open(&path, None, None).unwrap();
    let settings = Settings::default();
    let parameters = engine::default_parameters(memory.clone());
    let outcome = support::replay_card(recording.spans, &Options::default(), &parameters, settings);
    compare(&path, &memory, settings, &outcome);
}

#[test]
fn a_trace_of_lackey_becomes_a_recording() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let run = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", trace.display()))
        .arg("/bin/true")
        .status()
        .unwrap();
    assert!(run.success());
    let reader = AccessReader::new(Lines::new(&trace, lines::open(&trace).unwrap()));
    let wanted = reader.map(|access| {
        let access = access.unwrap();
        (0, access.kind, access.address.0, access.size)
    });
    let path = folder.path().join("true.cmd.gz");
    let memory = toml_memory::parse(DEFAULT_MEMORY).unwrap();
    let counts = record(&path, &memory, &small_caches(), wanted);
    assert!(counts.accesses > 50_000 && counts.line_reads > 1000, "{counts:?}");
    check(&path, &memory, &counts);
}

#[test]
fn a_recording_that_is_not_finished_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let paths = RecordingPaths::new(&folder.path().join("x.cmd")).unwrap();
    let memory = toml_memory::parse(DEFAULT_MEMORY).unwrap();
    let writer = || RecordingWriter::create(&paths, &memory, PagePolicy::Open, false);
    drop(writer().unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(&paths.truth, "").unwrap();
    let error = writer().err().unwrap().to_string();
    assert!(error.ends_with("x.truth exists; -f overwrites it"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
