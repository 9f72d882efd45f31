//! Finds which registers and flags an instruction reads and writes.
//!
//! Where the manuals leave a result open, the instruction is assumed to read the old value: a
//! register or flag is overwritten only if every processor overwrites it.

use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, RflagsBits, UsedRegister,
};

use crate::state::Registers;

/// A set of the status flags, as [`RflagsBits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusFlags(pub u32);

impl StatusFlags {
    /// All six status flags.
    pub const ALL: StatusFlags = StatusFlags(
        RflagsBits::OF
            | RflagsBits::SF
            | RflagsBits::ZF
            | RflagsBits::AF
            | RflagsBits::CF
            | RflagsBits::PF,
    );

    /// Whether the set has no flag.
    pub const fn is_empty(self) -> bool {
        self.0 & Self::ALL.0 == 0
    }
}

/// How an instruction accesses memory, and whether it ends a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It accesses no memory and ends no block.
    Register,
    /// It reads memory.
    Load,
    /// It writes memory.
    Store,
    /// It reads and writes memory.
    Update,
    /// It ends its block.
    Transfer,
}

/// Registers and flags that an instruction uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// General registers whose old values it may need.
    pub read: Registers,
    /// General registers that it may change.
    pub written: Registers,
    /// General registers that it always overwrites as a whole without reading them.
    pub overwritten: Registers,
    /// Status flags whose old values it may need.
    pub flags_read: StatusFlags,
    /// Status flags that it always overwrites.
    pub flags_overwritten: StatusFlags,
    /// Whether it uses `gs` in any way: changes it, reads its base, or has an operand in its
    /// segment.
    pub gs: bool,
}

impl Uses {
    /// General registers that it reads or writes, also those that it does not name.
    pub fn touched(&self) -> Registers {
        self.read.with(self.written)
    }

    /// Adds a use of a register.
    fn add(&mut self, used: &UsedRegister) {
        let register = used.register();
        self.gs |= register == Register::GS && used.access() != OpAccess::Read;
        if !register.is_gpr() {
            return;
        }
        let register_set = Registers::one(register.full_register().number() as u8);
        let access = used.access();
        let whole = register.is_gpr32() || register.is_gpr64();
        if access == OpAccess::Write && whole {
            self.overwritten = self.overwritten.with(register_set);
        } else {
            self.read = self.read.with(register_set);
        }
        if !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess) {
            self.written = self.written.with(register_set);
        }
    }
}

/// Whether an instruction may leave a destination or the flags unchanged, depending on values: `shl
/// eax, cl` leaves the flags if `cl` is 0.
fn is_uncertain(instruction: &Instruction) -> bool {
    use Mnemonic::{Bsf, Bsr, Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd, Syscall, Tzcnt};
    let mnemonic = instruction.mnemonic();
    matches!(
        mnemonic,
        Bsf | Bsr | Tzcnt | Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd | Syscall
    ) || mnemonic == Mnemonic::Lzcnt
        || instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
}

/// Returns what an instruction uses, and its class. The class is never [`Class::Transfer`], which
/// the caller sets.
pub(super) fn find(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
) -> (Uses, Class) {
    let mut uses = Uses::default();
    let info = factory.info(instruction);
    info.used_registers().iter().for_each(|used| uses.add(used));
    // `inc eax` is listed as a read of eax and a write of rax.
    uses.overwritten = uses.overwritten.without(uses.read);
    uses.gs |= matches!(
        instruction.mnemonic(),
        Mnemonic::Rdgsbase | Mnemonic::Wrgsbase | Mnemonic::Swapgs | Mnemonic::Lgs
    );
    let (mut loads, mut stores) = (false, false);
    for memory in info.used_memory() {
        loads |= !matches!(memory.access(), OpAccess::Write | OpAccess::CondWrite);
        stores |= !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead);
        uses.gs |= memory.segment() == Register::GS;
    }
    uses.gs |= instruction.segment_prefix() == Register::GS;
    // A flag that is undefined afterwards may keep its old value.
    uses.flags_read = StatusFlags(instruction.rflags_read() | instruction.rflags_undefined());
    uses.flags_overwritten = StatusFlags(
        instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set(),
    );
    if is_uncertain(instruction) {
        uses.read = uses.read.with(uses.overwritten);
        uses.overwritten = Registers::NONE;
        uses.flags_overwritten = StatusFlags::default();
    }
    let class = match (loads, stores) {
        (false, false) => Class::Register,
        (true, false) => Class::Load,
        (false, true) => Class::Store,
        (true, true) => Class::Update,
    };
    (uses, class)
}
