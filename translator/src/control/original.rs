//! Computes the original registers of a thread that was stopped in the cache.

use hmtt_probe::control::SAVED_R15;
use libc::user_regs_struct;

use crate::layout::area;
use crate::shared::Area;
use crate::state::{Flags, Point, Rip};

/// Flags that are stored as `lahf` stores them, and the overflow flag.
const LAHF_FLAGS: u64 = 0xd5;
const OVERFLOW: u64 = 1 << 11;
const RAX: u8 = 0;
pub const R15: u8 = 15;
/// `orig_rax` of a thread that is not in a system call.
pub const NO_CALL: u64 = u64::MAX;

// A later controller reads this place when it removes the cache of a killed one.
const _: () = assert!(SAVED_R15 == area::save(R15) as u64);

/// Values of `rax` after a system call that the kernel will make again (Linux,
/// `include/linux/errno.h`).
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// Whether a stopped thread returns from a system call that the kernel will make again.
pub fn is_restarted(registers: &user_regs_struct) -> bool {
    registers.orig_rax.cast_signed() >= 0 && RESTARTS.contains(&registers.rax.cast_signed())
}

/// A register by its number in instruction encodings.
pub fn register(registers: &mut user_regs_struct, number: u8) -> &mut u64 {
    match number {
        0 => &mut registers.rax,
        1 => &mut registers.rcx,
        2 => &mut registers.rdx,
        3 => &mut registers.rbx,
        4 => &mut registers.rsp,
        5 => &mut registers.rbp,
        6 => &mut registers.rsi,
        7 => &mut registers.rdi,
        8 => &mut registers.r8,
        9 => &mut registers.r9,
        10 => &mut registers.r10,
        11 => &mut registers.r11,
        12 => &mut registers.r12,
        13 => &mut registers.r13,
        14 => &mut registers.r14,
        _ => &mut registers.r15,
    }
}

/// Computes the original registers of a thread that is stopped at a point of the cache. `now`: the
/// thread's registers.
pub fn original(point: &Point, now: &user_regs_struct, area: Area<'_>) -> user_regs_struct {
    let mut original = *now;
    for number in point.borrowed.iter() {
        *register(&mut original, number) = area.get(area::save(number)).any();
    }
    original.rip = match point.rip {
        Rip::Address(address) => address.0,
        Rip::InRcx => now.rcx,
        Rip::InTarget => area.get(area::TARGET).any(),
    };
    if point.flags == Flags::Saved {
        let saved = area.get(area::FLAGS).any();
        let (low, overflow) = (saved >> 8 & LAHF_FLAGS, saved & 1);
        original.eflags &= !(LAHF_FLAGS | OVERFLOW);
        original.eflags |= low | overflow << OVERFLOW.trailing_zeros();
    }
    if point.rcx_is_rip {
        original.rcx = original.rip;
    }
    // The interrupted system call was made by the cache, and not by the program.
    if point.borrowed.contains(RAX) {
        original.orig_rax = NO_CALL;
    }
    original.gs_base = 0;
    original
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::test_areas;
    use crate::state::Registers;

    #[test]
    fn registers_and_flags_come_from_the_area() {
        let areas = test_areas();
        let thread = areas.area(3);
        thread.prepare();
        (0..16).for_each(|number| thread.set(area::save(number), 100 + u64::from(number)));
        thread.set(area::TARGET, 0x1234);
        // Carry and zero flag as `lahf` stores them, and overflow.
        thread.set(area::FLAGS, 0x4100 | 1);
        // SAFETY: a structure of numbers.
        let now: user_regs_struct = unsafe { std::mem::zeroed() };
        let now = user_regs_struct { rcx: 7, rdx: 8, eflags: 0x246 | 0x80, orig_rax: 202, ..now };
        let point = Point {
            borrowed: Registers::one(RAX).with(Registers::one(R15)),
            flags: Flags::Saved,
            rcx_is_rip: true,
            ..Point::at(Rip::InTarget)
        };
        let first = original(&point, &now, thread);
        assert_eq!((first.rip, first.rcx, first.rdx), (0x1234, 0x1234, 8));
        assert_eq!((first.rax, first.r15, first.orig_rax), (100, 115, NO_CALL));
        assert_eq!(first.eflags, 0x202 | 0x41 | 0x800);
        let borrowed = Registers::one(1).with(Registers::one(R15));
        let point = Point { borrowed, ..Point::at(Rip::InRcx) };
        let second = original(&point, &now, thread);
        assert_eq!((second.rip, second.rcx, second.orig_rax), (7, 101, 202));
        assert_eq!((second.r15, second.eflags), (115, now.eflags));
    }
}
