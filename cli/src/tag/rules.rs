//! Reports rules that match no function, with similar names as hints.

use anyhow::{Result, bail};
use hmtt_format::escape;
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::selection::{Selection, Unmatched, near_misses};

/// Checks that each rule matches a function of the program. It is an error if an including rule
/// matches no function, and a warning if an excluding rule matches none. Rules for libraries are
/// checked when the libraries are loaded.
pub fn check(selection: &Selection, image: &Image) -> Result<()> {
    selection.record_matches(&image.functions, None);
    let unmatched = selection.unmatched().into_iter().filter(|one| !one.is_of_library);
    for Unmatched { rule, excludes, .. } in unmatched {
        let path = escape::name(&image.path.display().to_string()).to_string();
        let hint = hint(&rule, &image.functions);
        let text = format!("rule `{rule}` matches no function of {path}{hint}");
        if !excludes {
            bail!("{text}; hmtt tag list prints all functions");
        }
        report!("hmtt: warning: {text}");
    }
    Ok(())
}

/// Warns of rules that have matched no function by the end of tagging. `is_tree`: whether a rule
/// could match a function of any program. If not, [`check`] has already reported the rules for the
/// program.
pub fn warn_of_unmatched(selection: &Selection, is_tree: bool) {
    if !is_tree {
        return warn_of_libraries(selection);
    }
    for Unmatched { rule, .. } in selection.unmatched() {
        report!("hmtt: warning: rule `{rule}` has matched no function");
    }
}

/// Warns of rules for libraries that have matched no function.
pub fn warn_of_libraries(selection: &Selection) {
    for Unmatched { rule, .. } in selection.unmatched().into_iter().filter(|one| one.is_of_library)
    {
        report!(
            "hmtt: warning: rule `{rule}` has matched no function of a library that was loaded"
        );
    }
}

fn hint(rule: &str, functions: &[Function]) -> String {
    let near: Vec<String> =
        near_misses(rule, functions).iter().map(|one| escape::name(one).to_string()).collect();
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}
