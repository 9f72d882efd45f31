//! Generates random programs that end: functions that call later ones, with branches forward and
//! counted loops.

use iced_x86::code_asm::{CodeAssembler, CodeLabel, eax, ecx};
use iced_x86::{BlockEncoderOptions, Code, IcedError, Instruction, MemoryOperand, Register};

use super::instructions::{Generator, Random, register};
use super::machine::Machine;
use super::processor::Registers;

/// Offset in the data of the address of the exit.
const EXIT: u64 = 0;
/// Offset of counters of loops.
const COUNTERS: u64 = 0x100;
/// Offset of the addresses of indirect transfers.
const TABLES: u64 = 0x400;

/// A program with its input.
pub struct Program {
    pub registers: Registers,
    pub data: Vec<u8>,
    pub start: u64,
}

type Done = Result<(), IcedError>;

struct Builder {
    generator: Generator,
    /// All labels of functions and their parts. What follows names them by index.
    labels: Vec<CodeLabel>,
    functions: Vec<usize>,
    /// Number of bytes that each function removes from the stack.
    pops: Vec<u32>,
    /// Entries of tables: the label and its offset in the data.
    entries: Vec<(usize, u64)>,
    counters: u64,
    calls: u32,
}

/// Writes the program of a seed to the memory of a machine. `stores_flags`: as in [`Generator`].
pub fn generate(machine: &Machine, seed: u64, stores_flags: bool) -> Program {
    let mut random = Random(seed);
    let base = loop {
        let base = random.below(16) as u32;
        if base != 4 {
            break base;
        }
    };
    let asm = CodeAssembler::new(64).expect("64 is a bitness");
    let generator = Generator { asm, random, data: machine.data.start, base, stores_flags };
    let mut builder = Builder {
        generator,
        labels: Vec::new(),
        functions: Vec::new(),
        pops: Vec::new(),
        entries: Vec::new(),
        counters: COUNTERS,
        calls: 0,
    };
    builder.program().expect("valid instructions");
    builder.finish(machine)
}

impl Builder {
    fn below(&mut self, limit: u64) -> u64 {
        self.generator.random.below(limit)
    }

    fn label(&mut self) -> usize {
        self.labels.push(self.generator.asm.create_label());
        self.labels.len() - 1
    }

    fn set(&mut self, label: usize) -> Done {
        self.generator.asm.set_label(&mut self.labels[label])?;
        self.generator.asm.nop()
    }

    fn program(&mut self) -> Done {
        let count = 1 + self.below(4) as usize;
        for _ in 0..count {
            let label = self.label();
            self.functions.push(label);
            let pop = self.generator.random.one_of(&[0, 0, 8, 24]);
            self.pops.push(pop);
        }
        for number in 0..count {
            self.function(number)?;
        }
        Ok(())
    }

    fn function(&mut self, number: usize) -> Done {
        let count = 2 + self.below(5) as usize;
        let labels: Vec<usize> = (0..=count).map(|_| self.label()).collect();
        self.set(self.functions[number])?;
        for part in 0..count {
            self.set(labels[part])?;
            for _ in 0..self.below(7) {
                self.generator.instruction()?;
            }
            self.transfer(number, &labels[part + 1..])?;
        }
        self.set(labels[count])?;
        self.generator.instruction()?;
        match (number, self.pops[number]) {
            (0, _) => self.leave(),
            (_, 0) => self.generator.asm.ret(),
            (_, pop) => self.generator.asm.ret_1(pop),
        }
    }

    fn leave(&mut self) -> Done {
        let at = (self.generator.data + EXIT) as i64;
        let exit = MemoryOperand::with_base_displ_size(Register::RIP, at, 8);
        self.generator.add(Instruction::with1(Code::Jmp_rm64, exit))
    }

    fn transfer(&mut self, function: usize, later: &[usize]) -> Done {
        let to = self.generator.random.one_of(later);
        match self.below(12) {
            0 => Ok(()),
            1 => self.generator.asm.jmp(self.labels[to]),
            2 | 3 => self.conditional(to),
            4 => self.jump_to_register(to),
            5 => self.jump_through_memory(to),
            6 => self.jump_through_table(later),
            7 => self.counted_loop(),
            8 => self.loop_instruction(),
            9 => self.call_next(),
            10 => self.system_call(),
            _ => self.call(function),
        }
    }

    fn conditional(&mut self, to: usize) -> Done {
        let which = self.below(9);
        let to = self.labels[to];
        let asm = &mut self.generator.asm;
        match which {
            0 => asm.je(to),
            1 => asm.jne(to),
            2 => asm.jb(to),
            3 => asm.jo(to),
            4 => asm.js(to),
            5 => asm.jp(to),
            6 => asm.jle(to),
            7 => asm.ja(to),
            _ => asm.jnp(to),
        }
    }

    /// Loads a register with the address of a label.
    fn load(&mut self, number: u32, label: usize) -> Done {
        let at = self.entry(label);
        let memory = MemoryOperand::with_base_displ_size(Register::RIP, at as i64, 8);
        self.generator.add(Instruction::with2(Code::Mov_r64_rm64, register(number, 8), memory))
    }

    /// Address of an entry of a table that contains the address of a label.
    fn entry(&mut self, label: usize) -> u64 {
        let offset = TABLES + 8 * self.entries.len() as u64;
        self.entries.push((label, offset));
        self.generator.data + offset
    }

    fn jump_to_register(&mut self, to: usize) -> Done {
        let number = self.generator.any();
        self.load(number, to)?;
        self.generator.add(Instruction::with1(Code::Jmp_rm64, register(number, 8)))
    }

