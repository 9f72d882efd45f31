//! Drops, duplicates and swaps frames between card and receiver. Each dropped frame loses only its
//! own accesses, and is reported with their number.

use std::path::Path;

use hmtt_format::{Block, frame};
use hmtt_tests::run;
use pcap_file::pcapng::{Block as PcapBlock, PcapNgReader, PcapNgWriter};

use crate::captures::{comments, decode, lines, path, replay};

const NAME: &str = "v08_ddr1_litedram";

/// Returns the blocks of a capture before its packets, and the packets.
pub fn split(file: &Path) -> (Vec<PcapBlock<'static>>, Vec<PcapBlock<'static>>) {
    let mut reader = PcapNgReader::new(std::fs::File::open(file).unwrap()).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block() {
        blocks.push(block.unwrap().into_owned());
    }
    blocks.into_iter().partition(|block| !matches!(block, PcapBlock::EnhancedPacket(_)))
}

/// Writes blocks and packets as a capture.
pub fn join(file: &Path, blocks: &[PcapBlock<'static>], packets: &[PcapBlock<'static>]) {
    let mut writer = PcapNgWriter::new(std::fs::File::create(file).unwrap()).unwrap();
    for block in blocks.iter().chain(packets) {
        if !matches!(block, PcapBlock::SectionHeader(_)) {
            writer.write_block(block).unwrap();
        }
    }
}

/// Returns the number of accesses, the first and the last clock of a packet's frame.
fn content(packet: &PcapBlock<'static>) -> (u64, u64, u64) {
    let PcapBlock::EnhancedPacket(packet) = packet else { panic!("a packet") };
    let count = usize::from(packet.data[frame::MAC_HEADER_BYTES + 1]);
    let words = packet.data[frame::WORDS_AT..].chunks_exact(8).take(count);
    let mut block =
        Block::new(words.map(|word| u64::from_be_bytes(word.try_into().unwrap()))).unwrap();
    let first = block.sync().clock;
    assert!(block.by_ref().all(|event| event.is_ok()));
    (block.accesses(), first, block.clock().0)
}

#[test]
fn a_dropped_frame_loses_only_its_own_accesses() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole.pcapng"), folder.path().join("cut.pcapng"));
    replay(NAME, &["--granularity", "burst"], &whole);
    let (blocks, mut packets) = split(&whole);
    let text = decode(&whole);
    let all_lines = lines(&text);

    let dropped = packets.remove(9);
    let (accesses, _, _) = content(&dropped);
    let (_, _, before) = content(&packets[8]);
    let (_, after, _) = content(&packets[9]);
    join(&cut, &blocks, &packets);

    let output = run("hmtt", &["decode", path(&cut), "--format", "text"]);
    assert_eq!(output.status.code(), Some(3), "finished with loss");
    let text = String::from_utf8(output.stdout).unwrap();
    let expected =
        format!("1 frames missing, {accesses} accesses lost between clocks {before} and {after}");
    assert_eq!(comments(&text, "gap"), [expected]);
    let missing = all_lines
        .iter()
        .filter(|line| {
            let clock: u64 = line.split(' ').next().unwrap().parse().unwrap();
            clock > before && clock <= after
        })
        .count() as u64;
    assert_eq!(missing, accesses);
    let rest: Vec<&str> = all_lines
        .iter()
        .filter(|line| {
            let clock: u64 = line.split(' ').next().unwrap().parse().unwrap();
            clock <= before || clock > after
        })
        .copied()
        .collect();
    assert_eq!(lines(&text), rest);
}

#[test]
fn duplicated_and_swapped_frames_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, mixed) = (folder.path().join("whole.pcapng"), folder.path().join("mixed.pcapng"));
    replay(NAME, &["--granularity", "burst"], &whole);
    let (blocks, mut packets) = split(&whole);
    packets.swap(12, 13);
    packets.insert(20, packets[18].clone());
    join(&mixed, &blocks, &packets);
    assert_eq!(decode(&mixed), decode(&whole));
    let info: serde_json::Value =
        serde_json::from_str(&hmtt_tests::succeed("hmtt", &["info", path(&mixed), "--json"]))
            .unwrap();
    let text = info.to_string();
    assert!(text.contains("\"duplicate_frames\":1"), "{text}");
    assert!(text.contains("\"reordered_frames\":1"), "{text}");
}

#[test]
fn losses_on_the_card_are_counted_and_located() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    // The bursts are faster than the link, and the FIFO is too small for them.
    let name = "v19_ddr1_bl4_open_same_row";
    replay(name, &["--granularity", "burst", "--fifo", "8"], &file);
    let output = run("hmtt", &["decode", path(&file)]);
    assert_eq!(output.status.code(), Some(3), "finished with loss");
    let text = String::from_utf8(output.stdout).unwrap();

    let truth: Vec<String> = hmtt_tests::accesses(name).iter().map(ToString::to_string).collect();
    let clock = |line: &str| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    let (mut at, mut lost) = (0, 0);
    for line in text.lines().skip(1) {
        if let Some(gap) = line.strip_prefix("# gap ") {
            // N records lost on the card, M accesses lost between clocks A and B
            let words: Vec<&str> = gap.split(' ').collect();
            assert_eq!((words[1], words[5], words[8]), ("records", "card,", "lost"), "{line}");
            let number = |at: usize| words[at].parse::<usize>().unwrap();
            let (missing, after, before) = (number(6), number(11), number(13));
            assert_eq!(number(0), missing, "a burst is a record");
            let range = after as u64..=before as u64;
            assert!(truth[at..at + missing].iter().all(|line| range.contains(&clock(line))));
            at += missing;
            lost += missing;
        } else {
            assert_eq!(line, truth[at]);
            at += 1;
        }
    }
    assert_eq!(at, truth.len(), "received + reported lost = produced");
    assert!(lost > 0);
}

#[test]
fn a_lost_end_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole.pcapng"), folder.path().join("cut.pcapng"));
    replay(NAME, &["--granularity", "burst"], &whole);
    let (blocks, mut packets) = split(&whole);
    let end = packets.pop().unwrap();
    packets.truncate(packets.len() - 2);
    let tail = packets.pop().unwrap();
    let (accesses, _, _) = content(&tail);

    join(&cut, &blocks, &packets);
    let text = String::from_utf8(run("hmtt", &["decode", path(&cut)]).stdout).unwrap();
    assert!(text.contains("# no end frame"), "{}", text.lines().last().unwrap());

    packets.push(end);
    join(&cut, &blocks, &packets);
    let text = String::from_utf8(run("hmtt", &["decode", path(&cut)]).stdout).unwrap();
    assert!(comments(&text, "gap")[0].contains(&format!(" {accesses} accesses")), "{text}");
}
