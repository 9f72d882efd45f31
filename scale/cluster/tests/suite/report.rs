//! Tests that a cluster finds in the pieces of data sets what one machine finds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hmtt::analysis::combined::combined;
use hmtt::analysis::{Analysis, Fold};
use hmtt_dataset::{Dataset, PieceState, Plan};
use hmtt_test_support::files::skipped;
use serde_json::Value;

use crate::cluster::{Cluster, failed, start_scheduler};
use crate::samples::dataset;

fn plan(data: &Path) -> (Dataset, Plan) {
    let dataset = Dataset::open(data).unwrap();
    let plan = dataset.plan_pieces().unwrap();
    assert!(plan.pieces.len() >= 4, "{plan:?}");
    (dataset, plan)
}

/// Starts the analysis of pieces.
fn start(scheduler: &str, root: &Path, plan: &Plan) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hmtt-report-cluster"))
        .args(["--cluster", scheduler])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for piece in &plan.pieces {
        writeln!(input, "{}", serde_json::to_string(piece).unwrap()).unwrap();
    }
    child
}

fn analyse(scheduler: &str, root: &Path, plan: &Plan) -> Output {
    start(scheduler, root, plan).wait_with_output().unwrap()
}

/// The states in an output, with the numbers of their pieces.
fn states(mut output: &[u8]) -> Vec<(u64, PieceState)> {
    let mut states = Vec::new();
    let mut bytes = Vec::new();
    while !output.is_empty() {
        let mut number = || {
            let (first, rest) = output.split_first_chunk().unwrap();
            output = rest;
            u64::from_le_bytes(*first)
        };
        let (piece, all, row) = (number(), number(), number());
        let (first, rest) = output.split_at(row as usize);
        bytes.extend_from_slice(first);
        output = rest;
        if bytes.len() as u64 == all {
            states.push((piece, PieceState::from_bytes(&bytes).unwrap()));
            bytes.clear();
        }
    }
    assert!(bytes.is_empty());
    states
}

#[test]
fn the_states_of_a_cluster_have_the_results_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let (set, plan) = plan(&data);
    let mut fold = Fold::new(combined(None));
    let ending = plan.read(set.root(), &mut |memory, part| fold.part(memory, part));
    let expected = serde_json::to_value(fold.finish().result()).unwrap();
    let cluster = Cluster::start(2);
    let output = analyse(&cluster.scheduler.address, set.root(), &plan);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut fold = Fold::new(combined(None));
    for (memory, number) in plan.memories.iter().zip(0..) {
        fold.known(number, &memory.known);
        fold.end_piece(number);
    }
    let mut accesses = 0;
    for ((number, state), (piece, expected)) in
        states(&output.stdout).into_iter().zip(plan.pieces.iter().zip(0..))
    {
        assert_eq!(number, expected);
        accesses += state.rows.accesses;
        fold.append(piece.memory, state.found);
    }
    assert_eq!(accesses, ending.accesses);
    assert!(serde_json::to_value(fold.finish().result()).unwrap() == expected);
}

#[test]
fn errors_name_the_part_and_the_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let (set, plan) = plan(&data);
    let cluster = Cluster::start(1);
    let elsewhere = failed(&analyse(&cluster.scheduler.address, Path::new("/nonexistent"), &plan));
    assert!(
        elsewhere.contains("/nonexistent") && elsewhere.contains("the same path"),
        "{elsewhere}"
    );
    let part = set.root().join(&plan.pieces[1].parts[0]);
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[4..middle].fill(0xa5);
    std::fs::write(&part, bytes).unwrap();
    let damaged = failed(&analyse(&cluster.scheduler.address, set.root(), &plan));
    assert!(damaged.contains(part.to_str().unwrap()), "{damaged}");
    let nobody = failed(&analyse("127.0.0.1:9", set.root(), &plan));
    assert!(nobody.contains("127.0.0.1:9: no scheduler answers"), "{nobody}");
}

#[test]
fn a_cluster_without_executors_has_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let (set, plan) = plan(&data);
    let scheduler = start_scheduler("127.0.0.1:0");
    let complaint = failed(&analyse(&scheduler.address, set.root(), &plan));
    assert!(complaint.starts_with("hmtt report: "), "{complaint}");
}

/// The command `hmtt`, which the main workspace builds.
fn hmtt() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = workspace.join("target/debug/hmtt");
    path.is_file().then_some(path)
}

#[test]
fn reports_of_a_cluster_are_those_of_one_machine() {
    let Some(hmtt) = hmtt() else {
        return skipped("target/debug/hmtt is not built; `make test` builds it");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let cluster = Cluster::start(2);
    let programs = Path::new(env!("CARGO_BIN_EXE_hmtt-report-cluster")).parent().unwrap();
    let report = |arguments: &[&str]| -> (Value, String) {
        let page = folder.path().join("page.html");
        let page_text = page.to_str().unwrap();
        let output = Command::new(&hmtt)
            .args(["report", "--json", "-f", "-o", page_text])
            .args(arguments)
            .arg(&data)
            .env("PATH", programs)
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let json = serde_json::from_slice(&output.stdout).unwrap();
        (json, std::fs::read_to_string(page).unwrap())
    };
    for sample in [&[][..], &["--sample", "0.5"]] {
        let alone = report(sample);
        let cluster = report(&[sample, &["--cluster", &cluster.scheduler.address]].concat());
        assert!(alone.0["report"]["stats"]["accesses"].as_u64() > Some(1000), "{}", alone.0);
        assert_eq!(alone.0, cluster.0);
        assert!(alone.1 == cluster.1, "the pages differ");
    }
}
