//! Checks the documentation of files in which the compiler cannot: derives of rust-hdl generate
//! public methods without documentation, so these files allow missing documentation.

use std::fs;
use std::path::{Path, PathBuf};

/// Documentation of a bundle of ports whose signals are documented at its other end.
const OTHER_END: &str = "/// The end of [`";

/// Adds the source files of a folder, and of the folders in it.
fn add_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}

/// Returns the lines with public items and variants of enums that have no documentation.
fn undocumented(text: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut documented, mut other_end, mut in_enum) = (false, false, false);
    for line in text.lines() {
        let words = line.trim();
        let is_variant = in_enum && words.ends_with(',') && line.starts_with("    ");
        if words.starts_with("///") {
            other_end |= line.starts_with(OTHER_END);
            documented = true;
            continue;
        }
        if words.starts_with("#[") {
            continue;
        }
        let is_item = words.starts_with("pub ") && !words.starts_with("pub use");
        if (is_item || is_variant) && !documented && !other_end {
            items.push(words);
        }
        in_enum |= words.starts_with("pub enum");
        if line == "}" {
            (other_end, in_enum) = (false, false);
        }
        documented = false;
    }
    items
}

/// Returns the lines of comments that are longer than a line of code may be. Drawings, examples and
/// rows of tables are as wide as they need to be.
fn long_comments(text: &str) -> Vec<&str> {
    let mut is_example = false;
    let mut is_long = |line: &&str| {
        let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        is_example ^= comment.starts_with("```");
        !is_example && !comment.starts_with('|') && line.chars().count() > 100
    };
    text.lines().filter(&mut is_long).collect()
}

#[test]
fn comments_are_as_wide_as_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&root).expect("a folder").flatten() {
        let folder = entry.path();
        if entry.file_name() != "target" && folder.is_dir() {
            for folder in
                ["src", "tests", "benches", "sql", "cluster"].map(|name| folder.join(name))
            {
                if folder.is_dir() {
                    add_sources(&folder, &mut sources);
                }
            }
        }
    }
    assert!(sources.len() > 1000, "{} files", sources.len());
    for source in sources {
        let text = fs::read_to_string(&source).expect("a source file");
        assert_eq!(long_comments(&text), [""; 0], "{}", source.display());
    }
}

#[test]
fn long_comments_are_found() {
    let long = format!("    /// {}", "word ".repeat(20));
    let text = format!("//! Short.\n{long}\n/// ```text\n{long}\n/// ```\n/// | {long}\n");
    assert_eq!(long_comments(&text), [&long]);
}

#[test]
fn signals_of_the_gateware_are_documented() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateware/src");
    let mut sources = Vec::new();
    add_sources(&folder, &mut sources);
    let mut allowing = 0;
    for source in sources {
        let text = fs::read_to_string(&source).expect("a source file");
        if text.contains("#![allow(missing_docs") {
            allowing += 1;
            assert_eq!(undocumented(&text), [""; 0], "{}", source.display());
        }
    }
    assert!(allowing > 0, "no file allows missing documentation, so this test is not needed");
}

#[test]
fn undocumented_signals_are_found() {
    let text = "
/// A struct.
#[derive(LogicStruct)]
pub struct Known {
    /// A field.
    pub documented: Bit,
    pub bare: Bit,
}

pub enum Kind {
    /// A variant.
    Documented,
    Bare,
}

/// The end of [`Write`] at the writer.
pub struct Writer {
    pub push: Bit,
}

/// A constant.
pub const LAST: u8 = 1;
pub const BARE: u8 = 1;
";
    let bare = ["pub bare: Bit,", "pub enum Kind {", "Bare,", "pub const BARE: u8 = 1;"];
    assert_eq!(undocumented(text), bare);
}
