//! Tests `hmtt report`: its numbers against those of other commands, its page in a browser, and how
//! it writes the page.

mod browser;
mod card_rows;
mod compare;
mod datasets;
mod groups;
mod images;
mod layout;
mod owners;

use std::path::{Path, PathBuf};

use hmtt_test_support::names::{assert_documented, assert_json_documented};
use hmtt_test_support::programs::transcript;
use serde_json::Value;

use crate::card::Card;
use crate::command_line::check;
use crate::{capture_file, hmtt, scratch, skipped};

/// The charts of a capture whose memory is described.
const CHARTS: [&str; 11] = [
    "Accesses over time",
    "Bandwidth over time",
    "Working set over time",
    "Addresses over time",
    "Rows over time",
    "Banks over time",
    "Distribution of touches over pages",
    "Distribution of touches by page number",
    "Run lengths on a page",
    "Reuse distances",
    "Miss-ratio curve",
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A capture, of which a frame may be missing.
fn card_capture(name: &str, is_lossy: bool) -> PathBuf {
    let mut frames = Card::new().session(8, 300).0;
    if is_lossy {
        frames.remove(3);
    }
    capture_file(name, &frames)
}

/// A name for a page that does not exist yet.
fn new_page(name: &str) -> PathBuf {
    let page = scratch(name);
    let _ = std::fs::remove_file(&page);
    page
}

/// Writes the page of a file.
fn page_of(file: &Path, name: &str) -> PathBuf {
    let page = new_page(name);
    let output = hmtt(&["report", text(file), "-o", text(&page)]);
    assert!(output.status.code().is_some_and(|code| code != 1), "{output:?}");
    page
}

fn json_of(words: &[&str]) -> Value {
    let output = hmtt(words);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn numbers_of_a_report_are_those_of_the_other_commands() {
    let file = card_capture("report-numbers.pcapng", true);
    let document = json_of(&["report", "--json", text(&file)]);
    assert_json_documented("report", &document);
    for name in ["stats", "hot", "reuse", "mrc", "rows"] {
        let mut words = vec![name, "--json", text(&file)];
        if name == "hot" {
            words.extend(["--top", "20"]);
        }
        assert_eq!(document["report"][name], json_of(&words)[name], "{name}");
    }
    let stats = &document["report"]["stats"];
    let slices = document["report"]["timeline"][0]["slices"].as_array().unwrap();
    let sum = |name: &str| slices.iter().map(|slice| slice[name].as_u64().unwrap()).sum::<u64>();
    for name in ["reads", "writes", "access_bytes", "gap_count", "lost_accesses"] {
        assert_eq!(stats[name], sum(name), "{name}");
    }
    assert_eq!(stats["pages"], sum("new_pages"));
    let blocks = document["report"]["heat_map"][0]["blocks"].as_array().unwrap();
    let counts = blocks.iter().flat_map(|row| row["counts"].as_array().unwrap());
    let counted: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(stats["accesses"], counted);
    let shares = document["report"]["distribution"].as_array().unwrap();
    assert_eq!(shares.last().unwrap()["pages"], stats["pages"]);
    let by_number = &document["report"]["address_distribution"];
    let blocks = by_number["blocks"].as_array().unwrap();
    let sum = |name: &str| blocks.iter().map(|block| block[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        (stats["pages"].as_u64(), Some(true)),
        (Some(sum("pages")), Some(blocks.len() <= 128))
    );
    assert_eq!(document["report"]["hot"]["touches"], sum("touches"));
}

#[test]
fn the_page_has_the_numbers_and_the_verdict() {
    let file = card_capture("report-page.pcapng", true);
    let page = new_page("report-page.html");
    let output = hmtt(&["report", text(&file), "-o", text(&page)]);
    assert_eq!(output.status.code(), Some(3));
    let shown = transcript(&output).replace(text(&page), "PAGE");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    check("report", &shown);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.len() < 5 << 20 && html.contains("INCOMPLETE: accesses are missing."));
    let parts = parts_of(&html);
    let document = json_of(&["report", "--json", text(&file)]);
    let chart = |title: &str| {
        let mut parts = parts["memories"][0][1].as_array().unwrap().iter();
        parts.find(|part| part["title"] == title).unwrap().clone()
    };
    let series = |title: &str| chart(title)["series"].as_array().unwrap().clone();
    let values = |one: &Value| one["values"].as_array().unwrap().clone();
    let slices = document["report"]["timeline"][0]["slices"].as_array().unwrap();
    for (curve, name) in series("Accesses over time").iter().zip(["reads", "writes"]) {
        let expected: Vec<f64> = slices.iter().map(|slice| slice[name].as_f64().unwrap()).collect();
        assert_eq!(values(curve), expected, "{name}");
    }
    let rows = &document["report"]["rows"][0];
    let outcomes = ["same_row_accesses", "other_row_accesses", "first_accesses"];
    for (curve, name) in series("Rows over time").iter().zip(outcomes) {
        let sum: f64 = values(curve).iter().map(|value| value.as_f64().unwrap()).sum();
        assert_eq!(rows[name].as_f64(), Some(sum), "{name}");
    }
    for (title, rows, list) in [
        ("Banks over time", rows, "banks"),
        ("Addresses over time", &document["report"]["heat_map"][0], "blocks"),
    ] {
        let shown = chart(title)["rows"].as_array().unwrap().clone();
        let shown = shown.iter().map(|row| &row["counts"]);
        let expected = rows[list].as_array().unwrap().iter().map(|row| &row["counts"]);
        assert!(shown.eq(expected), "{title}");
    }
}

/// What the script of a page draws.
fn parts_of(html: &str) -> Value {
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn formats_have_two_names() {
    let file = card_capture("report-format.pcapng", false);
    for command in ["report", "stats", "rows"] {
        for format in ["json", "csv"] {
            let [long, short] = [["--format", format].join("="), format!("--{format}")]
                .map(|option| hmtt(&[command, &option, text(&file)]));
            assert_eq!(long.status.code(), Some(0));
            assert!(!long.stdout.is_empty() && long.stdout == short.stdout, "{command} {format}");
        }
    }
    let both = hmtt(&["stats", "--format", "json", "--csv", text(&file)]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn slices_are_rows_of_csv() {
    let file = card_capture("report-csv.pcapng", false);
    let output = hmtt(&["report", "--csv", text(&file)]);
    assert_eq!(output.status.code(), Some(0));
    let csv = String::from_utf8(output.stdout).unwrap();
    let heading: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_documented("CSV", heading.iter().copied());
    assert!(csv.lines().count() > 2);
    assert!(csv.lines().all(|line| line.split(',').count() == heading.len()), "{csv}");
}

#[test]
fn a_page_is_not_overwritten_unasked() {
    let file = card_capture("report-again.pcapng", false);
    let page = page_of(&file, "report-again.html");
    std::fs::write(&page, "mine").unwrap();
    let refused = hmtt(&["report", text(&file), "-o", text(&page)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("give -f to overwrite it"));
    assert_eq!(std::fs::read(&page).unwrap(), b"mine");
    let forced = hmtt(&["report", "-f", text(&file), "-o", text(&page)]);
    assert_eq!(forced.status.code(), Some(0));
    assert!(std::fs::read(&page).unwrap().starts_with(b"<!doctype html>"));
    let itself = hmtt(&["report", "-f", text(&file), "-o", text(&file)]);
    assert_eq!(itself.status.code(), Some(1));
    assert!(std::fs::read(&file).unwrap().len() > 1000);
}

#[test]
fn a_file_that_cannot_be_read_leaves_no_page() {
    let page = new_page("report-none.html");
    let output = hmtt(&["report", text(&scratch("report-none.pcapng")), "-o", text(&page)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!page.exists());
}

#[test]
fn all_charts_are_drawn_in_a_browser_without_errors_and_requests() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let file = card_capture("report-drawn.pcapng", true);
    let page = page_of(&file, "report-drawn.html");
    for width in [1280, 390] {
        let seen = browser.open(&page, width);
        assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]), "{width}");
        for chart in CHARTS {
            assert!(seen.drawn(chart) > 0, "{chart} at {width}");
        }
        assert!(seen.dom.contains("<h2>Gaps</h2>") && !seen.dom.contains("None is known."));
    }
}

#[test]
fn only_the_script_and_style_of_the_page_are_allowed() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let page = page_of(&card_capture("report-policy.pcapng", false), "report-policy.html");
    let html = std::fs::read_to_string(&page).unwrap();
    let forged = "<script>document.querySelector('h1').append('forged')</script>\
        <p onclick=\"this.append('forged')\" style=\"color: red\">text</p>\
        <script>document.querySelector('p').click()</script></body>";
    let changed = scratch("report-policy-forged.html");
    std::fs::write(&changed, html.replace("</body>", forged)).unwrap();
    let seen = browser.open(&changed, 1280);
    // Both scripts and the attributes with a script and a style are refused; the charts are there.
    assert_eq!(seen.errors.len(), 4, "{:?}", seen.errors);
    assert!(seen.errors.iter().all(|error| error.contains("Content Security Policy")));
    assert!(!seen.dom.contains("forged</h1>") && seen.drawn("Accesses over time") > 0);
}

#[test]
fn what_is_not_known_is_stated_in_place_of_a_chart() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let table = scratch("report-plain.csv");
    std::fs::write(&table, "clock,direction,address\n1,R,40\n9,W,80\n").unwrap();
    let seen = browser.open(&page_of(&table, "report-plain.html"), 1280);
    assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
    assert!(seen.dom.contains("Not known: accesses have no clock whose period is known."));
    assert!(seen.drawn("Accesses over time") > 0 && seen.drawn("Bandwidth over time") == 0);
    std::fs::write(&table, "clock,direction,address\n").unwrap();
    let seen = browser.open(&page_of(&table, "report-empty.html"), 1280);
    assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
    assert!(seen.dom.contains("There are no accesses."));
}

#[test]
fn the_keyboard_reads_values_and_zooms() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let file = card_capture("report-keys.pcapng", false);
    let html = std::fs::read_to_string(page_of(&file, "report-keys.html")).unwrap();
    // Presses keys in each chart, and notes what it reads out and whether it is drawn anew.
    let script = "<script>for (const svg of document.querySelectorAll('svg')) {\
         const press = (key) => svg.dispatchEvent(new KeyboardEvent('keydown', { key }));\
         const ticks = () => [...svg.querySelectorAll('text')].map((one) => one.textContent);\
         const shown = () => svg.querySelector('.content').innerHTML + ticks();\
         const whole = shown(); press('End'); press('+'); const near = shown(); press('0');\
         const read = svg.parentElement.querySelector('.readout').textContent;\
         const is = [read.length > 0, whole !== near, whole === shown()];\
         document.querySelector('h1').append(`;key ${is.join(' ')};`);\
         }</script></body>";
    let pressed = scratch("report-pressed.html");
    std::fs::write(&pressed, browser::with_script(&html, script)).unwrap();
    let seen = browser.open(&pressed, 1280);
    assert_eq!(seen.errors, Vec::<String>::new());
    let key_parts = seen.dom.split(';').filter_map(|part| part.strip_prefix("key "));
    let keys: Vec<&str> = key_parts.collect();
    assert_eq!(keys, ["true true true"; CHARTS.len()]);
}

