//! Tests `hmtt trace` of instructions whose accesses depend on more than an address: states of the
//! processor and masks.

use std::process::Command;

use crate::skipped;
use crate::tag::build;
use crate::trace::{decoded, each_access, number, traced};

const STATES: &str = include_str!("trace/states.c");
const LANES: &str = include_str!("trace/lanes.c");
/// Where the loop of `lanes.c` reads and writes, and how often.
const GATHERED: u64 = 8192;
const STORED: u64 = 12288;
const TIMES: u64 = 3000;

/// Whether the processor has a feature, by its name in `/proc/cpuinfo`.
fn has(feature: &str) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or("");
    let has = flags.split(' ').any(|flag| flag == feature);
    if !has {
        skipped(format!("the processor has no {feature}"));
    }
    has
}

/// Direction, distance from the start and size of the accesses to the first bytes from the address
/// on that the program prints.
fn accesses_of(
    name: &str,
    source: &str,
    flags: &[&str],
    words: &[&str],
    bytes: u64,
) -> Option<Vec<(char, u64, u64)>> {
    let program = build(&format!("trace-{name}"), source, flags)?;
    let printed = Command::new(&program).args(words).output().unwrap().stdout;
    let start = number(String::from_utf8(printed).unwrap().lines().next().unwrap());
    let file = traced(name, &program, words);
    let mut accesses = Vec::new();
    each_access(&decoded(&file), |(_, direction), address, size| {
        if (start..start + bytes).contains(&address) {
            accesses.push((direction, address - start, size));
        }
    });
    Some(accesses)
}

#[test]
fn states_and_cleared_lines_have_their_sizes_and_addresses() {
    let words: &[&str] = match (has("clzero"), has("xsave") && has("avx")) {
        (true, true) => &["clzero", "xsave"],
        (true, false) => &["clzero"],
        (false, _) => &[],
    };
    let flags = ["-no-pie", "-static"];
    let Some(accesses) = accesses_of("states", STATES, &flags, words, 4096) else { return };
    let cleared = [('W', 1024 + 64, 64), ('W', 2048 + 5, 1), ('W', 2048, 64)];
    // The header, x87, MXCSR, x87, SSE and AVX.
    let saved = [
        ('R', 2560 + 512, 8),
        ('W', 2560 + 512, 8),
        ('W', 2560, 24),
        ('W', 2560 + 24, 8),
        ('W', 2560 + 32, 128),
        ('W', 2560 + 160, 256),
        ('W', 2560 + 576, 256),
    ];
    let (cleared, saved) = match words.len() {
        0 => (&cleared[..0], &saved[..0]),
        1 => (&cleared[..], &saved[..0]),
        _ => (&cleared[..], &saved[..]),
    };
    let expected = [&[('W', 0, 512), ('R', 0, 512)], cleared, saved].concat();
    assert_eq!(accesses, expected);
}

/// Accesses of the instructions of AVX2 in `lanes.c`.
const OF_AVX2: [(char, u64, u64); 15] = [
    ('W', 64, 4),
    ('W', 72, 8),
    ('W', 92, 4),
    ('R', 128, 4),
    ('R', 136, 8),
    ('R', 156, 4),
    ('R', 264, 8),
    ('R', 1028, 4),
    ('R', 1424, 4),
    ('R', 1032, 4),
    ('R', 1048, 4),
    ('R', 1040, 8),
    ('R', 1064, 8),
    ('W', 512, 2),
    ('W', 517, 1),
];

/// Accesses of the instructions of AVX-512 in `lanes.c`.
const OF_AVX512: [(char, u64, u64); 31] = [
    ('R', 2048, 8),
    ('R', 2108, 4),
    ('W', 2048, 8),
    ('W', 2108, 4),
    ('R', 2112, 1),
    ('R', 2120, 1),
    ('R', 2175, 1),
    ('R', 2176, 4),
    ('W', 2240, 12),
    ('R', 2240, 12),
    ('R', 2304, 4),
    ('R', 2368, 64),
    ('R', 2432, 8),
    ('R', 2444, 4),
    ('W', 3076, 4),
    ('W', 3068, 4),
    ('W', 3128, 4),
    ('R', 3076, 4),
    ('R', 3068, 4),
    ('R', 3128, 4),
    ('R', 3088, 8),
    ('R', 3112, 8),
    ('R', 3048, 8),
    ('R', 3128, 8),
    ('R', 3072, 8),
    ('R', 3080, 8),
    ('R', 3104, 8),
    ('R', 3144, 8),
    ('R', 3074, 4),
    ('R', 3070, 4),
    ('R', 3100, 4),
];

/// Accesses of an execution of the loop: elements of the gather, and those of the store, which are
/// one access if they follow each other.
fn of_loop(time: u64) -> Vec<(char, u64, u64)> {
    let active: Vec<u64> = (0..8).filter(|lane| time >> lane & 1 != 0).collect();
    let gathered = active.iter().map(|lane| ('R', GATHERED + 4 * ((time + 7 * lane) % 1024), 4));
    let mut accesses: Vec<_> = gathered.collect();
    for run in active.chunk_by(|one, next| one + 1 == *next) {
        accesses.push(('W', STORED + 4 * run[0], 4 * run.len() as u64));
    }
    accesses
}

#[test]
fn elements_of_masked_accesses_gathers_and_scatters_have_addresses() {
    if !has("avx2") {
        return;
    }
    let words: &[&str] = if has("avx512bw") { &["avx512"] } else { &[] };
    let flags = ["-no-pie", "-static"];
    let Some(mut accesses) = accesses_of("lanes", LANES, &flags, words, 16384) else { return };
    // The sum of everything at the end.
    let end = accesses.len() - 16384;
    assert!(accesses.drain(end..).all(|(direction, _, size)| (direction, size) == ('R', 1)));
    let mut expected = OF_AVX2.to_vec();
    if !words.is_empty() {
        expected.extend(OF_AVX512);
    }
    expected.extend((0..TIMES).flat_map(of_loop));
    let differs = accesses.iter().zip(&expected).position(|(one, other)| one != other);
    assert_eq!(differs.map(|at| (at, accesses[at], expected[at])), None);
    assert_eq!(accesses.len(), expected.len());
}
