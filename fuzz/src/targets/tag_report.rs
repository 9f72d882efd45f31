//! Checks all outputs of `hmtt tag report` for a log whose names contain line ends: the numbers add
//! up, and no name creates a line of its own.

use hmtt::report::callgrind;
use hmtt::report::calls::{Calls, Tables};
use hmtt::tags::call_counts::CallCounts;
use hmtt::tags::call_tree::{CallTree, Weight};
use hmtt::tags::log_reader::LogReader;
use hmtt::tags::names::Names;
use hmtt::tags::threads::Threads;
use hmtt::tags::timeline::Timeline;
use hmtt_files::tag_log::{Chunk, Content, Header};
use hmtt_files::tag_map::TagMap;

use super::tag_log::log;

/// A name with a line end and an escape sequence for terminals.
const NAME: &str = "f\n             1  forged\u{1b}[2J;";

fn map() -> TagMap {
    let function = |number: u32| {
        serde_json::json!({
            "number": number, "name": NAME, "symbols": [], "object": "o\n", "code_address": number,
            "size_bytes": 1, "tagged_exits": "all", "removed": null,
        })
    };
    let functions: Vec<_> = (0..6).map(function).collect();
    let map = serde_json::json!({
        "version": 2, "id": "0000000000000000", "program": "p\n", "pid": 1, "sink": "log",
        "timed": true, "tsc_hz": 1000, "window": null, "functions": functions,
        "blocks": [{ "number": 200, "function_number": 1, "code_address": 7, "size_bytes": 1 }], "refused": [],
    });
    serde_json::from_value(map).expect("it is a map")
}

/// Reports an input, which is a script as for the target `tag_log`.
pub fn check(bytes: &[u8]) {
    let [flags, script @ ..] = bytes else { return };
    let is_timed = flags & 1 != 0;
    let (log, _) = log(is_timed, script);
    let header = Header { is_timed, pid: 1, tsc_hz: u64::from(flags >> 1), ..Header::default() };
    let names = Names::new(map());
    let mut timeline = Vec::new();
    let listeners = (
        CallCounts::default(),
        (CallTree::default(), Timeline::new(&mut timeline, names.clone(), &header, 100)),
    );
    let mut threads = Threads::new(is_timed, names.functions_of_blocks(), listeners);
    let mut reader = LogReader::new(&log[..]).expect("its header is good");
    let mut marks = 0;
    while let Ok(Some(chunk)) = reader.next_chunk() {
        marks += u64::from(is_mark(&chunk));
        if threads.chunk(&chunk).is_err() {
            break;
        }
    }
    threads.finish();
    let program = Some("p\n".to_owned());
    let calls = Calls::new(&header, program, &threads, &threads.listener.0, &names, None);
    assert!(calls.marks <= marks);
    let Threads { listener: (_, (tree, written)), threads, .. } = threads;
    written.finish("p\n", &threads).expect("memory takes all");
    serde_json::from_slice::<serde_json::Value>(&timeline).expect("a timeline is JSON");
    serde_json::to_value(&calls).expect("a report is JSON");
    tables(&calls);
    folded(&calls, &tree, &names);
    profile(&calls);
}

fn is_mark(chunk: &Chunk<'_>) -> bool {
    matches!(chunk.content, Content::Mark(_))
}

/// Splits the printed text into lines.
fn lines(text: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(text).expect("it is text");
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()));
    text.lines().collect()
}

/// Checks that the tables have a line for each function, block, thread and edge.
fn tables(calls: &Calls) {
    let mut text = Vec::new();
    calls.write(Tables { threads: true, graph: true }, &mut text).expect("memory takes all");
    let table_lines = lines(&text);
    let head = 3 + usize::from(calls.marks != 0);
    let blocks = if calls.blocks.is_empty() { 0 } else { 2 + calls.blocks.len() };
    let of_threads: usize = calls.functions.iter().map(|function| function.threads.len()).sum();
    let threads = 3 * calls.threads.len() + of_threads;
    let edges: usize =
        calls.edges.iter().map(|edge| 1 + usize::from(edge.numbers.0.is_some())).sum();
    let graph = 2 + 2 * calls.functions.len() + edges;
    let expected = head + 1 + calls.functions.len() + blocks + threads + graph;
    assert_eq!(table_lines.len(), expected, "{}", String::from_utf8_lossy(&text));
    assert!(!table_lines.iter().any(|line| line.ends_with(" forged")));
}

/// Checks that each path is one line, and that the calls of all paths are the calls of all
/// functions.
fn folded(calls: &Calls, tree: &CallTree, names: &Names) {
    let mut text = Vec::new();
    tree.fold(Weight::Calls, |number| names.get(number), &mut text).expect("memory takes all");
    let weight = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    let sum: Option<u64> = lines(&text).into_iter().map(weight).sum();
    let total: u64 = calls.functions.iter().map(|function| function.sum.calls).sum();
    assert_eq!(sum, Some(total));
}

fn profile(calls: &Calls) {
    let mut text = Vec::new();
    callgrind::write(calls, &mut text).expect("memory takes all");
    let functions = lines(&text).into_iter().filter(|line| line.starts_with("fn=")).count();
    assert_eq!(functions, calls.functions.len());
}
