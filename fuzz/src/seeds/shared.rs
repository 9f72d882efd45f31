//! Builds scripts of the target `shared`, in which processes mostly write the data that tags write.

/// Returns scripts of counts, of logs, and of patch records.
pub(super) fn scripts() -> Vec<Vec<u8>> {
    // Two functions; a thread enters, counts, is read, and ends; then an impossible count.
    let counts = [0, 1, 0, 0, 2, 1, 5, 0, 0, 9, 5, 0, 1, 200, 0, 1, 2, 3, 13, 0, 1, 130, 3, 2, 3];
    // Chunks that are filled, passed on in turn and read; then numbers of functions that do not
    // exist.
    let fill = |chunk: u8, word: u8| [6 | chunk << 4, 0, word, 16];
    let hand_over = |number: u8| [3, 1, number];
    let turns: Vec<u8> = (0..3u8)
        .flat_map(|number| [&fill(number, number + 1)[..], &hand_over(number + 1), &[0]].concat())
        .collect();
    let log = |kind: u8| [&[1, kind, 0, 2][..], &turns].concat();
    // A chunk that is being filled, with a missing record; dropped records; the end.
    let filling =
        [5, 1, 7, 0, 0, 8, 1, 0, 0, 0, 9, 0, 0, 0, 3, 0, 64, 0, 80, 32, 4, 5, 3, 3, 1, 1, 1];
    let filling = [&[1, 2, 0, 40][..], &filling].concat();
    // Overwritten bytes, an area, and wrong patch records.
    let notes = [2, 6, 0, 64, 5, 9, 6, 1, 0, 2, 8, 4, 1, 5, 0, 0, 3, 4, 1, 2, 7, 1, 2, 3, 4];
    vec![counts.to_vec(), log(2), log(3), log(5), filling, notes.to_vec()]
}
