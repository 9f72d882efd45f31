//! Names what a page belongs to.

use hmtt_format::page_map::{Mapping, Place};

const SHARED: u8 = 1 << 3;

/// What a page belongs to: the file in the page cache, a copy of the file that the process has
/// changed, or the kernel's name.
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
