//! Tests that captures with several interfaces, sections and byte orders, compressed or not, read
//! alike.

use std::borrow::Cow;
use std::time::Duration;

use hmtt::pcapng::{Description, InterfaceStatistics, PcapngReader, PcapngWriter};
use hmtt_test_support::captures::{Writer, packet, section};
use pcap_file::Endianness;
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;

use crate::card::Card;
use crate::{capture, scratch};

fn statistics(writer: &mut Writer, interface_id: u32, drops: u64) {
    let options = vec![
        InterfaceStatisticsOption::IsbOsDrop(drops),
        InterfaceStatisticsOption::Comment(Cow::Borrowed("hot day")),
    ];
    let block = InterfaceStatisticsBlock { interface_id, timestamp: 0, options };
    writer.write_pcapng_block(block).unwrap();
}

/// Interface, arrival and bytes of each packet.
type Read = Vec<(usize, Option<Duration>, Vec<u8>)>;

fn read<R: std::io::Read>(reader: &mut PcapngReader<R>) -> Read {
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        assert_eq!(packet.number, packets.len() as u64 + 1);
        packets.push((packet.interface, packet.time, packet.bytes.to_vec()));
    }
    packets
}

#[test]
fn both_byte_orders_are_read_with_and_without_options() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut writer = section(endianness, &["veth1", "veth3"]);
        packet(&mut writer, 1, b"abcde");
        packet(&mut writer, 0, b"");
        let undescribed = writer.get_ref().len();
        packet(&mut writer, 0, b"of an interface that is not described");
        let simple = SimplePacketBlock { original_len: 4, data: Cow::Borrowed(b"wxyz") };
        writer.write_pcapng_block(simple).unwrap();
        let mut file = writer.into_inner();
        file[undescribed + 8..undescribed + 12].fill(7);
        let mut reader = PcapngReader::new(&file[..]).unwrap();
        let time = Some(Duration::new(5, 6));
        let packets = read(&mut reader);
        assert_eq!(packets[0], (1, time, b"abcde".to_vec()));
        assert_eq!(packets[1], (0, time, Vec::new()));
        assert_eq!((packets[2].0, packets[2].1), (2, None));
        assert_eq!(packets[3], (0, None, b"wxyz".to_vec()));
    }
}

#[test]
fn interfaces_of_different_names_are_separate_across_sections() {
    let mut first = section(Endianness::Little, &["veth1", "veth3"]);
    packet(&mut first, 0, b"one");
    packet(&mut first, 1, b"two");
    statistics(&mut first, 1, 3);
    let mut second = section(Endianness::Big, &["veth3", "veth5"]);
    packet(&mut second, 0, b"three");
    packet(&mut second, 1, b"four");
    statistics(&mut second, 0, 4);
    statistics(&mut second, 0, 5);
    let file = [first.into_inner(), second.into_inner()].concat();
    let mut reader = PcapngReader::new(&file[..]).unwrap();
    let links: Vec<usize> = read(&mut reader).into_iter().map(|(link, ..)| link).collect();
    assert_eq!(links, [0, 1, 1, 2]);
    let [first_interface, second_interface, third_interface] = reader.interfaces() else {
        panic!("{:?}", reader.interfaces())
    };
    assert_eq!(second_interface.name.as_deref(), Some("veth3"));
    assert_eq!(second_interface.comments, ["about veth3"]);
    assert_eq!(second_interface.statistics_comment.as_deref(), Some("hot day"));
    let drops = InterfaceStatistics { kernel_dropped_frames: Some(8), ..Default::default() };
    assert_eq!(second_interface.statistics, Some(drops), "3 in the first section, 5 in the second");
    assert_eq!((first_interface.statistics, third_interface.statistics), (None, None));
}

/// Returns a section of a capture from `start` to `end`, in seconds.
fn capture_section(start: u64, end: u64, drops: u64) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::new("veth1")]).unwrap();
    let counts = InterfaceStatistics { kernel_dropped_frames: Some(drops), ..Default::default() };
    let times = Duration::from_secs(start)..Duration::from_secs(end);
    writer.write_statistics(0, times, &counts, Some(&format!("until {end}"))).unwrap();
    writer.into_output()
}

/// As `capture_section`, in the other byte order.
fn big_endian_capture_section(start: u64, end: u64, drops: u64) -> Vec<u8> {
    let mut writer = section(Endianness::Big, &["veth1"]);
    let [start, end] = [start, end].map(|seconds| seconds * 1_000_000_000);
    let options = vec![
        InterfaceStatisticsOption::IsbStartTime(start),
        InterfaceStatisticsOption::IsbOsDrop(drops),
    ];
    let block = InterfaceStatisticsBlock { interface_id: 0, timestamp: end, options };
    writer.write_pcapng_block(block).unwrap();
    writer.into_inner()
}

