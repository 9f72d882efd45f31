//! Compares the accesses that blocks record with those that the processor makes in plain execution.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use hmtt_files::access_trace::{BlockAccesses, Known};
use hmtt_format::Direction;
use hmtt_translator::block::Block;
use hmtt_translator::cache::{Cache, Instrument};
use hmtt_translator::extent::Extent;
use hmtt_translator::layout::{area, ring};
use hmtt_translator::recorded::{Choice, Recorded, Scope, Silence};
use hmtt_translator::selection::{Chunk, Equality, Omega, Selector};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};

use super::instructions::Random;
use super::machine::{Controller, Machine, new_cache};
use super::memory::{Direct, Shared};
use super::programs::generate;
use super::steps::{IN_USE, Step, is_system_call, run_plainly};
use super::superblocks;

/// Most instructions of a program, so that what it records fits in a chunk.
const MOST: usize = 20_000;

/// An access: address of its instruction, direction, address and bytes.
type Made = (u64, Direction, u64, usize);

fn decode(machine: &Machine, at: u64) -> Instruction {
    let offset = (at - machine.code.start) as usize;
    Decoder::with_ip(64, &machine.code.bytes()[offset..], at, DecoderOptions::NONE).decode()
}

/// The instructions that are executed at a step: after a system call the next one is not reported.
fn executed(machine: &Machine, step: &Step) -> Vec<Step> {
    let mut steps = vec![*step];
    if is_system_call(machine, step.rip) {
        let mut next = *step;
        next.rip += 2;
        next.general[0] = u64::from(std::os::unix::process::parent_id());
        next.general[1] = next.rip;
        steps.push(next);
    }
    steps
}

/// The accesses of the instruction that is executed at a step.
fn of_step(machine: &Machine, step: &Step) -> Vec<Made> {
    let instruction = decode(machine, step.rip);
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if is_repeated && instruction.is_string_instruction() && step.general[1] == 0 {
        return Vec::new();
    }
    let value = |register: Register, _: usize, _: usize| {
        if register.is_segment_register() {
            return Some(0);
        }
        let whole = step.general[register.full_register().number()];
        Some(if register.is_gpr32() { u64::from(whole as u32) } else { whole })
    };
    let mut factory = InstructionInfoFactory::new();
    let mut accesses = Vec::new();
    for used in factory.info(&instruction).used_memory() {
        let address = used.virtual_address(0, value).unwrap();
        let (read, write) = (Direction::Read, Direction::Write);
        let directions: &[Direction] = match used.access() {
            OpAccess::Read | OpAccess::CondRead => &[read],
            OpAccess::Write | OpAccess::CondWrite => &[write],
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => &[read, write],
            OpAccess::None | OpAccess::NoMemAccess => &[],
        };
        // Of a repeated instruction the number of elements is not known.
        let size = match used.memory_size().size() {
            0 => instruction.memory_size().size(),
            size => size,
        };
        accesses.extend(directions.iter().map(|one| (step.rip, *one, address, size)));
    }
    accesses
}

/// Sorts the accesses of each execution of an instruction.
fn sorted(mut accesses: Vec<Made>) -> Vec<Made> {
    accesses.chunk_by_mut(|one, other| one.0 == other.0).for_each(<[Made]>::sort);
    accesses
}

/// What follows from what was written to a ring.
#[derive(Default)]
struct Found {
    made: Vec<Made>,
    /// Instructions and addresses of accesses that recorded ones represent.
    represented: Vec<(u64, u64)>,
    /// Numbers of blocks and paths, and notes.
    numbers: Vec<u32>,
    /// How many numbers are those of repeated paths.
    repeated: usize,
}

/// The addresses of the instructions of a block, or of a path.
fn instructions_of(cache: &Cache<Direct>, number: u32, recorded: &BlockAccesses) -> Vec<u64> {
    let numbers: Vec<u32> = if recorded.parts.is_empty() {
        vec![number]
    } else {
        recorded.parts.iter().map(|part| part.block).collect()
    };
    let mut addresses = Vec::new();
    for info in numbers.into_iter().map(|number| cache.block(number).unwrap()) {
        let block = Block::from_bytes(info.start, &info.bytes).unwrap();
        addresses.extend(block.operations.iter().map(|operation| operation.instruction.ip()));
    }
    addresses
}

