//! Generates the stubs of an arena: code that waits for the controller or changes the chunk of a
//! ring. All blocks of the arena share them.
//!
//! **Miss.** A thread arrives from an exit that is not linked, with the program's registers and
//! flags. The number of its exit and its target are in the thread area. It saves the registers that
//! system calls and the stub itself change, asks the controller and waits for the answer. It waits
//! in the kernel for a limited time only, and checks before each wait whether the controller lives.
//! Without a controller it continues in the original code, with the program's signal mask.
//!
//! **Indirect miss.** As a miss, with the target in `rcx`. The program's values of `rcx` and `r11`
//! are in the thread area.
//!
//! **Full.** A thread arrives with the program's value of `rcx` in the thread area. `rcx` is the
//! address of a record: the original address of a block, then code that continues behind the check.
//! The thread hands the chunk over and takes the next one. If the next one is not free, the thread
//! waits, or drops the contents of its chunk. Without a controller it continues in the original
//! code.
//!
//! **Returned.** A thread has returned from a system call. `rcx` is the address of a record: the
//! original address of the next instruction, then code that continues there. The thread notes the
//! number of the call and its duration.
//!
//! A full chunk has the time in which it was filled. The stubs exclude the time for which they wait
//! (*Pauses* in [`crate::layout`]).
//!
//! Stubs use no stack, because a signal handler may run on it at any time.

use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister64, CodeAssembler, CodeLabel, al, dword_ptr, eax, ecx, edi, edx,
    esi, qword_ptr, r8, r9, r9d, r10, r10d, r11, r15, rax, rcx, rdi, rdx, rsi,
};
use iced_x86::{BlockEncoderOptions, IcedError};

use crate::emit::Section;
use crate::emit::register::{R11, R15, RAX, RCX, RDX};
use crate::layout::{area, header, ring};
use crate::state::{Flags, Point, Registers, Rip};

/// Rounds in which a thread checks for an answer, or for a free chunk, before it waits in the
/// kernel.
const SPINS: u32 = 256;
/// System call `futex`, and its operations for memory that processes share.
const FUTEX: u32 = libc::SYS_futex as u32;
const FUTEX_WAIT: u32 = libc::FUTEX_WAIT as u32;
const FUTEX_WAKE: u32 = libc::FUTEX_WAKE as u32;
/// System call `rt_sigprocmask`.
const SET_MASK: u32 = libc::SYS_rt_sigprocmask as u32;

/// Registers that system calls or the stubs change, with their numbers in encodings.
const CHANGED: [(AsmRegister64, u8); 9] =
    [(rax, 0), (rcx, 1), (rdx, 2), (rsi, 6), (rdi, 7), (r8, 8), (r9, 9), (r10, 10), (r11, 11)];

/// The stubs of an arena. Their code does not depend on the arena.
#[derive(Debug)]
pub struct Stubs {
    /// Code of the stubs, with the original states of threads in it.
    pub section: Section,
    /// Offset of the stub for misses.
    pub miss: u32,
    /// Offset of the stub for indirect misses.
    pub indirect: u32,
    /// Offset of the stub for full chunks.
    pub full: u32,
    /// Offset of the stub that notes system calls.
    pub returned: u32,
    /// Offset of the code that continues in the original code without a controller.
    pub alone: u32,
}

impl Stubs {
    /// Generates the stubs. `ring`: whether `r15` points into a ring.
    ///
    /// # Panics
    /// Never: the instructions do not depend on input.
    pub fn new(ring: bool) -> Stubs {
        Generator::new(ring).and_then(Generator::finish).expect("the stubs can be encoded")
    }
}

fn field(offset: u32) -> AsmMemoryOperand {
    qword_ptr(u64::from(offset)).gs()
}

fn word(offset: u32) -> AsmMemoryOperand {
    dword_ptr(u64::from(offset)).gs()
}

struct Generator {
    asm: CodeAssembler,
    /// Original states: each is valid before all instructions from a number on, up to the next
    /// entry.
    states: Vec<(usize, Option<Point>)>,
    /// Registers whose values are always in the thread area: `r15` with a ring.
    always: Registers,
    miss: usize,
    indirect: usize,
    full: usize,
    returned: usize,
    alone: usize,
    restore: CodeLabel,
    native: CodeLabel,
    dead: CodeLabel,
}

