//! Rules that choose nothing, to errors and warnings that name what may be meant.

use anyhow::{Result, bail};
use hmtt_format::escape;
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::selection::{Selection, Unmatched, near_misses};

/// Looks for rules that match no function of the program. Those that include are errors, those that exclude are warned
/// of; what chooses from libraries is known only when they are there.
pub fn check(selection: &Selection, image: &Image) -> Result<()> {
    selection.record_matches(&image.functions, None);
    let unmatched = selection.unmatched().into_iter().filter(|one| !one.is_of_library);
    for Unmatched { rule, excludes, .. } in unmatched {
        let path = escape::name(&image.path.display().to_string()).to_string();
        let hint = hint(&rule, &image.functions);
        let text = format!("rule `{rule}` matches no function of {path}{hint}");
        if !excludes {
            bail!("{text}; hmtt tag list names them all");
        }
        eprintln!("hmtt: warning: {text}");
    }
    Ok(())
}

/// Warns of rules that have matched nothing in all that was looked at.
pub fn warn(selection: &Selection) {
    for Unmatched { rule, .. } in selection.unmatched() {
        eprintln!("hmtt: warning: rule `{rule}` has matched no function");
    }
}

/// The same, of libraries only.
pub fn warn_of_libraries(selection: &Selection) {
    for Unmatched { rule, .. } in selection.unmatched().into_iter().filter(|one| one.is_of_library)
    {
        eprintln!(
            "hmtt: warning: rule `{rule}` has matched no function of a library that was loaded"
        );
    }
}

fn hint(rule: &str, functions: &[Function]) -> String {
    let near: Vec<String> =
        near_misses(rule, functions).iter().map(|one| escape::name(one).to_string()).collect();
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}
