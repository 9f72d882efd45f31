//! Tests that files are read as they were written, and that damage is reported.

mod gaps;
mod threads;

use hmtt_files::access_trace::{
    Access, BlockAccesses, CUT, FS_BASE, Function, Kept, MOST_BYTES, OLDEST_VERSION, Part, Place,
    RecordedRegion, Repeated, START, VERSION, note,
};
use hmtt_format::Direction;

use super::*;

/// A block that reads what a slot points to, and then writes to `fs:0x28`.
fn block() -> BlockAccesses {
    let access = |operation, direction, adds_fs, place| {
        let pc = 0x1000 + 4 * u64::from(operation);
        let (represents, conditional) = (1, false);
        Access { pc, operation, direction, represents, size: 8, conditional, adds_fs, place }
    };
    let accesses = vec![
        access(0, Direction::Read, false, Place::Slot { slot: 0, plus: 8 }),
        access(1, Direction::Write, true, Place::Static(0x28)),
    ];
    let (code, parts) = (vec![0x90; 8], Vec::new());
    BlockAccesses {
        start: 0x1000,
        function: 1,
        instructions: 2,
        slots: 1,
        code,
        repeated: Repeated::default(),
        derived: Vec::new(),
        kept: Vec::new(),
        accesses,
        others: Vec::new(),
        parts,
    }
}

/// The path that executes the block three times. All executions use the same slot.
fn path() -> BlockAccesses {
    let block = block();
    let accesses =
        (0..6).map(|operation| Access { operation, ..block.accesses[usize::from(operation) % 2] });
    let parts = (1..=3).map(|part| Part { block: 1, instructions: 2 * part, slots: 1 });
    let (accesses, parts, code) = (accesses.collect(), parts.collect(), Vec::new());
    BlockAccesses { instructions: 6, code, accesses, parts, ..block }
}

fn function() -> Function {
    let (name, path) = ("main".into(), "/bin/program".into());
    Function { start: 0xff0, bytes: 0x40, name, path, build_id: vec![1, 2, 3] }
}

fn units(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A file with three executions of one block: two by thread 7, and one by thread 8, which is cut
/// after the first instruction.
fn file() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.functions(&[function()]).unwrap();
    writer.blocks(&[block()]).unwrap();
    let notes = [note(START, 0).into(), note(FS_BASE, 0).into(), 0x7000];
    writer.units(7, units(&[&notes[..], &[1, 0x5000]].concat())).unwrap();
    writer.units(8, units(&[1, 0x6000, note(CUT, 1).into()])).unwrap();
    writer.units(7, units(&[1, 0x5100])).unwrap();
    writer.finish(0, 0).unwrap()
}

/// Thread, instruction and address of an access.
type One = (u32, u64, u64);

fn accesses(file: &[u8]) -> (Vec<One>, Result<Ending, ReadError>) {
    let mut accesses = Vec::new();
    let ending = read(file, |ThreadAccess { thread, made: access }| {
        accesses.push((thread, access.pc, access.address.unwrap()));
    });
    (accesses, ending)
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let (accesses, ending) = accesses(&file());
    let expected = [
        (7, 0x1000, 0x5008),
        (7, 0x1004, 0x7028),
        (8, 0x1000, 0x6008),
        (7, 0x1000, 0x5108),
        // The base of `fs` is stated in an earlier chunk.
        (7, 0x1004, 0x7028),
    ];
    assert_eq!(accesses, expected);
    let ending = ending.unwrap();
    assert_eq!(ending, Ending { blocks: 3, accesses: 5, ..Ending::default() });
    assert!(!ending.has_loss());
}

#[test]
fn blocks_precede_their_accesses() {
    #[derive(Default)]
    struct Order(Vec<(u32, u64, usize)>);

    impl Visitor for Order {
        fn block(&mut self, executed: &Executed<'_>) {
            assert_eq!((executed.number, &executed.block.code[..]), (1, &[0x90; 8][..]));
            assert_eq!(executed.function, Some(&function()));
            self.0.push((executed.thread, 0, executed.instructions));
        }

        fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
            assert_eq!((executed.number, executed.thread), (1, access.thread));
            self.0.push((access.thread, access.made.pc, 0));
        }
    }

    let mut order = Order::default();
    visit(&file()[..], &mut order).unwrap();
    let block = |thread, instructions| (thread, 0, instructions);
    let [first, second] = [0x1000, 0x1004].map(|pc| move |thread| (thread, pc, 0));
    let expected =
        [block(7, 2), first(7), second(7), block(8, 1), first(8), block(7, 2), first(7), second(7)];
    assert_eq!(order.0, expected);
}

