//! Names stubs for people: each function's, and what tags share.

use std::ops::Range;

use super::Tagged;
use super::patch::Patched;

/// What is added to a function's name.
pub(super) const SUFFIX: &str = "@tag";
/// Code that tags share, and space between stubs.
pub(super) const SHARED: &str = "hmtt_tag_shared";

impl Tagged {
    /// Where code was added to the process, in the order in which it was.
    pub(super) fn added_code(&self) -> &[Range<u64>] {
        &self.described
    }

    /// Names for all of some added code, in ascending order without gaps.
    pub(super) fn names_in(&self, code: &Range<u64>) -> Vec<(Range<u64>, String)> {
        let gates = self.gates.iter().map(|gate| &gate.patched);
        let inside = |one: &&Patched| code.contains(&one.stubs.start);
        let mut functions: Vec<&Patched> =
            self.patched.iter().chain(gates).filter(inside).collect();
        functions.sort_by_key(|one| one.stubs.start);
        let mut names = Vec::with_capacity(functions.len() + 1);
        let mut add = |range: Range<u64>, name: String| {
            if range.start < range.end {
                names.push((range, name));
            }
        };
        let mut from = code.start;
        for one in functions {
            add(from..one.stubs.start, SHARED.to_owned());
            add(one.stubs.clone(), format!("{}{SUFFIX}", one.function.name));
            from = one.stubs.end;
        }
        add(from..code.end, SHARED.to_owned());
        names
    }
}
