//! Tests the groups of a report: their numbers against those of `hmtt stats --by`, and how they are
//! drawn.

use super::*;
use crate::accesses_split::marked;

/// The part with a title, which is among the first ones of a page.
fn part<'p>(parts: &'p Value, title: &str) -> &'p Value {
    let mut first_parts = parts["first"].as_array().unwrap().iter();
    first_parts.find(|part| part["title"] == title).unwrap_or_else(|| panic!("{title}: {parts}"))
}

/// The sum of a list of numbers.
fn sum(list: &Value) -> f64 {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).sum()
}

#[test]
fn groups_are_those_of_stats_in_all_forms() {
    let (file, ..) = marked("report-groups.pcapng");
    for by in ["kernel", "mark=1,2", "thread", "function"] {
        let page = new_page("report-groups.html");
        let output = hmtt(&["report", "--by", by, "-o", text(&page), text(&file)]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let shown = String::from_utf8(output.stdout).unwrap();
        let name = by.split('=').next().unwrap();
        assert!(shown.contains("split by") && shown.contains(name), "{shown}");

        let [report, stats] = ["report", "stats"]
            .map(|command| json_of(&[command, "--by", by, "--json", text(&file)]));
        assert_json_documented("report --by", &report);
        for what in ["by", "inclusive", "notes"] {
            assert_eq!(report["split"][what], stats["split"][what], "{what}");
        }
        let groups = report["split"]["groups"].as_array().unwrap();
        let expected = stats["split"]["groups"].as_array().unwrap();
        assert_eq!(groups.len(), expected.len());
        for (group, expected) in groups.iter().zip(expected) {
            for what in ["group", "object", "stats"] {
                assert_eq!(group[what], expected[what], "{what}");
            }
        }
        let [report, stats] =
            ["report", "stats"].map(|command| hmtt(&[command, "--by", by, "--csv", text(&file)]));
        assert_eq!(report.stdout, stats.stdout);

        let parts = parts_of(&std::fs::read_to_string(&page).unwrap());
        let chart = part(&parts, &format!("Accesses by {name}"));
        assert_eq!(chart["labels"].as_array().unwrap().len(), groups.len());
        for (at, what) in ["reads", "writes"].into_iter().enumerate() {
            let total: f64 =
                groups.iter().map(|group| group["stats"][what].as_f64().unwrap()).sum();
            assert_eq!(sum(&chart["values"][at]), total, "{what}");
        }
        let rows = part(&parts, &format!("Groups by {name}"))["rows"].as_array().unwrap();
        assert!(rows.iter().zip(groups).all(|(row, group)| row[0] == group["group"]), "{rows:?}");
        let about = part(&parts, &format!("Groups by {name}"))["about"].as_str().unwrap();
        let has_note = ["thread", "function"].contains(&name);
        assert_eq!(about.contains("is not known"), has_note, "{about}");
    }
}

#[test]
fn groups_are_drawn_and_written_as_files() {
    let (file, ..) = marked("report-groups-drawn.pcapng");
    let page = new_page("report-groups-drawn.html");
    let folder = tempfile::tempdir().unwrap();
    let svg = ["--svg", text(folder.path())];
    let output = hmtt(
        &[&["report", "--by", "kernel", "-o", text(&page)], &svg[..], &[text(&file)]].concat(),
    );
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let drawn = std::fs::read_to_string(folder.path().join("accesses-by-kernel.svg")).unwrap();
    for word in [">kernel<", ">user<", ">(not known)<", ">reads<", ">writes<"] {
        assert!(drawn.contains(word), "{word}: {drawn}");
    }
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    // Writes what is read out of the second row.
    let script = "<script>const svg = [...document.querySelectorAll('svg')]\
         .find((one) => one.getAttribute('aria-label').startsWith('Accesses by kernel'));\
         const press = (key) => svg.dispatchEvent(new KeyboardEvent('keydown', { key }));\
         press('Home'); press('ArrowDown');\
         const read = svg.parentElement.querySelector('.readout').textContent;\
         document.querySelector('h1').append(`;${read};`);</script></body>";
    let html = std::fs::read_to_string(&page).unwrap();
    let pressed = scratch("report-groups-pressed.html");
    std::fs::write(&pressed, super::browser::with_script(&html, script)).unwrap();
    for width in [1280, 390] {
        let seen = browser.open(&pressed, width);
        assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
        assert!(seen.drawn("Accesses by kernel") >= 2, "{width}");
        assert!(seen.dom.contains("<h2>Groups by kernel</h2>"));
        assert!(seen.dom.contains(";(not known): 111 accesses (41.42 %)"), "{}", seen.dom);
    }
}

#[test]
fn groups_of_two_files_are_not_compared() {
    let (file, ..) = marked("report-groups-compared.pcapng");
    for words in [&["--by", "kernel"][..], &["--pagemap", "x"]] {
        let arguments = [&["report", "--compare"], words, &[text(&file), text(&file)]].concat();
        assert_eq!(hmtt(&arguments).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(hmtt(&["report", "--compare", text(&file)]).status.code(), Some(2));
}
