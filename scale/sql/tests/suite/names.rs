//! Compares names in results with docs/glossary.md.

use hmtt_test_support::names::assert_documented;

use crate::samples::dataset;
use crate::succeed;

#[test]
fn names_of_results_are_in_the_glossary() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let sql = "select approx_stack_distance(page, clock) as distances, histogram(clock) as histogram from accesses";
    let text = succeed(&["--format", "json", sql, data.to_str().unwrap()]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let row = &value[0];
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_documented("approx_stack_distance", keys(&row["distances"]));
    assert_documented("approx_stack_distance", keys(&row["distances"]["distances"][0]));
    assert_documented("histogram", keys(&row["histogram"][0]));
    for table in ["accesses", "gaps", "calls", "runs", "threads"] {
        let text = succeed(&[
            "--format",
            "csv",
            &format!("select * from {table}"),
            data.to_str().unwrap(),
        ]);
        assert_documented(table, text.lines().next().unwrap().split(','));
    }
}
