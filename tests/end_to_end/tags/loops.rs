//! Attributes accesses to the loops of a real program. The source shows where accesses belong: those in or after a
//! function that a loop calls, until the next event, are the loop's.

use hmtt_tests::succeed;
use serde_json::{Value, json};

use super::by_marks::report_by_marks;
use super::program::{Program, Recipe, WITH_LOOPS, WITH_LOOPS_AND_BLOCKS};
use super::truth::{Loop, Truth};
use super::{card_map, compare, report, traffic};
use crate::captures::{path, replay_file};
use crate::recording::write_vector;

fn compare_loops(reported: &Value, truth: &Truth) {
    let loops = reported["loops"].as_array().unwrap();
    assert_eq!(loops.len(), 2, "{loops:?}");
    let outer = loops.iter().find(|one| one["outer_number"].is_null()).unwrap();
    let inner = loops.iter().find(|one| one["outer_number"] == outer["number"]).unwrap();
    for (place, found) in [(Loop::Outer, outer), (Loop::Inner, inner)] {
        let name = format!("{place:?}");
        assert_eq!((&found["function"], &found["tagged_exits"]), (&json!("nested"), &json!("all")));
        let expected = &truth.loops[&place];
        assert!(expected.own.reads > 20 && expected.inclusive.reads > expected.own.reads);
        expected.own.check(&found["accesses"]["self"], &name);
        expected.inclusive.check(&found["accesses"]["inclusive"], &name);
    }
}

fn check_tags_on_the_bus(test: &str, recipe: Recipe) {
    let Some(program) = Program::run_recipe(test, recipe) else { return };
    let (traffic, truth) = traffic(&program);
    let folder = program.folder.path();
    let (input, capture) = (folder.join("made_up.cmd"), folder.join("c.pcapng"));
    write_vector(&input, &traffic);
    replay_file(&input, &["--granularity", "burst"], &capture);
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
