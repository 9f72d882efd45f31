//! Compares regions that were cut out with the same instructions of all units.

use hmtt_files::access_trace::{
    Access, CALL, CUT, Derived, FS_BASE, LaneOrder, Lanes, Made, NOT_BEGUN, Operation, Part, Place,
    Repeated, START, note,
};
use hmtt_format::Direction;
use proptest::prelude::*;

use super::*;
use crate::access_trace::{Decoder, Executed, ThreadAccess, Visitor};

const THREAD: u32 = 7;

/// Random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn access(pc: u64, operation: u16, place: Place) -> Access {
    let direction = if operation.is_multiple_of(2) { Direction::Read } else { Direction::Write };
    let (represents, size, conditional, adds_fs) = (1, 4, false, operation.is_multiple_of(5));
    Access { pc, operation, direction, represents, size, conditional, adds_fs, place }
}

/// A block of instructions of one byte each. An instruction has no accesses, some accesses,
/// accesses to elements of strings, or accesses to lanes.
fn block(random: &mut Random, start: u64) -> BlockAccesses {
    let instructions = 1 + random.below(6) as u16;
    let (mut accesses, mut slots) = (Vec::new(), 0);
    let mut derived = Vec::new();
    let mut located = Vec::new();
    for operation in 0..instructions {
        let pc = start + u64::from(operation);
        let plus = i64::from(operation);
        match random.below(6) {
            0 => {
                let place = Place::Elements {
                    left: [slots, slots + 1],
                    first: slots + 2,
                    pointer: [slots + 2, slots + 3],
                };
                accesses.push(access(pc, operation, place));
                slots += 4;
            }
            1 => {
                let order =
                    LaneOrder::Indexed { slot: slots + 2, bytes: 4, scale: 4, is_narrow: false };
                let lanes = Lanes {
                    base: Some(slots),
                    plus,
                    mask: Some(slots + 1),
                    first_bit: 0,
                    lanes: 4,
                    elements: 4,
                    order,
                };
                accesses.push(access(pc, operation, Place::Lanes(lanes)));
                slots += 4;
            }
            2 => {
                accesses.push(access(pc, operation, Place::Static(random.below(1 << 40))));
                accesses.push(access(pc, operation, Place::Unknown));
            }
            3 | 4 => {
                if slots == 0 || random.below(2) == 0 {
                    slots += 1;
                    derived.push(slots - 1);
                }
                located.push((accesses.len(), derived.len()));
                accesses.push(access(pc, operation, Place::Slot { slot: slots - 1, plus }));
            }
            _ => {}
        }
    }
    let derived: Vec<Derived> = derived
        .into_iter()
        .map(|of| Derived { of, plus: 16, operation: Operation::Product { by: 3 } })
        .collect();
    // Some addresses follow from derived values.
    for (at, known) in located {
        if known > 0 && random.below(2) == 0 {
            accesses[at].place = Place::Slot { slot: slots + known as u16 - 1, plus: 1 };
        }
    }
    let code = vec![0x90; instructions.into()];
    BlockAccesses {
        start,
        instructions,
        slots,
        code,
        derived,
        accesses,
        ..BlockAccesses::default()
    }
}

/// A path of blocks, by their indexes.
fn path(blocks: &[BlockAccesses], members: &[usize]) -> BlockAccesses {
    let mut path = BlockAccesses { start: blocks[members[0]].start, ..BlockAccesses::default() };
    let member_slots: u16 = members.iter().map(|member| blocks[*member].slots).sum();
    let mut derived_before = 0;
    for member in members {
        let block = &blocks[*member];
        let (slots, instructions) = (path.slots, path.instructions);
        let value = |value: u16| match value.checked_sub(block.slots) {
            Some(derived) => member_slots + derived_before + derived,
            None => slots + value,
        };
        path.accesses.extend(block.accesses.iter().map(|access| {
            let place = match access.place {
                Place::Slot { slot, plus } => Place::Slot { slot: value(slot), plus },
                Place::Elements { left, first, pointer } => Place::Elements {
                    left: left.map(value),
                    first: value(first),
                    pointer: pointer.map(value),
                },
                Place::Lanes(lanes) => {
                    let order = match lanes.order {
                        LaneOrder::Indexed { slot, bytes, scale, is_narrow } => {
                            LaneOrder::Indexed { slot: value(slot), bytes, scale, is_narrow }
                        }
                        other => other,
                    };
                    let (base, mask) = (lanes.base.map(value), lanes.mask.map(value));
                    Place::Lanes(Lanes { base, mask, order, ..lanes })
                }
                other => other,
            };
            Access { operation: instructions + access.operation, place, ..*access }
        }));
        path.derived.extend(
            block.derived.iter().map(|derived| Derived { of: slots + derived.of, ..*derived }),
        );
        derived_before += block.derived.len() as u16;
        path.slots += block.slots;
        path.instructions += block.instructions;
        let (instructions, slots) = (path.instructions, path.slots);
        path.parts.push(Part { block: *member as u32 + 1, instructions, slots });
    }
    path
}

