//! Writes the instructions of a thread as records of ChampSim, 64 bytes each.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | address of the instruction |
//! | 8 | 1 | whether it is a branch |
//! | 9 | 1 | whether the branch is taken |
//! | 10 | 2 | registers that it writes |
//! | 12 | 4 | registers that it reads |
//! | 16 | 16 | two addresses that it writes |
//! | 32 | 32 | four addresses that it reads |
//!
//! A register or address of 0 means none. Register 6 is the stack pointer, 25 the flags and 26 the
//! instruction pointer. ChampSim infers the kind of a branch from which of these three registers
//! the branch reads and writes, and whether it reads another register. So the record of a branch
//! has the registers that its kind requires before all others. An indirect branch that reads no
//! other register has [`FROM_MEMORY`].
//!
//! Registers and addresses that do not fit in a record are left out. General registers are kept
//! before flags, and flags before others. Accesses that are left out are counted. A repeated string
//! instruction is one record, as processors and `hmtt monitor` count it. The record has the first
//! element in each cache line, as far as it has space for addresses. On request the instruction has
//! a record for each element instead, as in traces of Pin.

use std::io::{self, Write};

use hmtt::table::requests::RequestSums;
use hmtt_format::Direction;
use hmtt_translator::instructions::{Flow, Instruction, State, StateSet};

use super::rounds::{Rounds, Single};
use super::steps::{Exporter, LeftOut, Step};

/// Bytes of a record.
const RECORD_BYTES: usize = 64;
const IS_BRANCH: usize = 8;
const IS_TAKEN: usize = 9;
const WRITTEN: usize = 10;
const READ: usize = 12;
const WRITTEN_ADDRESSES: usize = 16;
const READ_ADDRESSES: usize = 32;

/// ChampSim's numbers of the general registers, in the order of their encodings: `rax`, `rcx`,
/// `rdx`, `rbx`, `rsp`, `rbp`, `rsi`, `rdi`, `r8` and so on.
const GENERAL: [u8; 16] = [10, 9, 8, 7, STACK_POINTER, 5, 4, 3, 11, 12, 13, 14, 15, 16, 17, 18];
const STACK_POINTER: u8 = 6;
const SEGMENT: u8 = 23;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
const VECTOR: u8 = 32;
const MASK: u8 = 64;
const FLOATING: u8 = 72;
/// Register number that stands for a branch target read from memory, if no register is used to
/// address it.
const FROM_MEMORY: u8 = 127;

/// A record that is not yet written, because it depends on the next instruction.
struct Waiting {
    record: [u8; RECORD_BYTES],
    /// For a conditional branch: the next address if the branch is taken, and if it is not taken.
    targets: Option<(u64, u64)>,
}

/// Writes the records of one thread.
pub struct ChampSim<W> {
    output: W,
    /// The only thread that is written: the thread of the first instruction. `None` before it.
    thread: Option<u32>,
    /// Whether each element of a repeated string instruction has a record.
    has_elements: bool,
    waiting: Option<Waiting>,
    /// Number of instructions of other threads, which are left out.
    others: u64,
    /// Number of accesses that did not fit in their records.
    unplaced: u64,
    /// Number of elements of string instructions that did not fit in their records.
    unplaced_elements: u64,
    sums: RequestSums,
}

/// Number of read addresses and of written addresses in a record.
const PLACES: [usize; 2] =
    [(RECORD_BYTES - READ_ADDRESSES) / 8, (READ_ADDRESSES - WRITTEN_ADDRESSES) / 8];

impl<W: Write> ChampSim<W> {
    /// Starts a file. `has_elements`: whether each element of a repeated string instruction has a
    /// record.
    pub fn new(output: W, has_elements: bool) -> Self {
        let (thread, waiting) = (None, None);
        ChampSim {
            output,
            thread,
            has_elements,
            waiting,
            others: 0,
            unplaced: 0,
            unplaced_elements: 0,
            sums: RequestSums::default(),
        }
    }

    /// Writes the waiting record. `next`: address of the next instruction, if it is known.
    fn write_waiting(&mut self, next: Option<u64>) -> io::Result<()> {
        let Some(Waiting { mut record, targets }) = self.waiting.take() else { return Ok(()) };
        if let Some((target, fallthrough)) = targets {
            record[IS_TAKEN] = u8::from(target != fallthrough && next == Some(target));
        }
        self.output.write_all(&record)
    }

