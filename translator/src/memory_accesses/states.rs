//! Describes instructions that save and restore the extended state of the processor: `xsave`,
//! `xsavec`, `xsaveopt` and `xrstor` (Intel SDM, volume 1, chapter 13).
//!
//! A mask in `edx:eax` chooses components. Their sizes and places are read from the processor that
//! runs this code, which also executes the instructions.
//!
//! | | x87 and SSE state | header of 64 bytes | other components |
//! |---|---|---|---|
//! | `xsave` | written by mask | 8 bytes read and written | written by mask, each in its place |
//! | `xsaveopt` | may be written by mask | as `xsave` | may be written by mask, each in its place |
//! | `xsavec` | may be written by mask | 16 bytes written | may be written by mask, one behind the other |
//! | `xrstor` | may be read by mask | read | may be read, somewhere |
//!
//! An access that *may be* made depends on the state, which may be the initial one, and for
//! `xrstor` on the header.

use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

use hmtt_format::Direction;
use iced_x86::{Instruction, Mnemonic, Register, UsedMemory};

use super::{Condition, Lanes, Mask, MemoryAccess, Operand, Order, operand};

/// Number of the first component behind the legacy region and the header.
const FIRST: u8 = 2;
/// Offset of the header, in bytes.
const HEADER: u32 = 512;
/// Offset of the first component in the compacted format, in bytes.
pub const COMPACTED: u32 = 576;

/// A component of the extended state that the system has enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateComponent {
    /// Its number, from 2 on, which is also the number of its bit in the mask.
    pub number: u8,
    /// Size in bytes.
    pub size: u32,
    /// Offset in the standard format, in bytes.
    pub offset: u32,
    /// Whether it begins at a multiple of 64 bytes in the compacted format.
    is_aligned: bool,
}

/// The components from number 2 on that the system has enabled, by number.
pub fn state_components() -> &'static [StateComponent] {
    static COMPONENTS: OnceLock<Vec<StateComponent>> = OnceLock::new();
    COMPONENTS.get_or_init(|| {
        const OSXSAVE: u32 = 1 << 27;
        let leaf = |leaf, part| {
            #[allow(unused_unsafe, reason = "older compilers need it")]
            // SAFETY: all x86-64 processors have the instruction.
            unsafe {
                __cpuid_count(leaf, part)
            }
        };
        if leaf(1, 0).ecx & OSXSAVE == 0 {
            return Vec::new();
        }
        // SAFETY: the processor has the instruction, and the system has enabled it.
        let enabled = unsafe { enabled() };
        let numbers = (FIRST..32).filter(|number| enabled >> number & 1 != 0);
        let component = |number: u8| {
            let description = leaf(0xd, number.into());
            let is_aligned = description.ecx & 2 != 0;
            StateComponent { number, size: description.eax, offset: description.ebx, is_aligned }
        };
        numbers.map(component).filter(|one| one.size > 0).collect()
    })
}

/// The components that the system has enabled, as bits.
///
/// # Safety
/// The system has enabled `xgetbv`.
#[target_feature(enable = "xsave")]
unsafe fn enabled() -> u64 {
    // SAFETY: as above.
    unsafe { _xgetbv(0) }
}

/// The components before a component in the compacted format. `None`: the places depend on more
/// than sizes, because a component is aligned.
pub fn preceding(component: u8) -> Option<impl Iterator<Item = &'static StateComponent>> {
    let up_to = || state_components().iter().take_while(move |one| one.number <= component);
    let is_simple = !up_to().any(|one| one.is_aligned);
    is_simple.then(|| up_to().filter(move |one| one.number < component))
}

/// Calls a function with each access of an instruction. Returns whether it is one of the
/// instructions of this module.
pub(super) fn for_each(
    instruction: &Instruction,
    memory: &[UsedMemory],
    mut add: impl FnMut(MemoryAccess),
) -> bool {
    use Mnemonic::{Xrstor, Xrstor64, Xsave, Xsave64, Xsavec, Xsavec64, Xsaveopt, Xsaveopt64};
    let mnemonic = instruction.mnemonic();
    let is_load = matches!(mnemonic, Xrstor | Xrstor64);
    let is_compacted = matches!(mnemonic, Xsavec | Xsavec64);
    let is_certain = matches!(mnemonic, Xsave | Xsave64);
    if !(is_load || is_compacted || is_certain || matches!(mnemonic, Xsaveopt | Xsaveopt64)) {
        return false;
    }
    let Some(used) = memory.first() else { return false };
    let operand = operand(used);
    let direction = if is_load { Direction::Read } else { Direction::Write };
    let at = |offset: u32, size, direction, condition| MemoryAccess {
        operand: Operand { displacement: operand.displacement + i64::from(offset), ..operand },
        is_elsewhere: false,
        size,
        direction,
        condition,
        is_uncertain: !is_certain && condition != Condition::Always,
    };
    match (is_load, is_compacted) {
        (true, _) => add(at(HEADER, 64, Direction::Read, Condition::Always)),
        (_, true) => add(at(HEADER, 16, Direction::Write, Condition::Always)),
        _ => {
            add(at(HEADER, 8, Direction::Read, Condition::Always));
            add(at(HEADER, 8, Direction::Write, Condition::Always));
        }
    }
    // The x87 state, MXCSR, which belongs to SSE and AVX, and the x87 state behind it.
    for (offset, size, first_bit, bits) in
        [(0, 24, 0, 1), (24, 8, 1, 2), (32, 128, 0, 1), (160, 256, 1, 1)]
    {
        add(at(offset, size, direction, by(first_bit, bits, Order::Apart)));
    }
    for StateComponent { number, size, offset, .. } in state_components().iter().copied() {
        let access = if is_compacted {
            at(0, size, direction, by(number, 1, Order::Compacted { component: number }))
        } else {
            at(offset, size, direction, by(number, 1, Order::Apart))
        };
        let is_elsewhere = is_load || is_compacted && preceding(number).is_none();
        add(MemoryAccess { is_elsewhere, ..access });
    }
    true
}

/// An access of one element, which is made if one of `bits` bits of `eax` is set, from `first_bit`
/// on.
fn by(first_bit: u8, bits: u8, order: Order) -> Condition {
    let mask = Some(Mask::Flags { register: Register::RAX, first_bit });
    Condition::Lanes(Lanes { elements: 1, lanes: bits, mask, order })
}
