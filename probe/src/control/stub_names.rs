//! Names stubs for profilers and debuggers.

use std::ops::Range;

use super::PatchedCode;
use super::patch::PatchedFunction;
use crate::address::RunAddr;

/// Suffix of the name of a function's stubs.
pub(super) const SUFFIX: &str = "@tag";
/// Name of code that tags share, and of unused space between stubs.
pub(super) const SHARED: &str = "hmtt_tag_shared";

impl PatchedCode {
    /// Divides a range of added code into parts with names, in ascending order and without gaps.
    /// For example, the stubs of `f` have the name `f@tag`.
    pub(super) fn names_in(&self, code: &Range<RunAddr>) -> Vec<(Range<RunAddr>, String)> {
        let inside = |function: &&PatchedFunction| code.contains(&function.stubs.start);
        let mut functions: Vec<&PatchedFunction> = self.all_functions().filter(inside).collect();
        functions.sort_by_key(|function| function.stubs.start);
        let mut names = Vec::with_capacity(functions.len() + 1);
        let mut add = |range: Range<RunAddr>, name: String| {
            if range.start < range.end {
                names.push((range, name));
            }
        };
        let mut from = code.start;
        for patched in functions {
            add(from..patched.stubs.start, SHARED.to_owned());
            add(patched.stubs.clone(), format!("{}{SUFFIX}", patched.function.name));
            from = patched.stubs.end;
        }
        add(from..code.end, SHARED.to_owned());
        names
    }
}