impl Generator {
    fn new(ring: bool) -> Result<Self, IcedError> {
        let mut asm = CodeAssembler::new(64)?;
        let (restore, native, dead) = (asm.create_label(), asm.create_label(), asm.create_label());
        let always = if ring { Registers::one(R15) } else { Registers::NONE };
        let mut generator = Generator {
            asm,
            states: Vec::new(),
            always,
            miss: 0,
            indirect: 0,
            full: 0,
            returned: 0,
            alone: 0,
            restore,
            native,
            dead,
        };
        generator.indirect_miss()?;
        generator.miss(ring)?;
        generator.end(ring)?;
        generator.full()?;
        generator.returned()?;
        Ok(generator)
    }

    /// Sets the original state before the instructions that follow.
    fn state(&mut self, rip: Rip, borrowed: Registers, flags: Flags) {
        let borrowed = borrowed.with(self.always);
        let point = Point { borrowed, flags, ..Point::at(rip) };
        self.states.push((self.asm.instructions().len(), Some(point)));
    }

    /// Notes that the original state is not known before the instructions that follow.
    fn no_state(&mut self) {
        self.states.push((self.asm.instructions().len(), None));
    }

    fn saved() -> Registers {
        CHANGED.iter().fold(Registers::NONE, |all, (_, one)| all.with(Registers::one(*one)))
    }

    fn indirect_miss(&mut self) -> Result<(), IcedError> {
        let pair = Registers::one(RCX).with(Registers::one(R11));
        self.indirect = self.asm.instructions().len();
        self.state(Rip::InRcx, pair, Flags::Live);
        self.asm.mov(field(area::TARGET), rcx)?;
        self.state(Rip::InTarget, pair, Flags::Live);
        self.asm.mov(rcx, field(area::save(RCX)))?;
        self.asm.mov(r11, field(area::save(R11)))?;
        self.asm.mov(word(area::EXIT), area::INDIRECT)
    }

    /// Saves the registers that are not `already` saved, and the flags.
    fn save(&mut self, already: Registers) -> Result<(), IcedError> {
        self.state(Rip::InTarget, already, Flags::Live);
        for (register, number) in CHANGED {
            if !already.contains(number) {
                self.asm.mov(field(area::save(number)), register)?;
            }
        }
        self.asm.lahf()?;
        self.state(Rip::InTarget, Self::saved(), Flags::Live);
        self.asm.seto(al)?;
        self.asm.mov(field(area::FLAGS), rax)?;
        self.state(Rip::InTarget, Self::saved(), Flags::Saved);
        self.asm.mov(r8, field(area::HEADER))
    }

    /// Continues in the original code if no controller lives.
    fn check_controller(&mut self) -> Result<(), IcedError> {
        self.asm.mov(eax, dword_ptr(r8 + header::CONTROLLER))?;
        self.asm.test(eax, header::OWNER_DIED as i32)?;
        self.asm.jne(self.dead)?;
        self.asm.test(eax, header::OWNER as i32)?;
        self.asm.je(self.dead)
    }

    /// Increments a counter of the header, and wakes the thread that waits for a change of it.
    /// `sleeps`: field that says whether that thread sleeps.
    fn ring_bell(&mut self, counter: u32, sleeps: u32) -> Result<(), IcedError> {
        let mut awake = self.asm.create_label();
        self.asm.lock().inc(dword_ptr(r8 + counter))?;
        self.asm.cmp(dword_ptr(r8 + sleeps), 0)?;
        self.asm.je(awake)?;
        self.asm.mov(eax, FUTEX)?;
        self.asm.lea(rdi, qword_ptr(r8 + counter))?;
        self.asm.mov(esi, FUTEX_WAKE)?;
        self.asm.mov(edx, 1)?;
        self.asm.syscall()?;
        self.asm.set_label(&mut awake)?;
        self.asm.nop()
    }

    /// Loads the time stamp counter into `rax`.
    fn read_clock(&mut self) -> Result<(), IcedError> {
        self.asm.rdtsc()?;
        self.asm.shl(rdx, 32)?;
        self.asm.or(rax, rdx)
    }

