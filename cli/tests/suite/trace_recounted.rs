//! What `hmtt info` and `hmtt trace evaluate` state of selective traces equals what a program in
//! Python counts, which has nothing of this project but the traces as text
//! (`tests/readers/recounted_accesses.py`).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::python::python;
use crate::tag::build;
use crate::trace::ACCESSES;
use crate::trace_selected::{info, traced};
use crate::{LargeFile, hmtt, skipped};

const OPTIONS: &str = include_str!("../../../tests/programs/kernels/options.c");

/// The executed instructions and accesses of a trace as text.
fn lackey(name: &str, file: &Path) -> LargeFile {
    let output = LargeFile::new(&format!("recounted-{name}.lackey"));
    let (from, to) = (file.to_str().unwrap(), output.to_str().unwrap());
    let converted = hmtt(&["convert", "--to", "lackey", "-f", from, to]);
    assert!(converted.status.success(), "{converted:?}");
    output
}

/// What the program in Python counts.
fn recounted(python: &Path, program: &Path, [full, some]: [&Path; 2], setting: [&str; 2]) -> Value {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/readers/recounted_accesses.py");
    let mut command = Command::new(python);
    let output = command.arg(script).arg(program).arg(full).arg(some).args(setting).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Number of accesses in the code of a trace whose addresses are not known.
fn unknown_places(file: &Path) -> u64 {
    let text = hmtt(&["decode", file.to_str().unwrap()]).stdout;
    let text = String::from_utf8(text).unwrap();
    let places = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(3) == Some(&"?")).then(|| (words[1].to_owned(), words[2].to_owned()))
    });
    places.collect::<BTreeSet<_>>().len() as u64
}

/// Compares what is stated of the hottest functions of a program's own source with what was
/// counted, and the shares that follow.
fn assert_functions(stated: &Value, recounted: &Value, source: &str) {
    let mut compared = 0;
    for function in stated["functions"].as_array().unwrap() {
        let name = function["function"].as_str().unwrap_or_default();
        let counted = &recounted["functions"][name];
        if !source.contains(&format!("{name}(")) || counted.is_null() {
            continue;
        }
        let chosen = &function["chosen"];
        for key in ["all_accesses", "recorded_accesses", "represented_accesses", "near_accesses"] {
            assert_eq!(chosen[key], counted[key], "{name}: {key}");
        }
        let number = |key: &str| counted[key].as_u64().unwrap() as f64;
        let (total, represented) = (number("all_accesses"), number("represented_accesses"));
        let (known, recorded) =
            (represented + number("near_accesses"), number("recorded_accesses"));
        let is_close = |key: &str, expected: f64| {
            // Numbers are read back with an error of their last digits.
            (chosen[key].as_f64().unwrap() - expected).abs() < 1e-12 * expected.max(1.0)
        };
        assert!(is_close("minimal_accuracy", represented / total), "{function}");
        assert!(is_close("alignment_independent_accuracy", known / total), "{function}");
        assert!(recorded == 0.0 || is_close("payoff", represented / recorded), "{function}");
        compared += 1;
    }
    assert!(compared > 0, "{stated}");
}

#[test]
fn accuracies_are_those_of_a_program_without_our_code() {
    let Some(python) = python("capstone") else { return skipped("no Python has capstone") };
    let flags = ["-static", "-no-pie", "-w", "-lm"];
    let settings: &[[&str; 2]] = &[["25", "64"], ["75", "16"]];
    for (name, source, settings) in
        [("accesses", ACCESSES, &settings[..1]), ("options", OPTIONS, settings)]
    {
        let Some(program) = build(&format!("recounted-{name}"), source, &flags) else { return };
        let Some(full) = traced(&format!("recounted-full-{name}"), &program, &[]) else { return };
        let text = lackey(&format!("full-{name}"), &full);
        for &[omega, chunk] in settings {
            let setting = ["--omega", omega, "--chunk", chunk, "--equality", "versions"];
            let options = [&["--all-blocks"], &setting[..]].concat();
            let Some(some) = traced("recounted-some", &program, &options) else { return };
            let stated = info(&some);
            let evaluated = [&["trace", "evaluate", "--json"], &setting[..]].concat();
            let evaluated = hmtt(&[&evaluated[..], &[full.to_str().unwrap()]].concat());
            let evaluated: Value = serde_json::from_slice(&evaluated.stdout).unwrap();
            let evaluated = &evaluated["settings"][0];
            let other = lackey("some", &some);
            let recounted = recounted(&python, &program, [&text, &other], [omega, chunk]);
            let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
            // Accesses whose addresses are not known have no lines, and are always recorded.
            let unknown = number(&stated, "unknown_addresses");
            let places = unknown_places(&some);
            assert!(places <= unknown);
            for (member, without) in [
                ("all_accesses", unknown),
                ("recorded_accesses", unknown),
                ("represented_accesses", unknown),
                ("near_accesses", 0),
            ] {
                let expected = number(&recounted, member) + without;
                assert_eq!(
                    number(&stated["chosen"], member),
                    expected,
                    "{name} {omega} {chunk} {member}"
                );
                assert_eq!(number(evaluated, member), expected, "{name} {omega} {chunk} {member}");
                let without = if without > 0 { places } else { 0 };
                let expected = number(&recounted["blocks"], member) + without;
                let stated_number = number(&stated["chosen_in_blocks"], member);
                assert_eq!(
                    stated_number, expected,
                    "{name} {omega} {chunk} {member}, blocks once each"
                );
            }
            assert_functions(&stated, &recounted, source);
            let (is, expected) = (&evaluated["false_accesses"], &recounted["false_accesses"]);
            assert_eq!(is, expected, "{name} {omega} {chunk}");
            assert!(number(&recounted, "false_accesses") > 0, "{recounted}");
        }
    }
}
