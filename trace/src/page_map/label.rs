//! Names the object that a page belongs to, such as a file or a heap.

use hmtt_files::page_map::{Mapping, Place};

const SHARED: u8 = 1 << 3;

/// The name of the object that a page belongs to: the file in the page cache, the process's own
/// copy of a file, or a name from the kernel.
///
/// | Mapping | Page | Label |
/// |---|---|---|
/// | of a file | of the file | its path |
/// | of a file | of the process | its path, `(copy)` |
/// | without a file | | `[heap]`, `[stack]`, or another name of the kernel; otherwise `anonymous`, or `shared memory` |
pub fn label(mapping: &Mapping, place: &Place) -> String {
    let Mapping { name, inode, .. } = mapping;
    match (name.is_empty(), *inode != 0 && !place.is_file) {
        (false, true) => format!("{name} (copy)"),
        (false, false) => name.clone(),
        (true, _) if mapping.permissions & SHARED != 0 => "shared memory".to_owned(),
        (true, _) => "anonymous".to_owned(),
    }
}
