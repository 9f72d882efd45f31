//! What a later controller finds in the memory.

use super::*;

#[test]
fn what_was_overwritten_can_be_found() {
    let shared = Shared::of_nobody(Shape { slot_bytes: 2 * PAGE_BYTES, alignment: PAGE_BYTES }, 2);
    let patch = |address, bytes: &[u8]| Overwritten { address, bytes: bytes.to_vec() };
    shared.describe();
    shared.note(&[patch(0x40_1000, &[1, 2, 3, 4, 5]), patch(0x40_2000, &[0x90, 0xc3])]).unwrap();
    assert_eq!((shared.get(header::MAGIC), shared.memory.read(header::VERSION)), (MAGIC, VERSION));
    assert_eq!(shared.memory.read(header::CONTROLLER), std::process::id());
    let (at, patches) = (shared.get(header::PATCHES_AT), shared.get(header::PATCHES));
    let read = |number| {
        let at = at + number * PATCH_BYTES;
        let mut bytes = vec![0; shared.get(at + 8) as usize];
        shared.memory.copy_to(at + 16, &mut bytes);
        patch(shared.get(at), &bytes)
    };
    let found: Vec<Overwritten> = (0..patches).map(read).collect();
    assert_eq!(found, [patch(0x40_1000, &[1, 2, 3, 4, 5]), patch(0x40_2000, &[0x90, 0xc3])]);
    shared.forget_overwritten();
    assert_eq!(shared.get(header::PATCHES), 0);
}
