//! Builds captures of frames, for one interface or several.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt::CardId;
use hmtt::capture_reader::CaptureReader;
use hmtt::decode::{Item, Sink};
use hmtt::pcapng::{Description, InterfaceStatistics, PcapngWriter};
use hmtt::report::info::{Info, Packets};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness};
use serde_json::Value;

use crate::files::scratch;

/// Builds the bytes of a capture of `frames`, which arrive a microsecond apart.
///
/// # Panics
/// Never: the capture is written to memory.
pub fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::new("veth1")]).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        let time = Duration::new(1_700_000_000, 1000 * index as u32);
        writer.write_frame(0, time, frame.len() as u32, frame).unwrap();
    }
    let statistics = InterfaceStatistics {
        received_frames: Some(frames.len() as u64),
        interface_dropped_frames: Some(0),
        interface_missed_frames: None,
        kernel_dropped_frames: Some(0),
    };
    let times = Duration::from_secs(1_700_000_000)..Duration::from_secs(1_700_000_001);
    writer.write_statistics(0, times, &statistics, None).unwrap();
    writer.into_output()
}

/// Writes a capture of `frames` to a scratch file `name`.
///
/// # Panics
/// If the file cannot be written.
pub fn capture_file(name: &str, frames: &[Vec<u8>]) -> PathBuf {
    let path = scratch(name);
    std::fs::write(&path, capture(frames)).unwrap();
    path
}

/// Writes the blocks of a capture.
pub type Writer = PcapNgWriter<Vec<u8>>;

/// Builds the beginning of a section, with interfaces of these names.
///
/// # Panics
/// Never: the section is written to memory.
pub fn section(endianness: Endianness, interfaces: &[&str]) -> Writer {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
    for name in interfaces {
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
            InterfaceDescriptionOption::Comment(Cow::Owned(format!("about {name}"))),
            InterfaceDescriptionOption::IfTsResol(9),
        ];
        let description =
            InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        writer.write_pcapng_block(description).unwrap();
    }
    writer
}

/// Adds a frame, with an option.
///
/// # Panics
/// Never: the frame is written to memory.
pub fn packet(writer: &mut Writer, interface_id: u32, data: &[u8]) {
    let block = EnhancedPacketBlock {
        interface_id,
        timestamp: Duration::new(5, 6),
        original_len: 99,
        data: Cow::Borrowed(data),
        options: vec![EnhancedPacketOption::Comment(Cow::Borrowed("an option"))],
    };
    writer.write_pcapng_block(block).unwrap();
}

/// Writes a capture file in which the frames of the links (veth1, veth3 and so on) alternate.
///
/// # Panics
/// If the file cannot be written.
pub fn capture_of_links(name: &str, links: &[Vec<Vec<u8>>]) -> PathBuf {
    let names: Vec<String> = (0..links.len()).map(|link| format!("veth{}", 2 * link + 1)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut writer = section(Endianness::Little, &names);
    for turn in 0..links.iter().map(Vec::len).max().unwrap_or(0) {
        for (frames, link) in links.iter().zip(0..) {
            if let Some(frame) = frames.get(turn) {
                packet(&mut writer, link, frame);
            }
        }
    }
    let path = scratch(name);
    std::fs::write(&path, writer.into_inner()).unwrap();
    path
}

/// Collects the information in frames of cards.
#[derive(Default)]
struct CollectedInfo(Info);

impl Sink for CollectedInfo {
    const EVENTS: bool = false;

    fn item(&mut self, card: CardId, item: Item) {
        self.0.item(card, &item);
    }
}

/// Output of `hmtt info --json` for a capture.
///
/// # Panics
/// If the capture cannot be read to its end.
pub fn info(path: &Path) -> Value {
    let mut reader = CaptureReader::open(path).unwrap();
    let (mut packets, mut info) = (Packets::default(), CollectedInfo::default());
    while let Some(mut next) = reader.next_packet().unwrap() {
        packets.packet(&next.packet);
        next.decode(&mut info);
    }
    let counted = reader.finish(&mut info);
    assert_eq!(reader.truncated_at(), None);
    let interfaces = reader.interfaces().to_vec();
    let info = info.0.finish(packets, counted.sum(), counted.cards, interfaces);
    serde_json::to_value(&info).unwrap()
}
