//! Finds circles of modules: modules in one parent module that need each other, directly or through
//! others.
//!
//! A module and its submodules count as one module, and may name each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::Crate;

/// The first file of each crate.
const CRATES: [&str; 21] = [
    "cli/src/main.rs",
    "dataset/src/lib.rs",
    "files/src/lib.rs",
    "format/src/lib.rs",
    "fuzz/src/lib.rs",
    "fuzz/src/main.rs",
    "gateware/src/lib.rs",
    "gateware/src/main.rs",
    "host/src/bin/hmtt-recv/main.rs",
    "host/src/lib.rs",
    "paths/src/lib.rs",
    "probe/src/lib.rs",
    "scale/cluster/src/lib.rs",
    "scale/sql/src/lib.rs",
    "scale/sql/src/main.rs",
    "sim/src/bin/hmtt-sim/main.rs",
    "sim/src/lib.rs",
    "tests/src/lib.rs",
    "tests/support/src/lib.rs",
    "trace/src/lib.rs",
    "translator/src/lib.rs",
];

/// Modules of one parent module that are in a circle, and the uses that cause it.
struct Circle {
    members: Vec<String>,
    because: BTreeSet<String>,
}

/// Returns all circles of a crate.
fn circles(examined_crate: &Crate) -> Vec<Circle> {
    // For each parent module: which of its modules name which, and in which files.
    let mut edges: BTreeMap<&[String], Edges> = BTreeMap::new();
    for (number, module) in examined_crate.modules.iter().enumerate() {
        for path in &module.paths {
            let Some(target) = examined_crate.target(number, path) else { continue };
            let (module_path, target_path) = (&module.path, &examined_crate.modules[target].path);
            let shared =
                module_path.iter().zip(target_path).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (module_path.get(shared), target_path.get(shared)) else {
                continue;
            };
            let because = format!("{} names {}", module_path.join("::"), path.join("::"));
            let inside = edges.entry(&module_path[..shared]).or_default();
            inside.entry(from).or_default().entry(to).or_default().insert(because);
        }
    }
    edges.into_iter().flat_map(|(place, edges)| circles_in(place, &edges)).collect()
}

/// For each module, by name, the modules that it names, and where.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

/// Returns the modules that a module needs, directly or through others.
fn needed<'a>(edges: &Edges<'a>, by: &'a str) -> BTreeSet<&'a str> {
    let (mut needs, mut next) = (BTreeSet::new(), vec![by]);
    while let Some(module) = next.pop() {
        let named = edges.get(module).into_iter().flat_map(BTreeMap::keys).copied();
        next.extend(named.filter(|name| needs.insert(*name)));
    }
    needs
}

fn circles_in(place: &[String], edges: &Edges) -> Vec<Circle> {
    let needed: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|one| (*one, needed(edges, one))).collect();
    let need_each_other = |module: &str, other: &str| {
        let needs = |one, other| needed.get(one).is_some_and(|all| all.contains(other));
        needs(module, other) && needs(other, module)
    };
    let mut circles: Vec<Circle> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for module in edges.keys() {
        let members: BTreeSet<&str> =
            edges.keys().copied().filter(|other| need_each_other(module, other)).collect();
        if members.is_empty() || !seen.insert(module) {
            continue;
        }
        seen.extend(members.iter().copied());
        let because = members
            .iter()
            .flat_map(|one| edges[one].iter().filter(|(other, _)| members.contains(**other)))
            .flat_map(|(_, because)| because.iter().cloned())
            .collect();
        let name = |member: &&str| [place, &[member.to_string()]].concat().join("::");
        circles.push(Circle { members: members.iter().map(name).collect(), because });
    }
    circles
}

#[test]
fn no_modules_depend_on_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for root in CRATES {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(root);
        for Circle { members, because } in circles(&Crate::read(&file)) {
            wrong.push(format!("{root}: {members:?}: {because:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Adds the first file of each crate in a folder with a `Cargo.toml`, and in those below it, with
/// its path from `root`.
fn add_crates(root: &Path, folder: &str, crates: &mut BTreeSet<String>) {
    let mut add = |file: String| {
        if root.join(&file).is_file() {
            crates.insert(file);
        }
    };
    add(format!("{folder}/src/lib.rs"));
    add(format!("{folder}/src/main.rs"));
    for program in subfolders(&root.join(folder).join("src/bin")) {
        add(format!("{folder}/src/bin/{program}/main.rs"));
    }
    for inner in subfolders(&root.join(folder)) {
        if root.join(folder).join(&inner).join("Cargo.toml").is_file() {
            add_crates(root, &format!("{folder}/{inner}"), crates);
        }
    }
}

/// The names of the folders in a folder; none if it does not exist.
fn subfolders(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[test]
fn the_modules_of_every_crate_are_examined() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates = BTreeSet::new();
    for folder in subfolders(&root) {
        if root.join(&folder).join("Cargo.toml").is_file() {
            add_crates(&root, &folder, &mut crates);
        }
    }
    assert_eq!(crates, CRATES.iter().map(ToString::to_string).collect());
}

/// Returns the modules in the circles of a crate of one file.
fn members(text: &str) -> Vec<Vec<String>> {
    circles(&Crate::parse(text)).into_iter().map(|circle| circle.members).collect()
}

const NONE: [[&str; 0]; 0] = [];

#[test]
fn circles_are_found_in_every_notation() {
    let twice = |in_c: &str, in_b: &str| {
        members(&format!("mod a {{ pub mod c {{ {in_c} }} }} mod b {{ {in_b} pub struct B; }}"))
    };
    let both = vec![vec!["a".to_owned(), "b".to_owned()]];
    assert_eq!(twice("use crate::b::B;", "use crate::a::c;"), both);
    assert_eq!(twice("use super::super::b::{self, B as D};", "fn f() { super::a::c::g() }"), both);
    assert_eq!(twice("use crate::b; fn f() -> b::B {}", "pub(crate) use crate::a::*;"), both);
    assert_eq!(twice("use crate::b::B;", "#[cfg(test)] mod tests { use crate::a; }"), NONE);
    assert_eq!(twice("use crate::b::B;", "/* crate::a */ // crate::a\n"), NONE);
    assert_eq!(twice("use crate::b::B;", "const T: &str = r#\"crate::a \"#;"), NONE);
    assert_eq!(twice("use crate::b::B;", "use std::a::c;"), NONE);
    // The circle passes through a module with a re-export, and through a name that the crate
    // re-exports.
    let third = "mod a { use crate::b; } mod b { pub use super::c::C; } mod c { use crate::A; }";
    assert_eq!(members(&format!("pub use a::A; {third}")), [["a", "b", "c"]]);
    // A module and its submodules count as one.
    assert_eq!(members("mod a { use b::B; mod b { use super::A; } }"), NONE);
    assert_eq!(
        members("mod a { mod b { use super::c; } mod c { use super::b; } }"),
        [["a::b", "a::c"]]
    );
}
