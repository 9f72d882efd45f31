//! Tests descriptions of blocks, and the accesses that follow from slots.

use proptest::prelude::*;

use super::super::derived::Operation;
use super::super::lanes::{LaneOrder, Lanes};
use super::*;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        any::<u64>().prop_map(Place::Static),
        (0..8u16, any::<i64>()).prop_map(|(slot, plus)| Place::Slot { slot, plus }),
        ([0..8u16, 0..8], 0..8u16, [0..8u16, 0..8])
            .prop_map(|(left, first, pointer)| Place::Elements { left, first, pointer }),
        lanes().prop_map(Place::Lanes),
        Just(Place::Unknown),
    ]
}

fn lanes() -> impl Strategy<Value = Lanes> {
    let order = prop_oneof![
        Just(LaneOrder::Apart),
        Just(LaneOrder::Packed),
        (0..4u16, any::<bool>(), 0..4u32, any::<bool>()).prop_map(
            |(slot, is_long, scale, is_narrow)| {
                let bytes = if is_long { 8 } else { 4 };
                LaneOrder::Indexed { slot, bytes, scale: 1 << scale, is_narrow }
            }
        ),
    ];
    let base = prop::option::of(0..8u16);
    (base, any::<i64>(), 0..8u16, 0..60u8, 1..=4u8, order).prop_map(
        |(base, plus, mask, first_bit, lanes, order)| {
            let mask = Some(mask);
            Lanes { base, plus, mask, first_bit, lanes, elements: lanes, order }
        },
    )
}

fn access() -> impl Strategy<Value = Access> {
    let flags = any::<[bool; 3]>();
    (0..64u16, any::<u64>(), any::<u32>(), flags, place()).prop_map(
        |(operation, pc, size, [writes, conditional, adds_fs], place)| {
            let represents = 1;
            let direction = if writes { Direction::Write } else { Direction::Read };
            Access { pc, operation, represents, direction, size, conditional, adds_fs, place }
        },
    )
}

fn derived() -> impl Strategy<Value = Derived> {
    let operation = prop_oneof![
        (0..8u16).prop_map(|other| Operation::Sum { other }),
        any::<u64>().prop_map(|by| Operation::Product { by }),
        (1..64u8).prop_map(|bits| Operation::ZeroExtended { bits }),
        (1..64u8).prop_map(|bits| Operation::SignExtended { bits }),
        (1..64u8).prop_map(|by| Operation::ShiftedRight { by }),
        (1..64u8).prop_map(|by| Operation::ArithmeticallyShiftedRight { by }),
        any::<u64>().prop_map(|mask| Operation::Masked { mask }),
    ];
    (0..8u16, any::<i64>(), operation).prop_map(|(source, plus, operation)| Derived {
        of: source,
        plus,
        operation,
    })
}

/// Generates parts of a path, in ascending order. The last part ends at instruction 64 and slot 8.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec((any::<u32>(), 0..64u16, 0..8u16), 0..4).prop_map(|tuples| {
        let (mut instructions, mut slots): (Vec<u16>, Vec<u16>) =
            tuples.iter().map(|(_, instructions, slots)| (*instructions, *slots)).unzip();
        instructions.sort_unstable();
        slots.sort_unstable();
        let ends = instructions.into_iter().zip(slots);
        let mut parts: Vec<Part> = tuples
            .iter()
            .zip(ends)
            .map(|((block, ..), (instructions, slots))| Part { block: *block, instructions, slots })
            .collect();
        if let Some(last) = parts.last_mut() {
            (last.instructions, last.slots) = (64, 8);
        }
        parts
    })
}

/// Generates other accesses of a block of 64 instructions. The block has at least two recorded
/// accesses, the first one in its first instruction.
fn others() -> impl Strategy<Value = Vec<Other>> {
    let known = prop_oneof![
        Just(Known::Address(0)),
        (0..2u16).prop_map(Known::Chunk),
        Just(Known::Nothing),
    ];
    let other = (0..64u16, known).prop_map(|(operation, known)| Other { operation, known });
    prop::collection::vec(other, 0..12).prop_map(|mut others| {
        others.sort_by_key(|one| one.operation);
        others
    })
}

fn block() -> impl Strategy<Value = BlockAccesses> {
    let code = prop::collection::vec(any::<u8>(), 64..100);
    let derived = prop::collection::vec(derived(), 0..4);
    let accesses = prop::collection::vec(access(), 2..12);
    let first = any::<(u64, u32)>();
    let kept = (0..8u16, any::<i64>()).prop_map(|(value, plus)| Kept { value, plus });
    let kept = prop::collection::vec(kept, 0..4);
    let repeated = (1..=u32::MAX, 1..4u16).prop_map(|(first, taken)| Repeated { first, taken });
    let repeated = prop_oneof![Just(Repeated::default()), repeated];
    (first, code, derived, accesses, others(), parts(), (repeated, kept)).prop_map(
        |((start, function), code, derived, mut accesses, others, parts, turn)| {
            accesses.sort_by_key(|access| access.operation);
            accesses[0].operation = 0;
            let (repeated, kept) = if parts.is_empty() { Default::default() } else { turn };
            let mut block = BlockAccesses {
                start,
                function,
                instructions: 64,
                slots: 8,
                code,
                repeated,
                derived,
                kept,
                accesses,
                others,
                parts,
            };
            block.count_represented();
            block
        },
    )
}

