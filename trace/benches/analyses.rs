//! Measures how many accesses a second analyses add, on one core: `cargo bench -p hmtt --bench
//! analyses [NAME | FILE]`.
//!
//! Accesses are in memory, in batches of 4096, as sources pass them on: loops and scans; a mix of
//! these with a skewed choice among pages; and, as the worst case, a random choice among 2^20
//! lines. The first row is of 100 M accesses, the others are of 2^24. A capture of 2^24 accesses is
//! read, too, and a file that is given. With names of analyses, only these are measured. Each
//! figure is the best of three, in processor time.

use std::hint::black_box;

use hmtt::analysis::bank_map::BankMap;
use hmtt::analysis::frequency::Frequency;
use hmtt::analysis::pages::Pages;
use hmtt::analysis::slices::SliceLength;
use hmtt::analysis::source::Source;
use hmtt::analysis::summary::Summary;
use hmtt::analysis::{Analysis, Batch, Fold, Known, registry};
use hmtt_format::address_map::{Axis, MapBuilder};
use hmtt_test_support::captures::capture;
use hmtt_test_support::card::Card;
use rustix::time::{ClockId, clock_gettime};

const ACCESSES: usize = 1 << 24;
/// Accesses to the analyses of `three`.
const MANY: usize = 100_000_000;
const BATCH: usize = 4096;
const RUNS: usize = 3;
/// Accesses of a frame.
const FRAME: u64 = 370;

/// The next random number, by xorshift (Marsaglia 2003).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Processor time of this thread in seconds: others may use the machine.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

struct Columns {
    addresses: Vec<u64>,
    writes: Vec<bool>,
    clocks: Vec<u64>,
}

impl Columns {
    fn new(count: usize, address: fn(u64, u64) -> u64) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let addresses = (0..count as u64).map(|at| address(at, random(&mut state))).collect();
        let writes = (0..count).map(|_| random(&mut state).is_multiple_of(3)).collect();
        let mut clock = 0;
        let mut next = || {
            clock += random(&mut state) % 16;
            clock
        };
        Columns { addresses, writes, clocks: (0..count).map(|_| next()).collect() }
    }

    /// Millions of accesses a second that a set of analyses adds.
    fn measure<A>(&self, new: impl Fn() -> A, mut add: impl FnMut(&mut A, &Batch<'_>)) -> f64 {
        let batch = Batch::new(&self.addresses, &self.writes);
        let batch = batch.with_clocks(&self.clocks).with_unit(Some(64));
        let mut best = f64::MAX;
        for _ in 0..RUNS {
            let mut analyses = new();
            let begin = processor_seconds();
            for from in (0..batch.len()).step_by(BATCH) {
                add(&mut analyses, &batch.rows(from..batch.len().min(from + BATCH)));
            }
            best = best.min(processor_seconds() - begin);
            black_box(&analyses);
        }
        batch.len() as f64 / best / 1e6
    }
}

/// What is known of the accesses, without a map of banks.
const KNOWN: Known = Known {
    address_space: hmtt::analysis::AddressSpace::Physical,
    clocks: true,
    tck_ps: Some(1250),
    unit_bytes: Some(64),
    sizes: false,
    threads: false,
    instructions: false,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};

fn frequency() -> Frequency {
    let mut frequency = Frequency::new(SliceLength { ns: 1000, accesses: 1000 });
    frequency.known(&KNOWN);
    frequency
}

type Three = (Summary, Frequency, Pages);

fn three() -> Three {
    (Summary::default(), frequency(), Pages::new(20))
}

fn add_three((summary, frequency, pages): &mut Three, batch: &Batch<'_>) {
    summary.add(batch);
    frequency.add(batch);
    pages.add(batch);
}

fn row(name: &str, figures: impl Iterator<Item = f64>) {
    print!("| {name} |");
    figures.for_each(|figure| print!(" {figure:.1} |"));
    println!();
}

