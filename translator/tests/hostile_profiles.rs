//! Reads and reports profiles with any content: they are refused, or reported.

use hmtt_files::profile::{
    Block, BlockEnd, IndirectEdge, KIND, Profile, Superblock, SystemCall, VERSION,
};
use hmtt_translator::report::annotation::percent;
use hmtt_translator::report::{Analysis, callgrind};

/// Random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.next() % choices.len() as u64) as usize]
    }

    /// True three times of four.
    fn is_likely(&mut self) -> bool {
        self.one_of(&[true, true, true, false])
    }

    /// A count or address: small, or near the end of the range.
    fn count(&mut self) -> u64 {
        let any = self.next();
        self.one_of(&[0, 1, any % 40, 0x1000 + any % 64, any, u64::MAX - any % 3])
    }
}

const NAMES: [&str; 6] = ["f", "g", "", "\n\"\\", "\u{1b}[31m", "/etc/hostname"];

fn block(random: &mut Random, number: u32) -> Block {
    let code: Vec<u8> = (0..random.next() % 20).map(|_| random.next() as u8).collect();
    let known = |random: &mut Random, value| Some(value).filter(|_| random.is_likely());
    let (name, address) = (random.one_of(&NAMES), random.count());
    Block {
        number,
        object: random.one_of(&["/bin/true", "", "relative", "/dev/zero", "/", "[vdso]"]).into(),
        function: known(random, 1).map(|_| name.into()),
        offset: random.count().checked_sub(1).filter(|offset| *offset < 9),
        code_address: random.count(),
        file_address: known(random, address),
        size_bytes: code.len() as u64,
        instructions: random.count(),
        entries: random.count(),
        unexecuted: random.count(),
        code,
        end: random.one_of(&BlockEnd::ALL),
        target_address: known(random, address),
        starts: random.count(),
        stops: random.count(),
        taken: random.count(),
        from_omitted: random.count(),
        to_omitted: random.count(),
        other_edges: random.count(),
        mispredictions: vec![random.count(); (random.next() % 4) as usize],
        cache_misses: random.count(),
    }
}

fn profile(random: &mut Random) -> Profile {
    let blocks: Vec<Block> =
        (0..random.next() as u32 % 12).map(|number| block(random, number)).collect();
    let indirect: Vec<u32> =
        blocks.iter().filter(|block| block.end.is_indirect()).map(|block| block.number).collect();
    let count = if blocks.is_empty() { 0 } else { random.next() % 3 };
    let superblocks = (0..count)
        .map(|_| Superblock {
            blocks: (0..2 + random.next() % 3)
                .map(|_| random.next() as u32 % blocks.len() as u32)
                .collect(),
            entries: random.count(),
            completions: random.count(),
            executed_blocks: random.count(),
            cache_ns: random.count(),
            undone: random.is_likely(),
        })
        .collect();
    let edge = |from: &u32| IndirectEdge {
        from: *from,
        to: random.next() as u32 % blocks.len() as u32,
        times: random.count(),
    };
    let edges = indirect.iter().flat_map(|from| [from, from]).map(edge).collect();
    Profile {
        version: VERSION,
        kind: KIND.into(),
        unbalanced_blocks: Some(0).filter(|_| random.is_likely()),
        blocks,
        edges,
        superblocks,
        system_calls: vec![SystemCall { calls: random.count(), ..SystemCall::default() }; 2],
        ..Profile::default()
    }
}

#[test]
fn any_profile_is_reported() {
    let mut reported = 0;
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let written = profile(&mut random);
        let mut text = written.to_json().into_bytes();
        assert_eq!(Profile::parse(&text).expect("it is regular"), written, "seed {seed}");
        if seed % 2 == 0 {
            for _ in 0..=random.next() % 3 {
                let at = (random.next() % text.len() as u64) as usize;
                text[at] = random.one_of(b"0123456789\"{}[],:abcx-");
            }
        }
        let Ok(profile) = Profile::parse(&text) else { continue };
        let analysis = Analysis::new(&profile);
        for name in NAMES {
            let is_there = !analysis.blocks_of(name).is_empty();
            assert_eq!(analysis.annotation(name).is_some(), is_there && has_code(&analysis, name));
            assert_eq!(analysis.dot(name).is_some(), is_there);
        }
        let entries = analysis.functions().iter().map(|function| function.blocks).sum::<u64>();
        assert_eq!(entries, profile.blocks.len() as u64);
        assert_eq!(analysis.hottest_blocks().len(), profile.blocks.len());
        let saved: Vec<u64> =
            analysis.superblocks().iter().map(|superblock| superblock.saved_numbers()).collect();
        assert!(saved.is_sorted_by(|one, next| one >= next));
        assert_eq!(saved.len(), profile.superblocks.len());
        for site in analysis.indirect_sites() {
            let times = site.targets.iter().map(|(_, times)| *times).chain([site.omitted]);
            assert!(times.max().is_some_and(|most| percent(most, site.times()) <= 100.1));
        }
        let mut output = Vec::new();
        callgrind::write(&analysis, &mut output).expect("memory takes all");
        let output = String::from_utf8(output).expect("it is text");
        assert!(output.lines().all(|line| !line.contains('\u{1b}')), "seed {seed}");
        reported += 1;
    }
    assert!(reported > 1_000, "{reported}");
}

fn has_code(analysis: &Analysis<'_>, name: &str) -> bool {
    analysis.blocks_of(name).iter().any(|block| !block.code.is_empty())
}