    /// Waits in the kernel while the word at `rdi` is 1, for a limited time.
    fn wait(&mut self) -> Result<(), IcedError> {
        self.asm.mov(eax, FUTEX)?;
        self.asm.mov(esi, FUTEX_WAIT)?;
        self.asm.mov(edx, 1)?;
        self.asm.mov(r10, field(area::SELF))?;
        self.asm.add(r10, area::TIMEOUT as i32)?;
        self.asm.syscall()?;
        self.asm.mov(r9d, 1)
    }

    fn miss(&mut self, ring: bool) -> Result<(), IcedError> {
        let (mut spin, mut answered) = (self.asm.create_label(), self.asm.create_label());
        self.miss = self.asm.instructions().len();
        self.save(Registers::NONE)?;
        if ring {
            self.read_clock()?;
            self.asm.mov(field(area::PAUSED_AT), rax)?;
        }
        self.asm.mov(word(area::ASK), area::ASKING)?;
        self.check_controller()?;
        self.ring_bell(header::REQUESTS, header::SLEEPS)?;
        self.asm.mov(r9d, SPINS)?;
        self.asm.set_label(&mut spin)?;
        self.asm.mov(eax, word(area::ASK))?;
        self.asm.cmp(eax, area::ASKING as i32)?;
        self.asm.jne(answered)?;
        self.asm.pause()?;
        self.asm.dec(r9d)?;
        self.asm.jne(spin)?;
        self.check_controller()?;
        self.asm.mov(rdi, field(area::SELF))?;
        self.asm.add(rdi, area::ASK as i32)?;
        self.wait()?;
        self.asm.jmp(spin)?;
        self.asm.set_label(&mut answered)?;
        self.asm.mov(word(area::ASK), area::IDLE)?;
        self.asm.mov(r9d, eax)?;
        if ring {
            self.read_clock()?;
            self.asm.sub(rax, field(area::PAUSED_AT))?;
            self.asm.add(field(area::SINCE), rax)?;
        }
        self.asm.cmp(r9d, area::NATIVE as i32)?;
        self.asm.je(self.native)
    }

    /// Generates the ends of the other stubs: continuing in the cache, and continuing in the
    /// original code.
    fn end(&mut self, ring: bool) -> Result<(), IcedError> {
        let mut restore = self.restore;
        self.asm.set_label(&mut restore)?;
        self.restore_changed()?;
        let mut dead = self.dead;
        self.asm.set_label(&mut dead)?;
        self.alone = self.asm.instructions().len();
        self.asm.mov(word(area::ASK), area::IDLE)?;
        self.asm.mov(rax, field(area::TARGET))?;
        self.asm.mov(field(area::CONTINUE), rax)?;
        let mut native = self.native;
        self.asm.cmp(word(area::DEFERS), 0)?;
        self.asm.je(native)?;
        self.asm.mov(word(area::DEFERS), 0)?;
        self.asm.mov(eax, SET_MASK)?;
        self.asm.mov(edi, libc::SIG_SETMASK)?;
        self.asm.mov(rsi, field(area::SELF))?;
        self.asm.add(rsi, area::SIGNAL_MASK as i32)?;
        self.asm.xor(edx, edx)?;
        self.asm.mov(r10d, size_of::<u64>() as i32)?;
        self.asm.syscall()?;
        self.asm.set_label(&mut native)?;
        if ring {
            self.asm.mov(r15, field(area::save(R15)))?;
        }
        self.restore_changed()?;
        (self.restore, self.dead, self.native) = (restore, dead, native);
        Ok(())
    }

    fn restore_changed(&mut self) -> Result<(), IcedError> {
        self.asm.mov(rax, field(area::FLAGS))?;
        // Sets the overflow flag if al is 1, and leaves it clear if al is 0.
        self.asm.add(al, 127)?;
        self.asm.sahf()?;
        for (register, number) in CHANGED.iter().rev() {
            self.asm.mov(*register, field(area::save(*number)))?;
        }
        self.asm.jmp(field(area::CONTINUE))
    }

