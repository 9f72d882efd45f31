//! Tests captures in the forms that other tools write: tagged frames, Linux cooked packets,
//! obsolete blocks, classic pcap and compressed files. Also tests captures without a frame of a
//! card.

use std::io::Write;
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
fn classic_and_compressed_captures_are_read_as_they_are() {
    let (frames, _) = Card::new().session(5, 200);
    let stats = |path: &PathBuf| {
        String::from_utf8(hmtt(&["stats", path.to_str().unwrap()]).stdout).unwrap()
    };
    let plain = capture_file("link-form.pcapng", &frames);
    let expected = stats(&plain);
    for (name, magic, is_big) in [
        ("link-classic.pcap", 0xa1b2_c3d4_u32, false),
        ("link-big.pcap", 0xa1b2_c3d4, true),
        ("link-nanoseconds.pcap", 0xa1b2_3c4d, false),
    ] {
        let word = |word: u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
        let words = |words: &[u32]| words.iter().flat_map(|one| word(*one)).collect::<Vec<u8>>();
        let version = if is_big { 2 << 16 | 4 } else { 4 << 16 | 2 };
        let mut bytes = words(&[magic, version, 0, 0, 65_535, 1]);
        for frame in &frames {
            let length = frame.len() as u32;
            bytes.extend(words(&[1_700_000_000, 5, length, length]));
            bytes.extend(frame);
        }
        let path = scratch(name);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(stats(&path), expected, "{name}");
        // A file that ends within a record is read up to there.
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(stats(&path).contains("the file ends within the block at offset"), "{name}");
    }
    let bytes = std::fs::read(&plain).unwrap();
    let compressed = [
        ("link-form.pcapng.gz", gzip(&bytes)),
        ("link-form.pcapng.lz4", lz4(&bytes)),
        ("link-form.pcapng.zst", zstd::encode_all(&bytes[..], 1).unwrap()),
    ];
    for (name, bytes) in compressed {
        let path = scratch(name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(stats(&path), expected, "{name}");
        let converted = hmtt(&["convert", path.to_str().unwrap(), "-", "--to", "csv"]);
        assert_eq!(converted.status.code(), Some(0), "{name}");
    }
}

/// Compresses bytes.
type Compress = fn(&[u8]) -> Vec<u8>;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Compressed files that end early or are damaged are read up to there; the message has the offset.
#[test]
fn compressed_captures_that_are_cut_or_damaged_are_never_whole() {
    let (frames, _) = Card::new().session(40, 200);
    let bytes = std::fs::read(capture_file("link-whole.pcapng", &frames)).unwrap();
    let (begin, rest) = bytes.split_at(bytes.len() / 2);
    let parts = |compress: Compress| [compress(begin), compress(rest)];
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    for (name, parts) in [("gz", parts(gzip)), ("lz4", parts(lz4)), ("zst", parts(zstd))] {
        let path = scratch(&format!("link-cut.pcapng.{name}"));
        let stats = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let output = hmtt(&["stats", path.to_str().unwrap()]);
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            (output.status.code(), text)
        };
        let whole = parts.concat();
        // Frames and members may follow each other.
        assert!(stats(&whole).1.starts_with("complete: "), "{name}");
        let first = parts[0].len();
        // Within a frame, within its end, within the begin of the next one, before the last byte.
        for cut in [first / 2, first - 1, first - 4, first + 3, first + 6, whole.len() - 1] {
            let (status, text) = stats(&whole[..cut]);
            assert!(
                !text.contains("complete: ") || text.contains("INCOMPLETE: "),
                "{name} {cut}: {text}"
            );
            let mut offset = ["offset", "end before its first bytes"].into_iter();
            assert!(
                matches!(status, Some(1 | 3)) && offset.any(|known| text.contains(known)),
                "{name} {cut}: {text}"
            );
        }
        // Only gzip always has a checksum.
        let mut flipped = whole.clone();
        flipped[first / 2] ^= 0x55;
        let (status, text) = stats(&flipped);
        assert!(matches!(status, Some(0 | 1 | 3)), "{name}: {text}");
        assert!(name != "gz" || !text.starts_with("complete: "), "{name}: {text}");
    }
}

/// 400 MB of zeros, compressed to less than a thousandth, are read in less than that memory.
#[test]
fn what_compressed_captures_expand_to_takes_no_memory() {
    let header =
        block(SECTION, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat());
    let zeros = block(0x0bad, &vec![0; (16 << 20) - 12]);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let compressions: [(&str, Compress); 3] = [("gz", gzip), ("lz4", lz4), ("zst", zstd)];
    for (name, compress) in compressions {
        let path = scratch(&format!("link-bomb.pcapng.{name}"));
        std::fs::write(&path, [compress(&header), compress(&zeros).repeat(25)].concat()).unwrap();
        let output = std::process::Command::new("sh")
            .args(["-c", "ulimit -v 350000; exec \"$0\" stats \"$1\"", env!("CARGO_BIN_EXE_hmtt")])
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains("25 blocks have a type that is not read"), "{name}: {text}");
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
        for words in [
            &["stats"][..],
            &["phases"],
            &["dataset", "add", set.to_str().unwrap()],
            &["decode"],
            &["decode", "--format", "jsonl"],
            &["info"],
            &["info", "--json"],
            &["analysis"],
            &["convert"],
        ] {
            let output = hmtt(&match words {
                ["convert", ..] => vec!["convert", path, "-", "--to", "csv"],
                _ => [words, &[path]].concat(),
            });
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{words:?} {path}: {text}");
            assert!(text.contains("no frame of a card is in it"), "{words:?} {path}: {text}");
            assert!(!text.contains("complete: "), "{words:?} {path}: {text}");
        }
    }
    for (capture, what) in captures[3..]
        .iter()
        .zip(["1 packet has a link type that is not read", "1 block has a type that is not read"])
    {
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
