//! Prints warnings about functions and processes that have no tags, or have lost them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hmtt_format::escape;
use hmtt_probe::control::{Refused, RemainingMemory, Restored, Tagged};
use hmtt_probe::sanitizer;
use nix::unistd::Pid;

/// Maximum number of functions that are named in warnings of one kind.
const NAMED: usize = 8;

/// A path for output, without the control characters that a terminal would interpret.
pub fn shown(path: &Path) -> String {
    escape::name(&path.display().to_string()).to_string()
}

/// The program of a process: its number, and device and inode of the program's file.
type Program = (Pid, Option<(u64, u64)>);

/// Programs that were searched for LeakSanitizer, and whether one of the programs contains
/// LeakSanitizer.
static CHECKED: Mutex<(BTreeSet<Program>, bool)> = Mutex::new((BTreeSet::new(), false));

/// Warns once if the program of a process contains LeakSanitizer, which does not work in a traced
/// program.
pub fn warn_of_leak_detector(pid: Pid) {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok();
    let program = (pid, file.map(|file| (file.dev(), file.ino())));
    let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    let (programs, has_warned) = &mut *checked;
    if *has_warned || !programs.insert(program) {
        return;
    }
    if let Some(warning) = sanitizer::leak_warning(pid) {
        *has_warned = true;
        report!("hmtt: warning: {warning}");
    }
}

/// Formats an error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Prints how many functions and blocks are not tagged, and names some of the functions. Functions
/// that could be tagged by their file and were refused only in the process come first. `prefix`:
/// start of each message.
pub fn print_refused(tagged: &Tagged, prefix: &str) {
    for (library, reason) in tagged.unread() {
        let (library, reason) = (shown(library), chain(reason));
        let reason = escape::message(&reason);
        report!("hmtt: warning: {prefix}no function of {library} is tagged: {reason}");
    }
    if !tagged.refused().is_empty() {
        let (refused, total) =
            (tagged.refused().len(), tagged.refused().len() + tagged.functions().count());
        report!(
            "hmtt: warning: {prefix}{refused} of {total} functions are not tagged; hmtt tag list prints the reasons"
        );
        let differing = tagged.refused().iter().filter(|one| one.reason.is_of_process());
        for Refused { function, reason } in differing.take(NAMED) {
            let name = escape::name(&function.name);
            report!("hmtt: warning: {prefix}{name} is not tagged: {reason}");
        }
    }
    let refused = tagged.refused_blocks().count();
    if refused != 0 {
        let total = refused + tagged.blocks().count();
        report!(
            "hmtt: warning: {prefix}{refused} of {total} blocks are not tagged; hmtt tag list prints the reasons"
        );
    }
}

/// Prints where the program has overwritten jumps of tags, which therefore stay. Also prints which
/// memory of the tags remains in the process. `prefix`: start of each message.
pub fn print_restored(restored: &Restored, prefix: &str) {
    if let RemainingMemory::Forbidden(_) = restored.remaining {
        report!("hmtt: warning: {prefix}{}", restored.remaining);
    }
    for (function, address) in restored.overwritten.iter().take(NAMED) {
        let function = escape::name(function);
        report!(
            "hmtt: warning: {prefix}the program has changed {function} at {address:x} while it was tagged; \
             what it has written stays, and so does some memory of the tags"
        );
    }
    if let Some(more @ 1..) = restored.overwritten.len().checked_sub(NAMED) {
        report!("hmtt: warning: {prefix}and so at {more} other addresses");
    }
}

/// Prints what failed after tagging started, with the reason.
pub fn print_notices(tagged: &Tagged) {
    for notice in tagged.notices() {
        report!("hmtt: warning: {}", escape::message(&notice.to_string()));
    }
}

/// Prints the functions that have lost their tags because tagging exceeded the budget.
pub fn print_removed(tagged: &Tagged, prefix: &str) {
    for (removed, function) in tagged.removed_functions() {
        report!(
            "hmtt: {prefix}{} lost its tags: called {:.0} times a second of processor time",
            escape::name(&function.name),
            removed.calls_per_second
        );
    }
}
