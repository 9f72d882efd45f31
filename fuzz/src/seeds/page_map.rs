//! Builds maps of pages: scripts of chunks, and records.

/// Returns a map of two processes in two snapshots, in which the second snapshot moves a page; and
/// records of page tables.
pub fn scripts() -> Vec<Vec<u8>> {
    let begin = [0, 1, 0, 1, 1, 1, 1, 2, 1];
    let first = [2, 0, 5, 2, 1, 7, 3, 0, 2, 1, 9, 2, 2, 7, 3, 1, 4];
    let second = [2, 0, 5, 1, 1, 30, 3, 0, 4, 2, 1, 9, 2, 0, 3, 1, 4];
    let map = [&begin[..], &first, &second].concat();
    let record = [0xec, 7, 0, 0, 0, 5, 0, 0, 9, 0, 0, 0, 0];
    let records = [&[1][..], &[b'#'; 16], &record, &record, &[b'&'; 16], &record].concat();
    vec![map, records]
}