/// What follows from what was written to the ring, which is cleared.
fn recorded(cache: &Cache<Direct>, shared: &Shared) -> Found {
    let start = (shared.chunk_start() - shared.area.start) as u32;
    let unit = |at: u32| shared.area.long(start + at).swap(0, Ordering::Relaxed);
    let (mut at, mut contents) = (0, Found::default());
    // The path that was executed last, as a whole, and what it has kept.
    let mut last = (0, Vec::new());
    let mut described = HashSet::new();
    loop {
        let number = unit(at) as u32;
        at += 8;
        if number == 0 {
            return contents;
        }
        contents.numbers.push(number);
        if number & ring::NOTE != 0 {
            continue;
        }
        let (recorded, part) = cache.recorded(number).expect("the number of a block or path");
        // The code of blocks is added when they are described.
        if !recorded.accesses.parts.is_empty() && described.insert(number) {
            let mut description = Vec::new();
            recorded.accesses.write(&mut description);
            let parsed = BlockAccesses::parse(&description).map(|(parsed, _)| parsed);
            assert_eq!(parsed.as_ref(), Some(&recorded.accesses), "{number}");
        }
        let (instructions, slots) = recorded.accesses.up_to(part);
        let mut values: Vec<u64> = (0..u32::from(slots)).map(|slot| unit(at + 8 * slot)).collect();
        at += 8 * u32::from(slots);
        let whole = number + (recorded.accesses.numbers() - 1 - part) as u32;
        let repeated = recorded.accesses.repeated;
        if repeated.taken > 0 {
            assert!([repeated.first, whole].contains(&last.0), "{number} is not repeated");
            assert_eq!(last.1.len(), usize::from(repeated.taken));
            recorded.accesses.take(&mut values, &last.1);
            contents.repeated += 1;
        }
        recorded.accesses.derive(&mut values, recorded.accesses.derived.len() as u16);
        let kept = &recorded.accesses.kept;
        last = if number == whole && !kept.is_empty() {
            (number, kept.iter().map(|kept| kept.of(&values)).collect())
        } else {
            (0, Vec::new())
        };
        let executed = usize::from(instructions);
        let accesses = 0..recorded.accesses.accesses.len();
        let mut first_addresses = vec![None; accesses.len()];
        recorded.accesses.made_by(accesses, executed, &values, 0, |index, access| {
            let first = access.address.expect("programs have no sets of addresses");
            first_addresses[index] = Some(first);
            for element in 0..access.elements {
                let distance = element * u64::from(access.size);
                let address = if access.is_down { first - distance } else { first + distance };
                contents.made.push((access.pc, access.direction, address, access.size as usize));
            }
        });
        let at_instruction = instructions_of(cache, number, &recorded.accesses);
        for other in &recorded.accesses.others {
            if let Known::Address(index) = other.known
                && usize::from(other.operation) < executed
            {
                let address = first_addresses[usize::from(index)].expect("it was executed before");
                contents.represented.push((at_instruction[usize::from(other.operation)], address));
            }
        }
    }
}

/// A selector of half of the accesses with different addresses.
fn half() -> Selector {
    let omega = Omega::from_percent(50).unwrap();
    Selector::Representatives { omega, chunk: Chunk::new(16).unwrap() }
}

/// How much is recorded of a block, if that differs among them.
fn differing(at: u64) -> Extent {
    [Extent::Chosen, Extent::By(half()), Extent::Nothing, Extent::Chosen][(at / 4 % 4) as usize]
}

/// Checks that blocks record as much as is said of their addresses. Returns how many record less
/// than all.
fn check_extents(cache: &Cache<Direct>, numbers: &[u32]) -> usize {
    let of_blocks = numbers.iter().filter_map(|number| Some((*number, cache.block(*number)?)));
    let mut less = 0;
    for (number, info) in of_blocks {
        let block = Block::from_bytes(info.start, &info.bytes).unwrap();
        let whole = Recorded::new(std::slice::from_ref(&block), &Choice::EVERY);
        let expected = match differing(info.start.0) {
            Extent::Nothing => Vec::new(),
            Extent::Chosen => whole.slots.clone(),
            Extent::By(selector) => {
                Recorded::new(&[block], &Choice { selector, ..Choice::EVERY }).slots
            }
        };
        let (recorded, _) = cache.recorded(number).unwrap();
        assert_eq!(recorded.slots, expected, "{number}");
        less += usize::from(expected.len() < whole.slots.len());
    }
    less
}