/// The path, which keeps its slot plus 16, and its repeated path, which has no slots.
fn repeated_paths() -> [BlockAccesses; 2] {
    let first = BlockAccesses { kept: vec![Kept { value: 0, plus: 16 }], ..path() };
    let parts = first.parts.iter().map(|part| Part { slots: 0, ..*part }).collect();
    let repeated = Repeated { first: 4, taken: 1 };
    [first.clone(), BlockAccesses { slots: 0, parts, repeated, ..first }]
}

/// The addresses that the block's first instruction reads in these chunks, and the sums of the
/// file.
fn repeated_accesses(chunks: &[&[u64]]) -> (Vec<u64>, Ending) {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.blocks(&[BlockAccesses { function: 0, ..block() }]).unwrap();
    writer.blocks(&repeated_paths().map(|path| BlockAccesses { function: 0, ..path })).unwrap();
    chunks.iter().for_each(|chunk| writer.units(7, units(chunk)).unwrap());
    let (accesses, ending) = accesses(&writer.finish(0, 0).unwrap());
    let of_slots = accesses.iter().filter(|(_, pc, _)| *pc == 0x1000);
    (of_slots.map(|(_, _, address)| *address).collect(), ending.unwrap())
}

#[test]
fn repeated_paths_continue_with_what_was_kept() {
    // The first path has the numbers 2 to 4, and the repeated path has the numbers 5 to 7.
    let start: u64 = note(START, 0).into();
    let units = [4, 0x5000, 7, 7, start, 5, 4, 0x9000, 6];
    let (addresses, ending) = repeated_accesses(&[&units]);
    let expected = [0x5008; 3].into_iter().chain([0x5018; 3]).chain([0x5028; 3]).chain([0x5038]);
    assert!(
        addresses.iter().copied().eq(expected.chain([0x9008; 3]).chain([0x9018; 2])),
        "{addresses:x?}"
    );
    assert!(!ending.has_loss());
}

#[test]
fn repeated_paths_behind_something_else_are_invalid() {
    let cut = note(CUT, 2).into();
    let cases: [&[&[u64]]; 6] = [
        &[&[7]],
        &[&[1, 0x5000, 7]],
        &[&[3, 0x5000, 7]],
        &[&[4, 0x5000, cut, 7]],
        &[&[4, 0x5000, 6, 7]],
        // A chunk is read without the values that an earlier chunk kept.
        &[&[4, 0x5000], &[7]],
    ];
    for chunks in cases {
        assert_eq!(repeated_accesses(chunks).1.invalid_chunks, 1, "{chunks:x?}");
    }
}

#[test]
fn paths_are_read_as_their_blocks() {
    #[derive(Default)]
    struct Executions(Vec<(u32, usize, usize)>);

    impl Visitor for Executions {
        fn block(&mut self, executed: &Executed<'_>) {
            self.0.push((executed.number, executed.instructions, 0));
        }

        fn access(&mut self, _: &Executed<'_>, _: ThreadAccess) {
            self.0.last_mut().unwrap().2 += 1;
        }
    }

    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.functions(&[function()]).unwrap();
    writer.blocks(&[block(), path(), block()]).unwrap();
    let cut = note(CUT, 3).into();
    let written = [2, 0x5000, 4, 0x5000, 3, 0x5000, cut, 5, 0x5000];
    writer.units(7, units(&written)).unwrap();
    let mut executions = Executions::default();
    let ending = visit(&writer.finish(0, 0).unwrap()[..], &mut executions).unwrap();
    let whole = (1, 2, 2);
    // The second block is the same as the first one.
    assert_eq!(executions.0, [whole, whole, whole, whole, whole, (1, 1, 1), whole]);
    assert_eq!((ending.blocks, ending.accesses, ending.has_loss()), (7, 13, false));
}

#[test]
fn files_with_chosen_accesses_are_known_as_such() {
    for (writer, is_chosen) in [false, true].map(|is_chosen| {
        (Writer::begin(Vec::new(), WriterOptions { is_chosen, threads: 0 }), is_chosen)
    }) {
        let ending = accesses(&writer.unwrap().finish(0, 0).unwrap()).1.unwrap();
        assert_eq!((ending.is_chosen, ending.has_loss()), (is_chosen, false));
    }
}

