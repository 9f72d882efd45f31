//! Compares names in outputs with the list in `docs/glossary.md`, *Names in outputs*.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Keys whose value is an object, of which each key is data: kinds of faults and of sites, numbers
/// of threads.
const KEYED_BY_DATA: [&str; 3] = ["faults", "sites", "threads"];

/// The names that the glossary lists.
///
/// # Panics
/// If the glossary has no such list.
pub fn documented() -> BTreeSet<String> {
    let glossary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/glossary.md");
    let glossary = std::fs::read_to_string(glossary).expect("the glossary can be read");
    let (_, list) = glossary.split_once("## Names in outputs\n").expect("it lists the names");
    let rows = list.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let names = rows.flat_map(|(names, _)| names.split(", "));
    names.map(|name| name.trim_matches('`').to_owned()).collect()
}

/// Asserts that all these names are in the list. `output`: the output with the names, for the
/// message.
///
/// # Panics
/// If a name is not in the list.
pub fn assert_documented<N: Into<String>>(output: &str, names: impl IntoIterator<Item = N>) {
    let documented = documented();
    let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
    assert!(!names.is_empty(), "{output} has no names");
    let unknown: Vec<_> = names.difference(&documented).collect();
    assert!(
        unknown.is_empty(),
        "docs/glossary.md does not list these names of {output}: {unknown:?}"
    );
}

/// Asserts that the list has all keys of a JSON value.
///
/// # Panics
/// If a key is not in the list.
pub fn assert_json_documented(output: &str, value: &Value) {
    let mut names = BTreeSet::new();
    keys(value, &mut names);
    assert_documented(output, names);
}

fn keys(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                names.insert(key.clone());
                match value {
                    Value::Object(data) if KEYED_BY_DATA.contains(&key.as_str()) => {
                        data.values().for_each(|value| keys(value, names));
                    }
                    _ => keys(value, names),
                }
            }
        }
        Value::Array(array) => array.iter().for_each(|value| keys(value, names)),
        _ => {}
    }
}
