//! Compares the reader of captures with an independent library: the same packets up to the last
//! whole block.

use std::io::Read;

use hmtt::pcapng::PcapngReader;
use pcap_file::pcapng::{Block, PcapNgReader};

/// A reader that returns a few bytes at a time.
struct Few<'a>(&'a [u8]);

const FEW: usize = 13;

impl Read for Few<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let few = buffer.len().min(FEW);
        self.0.read(&mut buffer[..few])
    }
}

/// The bytes of packets, and their lengths on the wire.
type Packets = Vec<(Vec<u8>, u32)>;

/// Reads a file at once, a few bytes at a time, and with the library.
pub fn check(bytes: &[u8]) {
    let ours = ours(bytes, bytes.len());
    assert_eq!(ours_from_reader(Few(bytes), bytes.len()), ours, "whatever the size of reads");
    let Some((ours, _)) = ours else { return };
    let theirs = theirs(bytes);
    let both = ours.len().min(theirs.len());
    assert_eq!(ours[..both], theirs[..both]);
    assert!(theirs.len() <= ours.len(), "{} packets of {}", ours.len(), theirs.len());
}

fn ours(bytes: &[u8], length: usize) -> Option<(Packets, Option<u64>)> {
    ours_from_reader(bytes, length)
}

/// Returns our packets, and where the file was cut; `None` if it was rejected at its start.
fn ours_from_reader(source: impl Read, length: usize) -> Option<(Packets, Option<u64>)> {
    let mut reader = PcapngReader::new(source).ok()?;
    let (mut packets, mut end) = (Packets::new(), 0);
    while let Ok(packet) = reader.next_packet() {
        let Some(packet) = packet else {
            assert!(reader.truncated_at().is_none_or(|at| at >= end && at < length as u64));
            return Some((packets, reader.truncated_at()));
        };
        assert!(packet.offset >= end, "blocks come in order");
        end = packet.offset + packet.bytes.len() as u64;
        assert!(end <= length as u64);
        packets.push((packet.bytes.to_vec(), packet.original_len));
        assert_eq!(packet.number, packets.len() as u64);
    }
    Some((packets, None))
}

/// Returns the library's packets up to the first block that it rejects.
fn theirs(bytes: &[u8]) -> Packets {
    let mut packets = Packets::new();
    let Ok(mut reader) = PcapNgReader::new(bytes) else { return packets };
    while let Some(Ok(block)) = reader.next_block() {
        match block {
            Block::EnhancedPacket(packet) => {
                packets.push((packet.data.to_vec(), packet.original_len));
            }
            Block::SimplePacket(packet) => {
                packets.push((packet.data.to_vec(), packet.original_len))
            }
            Block::Packet(packet) => packets.push((packet.data.to_vec(), packet.original_len)),
            _ => {}
        }
    }
    packets
}