    fn jump_through_memory(&mut self, to: usize) -> Done {
        let offset = (self.entry(to) - self.generator.data) as i64;
        let memory = MemoryOperand::with_base_displ(register(self.generator.base, 8), offset);
        self.generator.add(Instruction::with1(Code::Jmp_rm64, memory))
    }

    fn jump_through_table(&mut self, later: &[usize]) -> Done {
        let first = TABLES + 8 * self.entries.len() as u64;
        for _ in 0..4 {
            let label = self.generator.random.one_of(later);
            self.entry(label);
        }
        let index = self.generator.any();
        self.generator.add(Instruction::with2(Code::And_rm32_imm8, register(index, 4), 3))?;
        let memory = MemoryOperand::with_base_index_scale_displ_size(
            register(self.generator.base, 8),
            register(index, 8),
            8,
            first as i64,
            8,
        );
        self.generator.add(Instruction::with1(Code::Jmp_rm64, memory))
    }

    fn counted_loop(&mut self) -> Done {
        let counter = (self.generator.data + self.counters) as i64;
        self.counters += 4;
        let memory = MemoryOperand::with_base_displ_size(Register::RIP, counter, 8);
        let most = self.generator.random.one_of(&[6, 6, 24]);
        let times = 1 + self.below(most) as i32;
        self.generator.add(Instruction::with2(Code::Mov_rm32_imm32, memory, times))?;
        let mut head = self.generator.asm.create_label();
        self.generator.asm.set_label(&mut head)?;
        self.generator.asm.nop()?;
        for _ in 0..1 + self.below(4) {
            self.generator.instruction()?;
        }
        if self.below(2) == 0 {
            let over = self.label();
            self.conditional(over)?;
            self.generator.instruction()?;
            self.set(over)?;
        }
        self.generator.add(Instruction::with1(Code::Dec_rm32, memory))?;
        self.generator.asm.jne(head)
    }

    fn loop_instruction(&mut self) -> Done {
        if !self.generator.free(&[1]) {
            return Ok(());
        }
        let times = 1 + self.below(6) as u32;
        let mut over = self.generator.asm.create_label();
        if self.below(3) == 0 {
            self.generator.asm.jrcxz(over)?;
        }
        self.generator.asm.mov(ecx, times)?;
        let mut head = self.generator.asm.create_label();
        self.generator.asm.set_label(&mut head)?;
        let memory = self.generator.base_memory();
        self.generator.add(Instruction::with2(Code::Sbb_rm64_r64, memory, Register::RCX))?;
        match self.below(3) {
            0 => self.generator.asm.loop_(head)?,
            1 => self.generator.asm.loope(head)?,
            _ => self.generator.asm.loopne(head)?,
        }
        self.generator.asm.set_label(&mut over)?;
        self.generator.asm.nop()
    }

    /// A call of the next instruction, which removes the return address.
    fn call_next(&mut self) -> Done {
        let mut next = self.generator.asm.create_label();
        self.generator.asm.call(next)?;
        self.generator.asm.set_label(&mut next)?;
        let number = self.generator.any();
        self.generator.add(Instruction::with1(Code::Pop_r64, register(number, 8)))
    }

    fn system_call(&mut self) -> Done {
        if !self.generator.free(&[0, 1, 11]) {
            return Ok(());
        }
        self.generator.asm.mov(eax, libc::SYS_getppid as u32)?;
        self.generator.asm.syscall()?;
        // r11 contains the flags, and with them whether the processor is stepped.
        if self.generator.stores_flags {
            return Ok(());
        }
        self.generator.asm.mov(iced_x86::code_asm::r11d, 0u32)
    }

    fn call(&mut self, from: usize) -> Done {
        let later = self.functions.len() - from - 1;
        if later == 0 || self.calls == 12 {
            return Ok(());
        }
        self.calls += 1;
        let callee = from + 1 + self.below(later as u64) as usize;
        let (label, pop) = (self.functions[callee], i64::from(self.pops[callee]));
        if pop != 0 {
            let memory = MemoryOperand::with_base_displ(Register::RSP, -pop);
            self.generator.add(Instruction::with2(Code::Lea_r64_m, Register::RSP, memory))?;
        }
        match self.below(4) {
            0 | 1 => self.generator.asm.call(self.labels[label]),
            2 => {
                let number = self.generator.any();
                self.load(number, label)?;
                self.generator.add(Instruction::with1(Code::Call_rm64, register(number, 8)))
            }
            _ => {
                let offset = (self.entry(label) - self.generator.data) as i64;
                let base = register(self.generator.base, 8);
                let memory = MemoryOperand::with_base_displ(base, offset);
                self.generator.add(Instruction::with1(Code::Call_rm64, memory))
            }
        }
    }

    fn finish(mut self, machine: &Machine) -> Program {
        let start = machine.code.start;
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let result = self.generator.asm.assemble_options(start, options).expect("encodable");
        machine.code.clear();
        machine.code.write(0, &result.inner.code_buffer);
        let random = &mut self.generator.random;
        let mut data: Vec<u8> = (0..0x6000).map(|_| random.next() as u8).collect();
        let mut set = |at: u64, value: u64| {
            data[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        set(EXIT, machine.processor.exit);
        for (label, offset) in &self.entries {
            set(*offset, result.label_ip(&self.labels[*label]).expect("the label is set"));
        }
        let mut general: [u64; 16] = std::array::from_fn(|_| random.next());
        general[4] = machine.stack_pointer();
        general[self.generator.base as usize] = machine.data.start;
        let flags = 0x202 | random.next() & 0x8d5;
        let vector = |_| u128::from(random.next()) << 64 | u128::from(random.next());
        let registers = Registers { general, flags, vectors: std::array::from_fn(vector) };
        Program { registers, data, start }
    }
}