#[test]
fn recorded_accesses_are_those_of_plain_execution() {
    let _guard = IN_USE.lock().expect("no other test has failed");
    let mut machine = Machine::new();
    let in_blocks = Choice {
        selector: half(),
        equality: Equality::Versions,
        silence: Silence::Superblocks,
        ..Choice::EVERY
    };
    let (mut programs, mut accesses, mut built, mut silent, mut chosen) = (0, 0, 0, 0, 0);
    let in_superblocks =
        Choice { scope: Scope::Superblock, equality: Equality::Values, ..in_blocks };
    let (mut repeated, mut less, mut represented) = (0, 0, [0; 2]);
    for seed in 0..super::random::count(1_500) {
        let program = generate(&machine, seed, false);
        let Some(plain) = run_plainly(&machine, &program) else { continue };
        if plain.len() > MOST {
            continue;
        }
        let steps = plain[..plain.len() - 1].iter().flat_map(|step| executed(&machine, step));
        let expected: Vec<Made> = steps.flat_map(|step| of_step(&machine, &step)).collect();
        let expected = sorted(expected);
        let shared = Shared::new(2, area::WAIT);
        let away = if seed % 3 == 0 { 0x7000_0000 } else { 0 };
        let choice = match seed % 8 {
            1 => in_blocks,
            5 | 7 => in_superblocks,
            _ => Choice::EVERY,
        };
        let differs = seed % 8 == 2;
        machine.extent = if differs { differing } else { |_| Extent::Chosen };
        let mut cache = new_cache(&machine, Instrument::Accesses(choice), 64, away);
        let (at, registers, data) = (program.start, &program.registers, &program.data);
        let same = machine.run(at, registers, data);
        let (mut random, mut numbers) = (Random(seed), Vec::new());
        // Superblocks are built of what the program has executed.
        for round in 0..3 {
            let changed = superblocks::change(&mut cache, &mut random, &numbers);
            (built, silent) = (built + changed.built, silent + changed.silent);
            let controller = Controller::Alive;
            let run = machine.run_cached(&mut cache, &shared, controller, at, registers, data);
            assert_eq!(same.difference(&run.outcome), None, "seed {seed}, round {round}");
            shared.area.word(area::ASK).store(area::IDLE, Ordering::Relaxed);
            let Found {
                made: ring_accesses,
                represented: others,
                numbers: written,
                repeated: again,
            } = recorded(&cache, &shared);
            repeated += again;
            if differs {
                less += check_extents(&cache, &written);
            }
            if choice == Choice::EVERY && !differs {
                let ring_accesses = sorted(ring_accesses);
                check(&machine, (seed, round), &ring_accesses, &expected);
                accesses += ring_accesses.len();
            } else {
                // Executions of an instruction may follow each other, if nothing in between is
                // chosen.
                assert_eq!(foreign(&ring_accesses, &expected), None, "seed {seed}, round {round}");
                chosen += ring_accesses.len();
                let at = |one: &Made| (one.0, one.2);
                let known: Vec<_> =
                    ring_accesses.iter().map(at).chain(others.iter().copied()).collect();
                let expected_places: Vec<_> = expected.iter().map(at).collect();
                assert_eq!(foreign(&known, &expected_places), None, "seed {seed}, round {round}");
                represented[usize::from(choice == in_superblocks)] += others.len();
            }
            numbers = written;
        }
        programs += 1;
        shared.unmap();
    }
    assert!(programs > 0 && accesses > 20 * programs, "{programs} programs, {accesses} accesses");
    assert!(built > programs, "{programs} programs, {built} superblocks");
    assert!(silent > 0, "{programs} programs, no silent block");
    assert!(4 * repeated > programs, "{programs} programs, {repeated} repeated executions");
    assert!(less > programs / 8, "{programs} programs, {less} blocks that record less");
    assert!(chosen > programs, "{programs} programs, {chosen} chosen accesses");
    let least = programs / 8;
    assert!(represented.iter().all(|all| *all > least), "{programs} programs, {represented:?}");
}

/// The first element in order that is not among others, each of which is one element at most.
fn foreign<T: Copy + Ord>(some: &[T], others: &[T]) -> Option<T> {
    let [mut some, mut others] = [some, others].map(<[T]>::to_vec);
    some.sort_unstable();
    others.sort_unstable();
    let mut rest = others.iter();
    some.into_iter().find(|one| !rest.any(|other| other == one))
}

/// Checks that accesses are the expected ones.
fn check(machine: &Machine, (seed, round): (u64, usize), accesses: &[Made], expected: &[Made]) {
    let differs = accesses.iter().zip(expected).position(|(one, other)| one != other);
    if differs.is_none() && accesses.len() == expected.len() {
        return;
    }
    let at = differs.unwrap_or(accesses.len().min(expected.len()));
    panic!(
        "seed {seed}, round {round}, access {at} of {} and {}: {:x?} is recorded in place of {:x?} of {}",
        accesses.len(),
        expected.len(),
        accesses.get(at),
        expected.get(at),
        expected.get(at).map(|one| decode(machine, one.0).to_string()).unwrap_or_default(),
    );
}
