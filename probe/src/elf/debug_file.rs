//! Finds a program's separate debug file, which contains symbols and line tables.
//!
//! The file is searched for as gdb does: first below the debug directory by the program's build
//! identifier, then by the name in `.gnu_debuglink` beside the program, in `.debug` and below the
//! debug directory. A file that does not match (another build identifier or checksum) or is damaged
//! is ignored without a message. All paths belong to this process's mount namespace, and only
//! regular files are opened; a name in a program's file cannot lead to another directory.

use std::fs;
use std::path::{Component, Path, PathBuf};

use object::Object;

use super::layout::File;
use super::symbols::{self, Symbol};
use crate::regular_file;

/// Directory where distributions install debug files.
pub(super) const ROOT: &str = "/usr/lib/debug";

/// Symbols of the debug file of the program at `path`; empty if there is no debug file.
pub(super) fn symbols(file: &File, path: &Path, root: &Path) -> Vec<Symbol> {
    read(file, path, root, |debug| symbols::read(debug).ok()).unwrap_or_default()
}

/// Applies `find` to the debug file of the program at `path`.
pub(super) fn read<T>(
    file: &File,
    path: &Path,
    root: &Path,
    find: impl Fn(&File) -> Option<T>,
) -> Option<T> {
    by_build_id(file, root, &find).or_else(|| by_link(file, path, root, &find))
}

fn by_build_id<T>(file: &File, root: &Path, find: impl Fn(&File) -> Option<T>) -> Option<T> {
    let id = file.build_id().ok()??;
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = root.join(format!(".build-id/{first:02x}/{rest}.debug"));
    let bytes = regular_file::read(&path).ok()?;
    let debug = File::parse(&*bytes).ok()?;
    let same = debug.build_id().ok()?? == id;
    same.then(|| find(&debug))?
}

fn by_link<T>(
    file: &File,
    path: &Path,
    root: &Path,
    find: impl Fn(&File) -> Option<T>,
) -> Option<T> {
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    // Only a single component is accepted, because a path could lead to another directory.
    let mut parts = name.components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
        return None;
    }
    let path = fs::canonicalize(path).ok()?;
    let folder = path.parent()?;
    let global: PathBuf = root.join(folder.strip_prefix("/").ok()?);
    [folder.to_owned(), folder.join(".debug"), global].iter().find_map(|folder| {
        let bytes = regular_file::read(&folder.join(name)).ok()?;
        let debug = (crc32fast::hash(&bytes) == checksum).then(|| File::parse(&*bytes))?.ok()?;
        find(&debug)
    })
}
