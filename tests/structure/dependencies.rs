//! Checks that the dependencies are what deny.toml allows, where `cargo deny` is not installed.

use std::collections::{BTreeMap, BTreeSet};

use crate::crates::cargo;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Versions of each package that the workspace is built and tested with.
fn versions() -> BTreeMap<String, BTreeSet<String>> {
    let tree = ["tree", "--offline", "--workspace", "-e", "normal,build,dev", "--prefix", "none"];
    let text = cargo(&[&tree[..], &["--format", "{p}"]].concat());
    let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            let version = version.trim_start_matches('v').to_owned();
            versions.entry(name.to_owned()).or_default().insert(version);
        }
    }
    versions
}

fn deny() -> toml::Table {
    let text = include_str!("../../deny.toml");
    text.parse().expect("deny.toml is TOML")
}

#[test]
fn old_versions_of_packages_are_those_that_deny_toml_names() {
    let mut older = BTreeSet::new();
    for (name, versions) in versions() {
        let number = |version: &str| -> Vec<u64> {
            version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
        };
        let newest = versions.iter().max_by_key(|version| number(version)).cloned();
        let rest = versions.into_iter().filter(|version| Some(version) != newest.as_ref());
        older.extend(rest.map(|version| format!("{name}@{version}")));
    }
    let deny = deny();
    let named = deny["bans"]["skip"].as_array().expect("a list").iter();
    let named: BTreeSet<String> =
        named.map(|one| one["crate"].as_str().expect("a text").to_owned()).collect();
    assert_eq!(older, named, "cargo tree -d");
}

#[test]
fn packages_come_from_one_registry() {
    let lock: toml::Table = include_str!("../../Cargo.lock").parse().expect("a lock file");
    let packages = lock["package"].as_array().expect("a list");
    assert!(packages.len() > 100, "{} packages", packages.len());
    let sources = packages.iter().filter_map(|package| package.get("source")?.as_str());
    let other: Vec<&str> = sources.filter(|source| *source != CRATES_IO).collect();
    assert!(other.is_empty(), "{other:?}");
}
