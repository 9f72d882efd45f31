//! Compares the caches with a model that keeps time stamps, and with valgrind's cachegrind.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use hmtt_format::Direction;
use hmtt_sim::input::lines::{self, Lines};
use hmtt_sim::machine::accesses::AccessReader;
use hmtt_sim::machine::cache::{
    AccessKind, CacheConfiguration, Counters, Hierarchy, Replacement, Transfer,
};
use proptest::prelude::*;

struct Line {
    stamp: u64,
    dirty: bool,
    way: u64,
}

/// A cache whose lines have the time of their last use.
struct PlainCache {
    configuration: CacheConfiguration,
    lines: HashMap<u64, Line>,
    /// For each set and range of ways: whether the victim is in its upper half.
    upper: HashMap<(u64, u64, u64), bool>,
    counters: Counters,
}

impl PlainCache {
    fn new(configuration: CacheConfiguration) -> Self {
        let counters = Counters::default();
        PlainCache { configuration, lines: HashMap::new(), upper: HashMap::new(), counters }
    }

    fn number(&self, address: u64) -> u64 {
        address / u64::from(self.configuration.line_bytes)
    }

    fn set(&self, number: u64) -> u64 {
        number % self.configuration.sets().unwrap()
    }

    fn use_way(&mut self, set: u64, way: u64) {
        let (mut from, mut to) = (0, u64::from(self.configuration.ways));
        while to - from > 1 {
            let half = (from + to) / 2;
            self.upper.insert((set, from, to), way < half);
            (from, to) = if way < half { (from, half) } else { (half, to) };
        }
    }

    fn look_up(&mut self, address: u64, write: bool, now: u64) -> bool {
        let number = self.number(address);
        let Some(line) = self.lines.get_mut(&number) else {
            self.counters.misses += 1;
            return false;
        };
        self.counters.hits += 1;
        line.stamp = now;
        line.dirty |= write;
        let way = line.way;
        self.use_way(self.set(number), way);
        true
    }

    fn victim(&self, set: u64) -> u64 {
        let set_lines = || self.lines.iter().filter(|(number, _)| self.set(**number) == set);
        if self.configuration.replacement == Replacement::Lru {
            return *set_lines().min_by_key(|(_, line)| line.stamp).unwrap().0;
        }
        let (mut from, mut to) = (0, u64::from(self.configuration.ways));
        while to - from > 1 {
            let half = (from + to) / 2;
            let upper = self.upper.get(&(set, from, to)).copied().unwrap_or(false);
            (from, to) = if upper { (half, to) } else { (from, half) };
        }
        *set_lines().find(|(_, line)| line.way == from).unwrap().0
    }

    /// Returns the address of the line that is replaced, and whether it is dirty.
    fn insert(&mut self, address: u64, dirty: bool, now: u64) -> Option<(u64, bool)> {
        let number = self.number(address);
        let set = self.set(number);
        let used_ways: BTreeSet<u64> = self
            .lines
            .iter()
            .filter(|(number, _)| self.set(**number) == set)
            .map(|(_, line)| line.way)
            .collect();
        let free = (0..u64::from(self.configuration.ways)).find(|way| !used_ways.contains(way));
        let replaced = if free.is_none() { Some(self.victim(set)) } else { None };
        let old = replaced.map(|number| (number, self.lines.remove(&number).unwrap()));
        let way = free.unwrap_or_else(|| old.as_ref().unwrap().1.way);
        self.lines.insert(number, Line { stamp: now, dirty, way });
        self.use_way(set, way);
        old.map(|(number, line)| (number * u64::from(self.configuration.line_bytes), line.dirty))
    }
}

/// The hierarchy by its description. Cache 0 is that for instructions, the others are the data
/// path.
struct PlainHierarchy {
    caches: Vec<PlainCache>,
    now: u64,
    transfers: Vec<Transfer>,
}

impl PlainHierarchy {
    fn access(&mut self, kind: AccessKind, address: u64, size: u32) -> usize {
        let first = if kind == AccessKind::Fetch { 0 } else { 1 };
        let bytes = u64::from(self.caches[first].configuration.line_bytes);
        let lines: BTreeSet<u64> =
            (0..u64::from(size)).map(|byte| (address + byte) / bytes * bytes).collect();
        let write = kind == AccessKind::Write;
        lines.into_iter().map(|line| self.line(first, line, write)).max().unwrap()
    }

