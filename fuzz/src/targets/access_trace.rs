//! Checks that any file is read as a trace of accesses or refused. Also checks that any blocks and
//! units in a whole file are read, and that the invalid ones are counted.

use hmtt::access_trace::{Executed, ThreadAccess, Visitor, Writer, read, visit};
use hmtt_files::access_trace::{BlockAccesses, Function, MOST_PARTS, SLOT_BYTES};

/// Parses descriptions of blocks at the start of `bytes`. The first two bytes state the length of
/// the descriptions. Returns the blocks up to the first invalid one, and the bytes after the
/// descriptions.
fn blocks(bytes: &[u8]) -> (Vec<BlockAccesses>, &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return (Vec::new(), &[]) };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (mut described, units) = rest.split_at(length);
    let mut blocks = Vec::new();
    while let Some((block, after)) = BlockAccesses::parse(described) {
        // The file describes no function, so blocks must not name one.
        blocks.push(BlockAccesses { function: 0, ..block });
        described = after;
    }
    (blocks, units)
}

/// What a visitor has received, for the comparison with the file.
#[derive(Default)]
struct Counts {
    blocks: u64,
    accesses: u64,
}

impl Visitor for Counts {
    fn block(&mut self, executed: &Executed<'_>) {
        assert!(executed.function.is_none() && executed.number > 0);
        self.blocks += 1;
    }

    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        assert!(executed.thread == access.thread);
        self.accesses += 1;
    }
}

/// Reads bytes as a file, and as the content of a valid file.
pub fn check(bytes: &[u8]) {
    let _ = read(bytes, |_| {});
    let (blocks, units) = blocks(bytes);
    for block in &blocks {
        let instructions = usize::from(block.instructions);
        let mut parts = block.accuracy(0..instructions / 2);
        parts += block.accuracy(instructions / 2..instructions);
        assert_eq!(parts, block.accuracy(0..instructions));
    }
    let mut writer = Writer::new(Vec::new()).expect("memory can be written to");
    writer.blocks(&blocks).expect("memory can be written to");
    writer.units(7, units).expect("memory can be written to");
    let file = writer.finish(0, 0).expect("memory can be written to");
    let most = blocks.iter().map(|block| block.accesses.len()).max().unwrap_or(0);
    let units = units.len() / SLOT_BYTES;
    let mut access_count = 0;
    let ending = read(&file[..], |_| access_count += 1).expect("the file is whole");
    assert!(!ending.is_cut && ending.invalid_chunks <= 1);
    assert!(ending.blocks as usize <= units * MOST_PARTS);
    assert!(access_count <= units * most);
    let cut = read(&file[..file.len() - 1], |_| {}).expect("a cut file is read");
    assert!(cut.is_cut && cut.blocks == ending.blocks);
    let mut counts = Counts::default();
    visit(&file[..], &mut counts).expect("the file is whole");
    assert_eq!((counts.blocks, counts.accesses), (ending.blocks, access_count as u64));
    if let Some((function, rest)) = Function::parse(bytes) {
        let mut written = Vec::new();
        function.write(&mut written);
        assert_eq!([&written, rest].concat(), bytes);
    }
}
