//! Tests the contents of the shared memory that a later controller reads.

use super::*;
use crate::stubs::InlineBytes;

#[test]
fn overwritten_places_can_be_found() {
    let shared = Shared::without_process(
        SlotLayout { slot_bytes: 2 * PAGE_BYTES, alignment: PAGE_BYTES },
        2,
    );
    let patch = |address, bytes: &[u8], new: &[u8]| Overwritten {
        address: RunAddr(address),
        bytes: InlineBytes::from_slice(bytes).unwrap(),
        new: InlineBytes::from_slice(new).unwrap(),
    };
    let long = patch(0x40_1000, &[1, 2, 3, 4, 5], &[0xe9, 6, 7, 8, 9]);
    let short = patch(0x40_2000, &[0x90, 0xc3], &[0xeb, 0x10]);
    shared.record_area(&(RunAddr(0x10_0000)..RunAddr(0x10_3000))).unwrap();
    shared.record(&[long, short]).unwrap();
    assert!(shared.get(header::MAGIC).is(MAGIC) && shared.memory.read(header::VERSION).is(VERSION));
    assert!(shared.memory.read(header::CONTROLLER).is(std::process::id()));
    let (at, patches) = (shared.get(header::PATCHES_AT).any(), shared.get(header::PATCHES).any());
    let read =
        |number| [0, 8, 16, 24].map(|word| shared.get(at + number * PATCH_BYTES + word).any());
    let records: Vec<[u64; 4]> = (0..patches).map(read).collect();
    let expected = [
        [0x10_0000, 0, 0x3000, 0],
        [0x40_1000, 5, 0x05_0403_0201, 0x09_0807_06e9],
        [0x40_2000, 2, 0xc390, 0x10eb],
    ];
    assert_eq!(records, expected);
}

#[test]
fn the_number_of_patches_is_not_read_from_the_memory() {
    let shared =
        Shared::without_process(SlotLayout { slot_bytes: PAGE_BYTES, alignment: PAGE_BYTES }, 2);
    shared.record_area(&(RunAddr(0x1000)..RunAddr(0x2000))).unwrap();
    for lie in [u64::MAX, 1 << 40, 0] {
        shared.set(header::PATCHES, lie);
        shared.record_area(&(RunAddr(0x3000)..RunAddr(0x4000))).unwrap();
    }
    assert!(shared.get(header::PATCHES).is(4));
}
