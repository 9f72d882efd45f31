//! Builds traces of accesses: a whole file, and a script of blocks and units.

use hmtt::access_trace::Writer;
use hmtt_files::access_trace::{
    Access, BlockAccesses, CUT, Derived, FS_BASE, Function, Kept, Known, LaneOrder, Lanes, NATIVE,
    Operation, Other, Part, Place, RecordedRegion, Repeated, START, Unrecorded, note,
};
use hmtt_format::Direction;

/// A block with an access of each kind.
fn block() -> BlockAccesses {
    let elements = Place::Elements { left: [1, 3], first: 2, pointer: [2, 4] };
    let order = LaneOrder::Indexed { slot: 1, bytes: 4, scale: 2, is_narrow: false };
    let lanes =
        Lanes { base: Some(3), plus: 1, mask: Some(0), first_bit: 0, lanes: 8, elements: 8, order };
    let places = [
        Place::Slot { slot: 0, plus: -8 },
        Place::Static(0x5000),
        elements,
        Place::Unknown,
        Place::Slot { slot: 6, plus: 4 },
        Place::Lanes(lanes),
    ];
    let half = Derived { of: 0, plus: 1, operation: Operation::ZeroExtended { bits: 32 } };
    let sum = Derived { of: 1, plus: 0, operation: Operation::Sum { other: 5 } };
    let accesses = places.into_iter().zip(0..).map(|(place, operation)| Access {
        pc: 0x1000 + 4 * u64::from(operation),
        operation,
        direction: Direction::Write,
        represents: 1,
        size: 4,
        conditional: false,
        adds_fs: operation == 1,
        place,
    });
    let (accesses, code) = (accesses.collect(), vec![0x90; 16]);
    let parts = Vec::new();
    BlockAccesses {
        start: 0x1000,
        function: 1,
        instructions: 6,
        slots: 5,
        code,
        repeated: Repeated::default(),
        derived: vec![half, sum],
        kept: Vec::new(),
        accesses,
        others: vec![
            Other { operation: 1, known: Known::Address(0) },
            Other { operation: 2, known: Known::Chunk(4) },
            Other { operation: 3, known: Known::Nothing },
        ],
        parts,
    }
}

/// The path that executes this block twice.
fn path() -> BlockAccesses {
    let execution = block();
    let again =
        execution.accesses.iter().map(|one| Access { operation: one.operation + 6, ..*one });
    let accesses = execution.accesses.iter().copied().chain(again).collect();
    let part = |instructions| Part { block: 1, instructions, slots: 5 };
    let parts = vec![part(6), part(12)];
    let kept = vec![Kept { value: 0, plus: 8 }, Kept { value: 6, plus: 0 }];
    BlockAccesses { instructions: 12, code: Vec::new(), accesses, parts, kept, ..execution }
}

/// An execution of the path immediately after another one.
fn repeated() -> BlockAccesses {
    let slot = Place::Slot { slot: 6, plus: 0 };
    let execution = path();
    let mut accesses = execution.accesses.clone();
    accesses[0].place = slot;
    BlockAccesses { repeated: Repeated { first: 3, taken: 2 }, accesses, ..execution }
}

fn function() -> Function {
    let (name, path) = ("main".into(), "/bin/program".into());
    Function { start: 0xff0, bytes: 0x40, name, path, build_id: vec![1, 2, 3] }
}

/// Returns a file, and a script for the target.
pub fn scripts() -> Vec<Vec<u8>> {
    let notes = [START, NATIVE, FS_BASE].map(|kind| note(kind, 0).into());
    let notes = [&notes[..], &[0x7000]].concat();
    let whole = [1, 0x9000, 5, 0x100, 3, 0x108];
    let cut = [1, 0x9000, 5, 0x100, 3, 0x108, note(CUT, 2).into()];
    let path = |number| [&[number], &whole[1..]].concat();
    let units = [&notes[..], &whole, &cut, &path(2), &path(3), &path(5), &path(4)].concat();
    let units: Vec<u8> = units.iter().flat_map(|unit: &u64| unit.to_le_bytes()).collect();
    let mut described = Vec::new();
    block().write(&mut described);
    self::path().write(&mut described);
    repeated().write(&mut described);
    let length = (described.len() as u16).to_le_bytes();
    let script = [&length[..], &described, &units].concat();
    let mut writer = Writer::new(Vec::new()).expect("memory can be written to");
    writer.functions(&[function()]).expect("memory can be written to");
    writer.blocks(&[block(), self::path(), repeated()]).expect("memory can be written to");
    writer.units(7, units).expect("memory can be written to");
    let unrecorded = Unrecorded { native_code: 1, children: 2, ..Unrecorded::default() };
    writer.unrecorded(unrecorded).expect("memory can be written to");
    let region =
        RecordedRegion { thread: 7, skip: 9, skipped: 9, recorded: 1, ..RecordedRegion::default() };
    writer.region(region).expect("memory can be written to");
    vec![writer.finish(0, 0).expect("memory can be written to"), script]
}
