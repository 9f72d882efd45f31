//! Opens traces of accesses, and names what is in them and what is missing.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::access_trace::{Ending, Executed, Gap, ThreadAccess, Visitor, visit};
use hmtt_format::access_trace::{Function, MAGIC};
use hmtt_format::escape;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The file at a path, if it is a trace of accesses.
pub fn open(path: &Path) -> Option<File> {
    let mut file =
        File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    let mut begin = [0; MAGIC.len()];
    file.read_exact(&mut begin).ok()?;
    file.rewind().ok()?;
    (begin == MAGIC).then_some(file)
}

/// Passes on what one thread has done, or all.
struct Chosen<V> {
    thread: Option<u32>,
    is_found: bool,
    visitor: V,
}

impl<V> Chosen<V> {
    fn has(&self, thread: u32) -> bool {
        self.thread.is_none_or(|chosen| chosen == thread)
    }
}

impl<V: Visitor> Visitor for Chosen<V> {
    #[inline]
    fn block(&mut self, executed: &Executed<'_>) {
        if self.has(executed.thread) {
            self.is_found = true;
            self.visitor.block(executed);
        }
    }

    #[inline]
    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        if self.has(access.thread) {
            self.visitor.access(executed, access);
        }
    }

    fn gap(&mut self, gap: Gap) {
        match gap {
            Gap::Dropped { thread, .. } | Gap::Unrecorded { thread } if !self.has(thread) => {}
            _ => self.visitor.gap(gap),
        }
    }

    fn end(&mut self) {
        self.visitor.end();
    }
}

/// Reads a trace to its end. `path`: that of the file, for messages. `thread`: the only one that is
/// wanted.
///
/// # Errors
/// The trace is damaged or cannot be read, or has nothing of the thread.
pub fn read_to_end(
    file: File,
    path: &Path,
    thread: Option<u32>,
    visitor: impl Visitor,
) -> Result<Ending> {
    let input = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut chosen = Chosen { thread, is_found: false, visitor };
    let ending = visit(input, &mut chosen).with_context(|| path.display().to_string())?;
    match thread {
        Some(thread) if !chosen.is_found => {
            bail!("{} has no thread {thread}; `hmtt info` lists them", path.display())
        }
        _ => Ok(ending),
    }
}

/// The name of a function for people: that of its file in brackets if it has none, and nothing if
/// that is not known either.
pub fn shown(function: Option<&Function>) -> Option<String> {
    let function = function?;
    if !function.name.is_empty() {
        return Some(escape::message(&function.name).to_string());
    }
    let file = escape::message(function.file_name());
    (!function.path.is_empty()).then(|| format!("[{file}]"))
}

/// Describes a gap.
pub fn gap_text(gap: Gap) -> String {
    match gap {
        Gap::Dropped { thread, words } => {
            format!("thread {thread} has dropped {words} words here, because its ring was full")
        }
        Gap::Unrecorded { thread } => {
            format!("thread {thread} has executed code natively here, whose accesses are missing")
        }
        Gap::Native { nanoseconds } => {
            format!("the program ran natively here for {:.3} s", nanoseconds as f64 / 1e9)
        }
    }
}

/// What a trace says that has only some of the accesses.
pub const CHOSEN: &str = "only some of the accesses were to be recorded";

/// What is missing in a trace.
pub fn what_is_missing(ending: &Ending) -> Vec<String> {
    let Ending { dropped, cut_threads, invalid_chunks, is_cut, .. } = *ending;
    let all = [
        (dropped > 0, format!("{dropped} words were dropped because rings were full")),
        (cut_threads > 0, format!("the last accesses of {cut_threads} threads are missing")),
        (
            invalid_chunks > 0,
            format!("{invalid_chunks} chunks name no block, and were not read to their end"),
        ),
        (is_cut, "the file is cut: what follows is missing".to_owned()),
    ];
    let counts = all.into_iter().filter_map(|(is_so, what)| is_so.then_some(what));
    let unrecorded = &ending.unrecorded;
    let unrecorded = unrecorded.missing().into_iter().chain(unrecorded.children_text());
    counts.chain(unrecorded).chain(ending.missing_of_region()).collect()
}
