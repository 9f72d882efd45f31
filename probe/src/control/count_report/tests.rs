//! Tests the JSON forms of counts.

use super::*;

/// Counts of a program with two functions and a block, which one thread has run.
fn program(pid: i32, calls: [u64; 2]) -> ProgramCounts {
    let function = |(at, name): (usize, &str)| FunctionCount {
        name: name.into(),
        object: "/bin/x".into(),
        start: 0x1000 * at as u64,
        calls: calls[at],
        threads: BTreeMap::from([(pid, calls[at])]),
    };
    let block = BlockCount {
        name: "f+4".into(),
        object: "/bin/x".into(),
        start: 4,
        count: 10 * calls[0],
        description: json!({ "function": "f" }),
    };
    ProgramCounts {
        pid: Pid::from_raw(pid),
        program: "/bin/x".into(),
        functions: [(0, "f"), (1, "g")].map(function).to_vec(),
        blocks: Some(vec![block]),
        damaged: 0,
    }
}

#[test]
fn a_process_has_its_functions_by_calls_with_threads() {
    let expected = json!({
        "functions": [
            { "name": "g", "calls": 3, "threads": { "7": 3 } },
            { "name": "f", "calls": 2, "threads": { "7": 2 } },
        ],
        "blocks": [{ "function": "f", "entries": 20 }],
    });
    assert_eq!(program(7, [2, 3]).to_json(), expected);
}

#[test]
fn a_tree_has_the_sums_of_its_processes_and_each_process() {
    let programs = [program(7, [2, 3]), program(8, [5, 0])];
    let sums = TreeCounts::new(&programs);
    let rows: Vec<(&str, u64)> = sums.rows().map(|(_, name, count)| (name, count)).collect();
    assert_eq!(rows, [("f", 7), ("g", 3), ("f+4", 70)]);
    let json = sums.to_json();
    let function =
        |name: &str, calls: u64| json!({ "name": name, "calls": calls, "program": "/bin/x" });
    assert_eq!(json["functions"], json!([function("f", 7), function("g", 3)]));
    assert_eq!(json["blocks"], json!([{ "function": "f", "entries": 70, "program": "/bin/x" }]));
    let second = json!({
        "pid": 8,
        "program": "/bin/x",
        "functions": [{ "name": "f", "calls": 5 }, { "name": "g", "calls": 0 }],
        "blocks": [{ "function": "f", "entries": 50 }],
    });
    assert_eq!(json["processes"][1], second);
}