    fn add(&mut self, pc: u64, instruction: &Instruction, singles: &[Single]) -> io::Result<()> {
        self.write_waiting(Some(pc))?;
        self.sums.instructions += 1;
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&pc.to_le_bytes());
        let flow = instruction.flow;
        let (read, written) = registers(instruction);
        fill(&mut record[WRITTEN..READ], &written);
        fill(&mut record[READ..WRITTEN_ADDRESSES], &read);
        record[IS_BRANCH] = u8::from(flow != Flow::Next);
        record[IS_TAKEN] = u8::from(!matches!(flow, Flow::Next | Flow::Branch));
        let (mut reads, mut writes) =
            (READ_ADDRESSES..RECORD_BYTES, WRITTEN_ADDRESSES..READ_ADDRESSES);
        for single in singles {
            let places = if single.direction == Direction::Read { &mut reads } else { &mut writes };
            if places.start == places.end {
                self.unplaced += 1;
                continue;
            }
            record[places.start..places.start + 8].copy_from_slice(&single.address.to_le_bytes());
            places.start += 8;
            self.sums.count(single.direction);
        }
        let next = pc.wrapping_add(instruction.bytes.into());
        let targets = (flow == Flow::Branch).then_some((instruction.target, next));
        self.waiting = Some(Waiting { record, targets });
        Ok(())
    }
}

fn fill(places: &mut [u8], registers: &[u8]) {
    places.iter_mut().zip(registers).for_each(|(place, register)| *place = *register);
}

/// ChampSim's number of a register.
fn number(state: State) -> u8 {
    match state {
        State::General(number) => GENERAL[usize::from(number) % GENERAL.len()],
        State::Flags => FLAGS,
        State::Segment(number) => SEGMENT + number,
        State::Vector(number) => VECTOR + number,
        State::Mask(number) => MASK + number,
        State::Floating(number) => FLOATING + number,
    }
}

/// Numbers of the registers that an instruction reads and writes. The registers by which ChampSim
/// recognises the kind of a branch come first.
fn registers(instruction: &Instruction) -> (Vec<u8>, Vec<u8>) {
    let numbers = |set: StateSet| set.iter().map(number);
    let (reads, writes) = (instruction.reads, instruction.writes);
    let is_special = |number: &u8| matches!(*number, STACK_POINTER | FLAGS);
    let others = |set: StateSet| numbers(set).filter(move |number| !is_special(number));
    // Registers that the target is computed from. An indirect branch needs at least one, so
    // `FROM_MEMORY` replaces missing ones.
    let computed = || {
        let registers: Vec<u8> = others(reads).collect();
        if registers.is_empty() { vec![FROM_MEMORY] } else { registers }
    };
    let with = |first: &[u8], rest: Vec<u8>| [first, &rest].concat();
    match instruction.flow {
        Flow::Next => (numbers(reads).collect(), numbers(writes).collect()),
        Flow::Jump => (vec![INSTRUCTION_POINTER], vec![INSTRUCTION_POINTER]),
        Flow::IndirectJump => (computed(), vec![INSTRUCTION_POINTER]),
        Flow::Branch => {
            let flags: &[u8] = if reads.contains(State::Flags) { &[FLAGS] } else { &[] };
            let read = with(&[&[INSTRUCTION_POINTER], flags].concat(), others(reads).collect());
            (read, with(&[INSTRUCTION_POINTER], others(writes).collect()))
        }
        Flow::Call => {
            let both = vec![STACK_POINTER, INSTRUCTION_POINTER];
            (both.clone(), both)
        }
        Flow::IndirectCall => {
            let both = [STACK_POINTER, INSTRUCTION_POINTER];
            (with(&both, computed()), both.to_vec())
        }
        Flow::Return => (vec![STACK_POINTER], vec![STACK_POINTER, INSTRUCTION_POINTER]),
    }
}

impl<W: Write> Exporter for ChampSim<W> {
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()> {
        if *self.thread.get_or_insert(step.thread) != step.thread {
            self.others += 1;
            return Ok(());
        }
        let Step { pc, instruction, accesses, .. } = *step;
        if self.has_elements {
            return rounds.each(accesses, |singles| self.add(pc, instruction, singles));
        }
        let add = |singles: &[Single]| self.add(pc, instruction, singles);
        let unplaced = rounds.at_once(accesses, PLACES, add)?;
        self.unplaced_elements = self.unplaced_elements.saturating_add(unplaced);
        Ok(())
    }

