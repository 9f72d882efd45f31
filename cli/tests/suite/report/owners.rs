//! Tests who owns the physical pages on the page of a report.

use super::*;
use crate::pagemap::maps::{map_file, small_map};

/// The table with a title.
fn table<'p>(parts: &'p Value, list: &str, title: &str) -> &'p Value {
    let mut listed_parts = parts[list].as_array().unwrap().iter();
    listed_parts.find(|part| part["title"] == title).unwrap_or_else(|| panic!("{title}"))
}

/// A cell as a number.
fn number(cell: &Value) -> u64 {
    cell.as_str().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn the_page_names_the_owners_of_pages() {
    let map = map_file("report-owners.map", &small_map(1 << 36));
    let capture = capture_file("report-owners.pcapng", &Card::new().session(8, 300).0);
    let page = new_page("report-owners.html");
    let pagemap = ["--pagemap", text(&map), text(&capture)];
    let output = hmtt(&[&["report", "-o", text(&page)][..], &pagemap].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let parts = parts_of(&std::fs::read_to_string(&page).unwrap());

    // As other commands have them, whose numbers are tested against a reader in Python.
    let document = json_of(&[&["hot", "--json", "--top", "20"][..], &pagemap].concat());
    let sums = &document["page_map"];
    for owner in ["resolved", "shared", "ambiguous", "unresolved"] {
        assert!(sums[format!("{owner}_accesses")].as_u64() > Some(0), "{sums}");
    }
    let shares = table(&parts, "first", "Owners of pages")["rows"].as_array().unwrap();
    for (row, owner) in shares.iter().zip(["resolved", "shared", "ambiguous", "unresolved"]) {
        assert_eq!(row[0], owner);
        assert_eq!(sums[format!("{owner}_accesses")], number(&row[1]), "{owner}");
        assert!(row[2].as_str().unwrap().ends_with(" %"), "{row}");
    }
    for (title, list) in [("Accesses by process", "processes"), ("Accesses by mapping", "mappings")]
    {
        let rows = table(&parts, "last", title)["rows"].as_array().unwrap();
        let expected = sums[list].as_array().unwrap();
        assert_eq!(rows.len(), expected.len(), "{title}");
        for (row, entry) in rows.iter().zip(expected) {
            assert_eq!(entry["accesses"], number(&row[1]), "{title}");
        }
    }
    for (title, list) in [("Hottest pages", "hot_pages"), ("Hottest lines", "hot_lines")] {
        let rows = table(&parts, "last", title)["rows"].as_array().unwrap();
        let expected = document["hot"][list].as_array().unwrap();
        assert_eq!(rows.len(), expected.len(), "{title}");
        for (row, entry) in rows.iter().zip(expected) {
            assert_eq!(row[0], entry["address"]);
            let process = row[4].as_str().unwrap();
            match entry["owner"].as_str().unwrap() {
                "resolved" => {
                    assert!(process.starts_with(&entry["pid"].to_string()), "{row} {entry}");
                    assert_eq!((&row[5], &row[6]), (&entry["mapping"], &entry["virtual_address"]));
                }
                "shared" => {
                    assert_eq!((process, &row[5]), ("several processes", &entry["mapping"]))
                }
                owner => assert_eq!((process, row[5].as_str()), (owner, Some("-"))),
            }
        }
    }

    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    for width in [1280, 390] {
        let seen = browser.open(&page, width);
        assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
        for title in ["Owners of pages", "Accesses by process", "Accesses by mapping"] {
            assert!(seen.dom.contains(&format!("<h2>{title}</h2>")), "{title}");
        }
        for cell in ["unresolved", "[heap]", "101 sort", "several processes", "virtual address"] {
            let is_cell = |tag| seen.dom.contains(&format!("<{tag}>{cell}</{tag}>"));
            assert!(is_cell("td") || is_cell("th"), "{cell}");
        }
        // The name of a process comes from outside.
        assert!(!seen.dom.contains('\u{1b}'));
    }
}
