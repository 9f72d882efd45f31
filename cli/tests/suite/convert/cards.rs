//! Tests that cards and their interfaces keep their numbers and names in every format.

use std::fs::{self, File};

use hmtt::CardId;
use hmtt::table::parquet::{ParquetReader, ParquetWriter};
use hmtt::table::{Entry, Reader, Row, Writer};
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{converted, decoded, output, text};
use crate::card::Card;
use crate::{hmtt, scratch};
use hmtt_test_support::captures::capture_of_links;

fn two_links(name: &str) -> std::path::PathBuf {
    let frames = |counter, accesses| {
        let mut card = Card { counter, accesses, clock: accesses, ..Card::new() };
        card.session(2, 2).0
    };
    capture_of_links(name, &[frames(0, 0), frames(70, 1000)])
}

#[test]
fn convert_names_cards_as_decode_does() {
    let capture = two_links("convert-cards.pcapng");
    for (format, extension) in [("text", "txt"), ("csv", "csv"), ("jsonl", "jsonl")] {
        let written = output("cards", extension);
        converted(&capture, &written);
        let expected = decoded(&capture, format);
        assert!(String::from_utf8_lossy(&expected).contains("veth3"), "{format}");
        assert!(fs::read(&written).unwrap() == expected, "{format}");
        if format != "text" {
            let copy = output("cards-copy", extension);
            converted(&written, &copy);
            assert!(fs::read(copy).unwrap() == expected, "{format}");
        }
    }
}

#[test]
fn a_table_has_the_card_and_interface_of_each_session() {
    let capture = two_links("convert-captures.pcapng");
    let parquet = output("captures", "parquet");
    converted(&capture, &parquet);
    let file = SerializedFileReader::new(File::open(&parquet).unwrap()).unwrap();
    let pairs = file.metadata().file_metadata().key_value_metadata().unwrap();
    let sessions = pairs.iter().find(|pair| pair.key == "hmtt.sessions").unwrap();
    let sessions: serde_json::Value =
        serde_json::from_str(sessions.value.as_ref().unwrap()).unwrap();
    for (session, interface) in [(0, "veth1"), (1, "veth3")] {
        assert_eq!(sessions[session]["card"], session + 1);
        assert_eq!(sessions[session]["interface"], interface);
        assert_eq!(sessions[session]["report"]["tck_ps"], 10_000);
    }
    // The rows of each card are unchanged, one card after the other.
    let back = output("captures", "csv");
    converted(&parquet, &back);
    let back = fs::read_to_string(back).unwrap();
    assert_eq!(back.matches("\"2 on veth3\"").count(), 1, "{back}");
    let rows = |text: &str| {
        let mut rows: Vec<String> =
            text.lines().filter(|line| !line.starts_with("card,")).map(String::from).collect();
        rows.sort();
        rows
    };
    assert_eq!(rows(&back), rows(&String::from_utf8(decoded(&capture, "csv")).unwrap()));
}

#[test]
fn a_chosen_card_is_not_named_and_keeps_its_number_in_tables() {
    let capture = two_links("convert-chosen.pcapng");
    let parquet = output("chosen", "parquet");
    let decode = hmtt(&["decode", text(&capture), "--card", "2", "-o", text(&parquet)]);
    assert_eq!(decode.status.code(), Some(0), "what was before its first frame is no loss");
    let mut reader = ParquetReader::new(File::open(parquet).unwrap()).unwrap();
    let row = reader.next_row().unwrap().unwrap();
    assert_eq!((row.card, reader.interface(CardId(1))), (CardId(1), Some("veth3")));
    let csv = hmtt(&["decode", text(&capture), "--card", "2", "--format", "csv"]).stdout;
    assert!(!String::from_utf8(csv).unwrap().contains("card,"));
}

#[test]
fn a_restart_is_a_separate_capture_on_the_same_interface() {
    let path = scratch("restarts.parquet");
    let mut writer = Box::new(ParquetWriter::new(File::create(&path).unwrap()).unwrap());
    let access = |clock| {
        let (direction, address) = (Direction::Read, PhysAddr(0x40));
        Entry::from(Access { clock: Cycles(clock), direction, address })
    };
    writer.interface(CardId(1), "veth3");
    for entry in [access(70), Entry::Restart, access(3)] {
        writer.row(&Row { card: CardId(1), entry }).unwrap();
    }
    writer.finish().unwrap();
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let pairs = file.metadata().file_metadata().key_value_metadata().unwrap();
    let sessions = pairs.iter().find(|pair| pair.key == "hmtt.sessions").unwrap();
    let session = r#"{"card":2,"interface":"veth3"}"#;
    assert_eq!(sessions.value.as_ref().unwrap(), &format!("[{session},{session}]"));
}

#[test]
fn a_tag_away_from_its_offset_is_an_error_in_parquet_too() {
    let path = scratch("tag-away.parquet");
    let mut writer = Box::new(ParquetWriter::new(File::create(&path).unwrap()).unwrap());
    let (clock, direction, offset) = (Cycles(7), Direction::Write, 77);
    let tag = Event::Tag { clock, direction, offset, address: Some(PhysAddr(0x1240)) };
    writer.row(&Row { card: CardId(0), entry: Entry::Event(tag) }).unwrap();
    writer.finish().unwrap();
    let refused = hmtt(&["convert", "-f", text(&path), text(&output("tag-away", "csv"))]);
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("the address 1240 of a tag is not at its offset 77"), "{error}");
}

#[test]
fn decode_takes_its_format_from_the_extension_of_its_output() {
    let capture = two_links("decode-extension.pcapng");
    for (format, extension) in [("csv", "csv"), ("jsonl", "jsonl"), ("text", "list")] {
        let written = output("by-extension", extension);
        hmtt(&["decode", text(&capture), "-o", text(&written)]);
        assert!(fs::read(written).unwrap() == decoded(&capture, format), "{format}");
    }
    let (decoded, direct) = (output("decoded", "parquet"), output("direct", "parquet"));
    hmtt(&["decode", text(&capture), "-o", text(&decoded)]);
    converted(&capture, &direct);
    let direct = fs::read(direct).unwrap();
    assert!(fs::read(decoded).unwrap() == direct);
    assert!(hmtt(&["decode", text(&capture), "--format", "parquet"]).stdout == direct);
}

#[test]
fn a_compressed_capture_is_converted_like_any_other() {
    let capture = two_links("convert-plain.pcapng");
    let compressed = scratch("convert-compressed.pcapng.zst");
    let bytes = zstd::encode_all(&fs::read(&capture).unwrap()[..], 1).unwrap();
    fs::write(&compressed, bytes).unwrap();
    let written = output("compressed", "csv");
    converted(&compressed, &written);
    assert!(fs::read(written).unwrap() == decoded(&capture, "csv"));
}
