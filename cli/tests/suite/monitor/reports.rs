//! Tests the reports of `hmtt monitor report` with a program of known loops.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::counts::LOOPS;
use super::profile_of;
use crate::tag::build;
use crate::{hmtt, scratch, skipped};

/// A profile of a program, and what a report prints of it.
fn reported(name: &str, words: &[&str]) -> Option<(PathBuf, String)> {
    let program = build("monitor-reports", LOOPS, &["-w", "-g", "-no-pie"])?;
    let file = profile_of(&format!("reports-{name}"), &program, &[]);
    let output = hmtt(&[&["monitor", "report", file.to_str().unwrap()], words].concat());
    assert!(output.status.success(), "{output:?}");
    Some((file, String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn a_report_has_source_lines_targets_shares_and_system_calls() {
    let Some((_, text)) = reported("text", &["--top", "0"]) else { return };
    assert!(text.contains("monitor-reports.c:"), "{text}");
    assert!(text.contains("taken %") && text.contains(" % "), "{text}");
    assert!(text.contains("  system call\n"), "{text}");
    let Some((_, json)) = reported("json", &["--json", "--top", "4"]) else { return };
    let json: Value = serde_json::from_str(&json).unwrap();
    let length = |name: &str| json[name].as_array().unwrap().len();
    assert_eq!(["functions", "blocks", "conditional_jumps", "indirect_sites"].map(length), [4; 4]);
    for site in json["indirect_sites"].as_array().unwrap() {
        let end = site["end"].as_str().unwrap();
        assert!(["return", "indirect_jump", "indirect_call"].contains(&end), "{site}");
        assert!(!site["targets"].as_array().unwrap().is_empty(), "{site}");
    }
    hmtt_test_support::names::assert_json_documented("hmtt monitor report --json", &json);
}

#[test]
fn code_is_annotated_with_counts_and_source_lines() {
    let Some((file, text)) = reported("annotate", &["--annotate", "main"]) else { return };
    assert!(text.starts_with("main in /"), "{text}");
    assert!(text.contains("monitor-reports.c:") && text.contains("  ret  # "), "{text}");
    assert!(text.contains("# taken "), "{text}");
    let none = hmtt(&["monitor", "report", file.to_str().unwrap(), "--annotate", "nothing"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no function nothing was executed"));
}

#[test]
fn a_graph_is_read_by_dot() {
    let Some((_, text)) = reported("dot", &["--dot", "main"]) else { return };
    assert!(text.starts_with("digraph \"main\" {\n") && text.ends_with("}\n"), "{text}");
    let file = scratch("monitor-reports.dot");
    std::fs::write(&file, &text).unwrap();
    match Command::new("dot").arg("-Tsvg").arg(&file).stdout(Stdio::piped()).output() {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
        Err(error) => skipped(format!("dot: {error}")),
    }
}

/// What callgrind_annotate prints of a profile, without commas, and the sum of its instructions;
/// `None` without the program.
fn callgrind_annotated(name: &str, profile: &Path) -> Option<(String, u64)> {
    let print = |form| hmtt(&["monitor", "report", form, profile.to_str().unwrap()]).stdout;
    let file = scratch(&format!("monitor-reports-{name}.callgrind"));
    std::fs::write(&file, print("--callgrind")).unwrap();
    let report: Value = serde_json::from_slice(&print("--json")).unwrap();
    let whole = report["instructions"].as_u64().unwrap();
    match Command::new("callgrind_annotate").arg(&file).output() {
        Ok(output) => {
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            Some((String::from_utf8(output.stdout).unwrap().replace(',', ""), whole))
        }
        Err(error) => {
            skipped(format!("callgrind_annotate: {error}"));
            None
        }
    }
}

/// The sum that callgrind_annotate has printed.
fn callgrind_total(annotated: &str) -> u64 {
    let total = annotated.lines().find(|line| line.contains("PROGRAM TOTALS"));
    let total = total.and_then(|line| line.split_whitespace().next()?.parse().ok());
    total.unwrap_or_else(|| panic!("{annotated}"))
}

#[test]
fn callgrind_annotate_reads_all_instructions() {
    let Some((profile, text)) = reported("callgrind", &["--callgrind"]) else { return };
    let Some((annotated, whole)) = callgrind_annotated("whole", &profile) else { return };
    assert!(text.ends_with(&format!("totals: {whole}\n")), "{whole}");
    assert_eq!(callgrind_total(&annotated), whole);
    assert!(annotated.contains(":main"), "{annotated}");
}

#[test]
fn callgrind_annotate_prints_what_a_selection_omits() {
    let Some(program) = build("monitor-reports", LOOPS, &["-w", "-g", "-no-pie"]) else { return };
    let file = scratch("monitor-reports-selected.json");
    let words = ["run", "-i", "main", "--overwrite", "-o", file.to_str().unwrap(), "--"];
    let output = super::hmtt_monitor(&words).arg(program).output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let Some((annotated, selected)) = callgrind_annotated("selected", &file) else { return };
    let profile: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let omitted = profile["selection"]["omitted_instructions"].as_u64().unwrap();
    assert!(omitted > 0);
    let line = format!("\nOmitted by the selection: {omitted} instructions in ");
    assert!(annotated.contains(&line), "{annotated}");
    assert_eq!(callgrind_total(&annotated), selected);
}
