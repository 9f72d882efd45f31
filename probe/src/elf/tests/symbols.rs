//! Compares images with the symbol tables that readelf prints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::programs::{Programs, run};
use crate::elf::Image;

/// Names and largest size of the functions in readelf's output, by address.
type Listed = BTreeMap<u64, (BTreeSet<String>, u64)>;

fn listed(path: &Path) -> Option<Listed> {
    let mut functions = Listed::new();
    for line in run("readelf", &["-Ws", path.to_str()?])?.lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, address, size, "FUNC" | "IFUNC", _, _, index, name, ..] = columns[..] else {
            continue;
        };
        let name = name.split('@').next()?;
        if index == "UND" || name.split('.').any(|part| part == "cold") {
            continue;
        }
        let decimal = size.parse().ok();
        let size = decimal.or_else(|| u64::from_str_radix(size.strip_prefix("0x")?, 16).ok())?;
        let entry = functions.entry(u64::from_str_radix(address, 16).ok()?).or_default();
        entry.0.insert(name.into());
        entry.1 = entry.1.max(size);
    }
    Some(functions)
}

#[test]
fn symbols_are_those_that_readelf_lists() {
    let programs = Programs::new();
    for path in programs.all() {
        let Some(listed) = listed(&path) else { continue };
        let image = Image::parse(&crate::regular_file::read(&path).unwrap(), &path).unwrap();
        let named: BTreeMap<u64, BTreeSet<String>> = image
            .functions
            .iter()
            .filter(|function| !function.symbols.is_empty())
            .map(|f| {
                let names = f.symbols.iter().map(|name| name.split('@').next().unwrap().into());
                (f.start, names.collect())
            })
            .collect();
        let names: BTreeMap<u64, BTreeSet<String>> =
            listed.iter().map(|(address, (names, _))| (*address, names.clone())).collect();
        assert_eq!(named, names, "{}", path.display());
        sizes(&image, &listed);
        eprintln!(
            "{}: {} of {} functions have symbols, {} fragments",
            path.display(),
            named.len(),
            image.functions.len(),
            image.fragments.len()
        );
    }
}

/// Checks that sizes are those of the file, unless a symbol has none or another function begins
/// before its end.
fn sizes(image: &Image, listed: &Listed) {
    for (address, (_, size)) in listed {
        let function = image.function_at(*address).unwrap();
        let next = listed.range(address + 1..).next().map_or(u64::MAX, |(next, _)| *next);
        match size {
            0 => assert!(function.size > 0 && function.start + function.size <= next),
            _ => assert_eq!(function.size, (*size).min(next - address), "{function:?}"),
        }
    }
}

#[test]
fn no_range_overlaps_another() {
    let programs = Programs::new();
    for path in programs.all() {
        let image = Image::read(&path).unwrap();
        super::hostile::check(&image);
    }
}

#[test]
fn functions_of_all_kinds_are_found() {
    let programs = Programs::new();
    let Some(path) = programs.c("kinds", &["-O2"]) else { return };
    let image = Image::read(&path).unwrap();
    let named = |name: &str| image.functions.iter().find(|f| f.name == name).unwrap();
    assert_eq!(named("alias").symbols, ["alias", "global", "__alias"]);
    assert!(named("chosen").ifunc && named("chosen").symbols.contains(&"resolve".into()));
    assert!(named("sizeless").size >= 6);
    assert_eq!(image.function_at(named("divided").start + 1), Some(named("divided")));
    assert_eq!(image.main(), Some(named("main").start));
    assert_eq!(image.function_at(image.entry).unwrap().name, "_start");
    assert!(image.functions.iter().all(|f| !f.name.contains(".cold")));
    let cold = run("nm", &[path.to_str().unwrap()]).unwrap_or_default();
    let cold: Vec<&str> = cold.lines().filter(|line| line.ends_with(".cold")).collect();
    assert!(!cold.is_empty(), "the compiler splits functions");
    for line in cold {
        let address = u64::from_str_radix(&line[..16], 16).unwrap();
        assert!(image.fragments.iter().any(|range| range.start == address), "{line}");
    }
}

#[test]
fn kinds_of_files_are_distinguished() {
    let programs = Programs::new();
    let kinds = [
        ("pie", vec!["-pie", "-fPIE"], (true, true)),
        ("no-pie", vec!["-no-pie"], (false, true)),
        ("static", vec!["-static"], (false, false)),
        ("static-pie", vec!["-static-pie"], (true, false)),
        ("library", vec!["-shared", "-fPIC"], (true, false)),
    ];
    for (name, arguments, expected) in kinds {
        let Some(path) = programs.c(name, &arguments) else { continue };
        let image = Image::read(&path).unwrap();
        assert_eq!((image.relocatable, image.dynamic), expected, "{name}");
    }
    let Some(object) = programs.c("object", &["-c"]) else { return };
    assert!(Image::read(&object).unwrap_err().to_string().contains("object file"));
}

/// Assembly code often has labels without types, and sometimes no labels.
#[test]
fn unwind_ranges_without_function_symbols_are_functions() {
    const SOURCE: &str = r#"
        __asm__(".text\n.globl untyped\nuntyped: .cfi_startproc\nmov $2, %eax\nret\n.cfi_endproc\n"
            ".cfi_startproc\nmov $3, %eax\nret\n.cfi_endproc\n");
        int untyped(void);
        int main(void) { return untyped(); }"#;
    let programs = Programs::new();
    let Some(path) = programs.build("cc", "untyped", "c", SOURCE, &["-O1"]) else { return };
    let image = Image::read(&path).unwrap();
    let untyped = image.functions.iter().find(|f| f.name == "untyped").unwrap();
    let unnamed = image.function_at(untyped.start + 6).unwrap();
    assert_eq!((untyped.size, unnamed.size), (6, 6));
    assert_eq!(unnamed.name, format!("fn_{:x}", untyped.start + 6));
}