#[test]
fn files_state_their_region() {
    let region = RecordedRegion { thread: 3, skip: 5, count: Some(2), ..RecordedRegion::default() };
    let whole = RecordedRegion { skipped: 5, recorded: 2, ..region };
    let part = RecordedRegion { recorded: 1, ..whole };
    for (last, has_loss) in [(whole, false), (part, true)] {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.region(region).unwrap();
        writer.region(last).unwrap();
        let ending = accesses(&writer.finish(0, 0).unwrap()).1.unwrap();
        assert_eq!((ending.region, ending.has_loss()), (Some(last), has_loss));
        assert_eq!(ending.missing_of_region().is_some(), has_loss);
    }
}

#[test]
fn a_cut_file_is_read_to_its_last_chunk() {
    let file = file();
    let mut read = Vec::new();
    for length in 16..file.len() {
        let (accesses, ending) = accesses(&file[..length]);
        assert!(ending.unwrap().is_cut);
        read.push(accesses.len());
    }
    assert!(read.is_sorted());
    read.dedup();
    assert_eq!(read, [0, 2, 3, 5]);
    assert!(matches!(accesses(&file[..15]).1, Err(ReadError::OtherFile)));
}

#[test]
fn older_versions_are_read_and_others_refused() {
    let mut file = file();
    let expected = accesses(&file).0;
    for version in OLDEST_VERSION..=VERSION {
        file[8..12].copy_from_slice(&version.to_le_bytes());
        assert_eq!(accesses(&file).0, expected, "{version}");
    }
    for version in [OLDEST_VERSION - 1, VERSION + 1] {
        file[8..12].copy_from_slice(&version.to_le_bytes());
        assert!(matches!(accesses(&file).1, Err(ReadError::Version(stated)) if stated == version));
    }
}

#[test]
fn damage_is_reported_with_its_place() {
    let file = file();
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        match accesses(&damaged).1 {
            Err(ReadError::OtherFile) => assert!(at < 8),
            Err(ReadError::Version(_)) => assert!((8..12).contains(&at)),
            Err(ReadError::Damaged { at: chunk, .. }) => {
                assert!(at >= 12 && chunk <= at as u64, "{at}: {chunk}");
            }
            Err(ReadError::Input(error)) => panic!("{at}: {error}"),
            // A chunk whose size is too large is taken for a cut chunk, and a thread may have any
            // number.
            Ok(_) => assert!(at >= 16),
        }
    }
}

#[test]
fn units_that_name_no_block_are_a_loss() {
    for bad in [&[9, 0x5000][..], &[1], &[0], &[note(FS_BASE, 0).into()]] {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.blocks(&[BlockAccesses { function: 0, ..block() }]).unwrap();
        writer.units(7, units(&[&[1, 0x5000], bad].concat())).unwrap();
        writer.units(7, units(&[1, 0x5000])).unwrap();
        let (accesses, ending) = accesses(&writer.finish(0, 0).unwrap());
        assert_eq!((accesses.len(), ending.unwrap().invalid_chunks), (4, 1), "{bad:x?}");
    }
}

#[test]
fn an_incomplete_unit_is_a_loss() {
    let base = note(FS_BASE, 0).into();
    for (whole, expected) in [(&[1, 0x5000][..], 2), (&[1], 0), (&[1, 0x5000, base], 2)] {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.blocks(&[BlockAccesses { function: 0, ..block() }]).unwrap();
        writer.units(7, [units(whole), vec![1; 4]].concat()).unwrap();
        let (accesses, ending) = accesses(&writer.finish(0, 0).unwrap());
        assert_eq!((accesses.len(), ending.unwrap().invalid_chunks), (expected, 1), "{whole:x?}");
    }
}

#[test]
fn units_of_blocks_that_are_described_later_are_a_loss() {
    for threads in [0, 1, 3] {
        let options = WriterOptions { threads, ..WriterOptions::default() };
        let mut writer = Writer::begin(Vec::new(), options).unwrap();
        let block = BlockAccesses { function: 0, ..block() };
        let other = BlockAccesses { start: 0x2000, ..block.clone() };
        writer.blocks(&[block]).unwrap();
        (0..20).for_each(|_| writer.units(7, units(&[2, 0x5000])).unwrap());
        writer.blocks(&[other]).unwrap();
        writer.units(7, units(&[2, 0x5000])).unwrap();
        assert_eq!(writer.cut_chunks().unwrap(), 20, "{threads}");
        let (accesses, ending) = accesses(&writer.finish(0, 0).unwrap());
        assert_eq!((accesses.len(), ending.unwrap().invalid_chunks), (2, 20), "{threads}");
    }
}

