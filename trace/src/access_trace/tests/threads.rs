//! Tests that several threads decode a file to the same contents and errors as one thread, in the
//! same order.

use super::*;

/// The chunks of a file with their offsets, and the error that ends it.
fn contents(file: &[u8], threads: usize) -> (Vec<(u64, Content)>, Option<String>) {
    let (mut chunks, mut contents) =
        (ChunkReader::with_threads(file, threads).unwrap(), Vec::new());
    loop {
        match chunks.next_chunk() {
            Ok(Some(content)) => contents.push((chunks.offset(), content)),
            Ok(None) => return (contents, None),
            Err(error) => return (contents, Some(error.to_string())),
        }
    }
}

/// A file whose blocks are described between chunks of units of two threads.
fn mixed(blocks: u64, times: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.functions(&[function()]).unwrap();
    for number in 1..=blocks {
        writer.blocks(&[BlockAccesses { start: number, ..block() }]).unwrap();
        let base = [note(FS_BASE, 0).into(), 0x7000 + number];
        writer.units(7, units(&[&base[..], &[number, 0x5000].repeat(times)].concat())).unwrap();
        writer.units(8, units(&[1, 0x6000 + number, note(CUT, 1).into()])).unwrap();
    }
    writer.finish(3, 0).unwrap()
}

#[test]
fn cut_and_damaged_files_have_the_same_contents_for_any_number_of_threads() {
    let file = mixed(5, 3);
    let whole = contents(&file, 0);
    assert_eq!((whole.0.len(), whole.1.is_none()), (1 + 5 * 3 + 1, true));
    let mut damage = 0;
    for at in 16..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x11;
        for bytes in [&damaged[..], &file[..at]] {
            let expected = contents(bytes, 0);
            damage += usize::from(expected.1.is_some());
            for threads in [1, 3] {
                assert_eq!(contents(bytes, threads), expected, "{threads} threads, byte {at}");
            }
        }
    }
    assert!(damage > file.len() / 2);
}

#[test]
fn blocks_that_threads_know_already_are_not_those_of_earlier_chunks() {
    // Units of block 12 are moved before the description of the block. At that time, threads still
    // decode the many units before them.
    let file = mixed(12, 100_000);
    let (chunks, _) = contents(&file, 0);
    let described =
        chunks.iter().rposition(|(_, content)| matches!(content, Content::Blocks(_))).unwrap();
    let [from, units, behind] = [0, 1, 2].map(|next| chunks[described + next].0 as usize);
    let moved = [&file[..from], &file[units..behind], &file[from..units], &file[behind..]].concat();
    let expected = contents(&moved, 0);
    let error = format!("the chunk at byte {from} is damaged: its content is not valid");
    assert_eq!((expected.0.len(), expected.1.as_deref()), (described, Some(&*error)));
    for threads in [1, 2, 3] {
        assert!(contents(&moved, threads) == expected, "{threads}");
    }
}
