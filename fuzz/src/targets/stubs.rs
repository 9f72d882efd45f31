//! Tags any code, and checks that the tagged program does the same as the original program, or that
//! the code is rejected.
//!
//! An input is a script: options, starts of functions, addresses of code in data, and the code.
//! Separate models check the result. `text` checks the overwritten bytes. `walk` runs the tagged
//! program in parallel with the original one. `unwound` reads the unwind tables.

mod program;
mod same;
mod tags;
mod text;
mod unwound;
mod walk;

use hmtt_files::tag_log::FunctionId;
use hmtt_probe::address::FileAddr;
use hmtt_probe::disassembly::{Disassembly, FileIndex, Rewrite};
use hmtt_probe::elf::Function;
use hmtt_probe::stubs::{Changes, Stubs};
pub(crate) use program::DATA;
use program::Program;
use walk::Walk;

/// Bytes that are reserved for code shared by tags.
const SHARED_BYTES: u64 = 1024;
/// Maximum number of copies of an instruction: it may be moved in a region and in a detour.
const COPIES: usize = 2;

/// A function and its stubs.
struct Tagged<'a> {
    function: &'a Function,
    number: u32,
    rewrite: Rewrite,
    changes: Changes,
}

/// Tags all functions with the granularity that the script selects.
pub fn check(bytes: &[u8]) {
    let Some(program) = Program::parse(bytes) else { return };
    let known = FileIndex::new(&program.image);
    let disassembly = Disassembly::new(&program.image, &known);
    text::check_calls(&program, disassembly.calls());
    disassembly.sites();
    let mut functions: Vec<&Function> = program.image.functions.iter().collect();
    // A function without stubs must not be changed, so the others are tagged again without it.
    loop {
        let chosen: Vec<_> =
            functions.iter().map(|one| (*one, program.granularity(one.start))).collect();
        let rewrites = disassembly.rewrites_with_granularity(&chosen, program.sink.exits());
        assert_eq!(rewrites.len(), chosen.len());
        let accepted = functions.iter().copied().zip(rewrites);
        let accepted: Vec<(&Function, Rewrite)> =
            accepted.filter_map(|(function, rewrite)| Some((function, rewrite.ok()?))).collect();
        let Some((stubs, tagged)) = add(&program, &accepted, &mut functions) else { continue };
        bounds(&program, &stubs, &tagged);
        // The memory of stubs is free in the original program. An instruction that refers to this
        // memory faults there, but not in the tagged program, so the input is skipped.
        if program.refers_to(program.stubs_at..program.stubs_at + stubs.code().len() as u64) {
            return;
        }
        let text = text::Text::new(&program, &tagged);
        unwound::check(&program, &stubs);
        Walk::new(&program, &text, &stubs, &tagged).run();
        return;
    }
}

/// Adds the stubs of functions. If some functions get no stubs, returns `None` and leaves the other
/// functions in `functions`.
fn add<'a>(
    program: &Program,
    accepted: &[(&'a Function, Rewrite)],
    functions: &mut Vec<&'a Function>,
) -> Option<(Stubs, Vec<Tagged<'a>>)> {
    let tags = accepted.iter().map(|(_, rewrite)| Stubs::tags(rewrite)).sum();
    let start = program.bias.to_run(FileAddr(program.stubs_at));
    let mut stubs = Stubs::new(start, program.bias, program.sink, tags).expect("they are made");
    let mut tagged: Vec<Tagged> = Vec::new();
    let mut next = 1;
    for (function, rewrite) in accepted {
        let Ok(changes) = stubs.add(rewrite, function.start, FunctionId(next)) else { continue };
        let (number, rewrite) = (next, rewrite.clone());
        next += 1 + rewrite.tagged_blocks().count() as u32;
        tagged.push(Tagged { function, number, rewrite, changes });
    }
    if tagged.len() == accepted.len() {
        return Some((stubs, tagged));
    }
    *functions = tagged.iter().map(|one| one.function).collect();
    None
}

/// Checks that the stubs fit in the reserved memory, and that the number of moved instructions is
/// at most linear in the size of the code.
fn bounds(program: &Program, stubs: &Stubs, tagged: &[Tagged]) {
    let reserved: u64 = tagged.iter().map(|one| Stubs::max_bytes(&one.rewrite, program.sink)).sum();
    let bytes = stubs.code().len() as u64;
    assert!(bytes <= reserved + SHARED_BYTES, "{bytes} bytes, {reserved} reserved");
    let regions =
        tagged.iter().flat_map(|one| one.rewrite.regions.iter().chain(&one.rewrite.detours));
    let moved: usize = regions.map(|region| region.instructions.len()).sum();
    let total = program.instructions.len();
    assert!(moved <= COPIES * total, "{moved} of {total} instructions are moved");
}
