//! Finds instructions that load the segment register `gs`: `mov`, `pop` and `lgs`. The load changes
//! the base address of `gs`, even if the selector is 0.
//!
//! The opcodes are short, so their bytes are frequent within other instructions and in tables
//! between functions. A place counts only if an instruction begins there, and if the instructions
//! around it look like those of a program:
//!
//! - Decoding converges: decoding from addresses before the place soon reaches the same
//!   instructions, and one of them begins at the place.
//! - No instruction near the place is invalid, or of a kind that is rare in programs and frequent
//!   in tables.
//!
//! So a load in the first bytes of a function that follows a table is not found.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use memchr::memmem;

/// Number of bytes before a place at which decoding starts, and number of bytes after the place in
/// which instructions are checked.
const BEFORE: usize = 64;
const AFTER: usize = 64;
/// Number of addresses before a place from which decoding is tried.
const STARTS: usize = 16;
/// Opcode of `mov` to a segment register, and its operand's bits for `gs`.
const MOV: u8 = 0x8e;
const GS_BITS: u8 = 5 << 3;
const REGISTER_BITS: u8 = 7 << 3;
/// Opcodes of `pop %gs` and of `lgs`.
const POP: [u8; 2] = [0x0f, 0xa9];
const LGS: [u8; 2] = [0x0f, 0xb5];
/// Maximum number of prefixes of such instructions: operand size, REX.
const PREFIXES: usize = 2;

/// Offset of the first instruction that loads `gs` and whose opcode is behind the first `skipped`
/// bytes.
pub(super) fn find(code: &[u8], skipped: usize) -> Option<usize> {
    let is_mov = |at: &usize| code.get(at + 1).is_some_and(|byte| byte & REGISTER_BITS == GS_BITS);
    let moves = memchr::memchr_iter(MOV, code).filter(is_mov);
    let pops = memmem::find_iter(code, &POP);
    let far = memmem::find_iter(code, &LGS);
    let first = |places: &mut dyn Iterator<Item = usize>| {
        places.skip_while(|at| *at < skipped).find_map(|at| load(code, at))
    };
    let positions = [first(&mut { moves }), first(&mut { pops }), first(&mut { far })];
    positions.into_iter().flatten().min()
}

/// Offset of the instruction whose opcode is at `opcode`, if it loads `gs`. The offset is smaller
/// than `opcode` if the instruction has prefixes.
fn load(code: &[u8], opcode: usize) -> Option<usize> {
    let is_prefix = |at: usize| matches!(code[at], 0x66 | 0x40..=0x4f);
    let mut start = opcode;
    // The processor executes the instruction with all its prefixes, so the longest one is tried
    // first.
    while start > 0 && opcode - start < PREFIXES && is_prefix(start - 1) {
        start -= 1;
    }
    let starts = start..=opcode;
    starts.into_iter().find(|start| {
        let loads =
            decode(code, *start).next().is_some_and(|(_, instruction)| loads_gs(&instruction));
        loads && is_in_code(code, *start)
    })
}

fn loads_gs(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Pop => instruction.op0_register() == Register::GS,
        Mnemonic::Lgs => true,
        _ => false,
    }
}

/// Instructions from an offset on, each with its offset.
fn decode(code: &[u8], start: usize) -> impl Iterator<Item = (usize, Instruction)> + '_ {
    let decoder = Decoder::with_ip(64, &code[start..], start as u64, DecoderOptions::NONE);
    decoder.into_iter().map(|instruction| (instruction.ip() as usize, instruction))
}

/// Whether an instruction begins at a place, and the instructions near it are common in programs.
fn is_in_code(code: &[u8], at: usize) -> bool {
    let first = at.saturating_sub(BEFORE);
    let reaches = |start: &usize| {
        let mut before = decode(code, *start).skip_while(|(ip, _)| *ip < at);
        before.next().is_some_and(|(ip, _)| ip == at)
    };
    // Near the beginning of the code, too few bytes precede the place. Then decoding must reach it
    // from the beginning of the code.
    let (starts, most_misses) =
        if at < BEFORE { (0..=0, 0) } else { (first..=first + STARTS, STARTS / 4) };
    let from = *starts.end();
    // Most places are within instructions. They are given up after a few starts that do not reach
    // them.
    if starts.filter(|start| !reaches(start)).nth(most_misses).is_some() {
        return false;
    }
    let near = decode(code, from).skip_while(|(ip, _)| *ip < from + STARTS && *ip < at);
    for (ip, instruction) in near.take_while(|(ip, _)| *ip < at + AFTER) {
        // The end of the code may cut off the last instruction.
        if instruction.is_invalid() && ip + instruction.len() >= code.len() {
            break;
        }
        if ip != at && !is_usual(&instruction, code[ip]) {
            return false;
        }
        // Padding may follow the end of a function.
        let is_end = matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch
        );
        if ip > at && is_end {
            break;
        }
    }
    true
}