#[test]
fn each_memory_can_be_chosen_and_a_narrow_window_is_wide_enough() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let lossy = card_capture("report-two-lossy.pcapng", true);
    let whole = card_capture("report-two-whole.pcapng", false);
    let page = new_page("report-two.html");
    let output = hmtt(&["report", text(&lossy), text(&whole), "-o", text(&page)]);
    assert_eq!(output.status.code(), Some(3));
    let html = std::fs::read_to_string(&page).unwrap();
    // Notes by how much the page is too wide, and chooses the second memory, which has no gaps.
    let script = "<script>const all = document.documentElement, list = document.querySelector('select');\
         document.querySelector('h1').append(`;${Math.max(all.scrollWidth - innerWidth, 0)} too wide;`);\
         list.value = 1; list.dispatchEvent(new Event('change'));</script></body>";
    let narrow = scratch("report-narrow.html");
    std::fs::write(&narrow, browser::with_script(&html, script)).unwrap();
    for (page, has_gaps) in [(&page, true), (&narrow, false)] {
        let seen = browser.open(page, 390);
        assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
        let memories = seen.dom.split("<div class=\"memory\"").skip(1);
        let shown: Vec<&str> = memories.filter(|part| !part.starts_with(" hidden")).collect();
        assert_eq!((shown.len(), !shown[0].contains("None is known.")), (1, has_gaps));
        assert_eq!(seen.dom.contains(";0 too wide;"), !has_gaps);
        assert!(CHARTS.iter().all(|chart| seen.drawn(chart) > 0));
    }
}

#[test]
fn errors_and_requests_of_a_page_are_seen() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let wrong = scratch("report-wrong.html");
    let html = "<img src=\"http://127.0.0.1:9/\"><script>throw new Error('wrong')</script>";
    std::fs::write(&wrong, html).unwrap();
    let seen = browser.open(&wrong, 1280);
    assert!(seen.errors.iter().any(|error| error.contains("wrong")), "{:?}", seen.errors);
    assert!(seen.requests.iter().any(|url| url.contains("127.0.0.1")), "{:?}", seen.requests);
}