    fn line(&mut self, at: usize, address: u64, write: bool) -> usize {
        if at == self.caches.len() {
            let bytes = self.caches[at - 1].configuration.line_bytes;
            let address = address / u64::from(bytes) * u64::from(bytes);
            self.transfers.push(Transfer { direction: Direction::Read, address, bytes });
            return 0;
        }
        self.now += 1;
        if self.caches[at].look_up(address, write, self.now) {
            return 0;
        }
        let next = if at == 0 { 2 } else { at + 1 };
        let missed = 1 + self.line(next, address, false);
        self.now += 1;
        let Some((victim, mut dirty)) = self.caches[at].insert(address, write, self.now) else {
            return missed;
        };
        let CacheConfiguration { line_bytes, inclusive, .. } = self.caches[at].configuration;
        if inclusive && at > 1 {
            for cache in &mut self.caches[..at] {
                let own = cache.configuration.line_bytes;
                for part in (victim..victim + u64::from(line_bytes)).step_by(own as usize) {
                    let removed = cache.lines.remove(&(part / u64::from(own)));
                    if removed.is_some_and(|line| line.dirty) {
                        cache.counters.write_backs += 1;
                        dirty = true;
                    }
                }
            }
        }
        if dirty {
            self.caches[at].counters.write_backs += 1;
            let later = self.caches[next..].iter_mut().find_map(|cache| {
                let number = cache.number(victim);
                cache.lines.get_mut(&number)
            });
            match later {
                Some(line) => line.dirty = true,
                None => self.transfers.push(Transfer {
                    direction: Direction::Write,
                    address: victim,
                    bytes: line_bytes,
                }),
            }
        }
        missed
    }
}

fn replacement() -> impl Strategy<Value = Replacement> {
    prop_oneof![Just(Replacement::Lru), Just(Replacement::TreePlru)]
}

fn configuration(lines: std::ops::Range<u32>) -> impl Strategy<Value = CacheConfiguration> {
    (0u32..3, 0u32..4, lines, replacement(), any::<bool>()).prop_map(
        |(sets_log2, ways_log2, line_log2, replacement, inclusive)| CacheConfiguration {
            size_bytes: 1 << (sets_log2 + ways_log2 + line_log2),
            ways: 1 << ways_log2,
            line_bytes: 1 << line_log2,
            replacement,
            inclusive,
        },
    )
}

fn kind() -> impl Strategy<Value = AccessKind> {
    prop_oneof![Just(AccessKind::Fetch), Just(AccessKind::Read), Just(AccessKind::Write)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn caches_equal_a_model_with_time_stamps(
        instructions in configuration(4..6),
        first in configuration(4..6),
        second in configuration(6..7),
        third in configuration(6..8),
        levels in 1usize..4,
        accesses in prop::collection::vec((kind(), 0u64..4096, 1u32..100), 1..400),
    ) {
        let levels = &[first, second, third][..levels];
        let mut caches = Hierarchy::new(levels, Some(&instructions)).unwrap();
        let configurations = std::iter::once(&instructions).chain(levels);
        let caches_of =
            configurations.map(|configuration| PlainCache::new(*configuration)).collect();
        let mut plain = PlainHierarchy { caches: caches_of, now: 0, transfers: Vec::new() };
        let mut transfers = Vec::new();
        for (kind, address, size) in accesses {
            let missed = caches.access(kind, address, size, &mut |transfer| transfers.push(transfer));
            prop_assert_eq!(missed, plain.access(kind, address, size));
            prop_assert_eq!(&transfers, &plain.transfers);
        }
        let counters: Vec<_> = caches.instruction_counters().into_iter().chain(caches.counters()).collect();
        let expected: Vec<_> = plain.caches.iter().map(|cache| cache.counters).collect();
        prop_assert_eq!(counters, expected);
        let dirty = plain.caches[1..].iter().flat_map(|cache| cache.lines.values());
        prop_assert_eq!(caches.dirty_lines(), dirty.filter(|line| line.dirty).count() as u64);
    }

    /// With any replacement, memory gets each line after its last change, at the latest when other
    /// lines replace it.
    #[test]
    fn no_write_is_lost(seed: u64, accesses in prop::collection::vec((any::<bool>(), 0u64..64), 1..600)) {
        let level = |size_bytes, ways| CacheConfiguration {
            size_bytes, ways, line_bytes: 64, replacement: Replacement::Random { seed }, inclusive: false,
        };
        let mut caches = Hierarchy::new(&[level(256, 2), level(768, 3)], None).unwrap();
        let (mut changed, mut written) = (HashMap::new(), HashMap::new());
        let others = (64u64..).map(|line| (false, line));
        for (now, (write, line)) in accesses.iter().copied().chain(others).enumerate() {
            if now >= accesses.len() && caches.dirty_lines() == 0 {
                break;
            }
            prop_assert!(now < accesses.len() + 10_000, "lines stay dirty");
            let kind = if write { AccessKind::Write } else { AccessKind::Read };
            if write {
                changed.insert(line, now);
            }
            caches.access(kind, line * 64, 8, &mut |transfer| {
                if transfer.direction == Direction::Write {
                    written.insert(transfer.address / 64, now);
                }
            });
        }
        for (line, at) in &changed {
            prop_assert!(written.get(line).is_some_and(|last| last > at), "line {}", line);
        }
        prop_assert!(written.keys().all(|line| changed.contains_key(line)));
    }
}

/// A program without libraries, whose accesses are the same in every run: sums, a permutation, a
/// table of words.
const PROGRAM: &str = r#"
static unsigned long table[4096];
static unsigned char bytes[20000];
static unsigned long rng = 88172645463325252ul;
static unsigned long next(void) { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; return rng; }
__attribute__((noinline)) static unsigned long walk(unsigned long n) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) { unsigned long k = next() % 4096; table[k] += i; sum += table[k / 3]; }
    return sum;
}
__attribute__((noinline)) static void fill(unsigned char seed) {
    for (int i = 0; i < 20000; i++) bytes[i] = bytes[(i * 7919 + seed) % 20000] + seed;
}
void _start(void) {
    unsigned long sum = walk(20000);
    for (int i = 0; i < 3; i++) fill(sum + i);
    sum += walk(20000);
    __asm__ volatile("syscall" : : "a"(231), "D"(0) : "memory");
    __builtin_unreachable();
}
"#;

