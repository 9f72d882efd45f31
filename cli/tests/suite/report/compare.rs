//! Tests `hmtt report --compare`.

use std::path::PathBuf;

use hmtt_test_support::names::{assert_documented, assert_json_documented};
use hmtt_test_support::programs::transcript;
use serde_json::Value;

use super::{browser, card_capture, check, json_of, new_page, parts_of, text};
use crate::card::Card;
use crate::{capture_file, hmtt, scratch, skipped};

/// Charts of a comparison of two captures.
const CHARTS: [&str; 13] = [
    "Accesses over time",
    "Bandwidth over time",
    "Working set over time",
    "Rows over time",
    "Addresses over time, A",
    "Addresses over time, B",
    "Banks over time, A",
    "Banks over time, B",
    "Distribution of touches over pages",
    "Distribution of touches by page number",
    "Run lengths on a page",
    "Reuse distances",
    "Miss-ratio curve",
];

/// A capture of fewer accesses than those of `card_capture`.
fn short_capture(name: &str) -> PathBuf {
    capture_file(name, &Card::new().session(5, 300).0)
}

#[test]
fn both_values_and_their_differences_are_stated() {
    let files = [card_capture("compare-a.pcapng", true), short_capture("compare-b.pcapng")];
    let [file_a, file_b] = [&files[0], &files[1]].map(|file| text(file));
    let page = new_page("compare-text.html");
    let output = hmtt(&["report", "--compare", file_a, file_b, "-o", text(&page)]);
    assert_eq!(output.status.code(), Some(3));
    let shown = transcript(&output).replace(text(&page), "PAGE");
    check("report-compare", &shown);
    let document = json_of(&["report", "--compare", "--json", file_a, file_b]);
    assert_json_documented("compare", &document);
    let reports = document["compare"]["reports"].as_array().unwrap();
    for (report, file) in reports.iter().zip([file_a, file_b]) {
        assert_eq!(*report, json_of(&["report", "--json", file])["report"], "{file}");
    }
    let differences = document["compare"]["differences"].as_array().unwrap();
    let named =
        |name: &str| differences.iter().find(|difference| difference["name"] == name).unwrap();
    for name in ["accesses", "reads", "pages", "lines", "duration_seconds", "bytes_per_second"] {
        let [value_a, value_b] = [0, 1].map(|at| reports[at]["stats"][name].as_f64().unwrap());
        let entry = named(name);
        assert_eq!(
            (entry["value_a"].as_f64(), entry["value_b"].as_f64()),
            (Some(value_a), Some(value_b))
        );
        // Numbers in JSON are read to the last digit but one.
        let is_near = |name: &str, expected: f64| {
            (entry[name].as_f64().unwrap() - expected).abs() <= 1e-9 * expected.abs()
        };
        assert!(
            is_near("difference", value_b - value_a) && is_near("ratio", value_b / value_a),
            "{entry}"
        );
        let differs = value_a.max(value_b) / value_a.min(value_b) >= 1.05;
        assert_eq!(entry["differs"], differs, "{name}: {entry}");
    }
    let csv = hmtt(&["report", "--compare", "--csv", file_a, file_b]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    let mut lines = csv.lines();
    assert_documented("CSV", lines.next().unwrap().split(','));
    assert_eq!(lines.count(), differences.len());
}

#[test]
fn files_of_one_content_do_not_differ() {
    let file = card_capture("compare-same.pcapng", false);
    let document = json_of(&["report", "--compare", "--json", text(&file), text(&file)]);
    let differences = document["compare"]["differences"].as_array().unwrap();
    assert!(!differences.is_empty());
    for difference in differences {
        let is_known = !difference["value_a"].is_null();
        assert_eq!(
            (&difference["differs"], difference["difference"] == 0.0),
            (&false.into(), is_known),
            "{difference}"
        );
    }
}

#[test]
fn two_files_are_needed() {
    let file = card_capture("compare-one.pcapng", false);
    let page = new_page("compare-one.html");
    for files in [&[text(&file)][..], &[text(&file); 3]] {
        let output = hmtt(&[&["report", "--compare", "-o", text(&page)], files].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("--compare needs two files"));
        assert!(!page.exists());
    }
}

#[test]
fn captures_without_accesses_are_compared_without_charts() {
    let mut card = Card::new();
    let empty = capture_file("compare-empty.pcapng", &[card.info(), card.end()]);
    let used = short_capture("compare-used.pcapng");
    for (other, is_empty) in [(&empty, true), (&used, false)] {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("page.html");
        let files = ["--svg", text(directory.path()), "-o", text(&page)];
        let words = [&["report", "--compare"], &files[..], &[text(&empty), text(other)]].concat();
        let output = hmtt(&words);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        let mut charts = 0;
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "svg") {
                charts += 1;
                let svg = std::fs::read_to_string(&path).unwrap();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}: {svg}", path.display());
            }
        }
        assert_eq!(charts == 0, is_empty, "{charts}");
        let parts = parts_of(&std::fs::read_to_string(&page).unwrap());
        assert!(!parts.to_string().contains("\"extent\":[null"), "{parts}");
    }
}

