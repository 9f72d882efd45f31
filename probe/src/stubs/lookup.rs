//! Generates a search of the stubs' unwind tables, for `_dl_find_object` of the C library (glibc
//! 2.35 and later).
//!
//! Unwinders call that function with an address in `rdi` and a structure to be filled in `rsi`. The
//! generated code runs first and searches a list of tables, which only the controller writes:
//!
//! ```text
//! list    address of a node
//! node    magic | next node, or 0 | first address, address after the last | link_map | .eh_frame_hdr | bias | 0
//! ```
//!
//! If the code finds a table for the address, it returns; otherwise the function continues as
//! usual. The code takes no lock and makes no calls. It changes only `rax`, `rcx` and flags, which
//! are not live at a function's entry.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::address::RunAddr;

/// First word of a node.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hmttunwd");
/// Maximum size of the code, in bytes.
pub const MOST_BYTES: u64 = 128;

/// Offsets in a node.
pub mod node {
    #![allow(missing_docs)]
    pub const MAGIC: u64 = 0;
    pub const NEXT: u64 = 8;
    pub const START: u64 = 16;
    pub const END: u64 = 24;
    pub const LINK_MAP: u64 = 32;
    pub const TABLE: u64 = 40;
    pub const BIAS: u64 = 48;
}

/// Offsets in `struct dl_find_object` (glibc, `dlfcn.h`): of the flags, and of each result,
/// together with the offset of the result's value in a node.
const FLAGS: i32 = 0;
const RESULTS: [(i32, u64); 4] =
    [(8, node::START), (16, node::END), (24, node::LINK_MAP), (32, node::TABLE)];

/// Generates the code. `list`: address of the pointer to the first node. `at`: address of the code.
/// `otherwise`: address of the stub that continues the function.
///
/// # Errors
/// [`IcedError`] if an instruction cannot be encoded.
pub(super) fn code(list: RunAddr, at: u64, otherwise: u64) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    let (mut look, mut skip) = (asm.create_label(), asm.create_label());
    let mut hit = asm.create_label();
    let of_node = |offset: u64| qword_ptr(rax + offset as i32);
    asm.mov(rax, list.0)?;
    asm.mov(rax, qword_ptr(rax))?;
    asm.set_label(&mut look)?;
    asm.test(rax, rax)?;
    asm.je(otherwise)?;
    asm.cmp(rdi, of_node(node::START))?;
    asm.jb(skip)?;
    asm.cmp(rdi, of_node(node::END))?;
    asm.jb(hit)?;
    asm.set_label(&mut skip)?;
    asm.mov(rax, of_node(node::NEXT))?;
    asm.jmp(look)?;
    asm.set_label(&mut hit)?;
    asm.mov(qword_ptr(rsi + FLAGS), 0)?;
    for (to, from) in RESULTS {
        asm.mov(rcx, of_node(from))?;
        asm.mov(qword_ptr(rsi + to), rcx)?;
    }
    asm.xor(eax, eax)?;
    asm.ret()?;
    asm.assemble(at)
}
