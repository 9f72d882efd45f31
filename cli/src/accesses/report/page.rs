//! Makes the HTML page from the verdict, the parts in HTML, the charts as JSON, and the script that
//! draws the charts.
//!
//! Names of files and messages come from outside. The text of the page escapes them, and the JSON
//! data escapes `<`. So neither can end the HTML element that contains it. The content security
//! policy of the page forbids all requests. It allows only the script and the style of HMTT, which
//! it names by their hashes.

mod parts;

use hmtt_format::escape;
use serde_json::Value;

use super::chart::Parts;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 8] = [
    include_str!("numbers.js"),
    include_str!("labels.js"),
    include_str!("chart.js"),
    include_str!("kinds.js"),
    include_str!("rows.js"),
    include_str!("heat_map.js"),
    include_str!("parts.js"),
    include_str!("page.js"),
];

/// Hash of the script for the content security policy: base64 of SHA-256. The hashed text includes
/// the line ends around the script. A test computes the hash.
const SCRIPT_HASH: &str = "sha256-5Fbtzc5k+m/MbmRNLsJi70BXmLx+fqZW85gf6a0i1Xw=";
/// Hash of the style, made in the same way.
const STYLE_HASH: &str = "sha256-ClNth5qBD0Wf1XIJ6j98UcKOzGJmh/v2oVPLQFuXBSw=";

/// Escapes a text, so that nothing in it has a meaning in HTML or controls a terminal.
fn text(raw: &str) -> String {
    let mut escaped = String::new();
    for letter in escape::message(raw).to_string().chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The texts of a list in a JSON object. `name`: key of the list.
fn texts<'a>(data: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    data[name].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn verdict(data: &Value) -> String {
    let is_complete = data["complete"] == true;
    let (class, words) = if is_complete {
        ("verdict", "Complete: nothing is missing.")
    } else {
        ("verdict incomplete", "INCOMPLETE: accesses are missing.")
    };
    let mut items: Vec<String> =
        texts(data, "missing").map(|what| format!("missing: {what}")).collect();
    items.extend(texts(data, "notes").map(|note| format!("note: {note}")));
    for source in data["sources"].as_array().into_iter().flatten() {
        let field = |name: &str| source[name].as_str().unwrap_or_default();
        let absent: Vec<&str> = texts(source, "absent").collect();
        let absent = if absent.is_empty() {
            String::new()
        } else {
            format!("; not known: {}", absent.join(", "))
        };
        let number = &source["source"];
        items.push(format!("source {number}: {} ({}){absent}", field("file"), field("kind")));
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", text(item))).collect();
    format!("<div class=\"{class}\"><strong>{words}</strong>\n<ul>\n{items}</ul></div>")
}

/// Adds a note that the charts over time of some memories are left out.
fn note_left_out(data: &mut Value, left_out: usize) {
    if let Some(notes) = data["notes"].as_array_mut().filter(|_| left_out > 0) {
        let note = format!("charts over time of {left_out} further memories are left out");
        notes.push(note.into());
    }
}

/// Makes the page. `left_out`: number of memories without charts over time. `names`: names of the
/// files. `data`: the JSON object that `--json` prints.
pub fn html(left_out: usize, names: &str, mut data: Value, parts: &Parts) -> String {
    note_left_out(&mut data, left_out);
    let title = text(&format!("Memory accesses of {names}"));
    let verdict = verdict(&data);
    let static_parts = parts::html(parts);
    let json = hmtt_format::json::to_string(parts).unwrap_or_default().replace('<', "\\u003c");
    let script = SCRIPT.concat();
    // All placeholders are replaced in one pass, so that inserted text is not searched for
    // placeholders.
    let mut page = String::with_capacity(
        PAGE.len() + json.len() + static_parts.len() + script.len() + STYLE.len(),
    );
    for (at, part) in PAGE.split('@').enumerate() {
        page.push_str(match part {
            _ if at % 2 == 0 => part,
            "TITLE" => &title,
            "STYLE" => STYLE,
            "SCRIPT_HASH" => SCRIPT_HASH,
            "STYLE_HASH" => STYLE_HASH,
            "VERDICT" => &verdict,
            "PARTS" => &static_parts,
            "VERSION" => env!("CARGO_PKG_VERSION"),
            "LICENCE" => env!("CARGO_PKG_LICENSE"),
            "DATA" => &json,
            "SCRIPT" => &script,
            other => other,
        });
    }
    page
}

#[cfg(test)]
mod sha256;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::chart::Part;
    use super::*;

    #[test]
    fn the_policy_names_the_hashes_of_script_and_style() {
        let data = json!({ "complete": true, "missing": [], "notes": [], "sources": [] });
        let page = html(0, "x", data, &Parts::default());
        let between = |begin: &str, end: &str| {
            let (_, rest) = page.split_once(begin).unwrap();
            rest.split_once(end).unwrap().0
        };
        let policy = between("Content-Security-Policy\" content=\"", "\"");
        let [script, style] = [between("<script>", "</script>"), between("<style>", "</style>")]
            .map(sha256::policy_hash);
        for source in [format!("script-src '{script}';"), format!("style-src '{style}';")] {
            assert!(policy.contains(&source), "{source} is not in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn no_script_sets_a_style_attribute() {
        // The policy forbids it; `element.style.name = value` and attributes of SVG are allowed.
        let script = SCRIPT.concat();
        for forbidden in
            ["style: \"", "setAttribute(\"style\"", "innerHTML", "eval(", "new Function"]
        {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn what_comes_from_outside_cannot_end_its_element() {
        let hostile = "</script><script>alert(1)</script>@STYLE@\u{1b}[2J";
        let data = json!({
            "complete": false, "missing": [hostile], "notes": [],
            "sources": [{ "source": 1, "file": hostile, "kind": "x", "absent": [] }],
        });
        let parts = Parts {
            first: vec![Part::absent(hostile, hostile, false)],
            memories: vec![(hostile.to_owned(), Vec::new())],
            ..Parts::default()
        };
        let page = html(0, hostile, data, &parts);
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script").count(), 2);
        assert!(
            !page.contains('\u{1b}') && page.contains("@STYLE@") && page.contains("INCOMPLETE")
        );
    }

    #[test]
    fn the_page_names_no_network() {
        let sources = [PAGE, STYLE].into_iter().chain(SCRIPT);
        let content: String = sources.collect();
        for name in ["http:", "https:", "@import", "url(\"", "fetch(", "XMLHttpRequest", "import "]
        {
            let occurrences = content.matches(name).count();
            // The name of the SVG elements is no address.
            assert_eq!(occurrences, usize::from(name == "http:"), "{name}");
        }
    }

    #[test]
    fn what_is_left_out_is_stated() {
        let mut data = json!({ "notes": [] });
        note_left_out(&mut data, 0);
        assert_eq!(data, json!({ "notes": [] }));
        note_left_out(&mut data, 2);
        assert_eq!(data["notes"][0], "charts over time of 2 further memories are left out");
    }
}