    fn full(&mut self) -> Result<(), IcedError> {
        let (mut again, mut take, mut drop) =
            (self.asm.create_label(), self.asm.create_label(), self.asm.create_label());
        self.full = self.asm.instructions().len();
        self.no_state();
        self.asm.mov(field(area::save(RAX)), rax)?;
        self.asm.mov(rax, qword_ptr(rcx))?;
        self.asm.mov(field(area::TARGET), rax)?;
        self.asm.lea(rax, qword_ptr(rcx + 8))?;
        self.asm.mov(field(area::CONTINUE), rax)?;
        self.save(Registers::one(RAX).with(Registers::one(RCX)))?;
        self.read_clock()?;
        self.asm.mov(field(area::PAUSED_AT), rax)?;
        self.check_controller()?;
        self.asm.mov(r9d, SPINS)?;
        self.asm.set_label(&mut again)?;
        self.asm.mov(eax, word(area::CHUNK))?;
        self.asm.lea(edx, dword_ptr(rax + 1))?;
        self.asm.and(edx, word(area::CHUNK_MASK))?;
        let state = |index: AsmRegister64| dword_ptr(index * 4 + area::CHUNK_STATE).gs();
        self.asm.cmp(state(rdx), ring::FREE as i32)?;
        self.asm.je(take)?;
        self.asm.cmp(word(area::WHEN_FULL), area::WAIT as i32)?;
        self.asm.jne(drop)?;
        self.asm.pause()?;
        self.asm.dec(r9d)?;
        self.asm.jne(again)?;
        self.check_controller()?;
        self.asm.mov(word(area::WAITING), 1)?;
        self.asm.lea(rdi, qword_ptr(rdx * 4 + area::CHUNK_STATE))?;
        self.asm.add(rdi, field(area::SELF))?;
        self.wait()?;
        self.asm.mov(word(area::WAITING), 0)?;
        self.asm.jmp(again)?;

        self.asm.set_label(&mut take)?;
        self.read_clock()?;
        self.asm.mov(r9, rax)?;
        self.asm.mov(eax, word(area::CHUNK))?;
        self.asm.lea(edx, dword_ptr(rax + 1))?;
        self.asm.and(edx, word(area::CHUNK_MASK))?;
        // Between the first change of a chunk and the change of the pointer, the two disagree.
        self.no_state();
        self.asm.mov(rcx, field(area::PAUSED_AT))?;
        self.asm.sub(rcx, field(area::SINCE))?;
        self.asm.mov(qword_ptr(rax * 8 + area::CHUNK_TICKS).gs(), rcx)?;
        self.asm.mov(field(area::SINCE), r9)?;
        self.asm.mov(qword_ptr(rax * 8 + area::CHUNK_END).gs(), r15)?;
        self.asm.mov(rcx, field(area::DROPPED))?;
        self.asm.mov(qword_ptr(rax * 8 + area::CHUNK_DROPPED).gs(), rcx)?;
        self.asm.mov(rcx, field(area::DROPPED_BASE))?;
        self.asm.mov(qword_ptr(rax * 8 + area::CHUNK_BASE).gs(), rcx)?;
        self.asm.mov(state(rax), ring::FULL)?;
        self.asm.mov(word(area::CHUNK), edx)?;
        self.asm.inc(field(area::HANDED))?;
        self.set_pointer()?;
        self.state(Rip::InTarget, Self::saved(), Flags::Saved);
        self.ring_bell(header::FILLED, header::MONITOR_SLEEPS)?;
        self.asm.jmp(self.restore)?;

        self.asm.set_label(&mut drop)?;
        self.read_clock()?;
        self.asm.mov(r9, rax)?;
        self.asm.mov(edx, word(area::CHUNK))?;
        self.no_state();
        self.asm.mov(field(area::SINCE), r9)?;
        self.asm.mov(rsi, r15)?;
        self.set_pointer()?;
        self.asm.sub(rsi, r15)?;
        self.asm.shr(rsi, 2)?;
        self.asm.add(field(area::DROPPED), rsi)?;
        self.asm.mov(rsi, field(area::BASE))?;
        self.asm.mov(field(area::DROPPED_BASE), rsi)?;
        self.state(Rip::InTarget, Self::saved(), Flags::Saved);
        self.asm.jmp(self.restore)
    }