/// Reads a file into the analyses of `three`.
fn read(path: &std::path::Path) -> Result<f64, Box<dyn std::error::Error>> {
    let mut best = f64::MAX;
    let mut accesses = 0;
    for _ in 0..RUNS {
        let (mut summary, mut frequency, mut pages) =
            (Fold::new(Summary::default()), Fold::new(frequency()), Fold::new(Pages::new(20)));
        let begin = processor_seconds();
        let ending = Source::open(path)?.read(&mut |memory, part| {
            summary.part(memory, part);
            frequency.part(memory, part);
            pages.part(memory, part);
        });
        best = best.min(processor_seconds() - begin);
        accesses = ending.accesses;
    }
    Ok(accesses as f64 / best / 1e6)
}

/// Writes a capture of full frames, whose accesses are 37 lines from each other.
fn write_capture(path: &std::path::Path) -> std::io::Result<()> {
    let mut card = Card::new();
    let mut frames = vec![card.info()];
    frames.extend((0..ACCESSES as u64 / FRAME).map(|_| card.data(FRAME).0));
    frames.push(card.end());
    std::fs::write(path, capture(&frames))
}

/// Addresses of loops over 2^16 lines in turn with a scan.
const fn scan(at: u64, _: u64) -> u64 {
    if (at / 64).is_multiple_of(2) { at % (1 << 16) << 6 } else { (1 << 30) + (at << 6) }
}

/// The same in turn with a skewed choice among 2^16 pages.
const fn mixed(at: u64, random: u64) -> u64 {
    if (at / 128).is_multiple_of(2) {
        return scan(at, random);
    }
    let page = (random % 1024) * (random >> 20 & 1023) >> 4;
    (1 << 28) + (page << 12) + (random >> 40 & 63 << 6)
}

/// A choice among 2^20 lines.
const fn lines(_: u64, random: u64) -> u64 {
    random % (1 << 20) << 6
}

const INPUTS: [fn(u64, u64) -> u64; 3] = [scan, mixed, lines];

/// What is known of the accesses, with four banks that are hashed with row bits.
fn known() -> Result<Known, Box<dyn std::error::Error>> {
    let mut map = MapBuilder::default();
    for bit in 0..10 {
        map.bit(Axis::Column, bit, 1 << (3 + bit))?;
    }
    for bit in 0..2 {
        map.bit(Axis::Bank, bit, 0b101 << (13 + bit))?;
    }
    for bit in 0..17 {
        map.bit(Axis::Row, bit, 1 << (15 + bit))?;
    }
    Ok(Known { bank_map: Some(BankMap::from(&map.build()?)), ..KNOWN })
}

/// Measures registered analyses; all, if none is named.
fn each(known: &Known, names: &[String]) {
    let inputs = INPUTS.map(|address| Columns::new(ACCESSES, address));
    let is_named = |name: &str| names.is_empty() || names.iter().any(|listed| listed == name);
    for entry in registry::ALL.iter().filter(|entry| is_named(entry.name)) {
        let measurement = |input: &Columns| {
            let new = || {
                let mut analysis = (entry.new)();
                analysis.known(known);
                analysis
            };
            input.measure(new, |analysis, batch| analysis.add(batch))
        };
        row(&format!("`{}`", entry.name), inputs.iter().map(measurement));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes an option of its own.
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let is_name = |argument: &String| registry::ALL.iter().any(|entry| entry.name == argument);
    let (names, files): (Vec<String>, Vec<String>) = arguments.partition(is_name);
    println!("| analyses | scans | mixed | random |\n|---|---:|---:|---:|");
    if names.is_empty() {
        let measurement = |address| Columns::new(MANY, address).measure(three, add_three);
        row("`summary`, `frequency` and `pages`", INPUTS.into_iter().map(measurement));
    }
    each(&known()?, &names);
    if names.is_empty() {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("capture.pcapng");
        write_capture(&path)?;
        println!("the first three, from a capture: {:.1} M accesses/s", read(&path)?);
    }
    for path in files {
        println!("the first three, from {path}: {:.1} M accesses/s", read(path.as_ref())?);
    }
    Ok(())
}