/// Adds random units of an execution, which may be cut. Returns how many instructions were
/// executed.
fn execute(
    random: &mut Random,
    block: &BlockAccesses,
    part: usize,
    number: u32,
    units: &mut Vec<u64>,
) -> u64 {
    let (instructions, count) = block.up_to(part);
    let mut slots: Vec<u64> = (0..count).map(|_| random.below(1 << 40)).collect();
    let executed = if random.below(4) == 0 {
        random.below(u64::from(instructions) + 1)
    } else {
        instructions.into()
    };
    for access in &block.accesses {
        let Place::Elements { left, pointer: [from, to], .. } = access.place else { continue };
        let slot = |slot: u16| usize::from(slot);
        if slot(left[1]) >= slots.len() {
            continue;
        }
        let elements = random.below(5);
        slots[slot(left[0])] = 9;
        slots[slot(left[1])] = 9 - elements;
        if u64::from(access.operation) == executed && random.below(2) == 0 {
            slots[slot(left[1])] = NOT_BEGUN;
        }
        slots[slot(to)] = slots[slot(from)] + 4 * elements;
    }
    units.push(number.into());
    units.extend(slots);
    if executed < instructions.into() {
        units.push(note(CUT, executed as u32).into());
    }
    executed
}

/// Accesses, each with the number of its instruction.
#[derive(Default)]
struct Numbered {
    accesses: Vec<(u64, Made)>,
    /// Number of instructions of the blocks before the current block.
    before: u64,
    /// Number of executed instructions of the current block.
    current: u64,
}

impl Visitor for Numbered {
    fn block(&mut self, executed: &Executed<'_>) {
        self.before += self.current;
        self.current = executed.instructions as u64;
    }

    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        let number = self.before + (access.made.pc - executed.block.start);
        self.accesses.push((number, access.made));
    }
}

