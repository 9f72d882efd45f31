//! Runs a real tagged program and reads the functions that it entered and left, in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt::tags::log_reader::LogReader;
use hmtt_files::tag_log::Content;
use hmtt_tests::{has, skip, succeed};
use serde_json::Value;

use crate::captures::path;

const SOURCE: &str = r#"
static volatile long sink;
__attribute__((noinline)) long leaf(long n) { sink += n; return n * 3 + 1; }
__attribute__((noinline)) long fib(long n) { return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) long work(long n) {
    long s = fib(3);
    for (long i = 0; i < n; i++) s += leaf(i);
    return s + sink;
}
int main(void) {
    for (long i = 0; i < 150; i++) sink += work(i % 5) + leaf(i);
    return sink == 1;
}
"#;
const FUNCTIONS: [&str; 4] = ["main", "work", "fib", "leaf"];
const PLAIN: Recipe =
    Recipe { source: SOURCE, level: "-O2", functions: &FUNCTIONS, options: &[], is_quiet: false };

/// A loop in a loop. The functions that are called show where in `nested` the program is.
const NESTED: &str = r#"
static volatile long sink;
__attribute__((noinline)) void before(long n) { sink += n; }
__attribute__((noinline)) void outer_step(long n) { sink += n + 1; }
__attribute__((noinline)) void inner_step(long n) { sink += n * 3; }
__attribute__((noinline)) void after(long n) { sink -= n; }
__attribute__((noinline)) long nested(long rows, long columns) {
    before(rows);
    for (long i = 0; i < rows; i++) {
        outer_step(i);
        for (long j = 0; j < columns; j++) inner_step(j);
    }
    after(rows);
    return sink;
}
int main(void) {
    for (long i = 0; i < 150; i++) sink += nested(i % 4, i % 5);
    return sink == 1;
}
"#;
/// The loops of `nested`, and the ends of its loops.
pub const WITH_LOOPS: Recipe = Recipe {
    source: NESTED,
    // At -O2, compilers may make two loops of one.
    level: "-O1",
    functions: &["nested", "before", "outer_step", "inner_step", "after"],
    options: &["--loops", "nested"],
    is_quiet: true,
};
/// All blocks of `nested`.
pub const WITH_LOOPS_AND_BLOCKS: Recipe = Recipe { options: &["--blocks", "nested"], ..WITH_LOOPS };

/// A program, and what of it is tagged.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub source: &'static str,
    /// Optimisation level of the compiler.
    pub level: &'static str,
    pub functions: &'static [&'static str],
    /// Further options of `hmtt tag run`.
    pub options: &'static [&'static str],
    /// Whether no accesses follow the tag of a block before the next event.
    pub is_quiet: bool,
}

/// The blocks of all functions of the program with `main`.
pub const WITH_BLOCKS: Recipe = Recipe { options: &["--blocks", "*"], ..PLAIN };

/// The entry to or exit from a function, or the entry of a block.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub number: u32,
    pub is_exit: bool,
    /// Value of the stack pointer.
    pub sp: u32,
}

/// A program that was run with tags.
pub struct Program {
    pub folder: tempfile::TempDir,
    recipe: Recipe,
    pub names: BTreeMap<u32, String>,
    /// Function of each block.
    pub blocks: BTreeMap<u32, u32>,
    pub events: Vec<Event>,
}

impl Program {
    /// Builds and runs the program; returns `None` if the test is skipped.
    pub fn run(test: &str) -> Option<Self> {
        Program::run_recipe(test, PLAIN)
    }

    /// As `run`, for another program or with other tags.
    pub fn run_recipe(test: &str, recipe: Recipe) -> Option<Self> {
        if !has("cc") {
            skip(test, "no C compiler");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("prog.c"), folder.path().join("prog"));
        std::fs::write(&source, recipe.source).unwrap();
        let built =
            Command::new("cc").args([recipe.level, "-o"]).args([&program, &source]).status();
        assert!(built.unwrap().success());
        let (names, blocks) = Default::default();
        let mut ran = Program { folder, recipe, names, blocks, events: Vec::new() };
        ran.tag(&ran.log(), &["--no-time"]);
        for function in ran.map()["functions"].as_array().unwrap() {
            assert_eq!(function["tagged_exits"], "all", "{function}");
            let name = function["name"].as_str().unwrap().to_owned();
            ran.names.insert(function["number"].as_u64().unwrap() as u32, name);
        }
        assert_eq!(ran.names.len(), recipe.functions.len());
        for block in ran.map()["blocks"].as_array().unwrap() {
            let number = |key| block[key].as_u64().unwrap() as u32;
            ran.blocks.insert(number("number"), number("function_number"));
        }
        ran.events = ran.read();
        assert!(ran.events.len() > 1000, "{}", ran.events.len());
        Some(ran)
    }

    /// Whether accesses may follow an event.
    pub fn has_accesses_after(&self, event: Event) -> bool {
        !self.recipe.is_quiet || !self.blocks.contains_key(&event.number)
    }

    /// Runs the program again, with tags to a log.
    pub fn tag(&self, log: &Path, options: &[&str]) {
        let mut arguments = vec!["tag", "run", "--sink", "log", "-o", path(log)];
        self.recipe.functions.iter().for_each(|name| arguments.extend(["-i", name]));
        arguments.extend(self.recipe.options.iter().chain(options));
        let program = self.folder.path().join("prog");
        arguments.extend(["--", path(&program)]);
        succeed("hmtt", &arguments);
    }

    /// Returns the path of the log.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("prog.tags")
    }

    /// Reads the map of the log.
    pub fn map(&self) -> Value {
        let file = File::open(self.folder.path().join("prog.tags.json")).unwrap();
        serde_json::from_reader(file).unwrap()
    }

    fn read(&self) -> Vec<Event> {
        let mut reader = LogReader::new(File::open(self.log()).unwrap()).unwrap();
        let mut tag_events = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if let Content::Events(events) = chunk.content {
                let events = events.decode(false).map(Result::unwrap);
                tag_events.extend(events.map(|event| Event {
                    number: event.number.0,
                    is_exit: event.is_exit,
                    sp: event.sp,
                }));
            }
        }
        tag_events
    }
}
