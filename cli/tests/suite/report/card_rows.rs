//! Tests the row outcomes of a card beside those that are derived from accesses.

use hmtt_format::record::{CountGroup, WordRecord};

use super::*;

#[test]
fn rows_are_shown_as_the_card_counts_them() {
    let mut card = Card::new();
    let count = |dump, group, index, value| WordRecord::Count { dump, group, index, value };
    let dump = |number, hits| {
        [
            WordRecord::Interval { part: 63, clock: 1 },
            count(number, CountGroup::RowHits, 1, hits),
            count(number, CountGroup::RowMisses, 1, 2),
            count(number, CountGroup::RowConflicts, 18, 4),
            count(number, CountGroup::Other, 1, 9),
            count(number, CountGroup::Other, 15, 5),
        ]
    };
    let mut frames = vec![card.info(), card.data(300).0];
    frames.push(card.records(&dump(1, 1000), 0, 0));
    frames.push(card.records(&dump(2, 23), 0, 0));
    frames.push(card.end());
    let file = capture_file("report-card-rows.pcapng", &frames);
    let document = json_of(&["report", "--json", text(&file)]);
    assert_json_documented("report", &document);
    let analysis = hmtt(&["analysis", "--json", text(&file)]);
    let dumps = String::from_utf8(analysis.stdout).unwrap();
    let sum = |name: &str| -> u64 {
        let dumps = dumps.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let banks = dumps.flat_map(|dump| dump["banks"].as_array().unwrap().clone());
        banks.map(|bank| bank[name].as_u64().unwrap()).sum()
    };
    let outcomes = &document["report"]["card_rows"][0];
    assert_eq!(
        (&outcomes["dump_count"], &outcomes["incomplete_dump_count"]),
        (&2.into(), &0.into())
    );
    assert_eq!((&outcomes["source"], &outcomes["skipped_rows"]), (&1.into(), &18.into()));
    for name in ["row_hits", "row_misses", "row_conflicts"] {
        let banks = outcomes["banks"].as_array().unwrap();
        let total: u64 = banks.iter().map(|bank| bank[name].as_u64().unwrap()).sum();
        assert!(total > 0 && total == sum(name), "{name}");
    }
    let html = std::fs::read_to_string(page_of(&file, "report-card-rows.html")).unwrap();
    let parts = parts_of(&html);
    let mut of_memory = parts["memories"][0][1].as_array().unwrap().iter();
    let title = "Row hits and conflicts, as the card counts them";
    let rows = &of_memory.find(|part| part["title"] == title).unwrap()["rows"];
    assert_eq!(rows[0][1], "1,035");
    assert_eq!((&rows[1][0], &rows[1][2]), (&"0/1".into(), &"1,023 (99.61 %)".into()));
    assert_eq!((&rows[2][0], &rows[2][4]), (&"1/2".into(), &"8 (100 %)".into()));

    let plain = card_capture("report-card-rows-none.pcapng", false);
    let document = json_of(&["report", "--json", text(&plain)]);
    assert_eq!(document["report"]["card_rows"], Value::Array(Vec::new()));
}
