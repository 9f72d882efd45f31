//! Any bytes as the code of functions, and their stubs, to a program that does the same: or they are refused.
//!
//! An input is a script: options, where functions begin, what data hold of their addresses, and code. What is emitted is
//! judged by plain readings of it: [`text`] looks at what is overwritten, [`walk`] runs the changed program beside
//! the original one, and [`unwound`] reads the unwind tables.

mod program;
mod same;
mod tags;
mod text;
mod unwound;
mod walk;

use hmtt_probe::address::FileAddr;
use hmtt_probe::disassembly::{Disassembly, FileIndex, Rewrite};
use hmtt_probe::elf::Function;
use hmtt_probe::stubs::{Changes, Stubs};
pub(crate) use program::DATA;
use program::Program;
use walk::Walk;

/// Room for what tags share, as it is reserved for them.
const SHARED_BYTES: u64 = 1024;
/// Instructions that are moved for one of the code: it may be in a region and in a detour.
const COPIES: usize = 2;

/// A function whose stubs are made.
struct Tagged<'a> {
    function: &'a Function,
    number: u32,
    rewrite: Rewrite,
    changes: Changes,
}

/// Tags all functions, in each of which it sees what the script says.
pub fn check(bytes: &[u8]) {
    let Some(program) = Program::of(bytes) else { return };
    let known = FileIndex::new(&program.image);
    let disassembly = Disassembly::new(&program.image, &known);
    text::check_calls(&program, disassembly.calls());
    disassembly.sites();
    let mut functions: Vec<&Function> = program.image.functions.iter().collect();
    // Whoever has no stubs after all has changed nothing: the others are looked at once more.
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
        let text = text::Text::of(&program, &tagged);
        unwound::check(&program, &stubs);
        Walk::new(&program, &text, &stubs, &tagged).run();
        return;
    }
}

/// The stubs of functions; `None`, and those functions that have some, if not all have.
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
        let Ok(changes) = stubs.add(rewrite, function.start, next) else { continue };
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

/// Memory is linear in the code, and no more than was reserved.
fn bounds(program: &Program, stubs: &Stubs, tagged: &[Tagged]) {
    let room: u64 = tagged.iter().map(|one| Stubs::max_bytes(&one.rewrite, program.sink)).sum();
    let bytes = stubs.code().len() as u64;
    assert!(bytes <= room + SHARED_BYTES, "{bytes} bytes, {room} reserved");
    let regions =
        tagged.iter().flat_map(|one| one.rewrite.regions.iter().chain(&one.rewrite.detours));
    let moved: usize = regions.map(|region| region.instructions.len()).sum();
    let all = program.instructions.len();
    assert!(moved <= COPIES * all, "{moved} of {all} instructions are moved");
}
