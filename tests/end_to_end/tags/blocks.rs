//! Attributes accesses to blocks of a real program, by tags on the bus and by marks, and compares
//! `hmtt tag report` with a simple model of the same inputs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::by_marks::report_by_marks;
use super::program::{Program, WITH_BLOCKS};
use super::truth::{Share, Truth};
use super::{captured, card_map, compare, report};
use crate::captures::path;

/// Compares the report on every block with the truth, and the sum over the blocks of each function
/// with its own accesses.
fn compare_blocks(reported: &Value, truth: &Truth, program: &Program) {
    let blocks = reported["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), truth.blocks.len());
    let mut sums = BTreeMap::<&str, u64>::new();
    for block in blocks {
        let number = block["number"].as_u64().unwrap() as u32;
        let expected = &truth.blocks[&number];
        let name = format!("block {number} of {}", program.names[&program.blocks[&number]]);
        assert_eq!(block["entries"], json!(expected.calls), "{name}");
        expected.own.check(&block["accesses"]["self"], &name);
        expected.inclusive.check(&block["accesses"]["inclusive"], &name);
        let own = block["accesses"]["self"]["accesses"].as_u64().unwrap();
        *sums.entry(block["function"].as_str().unwrap()).or_default() += own;
    }
    let none = Share::default();
    for function in reported["functions"].as_array().unwrap() {
        let number = function["number"].as_u64().unwrap() as u32;
        let name = function["name"].as_str().unwrap();
        let outside = truth.outside_blocks.get(&number).unwrap_or(&none);
        outside.check(&function["outside_blocks"], name);
        let outside = function["outside_blocks"]["accesses"].as_u64().unwrap();
        let own = &function["accesses"]["self"]["accesses"];
        assert_eq!(json!(sums[name] + outside), *own, "{name}");
    }
}

#[test]
fn tags_on_the_bus_split_accesses_by_block() {
    let test = "tags_on_the_bus_split_accesses_by_block";
    let Some(program) = Program::run_recipe(test, WITH_BLOCKS) else { return };
    let (capture, truth) = captured(&program);
    let reported = report(&[path(&capture), "--map", path(&card_map(&program))]);
    compare(&reported, &truth, &program);
    compare_blocks(&reported, &truth, &program);
}

#[test]
fn marks_attribute_accesses_to_blocks() {
    let test = "marks_attribute_accesses_to_blocks";
    let Some(program) = Program::run_recipe(test, WITH_BLOCKS) else { return };
    let (reported, truth) = report_by_marks(&program, 100);
    compare(&reported, &truth, &program);
    compare_blocks(&reported, &truth, &program);
    for block in reported["blocks"].as_array().unwrap() {
        for sense in ["self", "inclusive"] {
            let reported = &block["accesses"][sense];
            assert_eq!(reported["at_least"], reported["accesses"], "{block}");
            assert_eq!(reported["at_most"], reported["accesses"], "{block}");
        }
    }
}

#[test]
fn marks_bound_accesses_of_blocks_that_are_nearer_than_the_error() {
    let test = "marks_bound_accesses_of_blocks_that_are_nearer_than_the_error";
    let Some(program) = Program::run_recipe(test, WITH_BLOCKS) else { return };
    let (reported, truth) = report_by_marks(&program, 3);
    let sync = &reported["trace"]["sync"];
    assert!(sync["uncertain_blocks"].as_u64() > sync["uncertain"].as_u64(), "{sync}");
    let mut open = 0;
    for block in reported["blocks"].as_array().unwrap() {
        let expected = &truth.blocks[&(block["number"].as_u64().unwrap() as u32)];
        for (sense, share) in [("self", &expected.own), ("inclusive", &expected.inclusive)] {
            let [least, most] =
                ["at_least", "at_most"].map(|key| block["accesses"][sense][key].as_u64().unwrap());
            assert!((least..=most).contains(&(share.reads + share.writes)), "{sense}: {block}");
            open += u64::from(least < most);
        }
    }
    assert!(open > 5, "{open}");
}
