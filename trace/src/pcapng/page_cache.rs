//! A file to whether it is in the page cache.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::IoSliceMut;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Places that are tried.
const PLACES: u64 = 16;

/// Whether more than half of a file of `length` bytes is in the page cache, or nobody can tell.
///
/// Bytes that are in it are read many times faster than any disk gives them; bytes that are not take
/// about twice as long as the disk needs. So reading past the page cache pays from about half on.
pub fn is_cached(file: &File, length: u64) -> bool {
    let stride = (length / PLACES).max(1);
    // A try brings what was not there into the cache. Where it is always at other places, the next
    // reader is not deceived; and random access brings one page instead of many.
    let state = RandomState::new();
    let places = (0..PLACES).map(|place| place * stride + state.hash_one(place) % stride);
    if fadvise(file, 0, None, Advice::Random).is_err() {
        return true;
    }
    let cached = places.filter(|place| answers_at_once(file, *place)).count() as u64;
    // Takes the advice back; if that fails, reading is slower and nothing else.
    let _ = fadvise(file, 0, None, Advice::Normal);
    cached > PLACES / 2
}

/// A file system that does not know such reads (`EOPNOTSUPP`) answers too.
fn answers_at_once(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
}
