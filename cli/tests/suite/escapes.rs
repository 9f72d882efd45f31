//! Tests that names and comments from files never form a line of their own and never send control
//! sequences to a terminal.

use std::path::PathBuf;
use std::time::Duration;

use hmtt::CardId;
use hmtt::pcapng::{Description, PcapngWriter};
use hmtt::table::Reader;
use hmtt::table::csv::CsvReader;

use crate::card::Card;
use crate::{hmtt, scratch};

const NAME: &str = "eth1\u{1b}]0;owned\u{7}\u{1b}[2J\ncard 9 on \"forged\", \\ \u{202e}";
const COMMENT: &str = "\u{1b}[31mhello\u{1b}[0m\nmissing frames            0\r\nmore\u{9b}";

/// Writes a capture of two cards, the second one on an interface with such a name.
fn hostile_capture(name: &str) -> PathBuf {
    let named = |name: &str| Description { name: name.into(), comments: vec![COMMENT.into()] };
    let interfaces = [named("eth0"), named(NAME)];
    let mut writer = PcapngWriter::new(Vec::new(), &interfaces).unwrap();
    for interface in [0, 1] {
        for frame in Card::new().session(3, 5).0 {
            let time = Duration::from_secs(1_700_000_000);
            writer.write_frame(interface, time, frame.len() as u32, &frame).unwrap();
        }
    }
    let path = scratch(name);
    std::fs::write(&path, writer.into_output()).unwrap();
    path
}

/// Returns the output of a command after checking that it has no control characters.
fn printed(arguments: &[&str]) -> String {
    let output = hmtt(arguments);
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    for text in &text {
        let control = text.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(control, None, "{arguments:?}: {text:?}");
    }
    let [standard, errors] = text;
    standard + &errors
}

#[test]
fn names_and_comments_of_captures_forge_no_line() {
    let path = hostile_capture("escapes.pcapng");
    let path = path.to_str().unwrap();
    let info = printed(&["info", path]);
    assert!(!info.lines().any(|line| line.starts_with("missing frames            0\\")), "{info}");
    let is_card = |line: &&str| line.starts_with("card ") && line.contains(" on ");
    let cards = info.lines().filter(is_card).collect::<Vec<_>>();
    assert_eq!(cards.len(), 2, "{info}");
    assert!(
        info.contains("\\u{1b}[31mhello\\u{1b}[0m\\nmissing frames            0\\r\\nmore\\u{9b}")
    );
    for format in ["text", "csv"] {
        let text = printed(&["decode", "--format", format, path]);
        assert!(!text.lines().any(|line| line.starts_with("card 9")), "{format}: {text}");
    }
    printed(&["merge", path, path]);
}

#[test]
fn escaped_names_are_read_back_from_csv() {
    let path = hostile_capture("escapes-back.pcapng");
    let text = printed(&["decode", "--format", "csv", path.to_str().unwrap()]);
    let text = text.lines().filter(|line| !line.starts_with("hmtt: ")).collect::<Vec<_>>();
    let text = text.join("\n") + "\n";
    let mut reader = CsvReader::new(text.as_bytes()).unwrap();
    while reader.next_row().unwrap().is_some() {}
    assert_eq!(reader.interface(CardId(1)), Some(NAME));
}

#[test]
fn quoted_fields_of_several_lines_are_read() {
    // Versions before this one wrote such fields.
    let text = "kind,clock,direction,address,reads,writes,duration,detail\n\
                card,,,,,,,\"2 on a\n\"\"b\"\"\"\n\naccess,7,R,40,,,,\naccess,x,R,40,,,,\n";
    let mut reader = CsvReader::new(text.as_bytes()).unwrap();
    let row = reader.next_row().unwrap().unwrap();
    assert_eq!((row.card, reader.interface(CardId(1))), (CardId(1), Some("a\n\"b\"")));
    let error = reader.next_row().unwrap_err().to_string();
    assert_eq!(error, "line 6: clock \"x\" is not a decimal number, or is too large");
}

#[test]
fn content_of_tables_is_quoted_in_errors_without_control_characters() {
    let path = scratch("escapes.jsonl");
    std::fs::write(&path, "{\"kind\":\"\u{9b}31m\\u001b[2Jx\"}\n").unwrap();
    let text = printed(&["convert", path.to_str().unwrap(), "-", "--to", "csv"]);
    assert!(text.contains("line 1"), "{text}");
}
