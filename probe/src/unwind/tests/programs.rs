//! Checks the unwind tables for the stubs of real programs.

use std::path::Path;

use hmtt_files::tag_log::FunctionId;

use super::check;
use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::{Disassembly, FileIndex, Granularity};
use crate::elf::Image;
use crate::stubs::layout::{LogShape, WhenFull};
use crate::stubs::{Changes, Lookup, Sink, Stubs};

/// Distance of the stubs from the program, in bytes.
const DISTANCE: u64 = 1 << 26;
/// Load bias of position-independent programs.
const BIAS: LoadBias = LoadBias::new(0x5555_5555_4000);

fn check_program(path: &str, sink: Sink, granularity: Granularity) {
    let Ok(image) = Image::read(Path::new(path)) else {
        eprintln!("skipped: there is no {path}");
        return;
    };
    let bias = if image.relocatable { BIAS } else { LoadBias::NONE };
    let chosen: Vec<_> = image.functions.iter().map(|function| (function, granularity)).collect();
    let index = FileIndex::new(&image);
    let rewrites =
        Disassembly::new(&image, &index).rewrites_with_granularity(&chosen, sink.exits());
    let rewrites: Vec<_> = image
        .functions
        .iter()
        .zip(rewrites)
        .filter_map(|(one, it)| Some((one, it.ok()?)))
        .collect();
    let tags = rewrites.iter().map(|(_, rewrite)| Stubs::tags(rewrite)).sum();
    let mut stubs = Stubs::new(bias.to_run(FileAddr(DISTANCE)), bias, sink, tags).unwrap();
    let looks_up = image.functions.iter().find(|function| function.name == "_dl_find_object");
    stubs.look_up(looks_up.map(|function| Lookup {
        function: FileAddr(function.start),
        list: RunAddr(0x1234_5678_9abc),
    }));
    let mut changes: Vec<Changes> = Vec::new();
    for (number, (function, rewrite)) in rewrites.iter().enumerate() {
        changes.extend(stubs.add(rewrite, function.start, FunctionId(number as u32)).ok());
    }
    assert_eq!(changes.iter().any(|change| change.looks_up), looks_up.is_some());
    let changes: Vec<&Changes> = changes.iter().collect();
    let instructions = check(&image, &stubs, &changes, bias);
    assert!(instructions > 10 * changes.len() / 3, "{instructions} of {}", changes.len());
}

fn log(is_timed: bool) -> Sink {
    let (chunk_bytes, chunks) = (1 << 16, 4);
    Sink::Log(LogShape { is_timed, chunk_bytes, chunks, when_full: WhenFull::Wait })
}

#[test]
fn tables_of_a_c_library_are_right_at_each_instruction() {
    for sink in [Sink::None, log(true)] {
        check_program("/lib/x86_64-linux-gnu/libc.so.6", sink, Granularity::Function);
    }
}

#[test]
fn tables_of_programs_with_blocks_are_right_at_each_instruction() {
    check_program("/bin/bash", Sink::Count, Granularity::Blocks);
    check_program("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", log(false), Granularity::Blocks);
    check_program(
        "/lib64/ld-linux-x86-64.so.2",
        Sink::Breakpoint { shared: RunAddr(0x6000_0000_0000) },
        Granularity::Function,
    );
}