#[test]
fn blocks_that_are_numbered_again_are_described_once() {
    let mut gaps = Vec::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let other = BlockAccesses { start: 0x2000, ..block() };
    let mut sizes = Vec::new();
    for turn in 0..20 {
        if turn > 0 {
            writer.resume(std::time::Duration::from_nanos(turn)).unwrap();
        }
        writer.functions(&[function()]).unwrap();
        // Blocks are found in another order each time.
        let blocks =
            if turn % 2 == 0 { [block(), other.clone()] } else { [other.clone(), block()] };
        writer.blocks(&blocks).unwrap();
        writer.units(7, units(&[1 + turn % 2, 0x5000 + turn])).unwrap();
        sizes.push(writer.described());
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");

    struct Order<'g>(&'g mut Vec<u64>);

    impl Visitor for Order<'_> {
        fn block(&mut self, executed: &Executed<'_>) {
            assert_eq!((executed.number, executed.block.start), (1, 0x1000));
            assert_eq!(executed.function, Some(&function()));
        }

        fn access(&mut self, _: &Executed<'_>, access: ThreadAccess) {
            self.0.extend(access.made.address.filter(|at| *at > 0x1000));
        }

        fn gap(&mut self, gap: Gap) {
            let Gap::Native { nanoseconds } = gap else { panic!("{gap:?}") };
            self.0.push(nanoseconds);
        }
    }

    let ending = visit(&writer.finish(0, 0).unwrap()[..], Order(&mut gaps)).unwrap();
    let expected = (0..20u64).flat_map(|turn| [turn, 0x5008 + turn]).skip(1);
    assert_eq!(gaps, expected.collect::<Vec<_>>());
    assert_eq!((ending.blocks, ending.native_ns, ending.has_loss()), (20, 19 * 20 / 2, false));
}

#[test]
fn threads_write_the_same_file() {
    let written = |threads| {
        let options = WriterOptions { threads, ..WriterOptions::default() };
        let mut writer = Writer::begin(Vec::new(), options).unwrap();
        writer.functions(&[function()]).unwrap();
        for thread in 0..40 {
            writer.blocks(&[block()]).unwrap();
            let block = u64::from(thread) + 1;
            let words = [note(FS_BASE, 0).into(), 0x7000 + block, block, 0x5000];
            writer.units(thread % 3, units(&words)).unwrap();
            writer.units(thread % 3, units(&[block, 0x6000].repeat(1000))).unwrap();
        }
        writer.finish(0, 0).unwrap()
    };
    let file = written(0);
    assert_eq!((written(1), written(3)), (file.clone(), file.clone()));
    let (accesses, ending) = accesses(&file);
    assert_eq!((accesses.len(), ending.unwrap().has_loss()), (40 * 2 * 1001, false));
}

#[test]
fn blocks_in_functions_that_are_not_described_are_damage() {
    for (functions, is_valid) in [(0, false), (1, true), (2, true)] {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.functions(&vec![function(); functions]).unwrap();
        writer.blocks(&[block()]).unwrap();
        let ending = accesses(&writer.finish(0, 0).unwrap()).1;
        assert_eq!(ending.is_ok(), is_valid, "{functions}: {ending:?}");
    }
}

#[test]
fn descriptions_need_as_many_chunks_as_they_fill() {
    let name = "n".repeat(60_000);
    let functions: Vec<Function> =
        (0..100).map(|start| Function { start, name: name.clone(), ..function() }).collect();
    assert!(functions.len() * name.len() > MOST_BYTES);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.functions(&functions).unwrap();
    let file = writer.finish(0, 0).unwrap();
    let (mut chunks, mut parts) = (ChunkReader::new(&file[..]).unwrap(), Vec::new());
    while let Some(Content::Functions(more)) = chunks.next_chunk().unwrap() {
        parts.push(more);
    }
    assert_eq!(parts.len(), 2);
    assert_eq!(parts.concat(), functions);
}