#[test]
fn both_files_are_opened_first() {
    let missing = scratch("compare-missing.pcapng");
    let garbage = scratch("compare-garbage.csv");
    std::fs::write(&garbage, "no,table\n").unwrap();
    let page = new_page("compare-missing.html");
    let output = hmtt(&["report", "--compare", text(&garbage), text(&missing), "-o", text(&page)]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("compare-missing.pcapng") && !page.exists(), "{errors}");
}

#[test]
fn a_comparison_is_drawn_in_a_browser_without_errors_and_requests() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let files = [card_capture("compare-c.pcapng", true), short_capture("compare-d.pcapng")];
    let page = new_page("compare-drawn.html");
    let output =
        hmtt(&["report", "--compare", text(&files[0]), text(&files[1]), "-o", text(&page)]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let html = std::fs::read_to_string(&page).unwrap();
    // Both files have a line, and begin at time 0.
    let parts = parts_of(&html);
    let first = parts["first"].as_array().unwrap();
    let chart = first.iter().find(|part| part["title"] == "Accesses over time").unwrap();
    assert_eq!(chart["series"].as_array().unwrap().len(), 2);
    for slices in chart["slices"].as_array().unwrap() {
        assert_eq!(slices["begins"][0], 0.0);
    }
    let heights = |title: &str| {
        let chart = first.iter().find(|part| part["title"] == title).unwrap();
        chart["extent"].clone()
    };
    assert_eq!(heights("Addresses over time, A"), heights("Addresses over time, B"));
    let script = "<script>const all = document.documentElement;\
         document.querySelector('h1').append(`;${Math.max(all.scrollWidth - innerWidth, 0)} too wide;`);\
         document.querySelector('h1').append(`;${document.querySelectorAll('.differs').length} marked;`);\
         </script></body>";
    let noted = scratch("compare-noted.html");
    std::fs::write(&noted, super::browser::with_script(&html, script)).unwrap();
    for width in [1280, 390] {
        let seen = browser.open(&noted, width);
        assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]), "{width}");
        for chart in CHARTS {
            assert!(seen.drawn(chart) > 0, "{chart} at {width}");
        }
        assert!(seen.dom.contains(";0 too wide;") && !seen.dom.contains(";0 marked;"));
    }
}

#[test]
fn what_one_file_does_not_know_is_stated() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let file = card_capture("compare-card.pcapng", false);
    let table = scratch("compare-plain.csv");
    std::fs::write(&table, "clock,direction,address\n1,R,40\n9,W,80\n").unwrap();
    let page = new_page("compare-kinds.html");
    let output = hmtt(&["report", "--compare", text(&file), text(&table), "-o", text(&page)]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let bandwidth: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("mean bandwidth")).collect();
    assert!(matches!(bandwidth[..], [line] if line.contains("not known") && line.ends_with('*')));
    let seen = browser.open(&page, 1280);
    assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
    for words in ["different units of time", "<h2>Rows over time, B</h2>"] {
        assert!(seen.dom.contains(words), "{words}");
    }
    assert!(seen.drawn("Rows over time, A") > 0 && seen.drawn("Rows over time, B") == 0);
    let document = json_of(&["report", "--compare", "--json", text(&file), text(&table)]);
    let differences = document["compare"]["differences"].as_array().unwrap();
    let same =
        differences.iter().find(|difference| difference["name"] == "same_row_share").unwrap();
    assert!(same["value_a"].is_number() && same["value_b"] == Value::Null);
}