    fn finish(&mut self, next: Option<u64>) -> io::Result<()> {
        self.write_waiting(next)?;
        self.output.flush()
    }

    fn sums(&self) -> RequestSums {
        self.sums
    }

    fn left_out(&self) -> LeftOut {
        vec![
            ("instructions of other threads", self.others),
            ("accesses that do not fit in records", self.unplaced),
            (
                "elements of string instructions in cache lines that do not fit in records (--elements)",
                self.unplaced_elements,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use hmtt_files::access_trace::Made;
    use hmtt_translator::instructions::instructions;

    use super::*;

    /// Records of a block at 0x1000, followed by an instruction at an address.
    fn records(
        code: &[u8],
        accesses: &[Made],
        next: u64,
        has_elements: bool,
    ) -> Vec<[u8; RECORD_BYTES]> {
        let mut output = Vec::new();
        let mut writer = ChampSim::new(&mut output, has_elements);
        let mut rounds = Rounds::default();
        let mut step = |pc: u64, instruction: &Instruction, accesses: &[Made]| {
            writer
                .step(
                    &Step { thread: 1, pc, instruction, accesses, is_complete: true },
                    &mut rounds,
                )
                .unwrap();
        };
        for instruction in &instructions(0x1000, code) {
            step(0x1000 + u64::from(instruction.offset), instruction, accesses);
        }
        step(next, &instructions(next, &[0x90])[0], &[]);
        writer.finish(None).unwrap();
        let (records, []) = output.as_chunks() else { panic!("a record is cut") };
        records.to_vec()
    }

    #[test]
    fn branches_are_taken_if_their_target_follows() {
        // je 0x1010
        for (next, flag) in [(0x1010, 1), (0x1002, 0), (0x5000, 0)] {
            let record = records(&[0x74, 0x0e], &[], next, false)[0];
            assert_eq!(record[..16], [0, 16, 0, 0, 0, 0, 0, 0, 1, flag, 26, 0, 26, 25, 0, 0]);
        }
        // A branch to the next instruction: je 0x1002
        assert_eq!(records(&[0x74, 0], &[], 0x1002, false)[0][IS_TAKEN], 0);
    }

    #[test]
    fn elements_are_records_and_other_accesses_have_places() {
        let access = |direction, address, elements| Made {
            pc: 0x1000,
            direction,
            address: Some(address),
            represents: 1,
            size: 8,
            elements,
            is_down: false,
            conditional: false,
        };
        // rep movsq
        let both = [access(Direction::Read, 0x100, 2), access(Direction::Write, 0x200, 2)];
        let rows = records(&[0xf3, 0x48, 0xa5], &both, 0x1003, true);
        let places: Vec<_> =
            rows.iter().map(|it| [it[0], it[READ_ADDRESSES], it[WRITTEN_ADDRESSES]]).collect();
        assert_eq!(places, [[0, 0, 0], [0, 8, 8], [3, 0, 0]]);
        assert_eq!([rows[1][READ_ADDRESSES + 1], rows[1][WRITTEN_ADDRESSES + 1]], [1, 2]);
        // All elements of an operand are in one line.
        let rows = records(&[0xf3, 0x48, 0xa5], &both, 0x1003, false);
        assert_eq!(rows.len(), 2);
        assert_eq!([rows[0][READ_ADDRESSES + 8], rows[0][WRITTEN_ADDRESSES + 8]], [0, 0]);
        let many = vec![access(Direction::Write, 0x300, 1); 3];
        let mut output = Vec::new();
        let mut writer = ChampSim::new(&mut output, false);
        let instruction = instructions(0x1000, &[0x90])[0];
        let (thread, pc, is_complete) = (1, 0x1000, true);
        let step = Step { thread, pc, instruction: &instruction, accesses: &many, is_complete };
        writer.step(&step, &mut Rounds::default()).unwrap();
        writer.step(&Step { thread: 2, ..step }, &mut Rounds::default()).unwrap();
        assert_eq!((writer.unplaced, writer.others), (1, 1));
    }
}
