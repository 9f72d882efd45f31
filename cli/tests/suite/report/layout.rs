//! Tests how the page and its charts look: labels, first touches, print, and what is there without
//! a script.

use std::fmt::Write;
use std::path::PathBuf;

use super::{browser, json_of, new_page, page_of, parts_of, text};
use crate::{hmtt, scratch, skipped};

/// A table with touches of many distances, whose addresses differ in their middle digits only.
fn table(name: &str) -> PathBuf {
    let mut rows = "clock,direction,address\n".to_owned();
    let mut clock = 0;
    for log2 in 0..12 {
        for line in 0..1u64 << log2 {
            let address = 0x7f50_0000_b000 + line % 11 * 0x1_2340_0000 + line / 11 * 64;
            writeln!(rows, "{clock},R,{address:#x}").unwrap();
            clock += 1;
        }
    }
    let path = scratch(name);
    std::fs::write(&path, rows).unwrap();
    path
}

/// Labels of a part that has some.
fn labels(part: &serde_json::Value) -> Vec<&str> {
    part["labels"].as_array().unwrap().iter().filter_map(|label| label.as_str()).collect()
}

#[test]
fn first_touches_are_labelled_and_set_apart_in_files() {
    let file = table("report-first.csv");
    let folder = tempfile::tempdir().unwrap();
    for files in [vec![&file], vec![&file, &file]] {
        let mut words = vec!["report", "--svg", text(folder.path()), "-f"];
        words.extend(files.iter().map(|file| text(file)));
        if files.len() > 1 {
            words.push("--compare");
        }
        assert_eq!(hmtt(&words).status.code(), Some(0));
        let svg = std::fs::read_to_string(folder.path().join("reuse-distances.svg")).unwrap();
        assert!(svg.contains(">first</text>") && svg.contains("first touches"), "{svg}");
        // A line is between the last distance and first touches, beside that of the axes.
        assert_eq!(svg.matches("class=\"axis\"").count(), 2, "{svg}");
        let colours =
            ["#1f66c7", "#c2590a"].map(|colour| svg.contains(&format!("<path fill=\"{colour}\"")));
        assert_eq!(colours, [true, true]);
    }
}

#[test]
fn labels_of_blocks_are_whole_addresses() {
    let page = page_of(&table("report-blocks.csv"), "report-blocks.html");
    let parts = parts_of(&std::fs::read_to_string(page).unwrap());
    let of_memory = parts["memories"][0][1].as_array().unwrap();
    let heat = of_memory.iter().find(|part| part["title"] == "Addresses over time").unwrap();
    let mut labels: Vec<&str> =
        heat["rows"].as_array().unwrap().iter().map(|row| row["label"].as_str().unwrap()).collect();
    let count = labels.len();
    assert!(count > 8 && labels.iter().all(|label| label.starts_with("0x7f5")), "{labels:?}");
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), count);
}

/// Appends `;NAME COUNT;` to the heading: pairs of texts of a chart that overlap, charts of
/// distances whose last label is not that of first touches.
const OVERLAPS: &str = "<script>let pairs = 0, unlabelled = 0, all = 0;\
    for (const svg of document.querySelectorAll('svg')) {\
      const boxes = [...svg.querySelectorAll('text')].map((one) => one.getBoundingClientRect());\
      all += boxes.length;\
      boxes.forEach((one, at) => boxes.slice(0, at).forEach((other) => {\
        const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);\
        const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);\
        if (wide > 0 && high > 4) pairs++; }));\
      const title = svg.parentElement.querySelector('h2').textContent;\
      if (title === 'Reuse distances' && ![...svg.querySelectorAll('text')].some((one) => one.textContent === 'first'))\
        unlabelled++;\
    }\
    document.querySelector('h1').append(`;${pairs} overlap, ${unlabelled} unlabelled;${all > 50};`);</script></body>";

#[test]
fn labels_in_a_browser_do_not_overlap() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let page = page_of(&table("report-labels.csv"), "report-labels.html");
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, browser::with_script(&html, OVERLAPS)).unwrap();
    for width in [1280, 390] {
        let seen = browser.open(&page, width);
        assert_eq!(seen.errors, Vec::<String>::new());
        let heading = seen.dom.split("</h1>").next().unwrap().rsplit("<h1>").next().unwrap();
        assert!(heading.ends_with(";0 overlap, 0 unlabelled;true;"), "{width}: {heading}");
    }
}

/// Exchanges the styles of the screen and of print, and appends what is then wrong to the heading.
const PRINT: &str = "<script>const wrong = [];\
    for (const sheet of document.styleSheets) for (const rule of sheet.cssRules) {\
      if (!rule.media) continue;\
      const media = rule.media.mediaText;\
      if (media === 'print') rule.media.mediaText = 'screen';\
      else if (media.startsWith('screen')) rule.media.mediaText = media.replace('screen', 'print');\
      else if (media.includes('prefers-color-scheme')) wrong.push(media);\
    }\
    dispatchEvent(new Event('beforeprint'));\
    const style = (name) => getComputedStyle(document.querySelector(name));\
    const expect = (name, is) => is || wrong.push(name);\
    expect('light', style('body').backgroundColor === 'rgb(255, 255, 255)');\
    expect('legend', style('.legend i').printColorAdjust === 'exact');\
    expect('table', style('.scroll').maxHeight === 'none' && style('.scroll').overflowY === 'visible');\
    expect('row', style('tr').breakInside === 'avoid' && style('thead').display === 'table-header-group');\
    expect('chart', style('section.chart').breakInside === 'avoid' && style('main').display === 'block');\
    expect('tools', style('.tools').display === 'none' && style('.readout').display === 'none');\
    expect('heat', style('.heat.light').display !== 'none' && style('.heat.dark').display === 'none');\
    for (const svg of document.querySelectorAll('svg')) expect('width', svg.viewBox.baseVal.width === 660);\
    dispatchEvent(new Event('afterprint'));\
    for (const svg of document.querySelectorAll('svg')) expect('again', svg.viewBox.baseVal.width !== 660);\
    document.querySelector('h1').append(`;wrong: ${wrong.join(' ')};`);</script></body>";

