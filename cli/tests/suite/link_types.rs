//! Tests captures that other tools have written: with tagged frames, Linux cooked packets, obsolete blocks, or without a
//! frame of a card.

use std::path::PathBuf;

use crate::card::Card;
use crate::{capture_file, hmtt, scratch};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const ENHANCED_PACKET: u32 = 6;

fn block(kind: u32, fields: &[u8]) -> Vec<u8> {
    let mut fields = fields.to_vec();
    fields.resize(fields.len().next_multiple_of(4), 0);
    let length = (fields.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &fields, &length].concat()
}

/// Writes a capture of packets with a link type, in blocks of a type.
fn written(name: &str, link_type: u16, kind: u32, packets: &[Vec<u8>]) -> PathBuf {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = block(SECTION, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    bytes.extend(block(INTERFACE, &words(&[link_type.into(), 0])));
    for (packet, at) in packets.iter().zip(0..) {
        let length = packet.len() as u32;
        // A count of drops follows the 16 bits of the interface in an obsolete block.
        let interface = if kind == OBSOLETE_PACKET { 7 << 16 } else { 0 };
        let fields = words(&[interface, 0, 1000 * at, length, length]);
        bytes.extend(block(kind, &[&fields[..], packet].concat()));
    }
    let path = scratch(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

/// Linux cooked, version 1 or 2.
fn cooked(frame: &[u8], version: u32) -> Vec<u8> {
    let source = &frame[6..12];
    match version {
        1 => [&[0, 1, 0, 1, 0, 6], source, &[0, 0], &frame[12..]].concat(),
        _ => [&frame[12..14], &[0, 0, 0, 0, 0, 9, 0, 1, 1, 6], source, &[0, 0], &frame[14..]]
            .concat(),
    }
}

#[test]
fn frames_are_decoded_behind_tags_cooked_headers_and_in_obsolete_blocks() {
    let (frames, truth) = Card::new().session(5, 200);
    let stats = |path: &PathBuf| hmtt(&["stats", path.to_str().unwrap()]);
    let plain = stats(&capture_file("link-plain.pcapng", &frames));
    let expected = String::from_utf8(plain.stdout).unwrap();
    assert!(expected.contains(&format!("complete: {} accesses", truth.len())), "{expected}");
    let changed = |change: &dyn Fn(&[u8]) -> Vec<u8>| {
        frames.iter().map(|frame| change(frame)).collect::<Vec<_>>()
    };
    let captures = [
        written(
            "link-vlan.pcapng",
            1,
            ENHANCED_PACKET,
            &changed(&|frame| tagged(frame, &[0x81, 0, 0, 42])),
        ),
        written(
            "link-qinq.pcapng",
            1,
            ENHANCED_PACKET,
            &changed(&|frame| tagged(frame, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 42])),
        ),
        written("link-sll.pcapng", 113, ENHANCED_PACKET, &changed(&|frame| cooked(frame, 1))),
        written("link-sll2.pcapng", 276, ENHANCED_PACKET, &changed(&|frame| cooked(frame, 2))),
        written("link-opb.pcapng", 1, OBSOLETE_PACKET, &frames),
    ];
    for capture in captures {
        let output = stats(&capture);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{}", capture.display());
        assert_eq!(output.status.code(), plain.status.code());
    }
}

#[test]
fn a_capture_without_a_frame_of_a_card_is_an_error() {
    let packet = vec![vec![0x45; 60]];
    let captures = [
        written("link-none.pcapng", 1, ENHANCED_PACKET, &[]),
        written("link-ip.pcapng", 101, ENHANCED_PACKET, &packet),
        written("link-loopback.pcapng", 0, ENHANCED_PACKET, &packet),
        written("link-unknown.pcapng", 147, ENHANCED_PACKET, &packet),
        written("link-skipped.pcapng", 1, 0x0bad, &packet),
    ];
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    for capture in &captures {
        let path = capture.to_str().unwrap();
        for words in [&["stats"][..], &["phases"], &["dataset", "add", set.to_str().unwrap()]] {
            let output = hmtt(&[words, &[path]].concat());
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{words:?} {path}: {text}");
            assert!(text.contains("no frame of a card is in it"), "{words:?} {path}: {text}");
            assert!(!text.contains("complete: "), "{words:?} {path}: {text}");
        }
    }
    for (capture, what) in captures[3..].iter().zip([
        "1 packets have a link type that is not read",
        "1 blocks have a type that is not read",
    ]) {
        let text = String::from_utf8(hmtt(&["stats", capture.to_str().unwrap()]).stdout).unwrap();
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn no_access_is_not_complete() {
    let table = scratch("link-no-access.csv");
    std::fs::write(&table, "clock,direction,address\n").unwrap();
    for command in ["stats", "hot", "reuse", "mrc", "streams", "phases", "check"] {
        let output = hmtt(&[command, table.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}: {text}");
        assert!(text.starts_with("INCOMPLETE: 0 accesses"), "{command}: {text}");
        assert!(text.contains("no access is in it"), "{command}: {text}");
    }
}
