//! Tests that the gaps in a file are placed and counted.

use hmtt_files::access_trace::{
    BlockAccesses, Continuation, LOST, NATIVE, START, Unrecorded, note,
};

use super::super::{Ending, Executed, Gap, ThreadAccess, Visitor, Writer, visit};
use super::{block, units};

/// Gaps, each with the number of accesses before it.
#[derive(Default)]
struct Gaps {
    accesses: usize,
    found: Vec<(usize, Gap)>,
}

impl Visitor for Gaps {
    fn access(&mut self, _: &Executed<'_>, _: ThreadAccess) {
        self.accesses += 1;
    }

    fn gap(&mut self, gap: Gap) {
        self.found.push((self.accesses, gap));
    }
}

/// The gaps in a file with one block, these units and these counts, and the ending of the file.
fn read(words: &[u64], unrecorded: Option<Unrecorded>) -> (Vec<(usize, Gap)>, Ending) {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.blocks(&[BlockAccesses { function: 0, ..block() }]).unwrap();
    writer.units(7, units(words)).unwrap();
    unrecorded.into_iter().for_each(|counts| writer.unrecorded(counts).unwrap());
    let mut gaps = Gaps::default();
    let ending = visit(&writer.finish(0, 0).unwrap()[..], &mut gaps).unwrap();
    (gaps.found, ending)
}

#[test]
fn dropped_words_are_gaps_and_a_loss() {
    // The program states that it has dropped nothing.
    let (gaps, ending) = read(&[1, 0x5000, note(LOST, 0).into(), 300, 1, 0x5000], None);
    assert_eq!(gaps, [(2, Gap::Dropped { thread: 7, words: 300 })]);
    assert_eq!((ending.accesses, ending.dropped, ending.has_loss()), (4, 300, true));
}

#[test]
fn native_code_is_a_gap_and_a_loss() {
    let notes = [START, NATIVE].map(|kind| note(kind, 0).into());
    let words = [&[1, 0x5000][..], &notes, &[1, 0x5000]].concat();
    let native_code = 1;
    let unrecorded = Unrecorded { native_code, ..Unrecorded::default() };
    let (gaps, ending) = read(&words, Some(unrecorded));
    assert_eq!(gaps, [(2, Gap::Unrecorded { thread: 7 })]);
    assert_eq!((ending.accesses, ending.unrecorded, ending.has_loss()), (4, unrecorded, true));
}

#[test]
fn children_are_stated_and_missing() {
    let unrecorded = Unrecorded { children: 3, ..Unrecorded::default() };
    let (gaps, ending) = read(&[1, 0x5000], Some(unrecorded));
    assert_eq!((gaps, ending.unrecorded, ending.has_loss()), (Vec::new(), unrecorded, true));
    let continuation = Continuation::Natively;
    let (_, ending) = read(&[], Some(Unrecorded { continuation, ..unrecorded }));
    assert!(ending.has_loss() && !ending.is_cut);
}
