//! Applies rules to made-up functions.

use std::error::Error as _;

use super::{Effect, Selection, SelectionError};
use crate::elf::Function;
use Effect::{Exclude, Include};

fn function(name: &str, symbols: &[&str], size: u64) -> Function {
    let symbols = symbols.iter().map(|symbol| symbol.to_string()).collect();
    Function { name: name.into(), symbols, start: 0x1000, size, ifunc: false, source: None }
}

/// Names of those made-up functions that rules select.
fn selected(rules: &[(Effect, &str)]) -> Vec<String> {
    let functions = [
        function("main", &["main"], 100),
        function("ns::f(char*)", &["_ZN2ns1fEPc"], 20),
        function("ns::g(int)", &["_ZN2ns1gEi"], 64),
        function("puts", &["puts", "_IO_puts@@V"], 63),
        function("main::{lambda()#1}::operator()() const", &["_ZZ4mainENKUlvE_clEv"], 5),
        function("fn_1000", &[], 7),
    ];
    let selection = Selection::parse(rules.iter().copied()).unwrap();
    functions.iter().filter(|f| selection.matches(f, None)).map(|f| f.name.clone()).collect()
}

#[test]
fn without_rules_all_functions_are_selected() {
    assert_eq!(selected(&[]).len(), 6);
    assert!(Selection::default().matches(&function("f", &[], 1), None));
}

#[test]
fn names_and_symbols_are_matched_whole() {
    assert_eq!(selected(&[(Include, "main")]), ["main"]);
    assert_eq!(selected(&[(Include, "_IO_puts@@V")]), ["puts"]);
    assert_eq!(selected(&[(Include, "name=ns::g(int)")]), ["ns::g(int)"]);
    assert_eq!(selected(&[(Include, "ns::f(char*)")]), ["ns::f(char*)"]);
    assert_eq!(selected(&[(Include, "name=ns::*")]), [""; 0]);
}

#[test]
fn globs_match_whole_names_and_expressions_parts_of_names() {
    assert_eq!(selected(&[(Include, "ns::*")]), ["ns::f(char*)", "ns::g(int)"]);
    assert_eq!(selected(&[(Include, "glob=*uts")]), ["puts"]);
    assert_eq!(selected(&[(Include, "regex=^fn_|_ZZ")]).len(), 2);
}

#[test]
fn the_lower_size_limit_is_inclusive_and_the_upper_exclusive() {
    assert_eq!(selected(&[(Include, ">=64")]), ["main", "ns::g(int)"]);
    assert_eq!(selected(&[(Exclude, "size>= 63"), (Exclude, "<7")]), ["ns::f(char*)", "fn_1000"]);
    assert_eq!(selected(&[(Include, "size<6")]).len(), 1);
}

#[test]
fn the_last_rule_that_matches_decides() {
    assert_eq!(selected(&[(Include, "ns::*"), (Exclude, "<64")]), ["ns::g(int)"]);
    assert_eq!(selected(&[(Exclude, "*"), (Include, "main")]), ["main"]);
    assert_eq!(selected(&[(Include, "main"), (Exclude, "*")]), [""; 0]);
    assert_eq!(selected(&[(Exclude, "main")]).len(), 5);
}

#[test]
fn lists_may_contain_comments_and_lambdas() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "# all\n\n  main  # the first\nmain::{lambda()#1}::operator()() const\n#puts\n";
    std::fs::write(&file, text).unwrap();
    let rule = format!("list={}", file.path().display());
    assert_eq!(selected(&[(Include, &rule)]).len(), 2);
    std::fs::write(&file, b"\xff\n").unwrap();
    let error = Selection::parse([(Include, rule.as_str())]).unwrap_err();
    assert!(matches!(error, SelectionError::List { .. }));
}

#[test]
fn errors_name_the_rule() {
    let wrong = [
        "",
        "  ",
        "name=",
        "glob=",
        "glob=[",
        "regex=(",
        "size>=",
        "size=4",
        "size>3",
        ">=x",
        "<-1",
        ">=99999999999999999999",
        "list=/nowhere/at/all",
        "source=",
        "source=[",
        "library=",
    ];
    for rule in wrong {
        let error = Selection::parse([(Include, "main"), (Exclude, rule)]).unwrap_err();
        assert!(error.to_string().contains(&format!("`{rule}`")), "{error}");
    }
    let error = Selection::parse([(Include, "regex=(")]).unwrap_err();
    assert!(error.source().is_some());
}

#[test]
fn functions_are_selected_by_source_and_library() {
    let in_source =
        |source: &str| Function { source: Some(source.into()), ..function("f", &[], 1) };
    let selection = Selection::parse([(Include, "source=*.c"), (Exclude, "source=b.c")]).unwrap();
    assert!(selection.has_sources() && !selection.has_libraries());
    assert!(selection.matches(&in_source("/build/a.c"), None));
    assert!(!selection.matches(&in_source("/build/b.c"), None));
    assert!(!selection.matches(&in_source("/build/a.rs"), None));
    assert!(!selection.matches(&function("f", &[], 1), None));
    let rules = [(Include, "g"), (Include, "library=libc.so*/mem*"), (Exclude, "size<8")];
    let selection = Selection::parse(rules).unwrap();
    assert!(selection.has_libraries() && selection.wants("libc.so.6") && !selection.wants("libm"));
    assert!(selection.matches(&function("memcpy", &[], 9), Some("libc.so.6")));
    assert!(!selection.matches(&function("memcpy", &[], 7), Some("libc.so.6")));
    assert!(!selection.matches(&function("memcpy", &[], 9), Some("libm.so.6")));
    assert!(!selection.matches(&function("memcpy", &[], 9), None));
    assert!(!selection.matches(&function("g", &[], 9), Some("libc.so.6")));
    assert!(selection.matches(&function("g", &[], 9), None));
}

#[test]
fn source_files_are_needed_where_rules_for_them_apply() {
    let needed = |rules: &[(Effect, &str)]| {
        let selection = Selection::parse(rules.iter().copied()).unwrap();
        [None, Some("liba.so"), Some("libb.so")].map(|library| selection.needs_sources(library))
    };
    assert_eq!(needed(&[(Include, "main")]), [false; 3]);
    assert_eq!(needed(&[(Include, "source=a.c")]), [true, false, false]);
    assert_eq!(needed(&[(Include, "library=liba*/source=a.c")]), [false, true, false]);
    // What no rule includes is not selected, whatever rules exclude.
    let excluded = [(Include, "library=libb*"), (Exclude, "source=a.c")];
    assert_eq!(needed(&excluded), [true, false, true]);
}
