//! Compares demangled names with those of c++filt and of the Rust source.

use proptest::prelude::*;

use super::programs::{Programs, run};
use crate::elf::Image;
use crate::elf::names::Demangler;

fn name(symbol: &str) -> String {
    Demangler { bytes_left: usize::MAX }.name(symbol)
}

#[test]
fn names_are_as_sources_have_them() {
    let cases = [
        ("main", "main"),
        ("i", "i"),
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("f.constprop.0", "f.constprop.0"),
        ("_Z1fiPKc", "f(int, char const*)"),
        ("_Z1fi.part.0", "f(int) [clone .part.0]"),
        ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
        ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
        ("_Znot_mangled", "_Znot_mangled"),
        ("_R", "_R"),
        ("@", "@"),
        ("_ZN", "_ZN"),
        // Control characters are escaped only where the name is printed.
        ("a\u{1b}[31mb\n", "a\u{1b}[31mb\n"),
    ];
    for (symbol, expected) in cases {
        assert_eq!(name(symbol), expected, "{symbol}");
    }
}

#[test]
fn names_of_cxx_are_those_of_cxxfilt_without_return_types() {
    let programs = Programs::new();
    let Some(path) = programs.cxx("names", &["-O1"]) else { return };
    let image = Image::read(&path).unwrap();
    let mangled = image.functions.iter().filter(|f| f.name.contains("shapes::"));
    let mangled: Vec<_> = mangled.filter(|f| f.symbols[0].starts_with("_Z")).collect();
    assert!(mangled.len() > 8, "{mangled:?}");
    for function in mangled {
        let Some(theirs) = run("c++filt", &[&function.symbols[0]]) else { return };
        let (theirs, ours) = (theirs.trim(), &function.name);
        assert!(theirs == ours || theirs.ends_with(&format!(" {ours}")), "{theirs}\n{ours}");
    }
}

#[test]
fn names_of_rust_have_no_hashes() {
    let programs = Programs::new();
    let Some(path) = programs.rust("rust", &["-O"]) else { return };
    let image = Image::read(&path).unwrap();
    let own = |name: &str| name.contains("shapes::Square as ") && name.ends_with("::area");
    assert!(image.functions.iter().any(|function| own(&function.name)));
}

/// A function whose last parameter has a name 2^`levels` times as long as the first one's.
fn doubling(levels: usize) -> String {
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".map(char::from);
    let parameters: String =
        digits[..levels].iter().map(|digit| format!("S_IS{digit}_S{digit}_E")).collect();
    format!("_Z1f1TIiiE{parameters}")
}

#[test]
fn names_are_limited_by_the_bytes_left() {
    let expected = "f(T<int, int>, T<T<int, int>, T<int, int> >)";
    assert_eq!(name(&doubling(1)), expected);
    assert_eq!(name(&doubling(35)), doubling(35));
    let mut names = Demangler { bytes_left: expected.len() };
    assert_eq!(names.name(&doubling(1)), expected);
    assert_eq!(names.name("_Z1fi"), "_Z1fi");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_symbol_has_a_name(symbol in "(_Z|_R|_ZN)?[A-Za-z0-9_]{0,12}([NSTIEKPRLXDZfiv0-9_.]|St|S_|T_|17h|Dp|cv){0,60}") {
        let mut names = Demangler { bytes_left: 4096 };
        prop_assert!(names.name(&symbol).len() <= 4096);
    }
}
