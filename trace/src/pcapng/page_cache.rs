//! Checks whether a file is in the page cache.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::IoSliceMut;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Number of places in the file that are checked.
const PLACES: u64 = 16;

/// Whether more than half of a file is in the page cache. Also `true` if the system does not report
/// this. `length`: bytes of the file.
///
/// Cached bytes are read many times faster than from any disk. Uncached bytes take about twice as
/// long through the page cache as directly from the disk. So direct reads are faster if less than
/// about half of the file is cached.
pub fn is_cached(file: &File, length: u64) -> bool {
    let stride = (length / PLACES).max(1);
    // A check reads its page into the cache. Random places keep the next check from finding the
    // same pages. The advice of random access limits each check to one page.
    let state = RandomState::new();
    let places = (0..PLACES).map(|place| place * stride + state.hash_one(place) % stride);
    if fadvise(file, 0, None, Advice::Random).is_err() {
        return true;
    }
    let cached = places.filter(|place| answers_at_once(file, *place)).count() as u64;
    // Withdraws the advice; if that fails, reading is only slower.
    let _ = fadvise(file, 0, None, Advice::Normal);
    cached > PLACES / 2
}

/// Whether a read at `offset` need not wait for the disk. Also `true` for all errors other than
/// `EAGAIN`, such as `EOPNOTSUPP` of a file system that cannot answer this question.
fn answers_at_once(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
}
