//! Tests that a capture that is cut anywhere can be read, and contains the packets of the whole
//! blocks before the cut: with this library, with Wireshark's tools, and from a compressed file.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

use hmtt::pcapng::{PcapngReader, ReadError};

use crate::card::Card;
use crate::{capture, scratch, skipped};

/// Bytes before its end at which a capture is cut at most.
const CUT_BYTES: usize = 4096;
/// Type of an enhanced packet block.
const PACKET: u32 = 6;

/// Type and end of a block.
struct Block {
    kind: u32,
    end: usize,
}

/// Splits a little-endian file into blocks by their types and lengths.
fn blocks(file: &[u8]) -> Vec<Block> {
    let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        at += length;
        assert_eq!(word(at - 4) as usize, length);
        blocks.push(Block { kind, end: at });
    }
    blocks
}

/// Returns the number of packets before a cut, and the start of the block that it cuts, if it cuts
/// one.
fn before(blocks: &[Block], cut: usize) -> (usize, Option<u64>) {
    let whole = blocks.iter().take_while(|block| block.end <= cut);
    let end = whole.clone().last().map_or(0, |block| block.end);
    (whole.filter(|block| block.kind == PACKET).count(), (end != cut).then_some(end as u64))
}

fn read<R: std::io::Read>(mut reader: PcapngReader<R>, frames: &[Vec<u8>]) -> (usize, Option<u64>) {
    let mut count = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        assert_eq!(packet.bytes, frames[count]);
        count += 1;
    }
    (count, reader.truncated_at())
}

#[test]
fn a_cut_capture_has_exactly_the_packets_before_the_cut() {
    let (frames, _) = Card::new().session(20, 100);
    let whole = capture(&frames);
    let blocks = blocks(&whole);
    for cut in whole.len() - CUT_BYTES..=whole.len() {
        let reader = PcapngReader::new(&whole[..cut]).unwrap();
        assert_eq!(read(reader, &frames), before(&blocks, cut), "cut at {cut}");
    }
}

#[test]
fn a_capture_cut_within_its_first_block_is_rejected() {
    let whole = capture(&[]);
    let first = blocks(&whole)[0].end;
    for cut in 0..first {
        let opened = PcapngReader::new(&whole[..cut]);
        assert!(matches!(opened, Err(ReadError::NotPcapng { .. })), "cut at {cut}");
    }
    assert!(PcapngReader::new(&whole[..first]).is_ok());
}

#[test]
fn a_cut_compressed_capture_has_the_content_of_its_whole_frames() {
    const PLAIN_BYTES: usize = 1500;
    let (frames, _) = Card::new().session(60, 100);
    let whole = capture(&frames);
    let blocks = blocks(&whole);
    let mut packed = Vec::new();
    // Ends of the compressed frames: in the compressed file, and in the content.
    let mut ends = vec![(0, 0)];
    for part in whole.chunks(PLAIN_BYTES) {
        packed.extend(zstd::bulk::compress(part, 1).unwrap());
        ends.push((packed.len(), ends[ends.len() - 1].1 + part.len()));
    }
    let path = scratch("cut.pcapng.zst");
    std::fs::write(&path, &packed).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for cut in (packed.len() - CUT_BYTES..=packed.len()).rev() {
        file.set_len(cut as u64).unwrap();
        let (end, plain) = *ends.iter().rfind(|(end, _)| *end <= cut).unwrap();
        let (count, mut truncated) = before(&blocks, plain);
        if end != cut {
            let whole = blocks.iter().map(|block| block.end).take_while(|end| *end <= plain);
            truncated = truncated.or(whole.last().map(|end| end as u64));
        }
        let reader = PcapngReader::open(&path).unwrap();
        assert_eq!(read(reader, &frames), (count, truncated), "cut at {cut}");
    }
}

/// Counts the packets that a tool lists. The tool may report the cut and exit with an error.
fn listed(tool: &str, arguments: &[&str], path: &Path) -> Option<String> {
    match Command::new(tool).args(arguments).arg(path).output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            skipped(format_args!("{tool}: {error}"));
            None
        }
    }
}

#[test]
fn wireshark_lists_as_many_packets_of_a_cut_capture() {
    let (frames, _) = Card::new().session(20, 100);
    let whole = capture(&frames);
    let blocks = blocks(&whole);
    let path = scratch("cut.pcapng");
    let ends = [blocks[12].end, blocks[12].end + 1, blocks[12].end + 11, blocks[12].end + 12];
    let inside = [blocks[15].end - 1, blocks[15].end - 4, blocks[15].end - 40, whole.len() - 1];
    for cut in ends.into_iter().chain(inside) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (count, _) = before(&blocks, cut);
        let Some(text) = listed("tshark", &["-n", "-r"], &path) else { return };
        assert_eq!(text.lines().count(), count, "tshark, cut at {cut}");
        let Some(text) = listed("capinfos", &["-c", "-M", "-T", "-r"], &path) else { return };
        let printed = text.trim_end().rsplit('\t').next().map(str::to_owned);
        assert_eq!(printed, Some(count.to_string()), "capinfos, cut at {cut}: {text}");
    }
}
