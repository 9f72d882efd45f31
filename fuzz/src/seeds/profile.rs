//! Builds profiles: a text, and a script of blocks, edges and calls.

use hmtt_files::profile::{Block, BlockEnd, IndirectEdge, KIND, Profile, VERSION};

/// A block that jumps to an address in a register.
fn block(number: u32) -> Block {
    Block {
        number,
        object: "p".into(),
        function: Some("f".into()),
        offset: Some(4),
        code_address: 0x1004,
        size_bytes: 2,
        instructions: 1,
        entries: 5,
        code: vec![0xff, 0xe0],
        end: BlockEnd::IndirectJump,
        ..Block::default()
    }
}

/// Returns the text of a profile, and a script for the target.
pub fn files() -> Vec<Vec<u8>> {
    let profile = Profile {
        version: VERSION,
        kind: KIND.into(),
        blocks: vec![block(1), block(2)],
        edges: vec![IndirectEdge { from: 1, to: 2, times: 5 }],
        ..Profile::default()
    };
    // A conditional block that jumps to itself, and a block that calls it.
    let jumps = [9, 2, 0x74, 0xfe, 0, 0, 4, 4, 1, 9, 0, 4, 1, 2, 3];
    let calls = [10, 5, 0xe8, 0, 0, 0, 0, 112, 102, 9, 9, 1, 9, 200, 4, 1, 2, 3];
    let rest = [0, 2, 1, 3, 1, 0, 7, 7, 7, 2, 9, 0, 1, 4, 0, 7];
    let script = [&[0][..], &jumps, &calls, &jumps, &rest].concat();
    vec![profile.to_json().into_bytes(), script]
}
