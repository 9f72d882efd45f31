//! Tests `hmtt report --svg` and `--png`: what is drawn without a browser.

use std::collections::BTreeSet;
use std::path::Path;

use super::{CHARTS, browser, card_capture, text};
use crate::{hmtt, skipped};

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The names of the files of charts.
fn expected(extension: &str) -> BTreeSet<String> {
    let name = |title: &&str| title.to_lowercase().replace([' ', '-'], "-") + "." + extension;
    CHARTS.iter().map(name).collect()
}

#[test]
fn each_chart_is_an_svg_that_a_browser_draws() {
    let file = card_capture("images-svg.pcapng", true);
    let directory = tempfile::tempdir().unwrap();
    // Directories are created.
    let inner = directory.path().join("new").join("inner");
    let output = hmtt(&["report", "--svg", text(&inner), text(&file)]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(names(&inner), expected("svg"));
    for name in names(&inner) {
        let svg = std::fs::read_to_string(inner.join(&name)).unwrap();
        assert!(
            svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\""),
            "{name}"
        );
        assert!(
            !svg.contains("href") && !svg.contains("<script") && !svg.contains("NaN"),
            "{name}"
        );
        assert!(svg.contains("class=\"title\"") && svg.matches("<text").count() > 5, "{name}");
    }
    let Some(browser) = browser::Browser::find() else { return skipped("chromium") };
    let images: String = names(&inner)
        .iter()
        .map(|name| format!("<img src=\"new/inner/{name}\" alt=\"{name}\">"))
        .collect();
    // An image that is no SVG, or has an error, has no width.
    let script = "<script>onload = () => document.body.prepend(`;${[...document.images]\
         .filter((one) => one.naturalWidth === 720).length} drawn;`)</script>";
    let page = directory.path().join("all.html");
    std::fs::write(&page, format!("<body>{images}{script}</body>")).unwrap();
    let seen = browser.open(&page, 1280);
    assert_eq!((&seen.errors, &seen.requests), (&vec![], &vec![]));
    assert!(seen.dom.contains(&format!(";{} drawn;", CHARTS.len())), "{}", seen.dom);
}

/// Width, height and bits of a PNG file, from its header.
fn png_size(bytes: &[u8]) -> (u32, u32, u8) {
    assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20), bytes[24])
}

#[test]
fn each_chart_is_a_png_of_three_times_the_size() {
    let file = card_capture("images-png.pcapng", false);
    let directory = tempfile::tempdir().unwrap();
    let [svg, png] = ["svg", "png"].map(|name| directory.path().join(name));
    let words = ["report", "--svg", text(&svg), "--png", text(&png), text(&file)];
    let output = hmtt(&words);
    if String::from_utf8_lossy(&output.stderr).contains("no font is installed") {
        assert!(!png.exists() && !svg.exists());
        return skipped("fonts");
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((names(&svg), names(&png)), (expected("svg"), expected("png")));
    for name in names(&png) {
        let bytes = std::fs::read(png.join(&name)).unwrap();
        let (width, height, bits) = png_size(&bytes);
        assert_eq!((width, bits), (2160, 8), "{name}");
        assert!((600..2000).contains(&height) && bytes.len() > 10_000, "{name}");
    }
}

#[test]
fn files_are_not_overwritten_unasked_and_all_are_refused_together() {
    let file = card_capture("images-again.pcapng", false);
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let mine = directory.join("reuse-distances.svg");
    std::fs::write(&mine, "mine").unwrap();
    let page = directory.join("page.html");
    let words = ["report", "--svg", text(directory), "-o", text(&page), text(&file)];
    let refused = hmtt(&words);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("give -f to overwrite it"));
    assert_eq!(names(directory), BTreeSet::from(["reuse-distances.svg".to_owned()]));
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
    let forced = hmtt(&[&words[..], &["-f"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{forced:?}");
    assert!(std::fs::read(&mine).unwrap().starts_with(b"<svg"));
    assert_eq!(names(directory).len(), CHARTS.len() + 1);
    let on_file = hmtt(&["report", "--png", text(&mine), text(&file)]);
    assert_eq!(on_file.status.code(), Some(1));
    assert!(String::from_utf8(on_file.stderr).unwrap().contains("is no directory"));
}

#[test]
fn charts_of_a_comparison_are_files_too() {
    let [lossy, lossless] = [("images-a.pcapng", true), ("images-b.pcapng", false)]
        .map(|(name, is_lossy)| card_capture(name, is_lossy));
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let words = ["report", "--compare", text(&lossy), text(&lossless), "--svg", text(directory)];
    assert_eq!(hmtt(&words).status.code(), Some(3));
    let files = names(directory);
    for name in ["banks-over-time-a.svg", "banks-over-time-b.svg", "bandwidth-over-time.svg"] {
        assert!(files.contains(name), "{files:?}");
    }
}
