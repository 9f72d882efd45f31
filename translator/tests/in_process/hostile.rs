//! Code and requests of any content.

use hmtt_probe::address::RunAddr;
use hmtt_translator::block::Block;
use hmtt_translator::cache::{Answer, Instrument};
use hmtt_translator::extent::Extent;

use super::instructions::Random;
use super::machine::{Machine, new_cache};
use super::memory::Code;

#[test]
fn any_bytes_can_be_translated_or_are_refused() {
    let machine = Machine::new();
    let code = Code {
        range: machine.code,
        may_change: false,
        is_expected: true,
        extent: |_| Extent::Chosen,
    };
    let mut random = Random(1);
    for round in 0..8 {
        let bytes: Vec<u8> = (0..4096).map(|_| random.next() as u8).collect();
        machine.code.clear();
        machine.code.write(0, &bytes);
        let end = machine.code.bytes - 256;
        machine.code.write(end, &bytes[..256]);
        let instrument = [Instrument::None, Instrument::Ring][round % 2];
        let away = [0, 0x7000_0000][round / 2 % 2];
        let mut cache = new_cache(&machine, instrument, 8, away);
        let (mut entries, mut last) = (0, None);
        for offset in (0..4096).chain(end..end + 256) {
            let at = RunAddr(machine.code.start + offset);
            let Ok(entry) = cache.entry(&code, at) else { continue };
            entries += 1;
            last = last.max(Some((offset, entry.block)));
            let block = cache.block(entry.block).expect("it has a number");
            assert_eq!(block.start, at);
            for byte in (0..64).filter(|_| offset % 16 == 0) {
                cache.state_at(entry.address.wrapping_add(byte));
            }
        }
        assert!(entries > 2000, "{entries}");
        for exit in (0..2000).chain([u32::MAX, u32::MAX - 1]) {
            let target = random.next();
            if let Answer::Cached(address) = cache.answer(&code, exit, target) {
                assert!(cache.contains(address));
            }
        }
        let start = machine.code.start;
        cache.invalidate(RunAddr(start + 100)..RunAddr(start + 3000));
        cache.invalidate(RunAddr(0)..RunAddr(u64::MAX));
        cache.invalidate(RunAddr(u64::MAX)..RunAddr(0));
        // Nothing of what was translated is found again.
        let before = last.expect("there are entries");
        let after = cache.entry(&code, RunAddr(start + before.0)).expect("as before");
        assert!(after.block > before.1);
    }
}

#[test]
fn blocks_at_the_ends_of_the_address_space_are_decoded() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..40).map(|_| random.next() as u8).collect();
        let start = random.one_of(&[0, 1, u64::MAX, u64::MAX - 20, 0x7fff_ffff_ffff]);
        if let Ok(block) = Block::from_bytes(RunAddr(start), &bytes) {
            assert!(!block.operations.is_empty() && block.bytes.len() <= bytes.len());
        }
    }
}
