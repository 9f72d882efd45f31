//! Compares images of stripped programs with the unwind information that readelf prints.

use std::collections::BTreeSet;
use std::path::Path;

use super::programs::{BUILDS, Programs, run};
use crate::elf::Image;

/// Starts of the ranges with unwind information, without those of the linker's stubs.
fn ranges(path: &Path) -> Option<BTreeSet<u64>> {
    let path = path.to_str()?;
    let mut stubs = Vec::new();
    for line in run("readelf", &["-WS", path])?.lines() {
        let line = line.split_once(']').map_or("", |(_, line)| line);
        let columns: Vec<&str> = line.split_whitespace().collect();
        if let [".plt" | ".plt.sec" | ".plt.got" | ".iplt", _, address, _, size, ..] = columns[..] {
            let start = u64::from_str_radix(address, 16).ok()?;
            stubs.push(start..start + u64::from_str_radix(size, 16).ok()?);
        }
    }
    let mut starts = BTreeSet::new();
    for line in run("readelf", &["--debug-dump=frames", path])?.lines() {
        let Some((_, range)) = line.split_once(" FDE ").and_then(|(_, l)| l.split_once("pc="))
        else {
            continue;
        };
        let (start, end) = range.split_once("..")?;
        let start = u64::from_str_radix(start, 16).ok()?;
        if start < u64::from_str_radix(end, 16).ok()? && !stubs.iter().any(|s| s.contains(&start)) {
            starts.insert(start);
        }
    }
    Some(starts)
}

#[test]
fn every_unwind_range_is_in_a_function_or_a_part() {
    let programs = Programs::new();
    for path in programs.all() {
        let Some(path) = programs.stripped(&path) else { continue };
        let Some(ranges) = ranges(&path) else { continue };
        let image = Image::read(&path).unwrap();
        super::hostile::check(&image);
        let in_fragment = |at: u64| image.fragments.iter().any(|range| range.contains(&at));
        let mut functions = 0;
        for range in &ranges {
            let function = image.function_at(*range);
            assert!(function.is_some() || in_fragment(*range), "{}: {range:#x}", path.display());
            functions += usize::from(function.is_some_and(|f| f.start == *range));
        }
        eprintln!("{}: {} ranges, {functions} functions", path.display(), ranges.len());
        assert!(functions * 10 > ranges.len() * 6, "{}", path.display());
    }
}

/// Functions without unwind information, and code that is not called, may be missed. Cold parts of
/// functions that keep nothing on the stack may be taken for functions.
#[test]
fn stripping_loses_names_and_little_else() {
    let programs = Programs::new();
    for path in programs.all() {
        let Some(stripped) = programs.stripped(&path) else { continue };
        let Some(ranges) = ranges(&stripped) else { continue };
        let (whole, stripped) = (Image::read(&path).unwrap(), Image::read(&stripped).unwrap());
        let starts =
            |image: &Image| image.functions.iter().map(|f| f.start).collect::<BTreeSet<_>>();
        let (functions, stripped_functions) = (starts(&whole), starts(&stripped));
        for missed in
            functions.difference(&stripped_functions).filter(|start| ranges.contains(start))
        {
            let missed = whole.function_at(*missed).unwrap();
            // Reached by jumps from linker stubs that have pushed arguments.
            let resolver = missed.name.starts_with("_dl_runtime_");
            assert!(resolver, "{}: {missed:?}", path.display());
        }
        for made_up in stripped_functions.difference(&functions) {
            let fragment = whole.fragments.iter().any(|range| range.contains(made_up));
            assert!(fragment, "{}: {made_up:#x}", path.display());
        }
        let made_up = stripped_functions.difference(&functions).count();
        assert!(made_up * 100 <= functions.len(), "{}: {made_up} made up", path.display());
    }
}

#[test]
fn main_is_found_without_symbols() {
    let programs = Programs::new();
    for (name, arguments) in BUILDS.into_iter().filter(|(name, _)| *name != "library") {
        let Some(path) = programs.c(name, arguments) else { continue };
        let Some(stripped) = programs.stripped(&path) else { continue };
        let whole = Image::read(&path).unwrap();
        let named = whole.functions.iter().find(|f| f.name == "main").unwrap();
        assert_eq!(whole.main(), Some(named.start), "{name}");
        let image = Image::read(&stripped).unwrap();
        assert_eq!(image.main(), Some(named.start), "{name}");
        assert_eq!(image.function_at(image.entry).unwrap().name, "_start");
        let unnamed = image.function_at(named.start).unwrap();
        assert_eq!(unnamed.name, format!("fn_{:x}", named.start), "{name}");
        assert_eq!((unnamed.start, unnamed.size), (named.start, named.size), "{name}");
    }
}

#[test]
fn section_headers_are_not_needed() {
    let programs = Programs::new();
    let Some(path) = programs.c("headers", &["-O2"]) else { return };
    let Some(path) = programs.stripped(&path) else { return };
    let mut bytes = std::fs::read(&path).unwrap();
    let whole = Image::parse(&bytes, &path).unwrap();
    // e_shoff, e_shnum and e_shstrndx.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    let image = Image::parse(&bytes, &path).unwrap();
    assert_eq!(image.main(), whole.main());
    for function in whole.functions.iter().filter(|function| function.name.starts_with("fn_")) {
        assert!(image.functions.contains(function), "{function:?}");
    }
}
