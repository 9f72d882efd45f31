//! Tests that a cluster finds in the pieces of data sets what one machine finds.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use hmtt::analysis::combined::combined;
use hmtt::analysis::{Analysis, Fold};
use hmtt_dataset::{Dataset, PieceState, Plan};
use hmtt_test_support::files::skipped;
use serde_json::Value;

use crate::cluster::{Cluster, start_scheduler};
use crate::samples::dataset;

/// Longest time until a program has started or ended: it would wait longer for executors.
const DEADLINE: Duration = Duration::from_secs(20);

fn plan(data: &Path) -> (Dataset, Plan) {
    let dataset = Dataset::open(data).unwrap();
    let plan = dataset.plan_pieces().unwrap();
    assert!(plan.pieces.len() >= 4, "{plan:?}");
    (dataset, plan)
}

/// Has a data set analysed.
fn analyse(scheduler: &str, source: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-report-cluster"));
    command.args(["--cluster", scheduler]).arg(source).output().unwrap()
}

/// What a failed analysis has reported.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("hmtt report: ") && !text.contains("Execution error"), "{text}");
    text
}

/// The plan in an output, and the states with the numbers of their pieces.
fn parsed(mut output: &[u8]) -> (Plan, Vec<(u64, PieceState)>) {
    let mut take = |count: usize| {
        let (first, rest) = output.split_at(count);
        output = rest;
        (first, rest.is_empty())
    };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let length = number(take(8).0);
    let (text, mut is_end) = take(length as usize);
    let plan = serde_json::from_slice(text).unwrap();
    let mut states = Vec::new();
    let mut bytes = Vec::new();
    while !is_end {
        let [piece, state_bytes, row] = [0; 3].map(|_: i32| number(take(8).0));
        let part;
        (part, is_end) = take(row as usize);
        bytes.extend_from_slice(part);
        if bytes.len() as u64 == state_bytes {
            states.push((piece, PieceState::from_bytes(&bytes, None).unwrap()));
            bytes.clear();
        }
    }
    assert!(bytes.is_empty());
    (plan, states)
}

#[test]
fn the_states_of_a_cluster_have_the_results_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let (set, plan) = plan(&data);
    let mut fold = Fold::new(combined(None));
    let ending = plan.read(set.root(), &mut |memory, part| fold.part(memory, part));
    let expected = serde_json::to_value(fold.finish().result()).unwrap();
    let cluster = Cluster::start(2, &data);
    let output = analyse(&cluster.scheduler.address, set.root());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (sent_plan, states) = parsed(&output.stdout);
    assert_eq!(sent_plan, plan);
    let mut fold = Fold::new(combined(None));
    for (memory, number) in plan.memories.iter().zip(0..) {
        fold.known(number, &memory.known);
        fold.end_piece(number);
    }
    assert_eq!(states.len(), plan.pieces.len());
    let mut accesses = 0;
    for ((number, state), (piece, expected)) in states.into_iter().zip(plan.pieces.iter().zip(0..))
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
    let nobody = complaint(&analyse("127.0.0.1:9", set.root()));
    assert!(nobody.contains("127.0.0.1:9: no scheduler answers"), "{nobody}");
    let cluster = Cluster::start(1, &data);
    let analyse = |source: &Path| complaint(&analyse(&cluster.scheduler.address, source));
    let elsewhere = analyse(folder.path());
    assert!(elsewhere.contains("is no data set"), "{elsewhere}");
    let part = set.root().join(&plan.pieces[1].parts[0]);
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[4..middle].fill(0xa5);
    std::fs::write(&part, bytes).unwrap();
    let damaged = analyse(set.root());
    assert!(damaged.contains(part.to_str().unwrap()), "{damaged}");
}

#[test]
fn a_cluster_without_executors_has_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let scheduler = start_scheduler("127.0.0.1:0");
    let text = complaint(&analyse(&scheduler.address, &data));
    assert!(text.contains("the query was sent 4 times and has no result"), "{text}");
}

#[test]
fn the_program_ends_with_the_one_that_has_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    // Without executors it would wait.
    let scheduler = start_scheduler("127.0.0.1:0");
    let mut shell = Command::new("sh")
        .args(["-c", r#""$0" --cluster "$1" "$2" >/dev/null & echo $!; wait"#])
        .args([env!("CARGO_BIN_EXE_hmtt-report-cluster"), &scheduler.address])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    // It is there, or ended and not yet awaited by anybody.
    let is_running = || {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        text.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
    };
    // It has threads when it connects to the scheduler.
    let threads = || std::fs::read_dir(stat.with_file_name("task")).map_or(0, Iterator::count);
    let begin = Instant::now();
    while threads() < 2 {
        assert!(begin.elapsed() < DEADLINE, "it does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_running());
    shell.kill().unwrap();
    shell.wait().unwrap();
    let begin = Instant::now();
    while is_running() {
        assert!(begin.elapsed() < DEADLINE, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command `hmtt`, which the main workspace builds.
pub fn hmtt() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = workspace.join("target/debug/hmtt");
    path.is_file().then_some(path)
}

/// What `hmtt report` prints and the page that it writes, with `hmtt-report-cluster` in `PATH`.
pub fn report(
    hmtt: &Path,
    arguments: &[&str],
    source: &Path,
    environment: &[(&str, String)],
) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let programs = Path::new(env!("CARGO_BIN_EXE_hmtt-report-cluster")).parent().unwrap();
    let output = Command::new(hmtt)
        .args(["report", "--json", "-o", page.to_str().unwrap()])
        .args(arguments)
        .arg(source)
        .env("PATH", programs)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["report"]["stats"]["accesses"].as_u64() > Some(1000), "{json}");
    (json, std::fs::read_to_string(page).unwrap())
}

#[test]
fn reports_of_a_cluster_are_those_of_one_machine() {
    let Some(hmtt) = hmtt() else {
        return skipped("target/debug/hmtt is not built; `make test` builds it");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let cluster = Cluster::start(2, &data);
    for sample in [&[][..], &["--sample", "0.5"]] {
        let alone = report(&hmtt, sample, &data, &[]);
        let arguments = [sample, &["--cluster", &cluster.scheduler.address]].concat();
        let cluster = report(&hmtt, &arguments, &data, &[]);
        assert_eq!(alone.0, cluster.0);
        assert!(alone.1 == cluster.1, "the pages differ");
    }
}
