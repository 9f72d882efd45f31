//! Opens traces of programs, and describes their functions, gaps and missing parts in words.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt::access_trace::{Ending, Executed, Gap, ThreadAccess, Visitor, visit};
use hmtt_files::access_trace::{Function, MAGIC};
use hmtt_format::escape;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Opens a file if it is a regular file and a trace of accesses; otherwise returns `None`.
pub fn open(path: &Path) -> Option<File> {
    let mut file =
        File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    let mut begin = [0; MAGIC.len()];
    file.read_exact(&mut begin).ok()?;
    file.rewind().ok()?;
    (begin == MAGIC).then_some(file)
}

/// A visitor that passes on the blocks and accesses of one thread, or of all threads.
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

/// Reads a trace to its end. `path`: path of the file, for messages. `thread`: the only thread that
/// is visited; `None` for all threads.
///
/// # Errors
/// The trace is damaged or cannot be read, or has nothing of `thread`.
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

/// The printable name of a function. A function without a name has the name of its file in
/// brackets. Returns `None` if the file is not known either.
pub fn shown(function: Option<&Function>) -> Option<String> {
    let function = function?;
    if !function.name.is_empty() {
        return Some(escape::message(&function.name).to_string());
    }
    let file = escape::message(function.file_name());
    (!function.path.is_empty()).then(|| format!("[{file}]"))
}

/// Describes a gap in words.
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

/// Text on a trace that has only some of the accesses on purpose.
pub const CHOSEN: &str = "only some of the accesses were to be recorded";

/// Sentences on what is missing in a trace.
pub fn what_is_missing(ending: &Ending) -> Vec<String> {
    let Ending { dropped, cut_threads, invalid_chunks, is_cut, .. } = *ending;
    let reasons = [
        (dropped > 0, format!("{dropped} words were dropped because rings were full")),
        (cut_threads > 0, format!("the last accesses of {cut_threads} threads are missing")),
        (
            invalid_chunks > 0,
            format!("{invalid_chunks} chunks name no block, and were not read to their end"),
        ),
        (is_cut, "the file is cut: what follows is missing".to_owned()),
    ];
    let counts = reasons.into_iter().filter_map(|(is_so, what)| is_so.then_some(what));
    let unrecorded = &ending.unrecorded;
    let unrecorded = unrecorded.missing().into_iter().chain(unrecorded.children_text());
    counts.chain(unrecorded).chain(ending.missing_of_region()).collect()
}
