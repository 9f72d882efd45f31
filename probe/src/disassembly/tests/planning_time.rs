//! Measures how the time of planning and stub generation grows with the size of repetitive code.

use std::time::Instant;

use hmtt_files::tag_log::FunctionId;

use super::overlapping_code::{START, program};
use super::*;
use crate::address::{LoadBias, RunAddr};
use crate::stubs::layout::{LogShape, WhenFull};
use crate::stubs::{Sink, Stubs};

/// Prints the milliseconds of planning and of stub generation for each code pattern and size. The
/// figures depend on the machine, so nothing is asserted.
#[test]
#[ignore = "prints figures, and takes long"]
fn planning_times_of_repetitive_code() {
    let shape =
        LogShape { is_timed: true, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Drop };
    let patterns: [(&str, &[u8]); 12] = [
        ("nop", &[0x90]),
        ("ret", &[0xc3]),
        ("inc", &[0xff, 0xc0]),
        ("jmp0", &[0xeb, 0]),
        ("jne back", &[0x75, 0xf0]),
        ("jne far back", &[0x75, 0x80]),
        ("jrcxz", &[0xe3, 0x10]),
        ("loop ret", &[0xe2, 0xf0, 0xc3]),
        ("jne nop ret", &[0x75, 0x40, 0x90, 0xc3]),
        ("call", &[0xe8, 0, 0, 0, 0, 0xc3]),
        ("jmp tail", &[0xe9, 0, 0, 0, 0x40, 0xc3]),
        ("jcc far fwd", &[0x0f, 0x84, 0, 2, 0, 0]),
    ];
    for (name, pattern) in patterns {
        for (kind, size) in [("one", 0usize), ("many16", 16), ("many320", 320)] {
            let mut line = format!("{name} {kind}:");
            for bytes in [1usize << 12, 1 << 13, 1 << 14] {
                let code: Vec<u8> = pattern
                    .iter()
                    .copied()
                    .cycle()
                    .take(bytes / pattern.len() * pattern.len())
                    .collect();
                let pieces: Vec<&[u8]> =
                    if size == 0 { vec![&code] } else { code.chunks(size).collect() };
                let image = program(&pieces, &[]);
                let begun = Instant::now();
                let index = FileIndex::new(&image);
                let functions: Vec<_> =
                    image.functions.iter().map(|f| (f, Granularity::Blocks)).collect();
                let rewrites =
                    Disassembly::new(&image, &index).rewrites_with_granularity(&functions, true);
                let planned = begun.elapsed().as_millis();
                let tagged: Vec<_> = rewrites
                    .iter()
                    .zip(&image.functions)
                    .filter_map(|(r, f)| Some((r.as_ref().ok()?, f)))
                    .collect();
                let mut stubs = Stubs::new(
                    RunAddr(START + (1 << 20)),
                    LoadBias::NONE,
                    Sink::Log(shape),
                    tagged.iter().map(|(r, _)| Stubs::tags(r)).sum(),
                )
                .unwrap();
                let mut number = 1;
                for (r, f) in &tagged {
                    if stubs.add(r, f.start, FunctionId(number)).is_ok() {
                        number += 1 + r.tagged_blocks().count() as u32;
                    }
                }
                line += &format!(
                    "  {}K {planned}+{}ms tagged {}/{}",
                    bytes >> 10,
                    begun.elapsed().as_millis() - planned,
                    tagged.len(),
                    image.functions.len()
                );
            }
            eprintln!("{line}");
        }
    }
}
