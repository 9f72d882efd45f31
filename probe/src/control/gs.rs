//! Searches code for instructions that set `gs`: a program that has them may use the register that
//! tags need.
//!
//! The search finds `wrgsbase`, loads of the segment register, and `arch_prctl(ARCH_SET_GS)` where
//! the numbers of the call and of the operation are loaded close to each other. A number that is
//! computed, or loaded far away, is not found.
//!
//! Bytes that a file's headers or symbols describe as data are not searched, wherever they are
//! mapped.

mod segment_load;

use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;

use super::code::Part;
use super::{TagError, code};
use crate::address::RunAddr;
use crate::elf::data_ranges;
use crate::ptrace::{FileId, Mapping, Stopped, mappings, open_mapped};
use crate::stubs::Sink;

/// Bytes of code that are read at once, and the largest distance between the load of the call's
/// number and the load of the operation's number, in bytes. Each block also has the last
/// [`CONTEXT`] bytes of the block before it and the first bytes of the block after it, because an
/// instruction is judged by the bytes around it.
const BLOCK_BYTES: u64 = 1 << 20;
const NEAR: usize = 64;
const CONTEXT: u64 = 2 * NEAR as u64;
/// Opcode of `wrgsbase`, after its prefixes.
const OPERATION: [u8; 2] = [0x0f, 0xae];
/// `ARCH_SET_GS` and the number of `arch_prctl`, as immediate operands.
const SET_GS: [u8; 4] = 0x1001u32.to_le_bytes();
const ARCH_PRCTL: [u8; 4] = (libc::SYS_arch_prctl as u32).to_le_bytes();

/// Refuses a process whose files have instructions that set `gs`, if tags need `gs` and the user
/// has not accepted this with `--force`.
///
/// # Errors
/// [`TagError::SetsGs`] for one such instruction, [`TagError::TooMuchCode`] if not all code could
/// be searched.
pub(super) fn check(process: &Stopped<'_>, sink: Sink) -> Result<(), TagError> {
    if sink == Sink::None || process.risk_policy.force {
        return Ok(());
    }
    let pid = process.pid;
    let mapped = mappings(pid)?;
    let (parts, is_all) = code::parts(process, &mapped, mapped.iter(), true);
    if !is_all {
        return Err(TagError::TooMuchCode(pid, code::BUDGET >> 30));
    }
    let mut files: HashMap<FileId, Vec<Range<u64>>> = HashMap::new();
    for part in parts {
        // The data ranges of a file are read only when such bytes were found, which is rare.
        if search(process, &part.range).is_none() {
            continue;
        }
        let Some(file) = part.mapping.file else { continue };
        let data = files.entry(file).or_insert_with(|| data_in(process, part.mapping, &mapped));
        let mut code = code_of(&part, data).into_iter();
        if let Some(at) = code.find_map(|range| search(process, &range)) {
            let offset = part.offset(at);
            return Err(TagError::SetsGs { pid, path: part.mapping.path.clone(), offset });
        }
    }
    Ok(())
}

/// Offsets in a mapped file that hold data, as far as its headers and symbols describe data.
fn data_in(process: &Stopped<'_>, mapping: &Mapping, mapped: &[Mapping]) -> Vec<Range<u64>> {
    let read = |address, bytes: &mut [u8]| process.read(address, bytes).is_ok();
    let file = open_mapped(process.pid, mapping, mapped, read);
    file.map_or_else(|_| Vec::new(), |file| data_ranges::of(&file))
}

/// Addresses of a part that may hold instructions: the part without its `data`. `data`: offsets in
/// the file that hold data, ascending and disjoint.
fn code_of(part: &Part<'_>, data: &[Range<u64>]) -> Vec<Range<RunAddr>> {
    let (mut ranges, mut start) = (Vec::new(), part.offset(part.range.start));
    let last = part.offset(part.range.end);
    let first = data.partition_point(|range| range.end <= start);
    let address = |offset: u64| part.range.start + (offset - part.offset(part.range.start));
    for range in data[first..].iter().take_while(|range| range.start < last) {
        if start < range.start {
            ranges.push(address(start)..address(range.start));
        }
        start = range.end.min(last);
    }
    if start < last {
        ranges.push(address(start)..address(last));
    }
    ranges
}