#[test]
fn the_page_is_printed_light_and_whole() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let page = page_of(&table("report-print.csv"), "report-print.html");
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, browser::with_script(&html, PRINT)).unwrap();
    let seen = browser.open(&page, 1280);
    assert_eq!(seen.errors, Vec::<String>::new());
    assert!(seen.dom.contains(";wrong: ;</h1>"), "{}", &seen.dom[..seen.dom.len().min(9000)]);
}

/// Lists what is printed of memories: the name and the charts of each, and whether they are seen.
/// Headings are those of the page's parts.
const PRINTED_MEMORIES: &str = "<script>\
    for (const sheet of document.styleSheets) for (const rule of sheet.cssRules)\
      if (rule.media && rule.media.mediaText === 'print') {\
        rule.media.mediaText = 'screen';\
        const page = [...rule.cssRules].find((one) => one instanceof CSSPageRule);\
        document.querySelector('h1').append(`;${page.style.size};`);\
      }\
    for (const memory of document.querySelectorAll('.memory')) {\
      const shown = (part) => part.getBoundingClientRect().height > 0;\
      const [name] = memory.children, charts = [...memory.querySelectorAll('section.chart')];\
      document.querySelector('h1').append(`;${name.localName} ${shown(name)} ${charts.length > 1 && charts.every(shown)};`);\
    }\
    document.querySelector('h1').append(`;${getComputedStyle(document.querySelector('.choice')).display};`);\
    </script></body>";

#[test]
fn all_memories_are_printed_below_their_names_on_a4() {
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let files = ["report-print-a.csv", "report-print-b.csv"].map(table);
    let page = new_page("report-print-memories.html");
    let output = hmtt(&["report", text(&files[0]), text(&files[1]), "-o", text(&page)]);
    assert!(output.status.success(), "{output:?}");
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, browser::with_script(&html, PRINTED_MEMORIES)).unwrap();
    let seen = browser.open(&page, 1280);
    // Charts become visible while they are measured.
    assert!(seen.errors.iter().all(|error| error.contains("ResizeObserver loop")));
    let heading = seen.dom.split("</h1>").next().unwrap();
    let expected = ";a4;;h2 true true;;h2 true true;;none;";
    assert!(heading.to_lowercase().ends_with(expected), "{heading}");
}

#[test]
fn sums_and_tables_are_in_the_page_without_its_script() {
    let page = page_of(&table("report-static.csv"), "report-static.html");
    let html = std::fs::read_to_string(page).unwrap();
    let (before, _) = html.split_once("<script").unwrap();
    for expected in [
        "<td>accesses</td><td>4,095</td>",
        "<td>reads</td><td>4,095 (100 %)</td>",
        "<h2>Misses of caches</h2>",
        "<h2>Hottest pages</h2>",
        "<h2>Reuse distances</h2>",
        "Not known: accesses have no clock whose period is known.",
    ] {
        assert!(before.contains(expected), "{expected}: {before}");
    }
    let rows = before.matches("<tr>").count();
    assert!(rows > 40, "{rows}");
    assert_eq!(labels_of_reuse(&parts_of(&html)).last(), Some(&"first".to_owned()));
}

fn labels_of_reuse(parts: &serde_json::Value) -> Vec<String> {
    let last = parts["last"].as_array().unwrap();
    let chart = last.iter().find(|part| part["title"] == "Reuse distances").unwrap();
    labels(chart).into_iter().map(str::to_owned).collect()
}

#[test]
fn misses_of_chosen_caches_are_in_json_text_and_page() {
    let file = table("report-sizes.csv");
    let page = new_page("report-sizes.html");
    let words = ["report", "--sizes", "256,4K", "-o", text(&page), text(&file)];
    let shown = String::from_utf8(hmtt(&words).stdout).unwrap();
    for command in ["report", "mrc"] {
        let document = json_of(&[command, "--json", "--sizes", "256,4K", text(&file)]);
        let curve = if command == "mrc" { &document["mrc"] } else { &document["report"]["mrc"] };
        let sizes = curve["sizes"].as_array().unwrap();
        let points = curve["points"].as_array().unwrap();
        assert_eq!(sizes.len(), 2);
        for (size, name, cell) in
            [(&sizes[0], "misses, 256 bytes", "256 B"), (&sizes[1], "misses, 4 KiB", "4 KiB")]
        {
            assert!(points.contains(size), "{size}");
            let misses = size["misses"].as_f64().unwrap();
            let ratio = misses / curve["touches"].as_f64().unwrap();
            assert!((ratio - size["miss_ratio"].as_f64().unwrap()).abs() < 1e-9);
            assert!(shown.contains(&format!("{name:<22} {misses} (")), "{shown}");
            let html = std::fs::read_to_string(&page).unwrap();
            assert!(html.contains(&format!("<tr><td>{cell}</td><td>{}</td><td>", size["lines"])));
        }
    }
    let csv = String::from_utf8(hmtt(&["mrc", "--csv", "--sizes", "4K", text(&file)]).stdout);
    let csv = csv.unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(csv.starts_with("lines,cache_bytes,miss_ratio,misses\n64,4096,"), "{csv}");
    let wrong = hmtt(&["mrc", "--sizes", "48K", text(&file)]);
    assert_eq!(wrong.status.code(), Some(2));
}