#[test]
fn statistics_of_one_capture_count_once_and_those_of_several_add_up() {
    let joined = |files: &[Vec<u8>]| {
        let file = files.concat();
        let mut reader = PcapngReader::new(&file[..]).unwrap();
        assert!(read(&mut reader).is_empty());
        let [interface] = reader.interfaces() else { panic!("{:?}", reader.interfaces()) };
        let drops = interface.statistics.and_then(|counts| counts.kernel_dropped_frames).unwrap();
        (drops, interface.statistics_comment.clone().unwrap_or_default())
    };
    // 2^32 ns are 4.3 s, so the times differ in both of their words.
    let (first, second) = (capture_section(1000, 1001, 3), capture_section(1000, 1010, 5));
    let other = capture_section(2000, 2001, 7);
    assert_eq!(joined(std::slice::from_ref(&first)), (3, "until 1001".into()));
    assert_eq!(joined(&[first.clone(), second.clone()]), (5, "until 1010".into()));
    assert_eq!(joined(&[second.clone(), first.clone()]), (5, "until 1010".into()));
    assert_eq!(joined(&[first, other, second]), (12, "until 1010".into()));
    let elsewhere =
        [big_endian_capture_section(1000, 1010, 5), big_endian_capture_section(1000, 1001, 3)];
    assert_eq!(joined(&elsewhere).0, 5);
}

#[test]
fn an_enhanced_packet_that_contradicts_itself_is_damage() {
    let mut writer = section(Endianness::Little, &["veth1"]);
    let begin = writer.get_ref().len();
    packet(&mut writer, 0, b"abcde");
    let whole = writer.into_inner();
    let end = whole.len() - 4;
    // The captured length, and the length at the end of the block.
    for (at, what) in [(begin + 20, "too short"), (end, "differ")] {
        let mut bytes = whole.clone();
        bytes[at + 1] = 1;
        let mut reader = PcapngReader::new(&bytes[..]).unwrap();
        let error = reader.next_packet().unwrap_err().to_string();
        assert!(error.contains(&format!("block at offset {begin} is damaged")), "{error}");
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_compressed_capture_is_read_up_to_its_cut() {
    let (frames, _) = Card::new().session(200, 370);
    let whole = capture(&frames);
    let plain = read(&mut PcapngReader::new(&whole[..]).unwrap());
    let compress = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let (first, last) = whole.split_at(whole.len() / 2);
    let last = compress(last);
    let path = scratch("compressed.pcapng.zst");
    std::fs::write(&path, [compress(first), last.clone()].concat()).unwrap();
    let mut reader = PcapngReader::open(&path).unwrap();
    assert!(read(&mut reader) == plain);
    assert_eq!(reader.truncated_at(), None);

    let cut = &last[..last.len() / 2];
    std::fs::write(&path, [&compress(first), cut].concat()).unwrap();
    let mut reader = PcapngReader::open(&path).unwrap();
    let packets = read(&mut reader);
    assert!(packets.len() + 2 >= plain.len() / 2 && packets.len() < plain.len());
    assert!(packets[..] == plain[..packets.len()]);
    assert!(reader.truncated_at().is_some());
}

/// Returns the same blocks with options that end at the end of the block.
fn without_ends(bytes: &[u8], endianness: Endianness) -> Vec<u8> {
    let is_big = matches!(endianness, Endianness::Big);
    let (mut blocks, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let word = rest[4..8].try_into().unwrap();
        let length = if is_big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) };
        let (block, behind) = rest.split_at(length as usize);
        rest = behind;
        let (body, _) = block.split_at(block.len() - 4);
        let Some(body) = body.strip_suffix(&[0; 4]) else {
            blocks.extend(block);
            continue;
        };
        let length = length - 4;
        let length = if is_big { length.to_be_bytes() } else { length.to_le_bytes() };
        blocks.extend([&body[..4], &length, &body[8..], &length].concat());
    }
    blocks
}

#[test]
fn options_need_no_end_option() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut writer = section(endianness, &["eth1", "eth2"]);
        packet(&mut writer, 1, &[7; 60]);
        statistics(&mut writer, 1, 3);
        let ended = writer.into_inner();
        let bytes = without_ends(&ended, endianness);
        assert_eq!(bytes.len() + 4 * 4, ended.len());
        let mut reader = PcapngReader::new(&bytes[..]).unwrap();
        let packet = reader.next_packet().unwrap().unwrap();
        assert_eq!((packet.interface, packet.bytes), (1, &[7; 60][..]));
        assert!(reader.next_packet().unwrap().is_none());
        let names: Vec<_> =
            reader.interfaces().iter().map(|interface| interface.name.as_deref()).collect();
        assert_eq!(names, [Some("eth1"), Some("eth2")]);
        // Invalid options are rejected with an end option too.
        let damaged = [&bytes[..bytes.len() - 16], &[0xff; 12], &bytes[bytes.len() - 4..]].concat();
        let mut reader = PcapngReader::new(&damaged[..]).unwrap();
        assert!(reader.next_packet().unwrap().is_some());
        assert!(reader.next_packet().unwrap_err().to_string().contains("is damaged"));
    }
}