/// Address of an instruction in a range that sets `gs`, in the first block with such an
/// instruction.
fn search(process: &Stopped<'_>, range: &Range<RunAddr>) -> Option<RunAddr> {
    let mut bytes = Vec::new();
    for start in (range.start.0..range.end.0).step_by(BLOCK_BYTES as usize) {
        let start = RunAddr(start);
        let end = range.end.min(start + BLOCK_BYTES + CONTEXT);
        let context = (start - range.start).min(CONTEXT);
        let start = start - context;
        bytes.resize((end - start) as usize, 0);
        // Pages of the mapping that lie behind the end of its file cannot be read.
        if process.read(start, &mut bytes).is_err() {
            break;
        }
        let loads = segment_load::find(&bytes, context as usize);
        if let Some(at) = find_setting(&bytes).or(loads) {
            return Some(start + at as u64);
        }
    }
    None
}

/// Offset of the first instruction that sets `gs`.
fn find_setting(code: &[u8]) -> Option<usize> {
    let operations = memmem::find_iter(code, &OPERATION);
    // One or two prefix bytes precede the opcode.
    let starts = operations.flat_map(|at| [at.checked_sub(2), at.checked_sub(1)]).flatten();
    let mut wrgsbase = starts.filter(|at| is_wrgsbase(&code[*at..]));
    let mut calls = memmem::find_iter(code, &SET_GS).filter(|at| is_arch_prctl(code, *at));
    wrgsbase.next().into_iter().chain(calls.next()).min()
}

/// `f3`, perhaps a REX prefix, `0f ae` and a register with `/3` (Intel SDM, volume 2, WRGSBASE).
fn is_wrgsbase(code: &[u8]) -> bool {
    match code {
        [0xf3, 0x40..=0x4f, 0x0f, 0xae, register, ..] | [0xf3, 0x0f, 0xae, register, ..] => {
            register & 0xf8 == 0xd8
        }
        _ => false,
    }
}

/// Whether the number at `at` is the immediate operand of `mov register, number`.
fn is_load(code: &[u8], at: usize, number: [u8; 4]) -> bool {
    let is_number = code.get(at..at + 4) == Some(&number[..]);
    let opcode = at.checked_sub(1).map_or(0, |at| code[at]);
    let long = at.checked_sub(2).map_or(0, |at| code[at]);
    is_number && (opcode & 0xf8 == 0xb8 || opcode & 0xf8 == 0xc0 && long == 0xc7)
}

fn is_arch_prctl(code: &[u8], at: usize) -> bool {
    let around = at.saturating_sub(NEAR)..at + NEAR;
    is_load(code, at, SET_GS) && around.into_iter().any(|other| is_load(code, other, ARCH_PRCTL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrgsbase_of_any_register_is_found() {
        // wrgsbase rdi; wrgsbase r9; wrgsbase ecx.
        for code in [
            &[0xf3, 0x48, 0x0f, 0xae, 0xdf][..],
            &[0xf3, 0x49, 0x0f, 0xae, 0xd9],
            &[0xf3, 0x0f, 0xae, 0xd9],
        ] {
            let code = [&[0x90; 7], code, &[0xc3]].concat();
            assert_eq!(find_setting(&code), Some(7));
        }
    }

    #[test]
    fn a_call_that_sets_gs_is_found_and_others_are_not() {
        let set_gs = [0xbe, 1, 0x10, 0, 0];
        let other_size = [0xbf, 1, 0x10, 0, 0];
        let arch_prctl = [0xbf, 158, 0, 0, 0];
        let set_fs = [0xbe, 2, 0x10, 0, 0];
        let long = [0x48, 0xc7, 0xc0, 158, 0, 0, 0];
        assert_eq!(find_setting(&[&set_gs[..], &arch_prctl].concat()), Some(1));
        assert_eq!(find_setting(&[&long[..], &set_gs].concat()), Some(8));
        assert_eq!(find_setting(&[&set_fs[..], &arch_prctl].concat()), None);
        // malloc(4097), and a call far from it.
        assert_eq!(find_setting(&[&other_size[..], &[0x90; 100], &arch_prctl].concat()), None);
    }

    #[test]
    fn reading_gs_or_setting_fs_is_not_found() {
        // rdgsbase rax; wrfsbase rax; lfence; a truncated instruction; no code.
        for code in [
            &[0xf3, 0x48, 0x0f, 0xae, 0xc8][..],
            &[0xf3, 0x48, 0x0f, 0xae, 0xd0],
            &[0x0f, 0xae, 0xe8],
            &[0xf3, 0x48, 0x0f, 0xae],
            &[],
        ] {
            assert_eq!(find_setting(code), None);
        }
    }
}
