//! Tests with programs whose symbols are in a separate file.

use std::fs;
use std::path::{Path, PathBuf};

use super::programs::{Programs, run};
use crate::elf::{Function, Image};

/// A program, its copy without symbols, and the file that contains them.
struct Separated {
    whole: PathBuf,
    stripped: PathBuf,
    debug: PathBuf,
}

fn separate(programs: &Programs, name: &str, id: &str) -> Option<Separated> {
    let whole = programs.c(name, &["-g", "-O2", id])?;
    let debug = whole.with_extension("debug");
    run("objcopy", &["--only-keep-debug", whole.to_str()?, debug.to_str()?])?;
    let stripped = programs.stripped(&whole)?;
    Some(Separated { whole, stripped, debug })
}

fn functions(path: &Path, root: &Path) -> Vec<Function> {
    Image::from_bytes(&fs::read(path).unwrap(), path, Some(root)).unwrap().functions
}

fn is_named(functions: &[Function]) -> bool {
    functions.iter().any(|function| function.name == "divided")
}

#[test]
fn a_linked_debug_file_gives_the_symbols() {
    let programs = Programs::new();
    let root = tempfile::tempdir().unwrap();
    let Some(separated) = separate(&programs, "linked", "-Wl,--build-id=none") else { return };
    let Separated { whole, stripped, debug } = separated;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let Some(_) = run("objcopy", &[&link, stripped.to_str().unwrap()]) else { return };
    let whole = functions(&whole, root.path());
    assert_eq!(functions(&stripped, root.path()), whole);

    let hidden = debug.with_file_name(".debug");
    fs::create_dir(&hidden).unwrap();
    let moved = hidden.join(debug.file_name().unwrap());
    fs::rename(&debug, &moved).unwrap();
    assert_eq!(functions(&stripped, root.path()), whole);

    let folder = fs::canonicalize(stripped.parent().unwrap()).unwrap();
    let global = root.path().join(folder.strip_prefix("/").unwrap());
    fs::create_dir_all(&global).unwrap();
    let moved_again = global.join(debug.file_name().unwrap());
    fs::copy(&moved, &moved_again).unwrap();
    fs::remove_file(&moved).unwrap();
    assert_eq!(functions(&stripped, root.path()), whole);

    let mut bytes = fs::read(&moved_again).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&moved_again, bytes).unwrap();
    assert!(!is_named(&functions(&stripped, root.path())), "the checksum is wrong");
    fs::remove_file(&moved_again).unwrap();
    assert!(!is_named(&functions(&stripped, root.path())));
}

#[test]
fn a_build_identifier_finds_the_symbols() {
    let programs = Programs::new();
    let root = tempfile::tempdir().unwrap();
    let id = "-Wl,--build-id=0x0123456789abcdef";
    let Some(Separated { whole, stripped, debug }) = separate(&programs, "identified", id) else {
        return;
    };
    let folder = root.path().join(".build-id/01");
    fs::create_dir_all(&folder).unwrap();
    let debug_file = folder.join("23456789abcdef.debug");
    fs::copy(&debug, &debug_file).unwrap();
    let whole = functions(&whole, root.path());
    assert_eq!(functions(&stripped, root.path()), whole);

    let other = "-Wl,--build-id=0x0123456789abcdee";
    let Some(other) = separate(&programs, "other", other) else { return };
    fs::copy(&other.debug, &debug_file).unwrap();
    assert!(!is_named(&functions(&stripped, root.path())), "it is another program's");
    fs::write(&debug_file, b"\x7fELF and no more").unwrap();
    assert!(!is_named(&functions(&stripped, root.path())));
}
