//! Assembles what C programs ask for unwind tables: `_dl_find_object` of the C library (glibc 2.35 and later).
//!
//! Called by unwinders with an address in `rdi` and a structure to be filled in `rsi`, it is made to look through
//! the tables of stubs first. They are a list in memory that only the controller writes:
//!
//! ```text
//! list    address of a node
//! node    magic | next node, or 0 | first address, address behind the last | link_map | .eh_frame_hdr | bias | 0
//! ```
//!
//! What is found is returned at once; otherwise the function goes on as it would have. The code takes no lock, calls
//! nothing, and changes `rax`, `rcx` and flags only, which are of no meaning at a function's entry.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

/// What a node begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hmttunwd");
/// Most bytes of the code.
pub const MOST_BYTES: u64 = 128;

/// Places in a node.
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

/// Places in `struct dl_find_object` (glibc, `dlfcn.h`), and what each gets of a node.
const FLAGS: i32 = 0;
const RESULTS: [(i32, u64); 4] =
    [(8, node::START), (16, node::END), (24, node::LINK_MAP), (32, node::TABLE)];

/// The code at an address. `list`: where the address of the first node is, in memory; `otherwise`: where the
/// function goes on, in addresses as `at` is.
pub(super) fn code(list: u64, at: u64, otherwise: u64) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    let (mut look, mut skip) = (asm.create_label(), asm.create_label());
    let mut found = asm.create_label();
    let of_node = |offset: u64| qword_ptr(rax + offset as i32);
    asm.mov(rax, list)?;
    asm.mov(rax, qword_ptr(rax))?;
    asm.set_label(&mut look)?;
    asm.test(rax, rax)?;
    asm.je(otherwise)?;
    asm.cmp(rdi, of_node(node::START))?;
    asm.jb(skip)?;
    asm.cmp(rdi, of_node(node::END))?;
    asm.jb(found)?;
    asm.set_label(&mut skip)?;
    asm.mov(rax, of_node(node::NEXT))?;
    asm.jmp(look)?;
    asm.set_label(&mut found)?;
    asm.mov(qword_ptr(rsi + FLAGS), 0)?;
    for (to, from) in RESULTS {
        asm.mov(rcx, of_node(from))?;
        asm.mov(qword_ptr(rsi + to), rcx)?;
    }
    asm.xor(eax, eax)?;
    asm.ret()?;
    asm.assemble(at)
}
