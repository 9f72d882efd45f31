//! Every column, key and field that `hmtt` writes is in the glossary's list of names.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use hmtt_test_support::clocks::{FAST, STEADY, capture};
use hmtt_test_support::names::{assert_documented, assert_json_documented, documented};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use crate::convert::samples::everything;
use crate::tag::{THREADS, build, hmtt_tag};
use crate::{capture_file, hmtt, scratch, skipped};

/// The JSON values that a command prints, on standard output or else on standard error.
fn printed(arguments: &[&str]) -> Vec<Value> {
    let output = hmtt(arguments);
    let bytes = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let values: Vec<Value> = values.map_while(Result::ok).collect();
    assert!(!values.is_empty(), "hmtt {arguments:?}: {output:?}");
    values
}

fn assert_printed(arguments: &[&str]) {
    assert_json_documented(&format!("hmtt {arguments:?}"), &printed(arguments).into());
}

#[test]
fn columns_and_keys_of_tables_are_documented() {
    let capture = capture_file("names.pcapng", &everything());
    let capture = capture.to_str().unwrap();
    assert_printed(&["decode", capture, "--format", "jsonl"]);
    let csv = hmtt(&["decode", capture, "--format", "csv"]).stdout;
    let csv = String::from_utf8(csv).unwrap();
    assert_documented("CSV", csv.lines().next().unwrap().split(','));

    let table = scratch("names.parquet");
    hmtt(&["convert", "-f", capture, table.to_str().unwrap()]);
    let table = SerializedFileReader::new(File::open(table).unwrap()).unwrap();
    let table = table.metadata().file_metadata();
    let columns = table.schema_descr().columns().iter();
    assert_documented("Parquet", columns.map(|column| column.name()));
    let metadata = table.key_value_metadata().unwrap();
    let keys = metadata.iter().map(|pair| pair.key.strip_prefix("hmtt.").expect("a prefix"));
    assert_documented("Parquet's metadata", keys);
    let sessions = metadata.iter().find(|pair| pair.key == "hmtt.sessions").unwrap();
    let sessions = serde_json::from_str(sessions.value.as_ref().unwrap()).unwrap();
    assert_json_documented("hmtt.sessions", &sessions);
}

#[test]
fn keys_of_reports_are_documented() {
    let capture_of_all = capture_file("names-reports.pcapng", &everything());
    assert_printed(&["info", "--json", capture_of_all.to_str().unwrap()]);
    assert_printed(&["analysis", "--json", capture_of_all.to_str().unwrap()]);
    let merged = [capture("names-g", STEADY, true), capture("names-h", FAST, true)];
    let [first, other] = [&merged[0], &merged[1]].map(|path| path.to_str().unwrap());
    let table = scratch("names-merged.parquet");
    let table = table.to_str().unwrap();
    assert_printed(&["merge", first, other, "--json", "-f", "-o", table]);
    assert_printed(&["merge", first, other, "--offset", "2=5", "--json", "-f", "-o", table]);
}

/// Runs a program with tags, and checks a JSON file that comes of it.
fn assert_written(program: &Path, file: &Path, words: &[&str]) {
    let output = hmtt_tag(words).arg("--").arg(program).arg("1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_json_documented(&format!("hmtt tag {words:?}"), &written);
}

#[test]
fn keys_of_tags_are_documented() {
    let Some(program) = build("names-threads", THREADS, &["-O1", "-pthread"]) else { return };
    let (counts, log) = (scratch("names-counts.json"), scratch("names.tags"));
    let (out, map) = (counts.to_str().unwrap(), scratch("names.tags.json"));
    let chosen = ["-i", "leaf", "-i", "work", "--blocks", "work"];
    let counted = [&["run", "--overwrite", "-o", out], &chosen[..]].concat();
    assert_written(&program, &counts, &counted);
    assert_written(&program, &counts, &[&counted[..], &["-f"]].concat());
    let logged = ["run", "--sink", "log", "--overwrite", "-o", log.to_str().unwrap()];
    assert_written(&program, &map, &[&logged[..], &chosen].concat());
    assert_printed(&["tag", "report", "--json", log.to_str().unwrap()]);
    let program = program.to_str().unwrap();
    assert_printed(&["tag", "list", "--json", program]);
    assert_printed(&["tag", "list", "--json", "--blocks", "*", program]);
}

#[test]
fn fields_of_the_dissector_are_documented() {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/wireshark/hmtt.lua");
    let script = format!("lua_script:{}", plugin.display());
    let output = match Command::new("tshark").args(["-G", "fields", "-X", &script]).output() {
        Ok(output) => output,
        Err(error) => return skipped(format_args!("tshark: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let fields = text.lines().filter_map(|line| line.split('\t').nth(2)?.strip_prefix("hmtt."));
    let names: Vec<&str> = fields.flat_map(|field| field.split('.')).collect();
    assert!(names.len() > 100, "{names:?}");
    assert_documented("the dissector", names);
}

#[test]
fn the_list_has_names_of_each_kind_and_a_wrong_name_is_found() {
    let names = documented();
    assert!(
        names.len() > 200
            && ["clock", "is_write", "self_ns"].map(|one| names.contains(one)) == [true; 3]
    );
    let wrong = std::panic::catch_unwind(|| {
        assert_json_documented(
            "a wrong output",
            &serde_json::json!([{"clock": 1, "timestamp": 2}]),
        );
    });
    assert!(wrong.is_err());
    assert_json_documented("kinds of faults", &serde_json::json!({"faults": {"act_open": 2}}));
}