/// The accesses of units, and how many instructions were executed.
fn decoded(blocks: &[&[BlockAccesses]], units: &[Vec<u8>]) -> (Vec<(u64, Made)>, u64) {
    let mut decoder = Decoder::default();
    blocks.iter().for_each(|some| decoder.add_blocks(some.to_vec()));
    let mut visitor = Numbered::default();
    units.iter().for_each(|units| decoder.units(THREAD, units, &mut visitor));
    assert_eq!(decoder.ending().invalid_chunks, 0);
    (visitor.accesses, visitor.before + visitor.current)
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn offset(_: &BlockAccesses, instruction: u16) -> usize {
    instruction.into()
}

/// Random blocks and paths, and chunks of units. The first `paths_from` instructions are executed
/// in blocks only, as before a region.
fn sample(random: &mut Random, paths_from: u64) -> (Vec<BlockAccesses>, Vec<Vec<u8>>) {
    let mut blocks: Vec<BlockAccesses> = Vec::new();
    for index in 0..5 {
        let block = block(random, 0x1000 * (index + 1));
        blocks.push(block);
    }
    for _ in 0..2 {
        let members: Vec<usize> = (0..3).map(|_| random.below(5) as usize).collect();
        blocks.push(path(&blocks, &members));
    }
    let (mut chunks, mut executed) = (Vec::new(), 0);
    for _ in 0..4 {
        let mut units = vec![note(START, 0).into()];
        for _ in 0..8 {
            match random.below(12) {
                0 => units.extend([u64::from(note(FS_BASE, 0)), random.below(1 << 40)]),
                1 => units.push(note(CALL, 3).into()),
                _ => {}
            }
            let index = random.below(if executed < paths_from { 5 } else { 7 }) as usize;
            let part = if index < 5 { 0 } else { random.below(3) as usize };
            let first = if index < 5 { index + 1 } else { 6 + 3 * (index - 5) };
            executed += execute(random, &blocks[index], part, (first + part) as u32, &mut units);
        }
        chunks.push(bytes(&units));
    }
    (blocks, chunks)
}

proptest! {
    #[test]
    fn regions_are_the_same_instructions_of_all_units(
        seed in 1..u64::MAX,
        skip in 0..100u64,
        count in prop::option::of(1..40u64),
        is_counted in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let (blocks, chunks) = sample(&mut random, skip);
        let (accesses, executed) = decoded(&[&blocks], &chunks);
        let end = count.map_or(u64::MAX, |count| skip + count);
        let expected: Vec<(u64, Made)> =
            accesses.into_iter().filter(|(number, _)| (skip..end).contains(number)).collect();
        let mut cutter = RegionCutter::new(skip, count, 0);
        if is_counted {
            // All blocks record their accesses, as if no block had only counted before.
            cutter.set_counted(0);
        } else if cutter.stage() == RegionStage::Counting {
            cutter.set_counted(0);
        }
        let mut passed = vec![cutter.add_blocks(&blocks)];
        prop_assert_eq!(&passed[0], &blocks);
        let mut units = Vec::new();
        for chunk in &chunks {
            let cut = cutter.units(chunk, offset);
            passed.extend(cut.tail.map(|tail| vec![tail]));
            units.push(cut.units);
        }
        for block in passed.iter().flatten() {
            let mut written = Vec::new();
            block.write(&mut written);
            let parsed = BlockAccesses::parse(&written);
            prop_assert_eq!(parsed.map(|(parsed, _)| parsed), Some(block.clone()));
        }
        let passed: Vec<&[BlockAccesses]> = passed.iter().map(Vec::as_slice).collect();
        let (cut, recorded) = decoded(&passed, &units);
        let cut: Vec<(u64, Made)> =
            cut.into_iter().map(|(at, access)| (at + skip, access)).collect();
        prop_assert_eq!(cut, expected);
        let wanted = executed.min(end).saturating_sub(skip);
        prop_assert_eq!(cutter.stage() == RegionStage::Over, cutter.result(THREAD).next.is_some());
        prop_assert_eq!(recorded, wanted);
        let result = cutter.result(THREAD);
        prop_assert_eq!((result.skipped, result.recorded), (executed.min(skip), wanted));
        prop_assert_eq!(result.is_complete(), wanted >= count.unwrap_or(1));
        prop_assert_eq!(cutter.seen(), SeenInRegion::default());
    }

    /// Forged units cause no panic, and not more instructions are recorded than the region has.
    #[test]
    fn forged_units_are_counted(
        seed in 1..u64::MAX,
        words in prop::collection::vec(prop_oneof![0..20u64, any::<u64>(), 0x8000_0000..=0xffff_ffffu64], 0..40),
        skip in 0..20u64,
    ) {
        let (blocks, _) = sample(&mut Random(seed), 0);
        let mut cutter = RegionCutter::new(skip, Some(10), 5);
        cutter.add_blocks(&blocks);
        cutter.set_counted(3);
        let mut passed = cutter.add_blocks(&blocks);
        let CutUnits { tail, units } = cutter.units(&bytes(&words), offset);
        passed.extend(tail);
        let mut decoder = Decoder::default();
        decoder.add_blocks(passed);
        decoder.units(THREAD, &units, &mut Numbered::default());
        prop_assert!(cutter.result(THREAD).recorded <= 10);
    }
}

/// A block of ten instructions. Each of them writes to an address that follows from the value of
/// the slot.
fn ten() -> BlockAccesses {
    let accesses = (0..10).map(|operation| {
        let place = Place::Slot { slot: 0, plus: 8 * i64::from(operation) };
        Access { adds_fs: false, ..access(0x1000 + u64::from(operation), operation, place) }
    });
    let (code, accesses) = (vec![0x90; 10], accesses.collect());
    BlockAccesses {
        start: 0x1000,
        instructions: 10,
        slots: 1,
        code,
        accesses,
        ..BlockAccesses::default()
    }
}

#[test]
fn accesses_are_recorded_before_the_region_begins() {
    let mut cutter = RegionCutter::new(45, Some(10), 20);
    assert_eq!(cutter.stage(), RegionStage::Counting);
    // This block is only counted: it has no accesses.
    let counted = BlockAccesses { slots: 0, accesses: Vec::new(), ..ten() };
    assert_eq!(cutter.add_blocks(std::slice::from_ref(&counted)), []);
    assert_eq!(cutter.units(&bytes(&[1, 1]), offset), CutUnits::default());
    assert_eq!(cutter.stage(), RegionStage::Counting);
    cutter.units(&bytes(&[1]), offset);
    assert_eq!(cutter.stage(), RegionStage::Blocks);
    cutter.set_counted(2);
    // Block 2 was translated before accesses were recorded, and block 3 after that.
    assert_eq!(cutter.add_blocks(&[counted, ten()]), [ten()]);
    assert_eq!(cutter.units(&bytes(&[2]), offset), CutUnits::default());
    let cut = cutter.units(&bytes(&[3, 0x5000, 3, 0x6000, 3, 0x7000]), offset);
    let base = note(FS_BASE, 0).into();
    assert_eq!(cut.units, bytes(&[base, 0, 2, 0x5000, 1, 0x6000, note(CUT, 5).into()]));
    assert_eq!(
        cut.tail.map(|tail| (tail.start, tail.instructions, tail.slots)),
        Some((0x1005, 5, 1))
    );
    assert_eq!(cutter.stage(), RegionStage::Over);
    // Blocks that are described now get numbers after the number of the tail.
    let path = BlockAccesses {
        parts: [4, 3].map(|block| Part { block, instructions: 10, slots: 1 }).to_vec(),
        repeated: Repeated { first: 4, taken: 0 },
        ..ten()
    };
    let [block, path] = &cutter.add_blocks(&[ten(), path])[..] else { panic!() };
    assert_eq!(*block, ten());
    assert_eq!((path.parts[0].block, path.parts[1].block, path.repeated.first), (3, 1, 3));
}

#[test]
fn what_was_counted_only_is_missing() {
    let mut cutter = RegionCutter::new(45, Some(10), 20);
    cutter.add_blocks(&[BlockAccesses { slots: 0, accesses: Vec::new(), ..ten() }]);
    let cut = cutter.units(&bytes(&[1, 1, 1, 1, 1, 1]), offset);
    assert_eq!(cut, CutUnits::default());
    let result = cutter.result(THREAD);
    assert_eq!((result.skipped, result.recorded, result.is_complete()), (45, 0, false));
    assert_eq!(cutter.seen().counted_only, 10);
}

#[test]
fn regions_that_nothing_reaches_are_empty() {
    for (skip, count) in [(u64::MAX, Some(5)), (u64::MAX, None), (u64::MAX - 1, Some(u64::MAX - 1))]
    {
        let mut cutter = RegionCutter::new(skip, count, 1 << 20);
        assert_eq!(cutter.stage(), RegionStage::Counting);
        cutter.add_blocks(&[ten()]);
        assert_eq!(cutter.units(&bytes(&[1, 0]), offset), CutUnits::default());
        assert_eq!(cutter.stage(), RegionStage::Counting);
        let result = cutter.result(THREAD);
        assert_eq!((result.skip, result.count, result.skipped), (skip, count, 10));
        assert!(!result.is_complete());
    }
    let mut cutter = RegionCutter::new(0, None, 1 << 20);
    assert_eq!(cutter.stage(), RegionStage::Paths);
    cutter.add_blocks(&[ten()]);
    assert_eq!(cutter.units(&bytes(&[1, 0]), offset).units.len(), 4 * SLOT_BYTES);
    assert!(cutter.result(THREAD).is_complete());
}