proptest! {
    #[test]
    fn blocks_are_read_as_they_were_written(
        blocks in prop::collection::vec(block(), 0..4),
        cut in 1..100usize,
    ) {
        let mut bytes = Vec::new();
        blocks.iter().for_each(|block| block.write(&mut bytes));
        let mut rest = &bytes[..];
        for block in &blocks {
            let (read, after) = BlockAccesses::parse(rest).unwrap();
            prop_assert_eq!(&read, block);
            let mut parts = block.accuracy(0..cut);
            parts += block.accuracy(cut..usize::MAX);
            prop_assert_eq!(parts, block.accuracy(0..64));
            rest = after;
        }
        prop_assert!(rest.is_empty());
        if let Some(last) = blocks.last() {
            let mut bytes = Vec::new();
            last.write(&mut bytes);
            let cut = bytes.len().saturating_sub(cut);
            prop_assert!(BlockAccesses::parse(&bytes[..cut]).is_none());
        }
    }

    #[test]
    fn any_bytes_are_a_block_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        slots in prop::collection::vec(0..1000u64, 0..8),
    ) {
        if let Some((block, rest)) = BlockAccesses::parse(&bytes) {
            let mut written = Vec::new();
            block.write(&mut written);
            prop_assert_eq!([&written, rest].concat(), bytes);
            let mut count = 0;
            block.made(64, &slots, 0, |_| count += 1);
            prop_assert!(count <= 64 * block.accesses.len());
        }
    }
}

fn one(operation: u16, place: Place) -> Access {
    let direction = Direction::Read;
    let pc = 0x1000 + 4 * u64::from(operation);
    let (conditional, adds_fs, represents) = (false, false, 1);
    Access { pc, operation, direction, represents, size: 8, conditional, adds_fs, place }
}

/// Instruction, address, and number of elements upwards of all accesses.
fn addresses(block: &BlockAccesses, executed: usize, slots: &[u64]) -> Vec<(u64, u64, i64)> {
    let mut accesses = Vec::new();
    block.made(executed, slots, 0x7000, |access| {
        let elements = access.elements as i64;
        let upwards = if access.is_down { -elements } else { elements };
        accesses.push((access.pc, access.address.unwrap(), upwards));
    });
    accesses
}

fn block_of(instructions: u16, slots: u16) -> BlockAccesses {
    BlockAccesses { start: 0x1000, instructions, slots, ..BlockAccesses::default() }
}

#[test]
fn others_account_where_they_are_known() {
    let accesses = vec![one(0, Place::Static(0x1000)), one(4, Place::Static(0x2000))];
    let other = |operation, known| Other { operation, known };
    let others = vec![
        other(1, Known::Address(0)),
        other(2, Known::Chunk(1)),
        other(3, Known::Nothing),
        other(5, Known::Address(0)),
        other(5, Known::Chunk(1)),
    ];
    let mut block = BlockAccesses { accesses, others, ..block_of(6, 0) };
    block.count_represented();
    assert_eq!(block.accesses.iter().map(|access| access.represents).collect::<Vec<_>>(), [3, 1]);
    let accuracy = |accesses, traced, equal, near| Accuracy { accesses, traced, equal, near };
    assert_eq!(block.accuracy(0..6), accuracy(7, 2, 4, 2));
    // Before the second recorded access, no access counts as near to it.
    assert_eq!(block.accuracy(0..3), accuracy(3, 1, 2, 0));
    assert_eq!(block.accuracy(3..5), accuracy(2, 1, 1, 1));
    assert_eq!(block.accuracy(5..6), accuracy(2, 0, 1, 1));
}

#[test]
fn others_without_a_recorded_access_before_them_are_refused() {
    let is_read = |operation, known| {
        let accesses = vec![one(3, Place::Static(0))];
        let others = vec![Other { operation, known }];
        let code = vec![0x90; 6];
        let block = BlockAccesses { code, accesses, others, ..block_of(6, 0) };
        let mut bytes = Vec::new();
        block.write(&mut bytes);
        BlockAccesses::parse(&bytes).is_some()
    };
    assert!(is_read(3, Known::Address(0)) && !is_read(2, Known::Address(0)));
    assert!(is_read(2, Known::Chunk(0)) && !is_read(2, Known::Chunk(1)));
    assert!(!is_read(6, Known::Nothing) && !is_read(5, Known::Address(1)));
}