/// Whether an instruction is common in programs. `first`: its first byte, a prefix or the opcode.
fn is_usual(instruction: &Instruction, first: u8) -> bool {
    let is_rare = matches!(
        first,
        // Input and output; exchange of registers; flags; absolute addresses; string operations
        // that are not repeated.
        0x6c..=0x6f | 0x91..=0x97 | 0x9b | 0x9e | 0x9f | 0xa0..=0xa7 | 0xaa..=0xaf
        // enter, far return, int, iret; xlat, x87; loop, in, out; int1, cmc, flags.
        | 0xc8 | 0xca | 0xcb | 0xcd | 0xcf | 0xd7..=0xdf | 0xe0..=0xe7 | 0xec..=0xef | 0xf1 | 0xf5 | 0xf8..=0xfd
    );
    // The code that calls `main` of a C program ends in `hlt`.
    let is_privileged = instruction.is_privileged() && instruction.mnemonic() != Mnemonic::Hlt;
    !instruction.is_invalid() && !is_privileged && !is_rare
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Image;

    /// Code as compilers make it: `mov rax, [rbp - 8]; add eax, 3; cmp eax, 100; jle .; call .`
    /// again and again.
    fn code(bytes: usize) -> Vec<u8> {
        let some = [0x48, 0x8b, 0x45, 0xf8, 0x83, 0xc0, 3, 0x83, 0xf8, 100, 0x7e, 2];
        some.into_iter().cycle().take(bytes / some.len() * some.len()).collect()
    }

    fn place(instruction: &[u8], before: usize) -> Option<usize> {
        let before = code(before);
        let position = find(&[&before[..], instruction, &code(120)].concat(), 0);
        position.inspect(|at| assert_eq!(*at, before.len()))
    }

    #[test]
    fn loads_of_gs_are_found_between_instructions() {
        for load in [
            &[0x8e, 0xe8][..],               // mov gs, eax
            &[0x41, 0x8e, 0xe9],             // mov gs, r9d
            &[0x66, 0x8e, 0xef],             // mov gs, di
            &[0x8e, 0x6d, 0xf8],             // mov gs, [rbp - 8]
            &[0x8e, 0x2d, 0x10, 0x20, 0, 0], // mov gs, [rip + 0x2010]
            &[0x0f, 0xa9],                   // pop gs
            &[0x0f, 0xb5, 0x45, 0xf8],       // lgs eax, [rbp - 8]
            &[0x48, 0x0f, 0xb5, 0x45, 0xf8], // lgs rax, [rbp - 8]
        ] {
            for before in [0, 24, 120, 1200] {
                assert!(place(load, before).is_some(), "{load:x?} after {before} bytes");
            }
        }
    }

    #[test]
    fn a_load_before_the_entry_point_or_before_padding_is_found() {
        // mov gs, eax; xor ebp, ebp; call .; hlt.
        let entry = [0x8e, 0xe8, 0x31, 0xed, 0xe8, 0, 0, 0, 0, 0xf4];
        // mov gs, eax; ret; zeros between sections; sub rsp, 8.
        let padded = [0x8e, 0xe8, 0xc3, 0, 0, 0, 0x48, 0x83, 0xec, 8];
        for end in [entry, padded] {
            for before in [0, 24, 120] {
                assert!(place(&end, before).is_some(), "{end:x?} after {before} bytes");
            }
        }
    }

    #[test]
    fn other_instructions_with_such_bytes_are_not_found() {
        for other in [
            &[0x0f, 0x8e, 0xe8, 0, 0, 0][..],      // jle
            &[0xb8, 0x8e, 0xe8, 0, 0],             // mov eax, 0xe88e
            &[0xe8, 0x8e, 0xe8, 0, 0],             // call
            &[0x48, 0x8d, 0x05, 0x0f, 0xa9, 0, 0], // lea rax, [rip + 0xa90f]
            &[0x8c, 0xe8],                         // mov eax, gs
            &[0x8e, 0xe0],                         // mov fs, eax
            &[0x0f, 0xa1],                         // pop fs
            &[0x0f, 0xb4, 0x45, 0xf8],             // lfs eax, [rbp - 8]
            &[0x8e],
        ] {
            for before in [0, 24, 120, 1200] {
                assert_eq!(place(other, before), None, "{other:x?} after {before} bytes");
            }
        }
        assert_eq!(find(&[], 0), None);
        assert_eq!(find(&[0x8e, 0xe8], 0), Some(0));
    }

    #[test]
    fn tables_of_random_bytes_are_not_taken_for_code() {
        let mut state = 88172645463325252u64;
        let mut table = Vec::new();
        while table.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            table.extend(state.to_le_bytes());
        }
        let has = |bytes: &[u8]| bytes.windows(2).filter(|two| *two == [0x8e, 0xe8]).count();
        assert!(has(&table) > 4);
        let position = find(&table, 0);
        assert!(position.is_none(), "{position:?}");
    }

    /// Libraries that this process has loaded, and, if it is installed, one that has tables between
    /// its functions.
    #[test]
    fn no_library_is_taken_for_one_that_loads_gs() {
        let mapped = crate::ptrace::mappings(nix::unistd::Pid::this()).unwrap();
        let own = std::env::current_exe().unwrap();
        let files =
            mapped.iter().filter(|mapping| mapping.executable && mapping.path.is_absolute());
        let loaded: Vec<_> =
            files.map(|mapping| &mapping.path).filter(|path| **path != own).collect();
        let folder = loaded.iter().find_map(|path| path.parent()?.read_dir().ok());
        let beside = folder.into_iter().flatten().flatten().map(|entry| entry.path());
        let is_crypto = |path: &std::path::PathBuf| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"libcrypto.so"))
        };
        for path in loaded.iter().copied().cloned().chain(beside.filter(is_crypto)) {
            for text in Image::read(&path).unwrap().text {
                assert_eq!(find(&text.bytes, 0), None, "{}", path.display());
            }
        }
    }
}