/// Counts of misses: instruction, data read, data write, each in the first and in the last level.
type Misses = [u64; 6];

const I1: &str = "1K,2,64,lru";
const D1: &str = "2K,2,64,lru";
const LL: &str = "16K,4,64,lru";

/// Runs cachegrind and returns its counts, from the line `summary:` of its file.
fn cachegrind(folder: &Path, program: &Path) -> Misses {
    let file = folder.join("cachegrind.out");
    let run = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--I1=1024,2,64", "--D1=2048,2,64"])
        .arg("--LL=16384,4,64")
        .arg(format!("--cachegrind-out-file={}", file.display()))
        .arg(program)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = std::fs::read_to_string(file).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (events, counts) = (field("events:"), field("summary:"));
    ["I1mr", "ILmr", "D1mr", "DLmr", "D1mw", "DLmw"].map(|name| {
        let at = events.iter().position(|event| event == name).unwrap();
        counts[at].parse().unwrap()
    })
}

/// Counts of the caches for lackey's trace, and the number of accesses that cross lines and miss.
fn counted(folder: &Path, program: &Path) -> (Misses, u64) {
    let file = folder.join("trace");
    let run = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", file.display()))
        .arg(program)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let [i1, d1, ll] = [I1, D1, LL].map(|text| text.parse::<CacheConfiguration>().unwrap());
    let mut caches = Hierarchy::new(&[d1, ll], Some(&i1)).unwrap();
    let (mut misses, mut crossing) = ([0; 6], 0);
    for access in AccessReader::new(Lines::new(&file, lines::open(&file).unwrap())) {
        let access = access.unwrap();
        let missed = caches.access(access.kind, access.address.0, access.size, &mut |_| {});
        let at = match access.kind {
            AccessKind::Fetch => 0,
            AccessKind::Read => 2,
            AccessKind::Write => 4,
        };
        misses[at] += u64::from(missed >= 1);
        misses[at + 1] += u64::from(missed >= 2);
        let last = access.address.0 + u64::from(access.size - 1);
        crossing += u64::from(missed >= 1 && access.address.0 / 64 != last / 64);
    }
    (misses, crossing)
}

/// Whether valgrind and a C compiler are there. Says so if not.
fn tools_are_there() -> bool {
    let there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let both = there("valgrind") && there("cc");
    if !both {
        eprintln!("skipped: valgrind or cc is not installed");
    }
    both
}

/// cachegrind counts an access that crosses lines once, and passes all of its lines to the last
/// level if one of them missed. Here only the line that missed is passed on. Such accesses are
/// counted, and the last level may differ by them. A load and store of one address (lackey's M) is
/// one read for cachegrind; here the store always hits.
fn compare(folder: &Path, program: &Path) -> (Misses, Misses, u64) {
    let expected = cachegrind(folder, program);
    let (misses, crossing) = counted(folder, program);
    eprintln!("cachegrind {expected:?}, here {misses:?}, {crossing} crossing misses");
    (expected, misses, crossing)
}

#[test]
fn misses_equal_those_of_cachegrind() {
    if !tools_are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("walk.c"), folder.path().join("walk"));
    std::fs::write(&source, PROGRAM).unwrap();
    let options = ["-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-o"];
    let built = Command::new("cc").args(options).arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let (expected, misses, _) = compare(folder.path(), &program);
    assert!(expected[2] > 10_000 && expected[3] > 1000, "{expected:?}");
    assert_eq!(misses, expected);
}

#[test]
fn misses_of_a_dynamic_program_differ_from_cachegrinds_only_by_crossing_accesses() {
    if !tools_are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (expected, misses, crossing) = compare(folder.path(), Path::new("/bin/true"));
    for (at, (here, there)) in misses.into_iter().zip(expected).enumerate() {
        let allowed = if at % 2 == 0 { 0 } else { crossing };
        assert!(here.abs_diff(there) <= allowed, "{at}: {here}, cachegrind {there}");
    }
}