#[test]
fn instructions_without_bytes_are_refused() {
    let block = |code: usize, accesses| {
        let code = vec![0x90; code];
        let block = BlockAccesses { code, accesses, ..block_of(2, 0) };
        let mut bytes = Vec::new();
        block.write(&mut bytes);
        BlockAccesses::parse(&bytes).is_some()
    };
    assert_eq!([1, 2, 5].map(|code| block(code, Vec::new())), [false, true, true]);
}

#[test]
fn values_that_nothing_needs_are_refused() {
    let path = |slots: usize, kept: usize| {
        let slots = slots as u16;
        BlockAccesses {
            parts: vec![Part { block: 1, instructions: 1, slots }],
            kept: vec![Kept { value: 0, plus: 0 }; kept],
            accesses: vec![one(0, Place::Static(0))],
            ..block_of(1, slots)
        }
    };
    let is_read = |path: BlockAccesses| {
        let mut bytes = Vec::new();
        path.write(&mut bytes);
        BlockAccesses::parse(&bytes) == Some((path, &[][..]))
    };
    let most = |kept| MOST_VALUES * (1 + kept) + if kept > 0 { MOST_KEPT } else { 0 };
    for kept in [0, 1, MOST_KEPT] {
        assert!(is_read(path(most(kept), kept)) && !is_read(path(most(kept) + 1, kept)), "{kept}");
    }
    assert!(!is_read(path(1, MOST_KEPT + 1)));
}

#[test]
fn accesses_follow_from_slots() {
    let fs = Access { adds_fs: true, ..one(2, Place::Static(0x28)) };
    let accesses = vec![
        one(0, Place::Slot { slot: 0, plus: -8 }),
        one(1, Place::Static(0x5000)),
        fs,
        one(3, Place::Slot { slot: 0, plus: 16 }),
    ];
    let block = BlockAccesses { accesses, ..block_of(4, 1) };
    let expected =
        [(0x1000, 0x8ff8, 1), (0x1004, 0x5000, 1), (0x1008, 0x7028, 1), (0x100c, 0x9010, 1)];
    for executed in 0..=4 {
        assert_eq!(addresses(&block, executed, &[0x9000]), expected[..executed]);
    }
}

#[test]
fn elements_are_counted_up_or_down() {
    let elements = |first, pointer| Place::Elements { left: [0, 3], first, pointer };
    let accesses = vec![one(0, elements(1, [1, 4])), one(0, elements(2, [1, 4]))];
    let block = BlockAccesses { accesses, ..block_of(1, 5) };
    let up = addresses(&block, 1, &[5, 0x100, 0x200, 3, 0x110]);
    assert_eq!(up, [(0x1000, 0x100, 2), (0x1000, 0x200, 2)]);
    let down = addresses(&block, 0, &[5, 0x100, 0x200, 3, 0xf0]);
    assert_eq!(down, [(0x1000, 0x100, -2), (0x1000, 0x200, -2)]);
    assert_eq!(addresses(&block, 0, &[5, 0x100, 0x200, NOT_BEGUN, 0]), []);
}

#[test]
fn values_are_derived_of_slots_and_of_those_before_them() {
    let derived_value = |of, plus, operation| Derived { of, plus, operation };
    // base + 4 * (the low half of index - 1), as in mov (%rax,%rbx,4).
    let derived = vec![
        derived_value(1, -1, Operation::ZeroExtended { bits: 32 }),
        derived_value(2, 0, Operation::Product { by: 4 }),
        derived_value(0, 0, Operation::Sum { other: 3 }),
        derived_value(1, 0, Operation::SignExtended { bits: 8 }),
        derived_value(1, 0, Operation::ShiftedRight { by: 60 }),
        derived_value(1, 0, Operation::ArithmeticallyShiftedRight { by: 60 }),
        derived_value(1, 2, Operation::Masked { mask: 0xf0 }),
    ];
    let places = (2..9).map(|slot| Place::Slot { slot, plus: 0x10 });
    let accesses = places.zip(0..).map(|(place, operation)| one(operation, place)).collect();
    let block = BlockAccesses { derived, accesses, ..block_of(7, 2) };
    let mut values = vec![0x7000, 0xf000_0000_0000_0080];
    block.derive(&mut values, block.derived_for(0..7));
    let expected = [0x7f, 0x1fc, 0x71fc, 0xffff_ffff_ffff_ff80, 0xf, u64::MAX, 0x80];
    assert_eq!(values[2..], expected);
    let targets = addresses(&block, 7, &values).into_iter().map(|(_, address, _)| address);
    assert!(targets.eq(expected.map(|value| value.wrapping_add(0x10))));
    assert_eq!([0..0, 0..1, 1..2, 0..7].map(|some| block.derived_for(some)), [0, 1, 2, 7]);
}
