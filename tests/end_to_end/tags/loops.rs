//! Attributes accesses to the loops of a real program. The source shows where accesses belong:
//! those in or after a function that a loop calls, until the next event, are the loop's.

use hmtt_tests::{run, succeed};
use serde_json::{Value, json};

use super::by_marks::report_by_marks;
use super::program::{Program, Recipe, WITH_LOOPS, WITH_LOOPS_AND_BLOCKS};
use super::truth::{Loop, Truth};
use super::{captured, card_map, compare, report};
use crate::captures::path;

fn compare_loops(reported: &Value, truth: &Truth) {
    let loops = reported["loops"].as_array().unwrap();
    assert_eq!(loops.len(), 2, "{loops:?}");
    let outer = loops.iter().find(|one| one["outer_number"].is_null()).unwrap();
    let inner = loops.iter().find(|one| one["outer_number"] == outer["number"]).unwrap();
    for (place, reported_loop) in [(Loop::Outer, outer), (Loop::Inner, inner)] {
        let name = format!("{place:?}");
        assert_eq!(
            (&reported_loop["function"], &reported_loop["tagged_exits"]),
            (&json!("nested"), &json!("all"))
        );
        let expected = &truth.loops[&place];
        assert!(expected.own.reads > 20 && expected.inclusive.reads > expected.own.reads);
        expected.own.check(&reported_loop["accesses"]["self"], &name);
        expected.inclusive.check(&reported_loop["accesses"]["inclusive"], &name);
    }
}

fn check_tags_on_the_bus(test: &str, recipe: Recipe) {
    let Some(program) = Program::run_recipe(test, recipe) else { return };
    let (capture, truth) = captured(&program);
    let map = card_map(&program);
    let reported = report(&[path(&capture), "--map", path(&map)]);
    compare(&reported, &truth, &program);
    compare_loops(&reported, &truth);
    let text = succeed("hmtt", &["tag", "report", path(&capture), "--map", path(&map)]);
    let table = text.lines().skip_while(|line| !line.ends_with("  loop")).skip(1);
    let rows: Vec<&str> = table.take_while(|line| line.contains("  nested at ")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(!text.contains("exits that are not tagged"), "{text}");
}

#[test]
fn tags_of_loops_on_the_bus_split_accesses_by_loop() {
    check_tags_on_the_bus("tags_of_loops_on_the_bus_split_accesses_by_loop", WITH_LOOPS);
}

#[test]
fn tags_of_blocks_on_the_bus_split_accesses_by_loop() {
    check_tags_on_the_bus(
        "tags_of_blocks_on_the_bus_split_accesses_by_loop",
        WITH_LOOPS_AND_BLOCKS,
    );
}

#[test]
fn marks_attribute_accesses_to_loops() {
    for recipe in [WITH_LOOPS, WITH_LOOPS_AND_BLOCKS] {
        let Some(program) = Program::run_recipe("marks_attribute_accesses_to_loops", recipe) else {
            return;
        };
        let (reported, truth) = report_by_marks(&program, 100);
        compare(&reported, &truth, &program);
        compare_loops(&reported, &truth);
    }
}

#[test]
fn accesses_stand_beside_the_executions_of_a_profile() {
    let test = "accesses_stand_beside_the_executions_of_a_profile";
    let Some(program) = Program::run_recipe(test, WITH_LOOPS_AND_BLOCKS) else { return };
    let (reported, _) = report_by_marks(&program, 100);
    let in_folder = |name: &str| program.folder.path().join(name);
    let (accesses, profile) = (in_folder("accesses.json"), in_folder("profile.json"));
    std::fs::write(&accesses, reported.to_string()).unwrap();
    let monitor = |program: &str| {
        let words =
            ["monitor", "run", "--no-block-lists", "--overwrite", "-o", path(&profile), "--"];
        succeed("hmtt", &[&words[..], &[program]].concat());
    };
    monitor(path(&in_folder("prog")));
    let show = ["monitor", "report", "--top", "0", "--accesses", path(&accesses), path(&profile)];
    let joined: Value =
        serde_json::from_str(&succeed("hmtt", &[&show[..], &["--json"]].concat())).unwrap();
    for kind in ["blocks", "loops"] {
        let expected = reported[kind].as_array().unwrap().iter();
        let expected: Vec<&Value> =
            expected.filter(|one| one["accesses"]["inclusive"]["accesses"] != 0).collect();
        let places = joined["accesses"][kind].as_array().unwrap();
        assert!(places.len() == expected.len() && places.len() >= 2, "{kind}: {places:?}");
        for place in places {
            let address = place["file_address"].as_str().unwrap();
            let same = expected.iter().find(|other| other["file_address"] == address).unwrap();
            assert_eq!(
                (&place["accesses"], &place["entries"]),
                (&same["accesses"], &same["entries"])
            );
            // Both runs do the same.
            assert_eq!(place["executions"], place["entries"], "{kind} at {address}");
        }
    }
    let text = succeed("hmtt", &show);
    let loops = text.lines().skip_while(|line| !line.ends_with("  loop")).skip(1).count();
    assert_eq!(loops, 2, "{text}");
    monitor("true");
    let error = String::from_utf8(run("hmtt", &show).stderr).unwrap();
    assert!(error.contains("has no accesses of blocks or loops that were executed"), "{error}");
}