    /// Sets the ring's pointer to the start of the chunk in `edx`.
    fn set_pointer(&mut self) -> Result<(), IcedError> {
        self.asm.lea(ecx, dword_ptr(rdx + 1))?;
        self.asm.shl(rcx, ring::CHUNK_STRIDE.trailing_zeros())?;
        self.asm.add(rcx, field(area::SELF))?;
        self.asm.sub(rcx, ring::CHUNK_BYTES as i32)?;
        self.asm.mov(r15, rcx)
    }

    /// Sets the original state after a system call, before the instructions that follow.
    /// `unnoted_call`: whether the call is not in the ring yet.
    fn state_after_call(&mut self, borrowed: Registers, flags: Flags, unnoted_call: bool) {
        self.state(Rip::InTarget, borrowed, flags);
        if let Some((_, Some(point))) = self.states.last_mut() {
            (point.rcx_is_rip, point.unnoted_call) = (true, unnoted_call);
        }
    }

    fn returned(&mut self) -> Result<(), IcedError> {
        let (accumulator, both) =
            (Registers::one(RAX), Registers::one(RAX).with(Registers::one(RDX)));
        self.returned = self.asm.instructions().len();
        self.no_state();
        self.asm.mov(field(area::save(RAX)), rax)?;
        self.asm.mov(rax, qword_ptr(rcx))?;
        self.asm.mov(field(area::TARGET), rax)?;
        self.asm.lea(rax, qword_ptr(rcx + 8))?;
        self.asm.mov(field(area::CONTINUE), rax)?;
        self.state_after_call(accumulator, Flags::Live, true);
        self.asm.mov(field(area::save(RDX)), rdx)?;
        self.asm.lahf()?;
        self.asm.seto(al)?;
        self.asm.mov(field(area::FLAGS), rax)?;
        self.state_after_call(both, Flags::Saved, true);
        self.read_clock()?;
        self.asm.sub(rax, field(area::CALLED_AT))?;
        self.asm.add(field(area::SINCE), rax)?;
        self.asm.mov(field(area::CALLED_AT), 0)?;
        self.asm.shr(rax, ring::TIME_SHIFT)?;
        self.asm.mov(edx, ring::PAYLOAD)?;
        self.asm.cmp(rax, rdx)?;
        self.asm.cmova(eax, edx)?;
        self.asm.or(eax, ring::note(ring::TIME, 0).cast_signed())?;
        self.asm.and(edx, word(area::CALL_NUMBER))?;
        self.asm.or(edx, ring::note(ring::CALL, 0).cast_signed())?;
        // The note counts as written once the pointer is behind it.
        self.asm.mov(dword_ptr(r15), edx)?;
        self.asm.mov(dword_ptr(r15 + 4), eax)?;
        self.asm.lea(r15, qword_ptr(r15 + 8))?;
        self.state_after_call(both, Flags::Saved, false);
        self.asm.mov(rax, field(area::FLAGS))?;
        self.asm.add(al, 127)?;
        self.asm.sahf()?;
        self.state_after_call(both, Flags::Live, false);
        self.asm.mov(rdx, field(area::save(RDX)))?;
        self.asm.mov(rax, field(area::save(RAX)))?;
        self.asm.mov(rcx, field(area::TARGET))?;
        self.asm.jmp(field(area::CONTINUE))
    }

    fn finish(mut self) -> Result<Stubs, IcedError> {
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let result = self.asm.assemble_options(0, options)?.inner;
        let mut section =
            Section { bytes: result.code_buffer, notes_points: true, ..Section::default() };
        let offsets = result.new_instruction_offsets;
        for (number, offset) in offsets.iter().enumerate() {
            let after = self.states.partition_point(|(first, _)| *first <= number);
            if let Some((_, Some(point))) = after.checked_sub(1).map(|last| self.states[last]) {
                section.points.push((*offset, point));
            }
        }
        let starts = [self.miss, self.indirect, self.full, self.returned, self.alone];
        let [miss, indirect, full, returned, alone] = starts.map(|number| offsets[number]);
        Ok(Stubs { section, miss, indirect, full, returned, alone })
    }
}

#[cfg(test)]
mod tests;
