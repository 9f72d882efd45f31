//! Builds pcapng blocks of every type and byte order, and checks that the reader finds as many
//! packets in their sequences as Wireshark does.

use std::process::Command;

use hmtt::pcapng::PcapngReader;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::{scratch, skipped};

/// A byte order.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    Little,
    Big,
}

pub const ORDERS: [Order; 2] = [Order::Little, Order::Big];

impl Order {
    pub fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    pub fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    pub fn u64(self, value: u64) -> [u8; 8] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    pub fn words(self, values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| self.u32(*value)).collect()
    }

    pub fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let padding = value.len().next_multiple_of(4) - value.len();
        let length = self.u16(value.len() as u16);
        [&self.u16(code)[..], &length, value, &[0; 3][..padding]].concat()
    }

    pub fn block(self, kind: u32, fields: &[u8], options: &[u8]) -> Vec<u8> {
        let length = self.u32((12 + fields.len() + options.len()) as u32);
        [&self.u32(kind)[..], &length, fields, options, &length].concat()
    }

    pub fn section(self, options: &[u8]) -> Vec<u8> {
        self.block(0x0a0d_0d0a, &self.words(&[0x1a2b_3c4d, self.version(), !0, !0]), options)
    }

    /// The version 1.0 as a word.
    fn version(self) -> u32 {
        match self {
            Order::Little => 1,
            Order::Big => 1 << 16,
        }
    }

    pub fn interface(self, options: &[u8]) -> Vec<u8> {
        let link = [self.u16(1), self.u16(0)].concat();
        self.block(1, &[link, self.words(&[0])].concat(), options)
    }

    /// A packet of 4 bytes after 7 ticks.
    pub fn packet(self, options: &[u8]) -> Vec<u8> {
        self.block(6, &self.words(&[0, 0, 7, 4, 4, !0]), options)
    }

    pub fn statistics(self, options: &[u8]) -> Vec<u8> {
        self.block(5, &self.words(&[0, 0, 7]), options)
    }
}

/// Link types: Ethernet, and Linux "cooked".
const LINK_TYPES: [u16; 2] = [1, 113];

/// A block of a section; the numbers select among the section's interfaces.
#[derive(Clone, Copy, Debug)]
enum Block {
    Interface {
        link: u16,
        snap_length: u32,
    },
    Enhanced {
        interface: usize,
        bytes: usize,
        has_options: bool,
    },
    Simple {
        bytes: usize,
    },
    Obsolete {
        interface: usize,
        bytes: usize,
    },
    Statistics {
        interface: usize,
    },
    Names,
    Secrets,
    Journal,
    /// A custom block, and whether it may be copied to other files.
    Custom(bool),
    Unknown,
}

/// Sections, and the blocks of each.
type Sections = Vec<(Order, Vec<Block>)>;

/// A packet's bytes, padded to 32 bits.
fn padded(bytes: usize) -> Vec<u8> {
    let mut data = vec![0xab; bytes];
    data.resize(bytes.next_multiple_of(4), 0);
    data
}

/// Writes the blocks of a section. Blocks of interfaces that the section lacks are left out.
fn section_bytes(order: Order, blocks: &[Block]) -> Vec<u8> {
    let mut bytes = order.section(&[]);
    let mut snap_lengths: Vec<u32> = Vec::new();
    let comment = order.option(1, b"about it");
    for block in blocks {
        let interfaces = snap_lengths.len();
        let number = |interface: usize| (interfaces != 0).then(|| (interface % interfaces) as u32);
        let written = match *block {
            Block::Interface { link, snap_length } => {
                snap_lengths.push(snap_length);
                let link = [order.u16(link), order.u16(0)].concat();
                Some(order.block(1, &[link, order.words(&[snap_length])].concat(), &comment))
            }
            Block::Enhanced { interface, bytes, has_options } => number(interface).map(|number| {
                let fields = order.words(&[number, 0, 7, bytes as u32, bytes as u32 + 9]);
                let options = if has_options { &comment[..] } else { &[] };
                order.block(6, &[fields, padded(bytes)].concat(), options)
            }),
            Block::Simple { bytes } => snap_lengths.first().map(|snap_length| {
                // Its length is the shorter of the packet's and the interface's.
                let most = if *snap_length == 0 { usize::MAX } else { *snap_length as usize };
                let data = padded(bytes.min(most));
                order.block(3, &[order.words(&[bytes as u32]), data].concat(), &[])
            }),
            Block::Obsolete { interface, bytes } => number(interface).map(|number| {
                let number = [order.u16(number as u16), order.u16(0)].concat();
                let fields = order.words(&[0, 7, bytes as u32, bytes as u32]);
                order.block(2, &[number, fields, padded(bytes)].concat(), &[])
            }),
            Block::Statistics { interface } => number(interface).map(|number| {
                let received = order.option(4, &order.u64(9));
                order.block(5, &order.words(&[number, 0, 7]), &received)
            }),
            Block::Names => Some(order.block(4, &order.option(1, b"\x7f\0\0\x01host\0"), &[0; 4])),
            Block::Secrets => {
                Some(order.block(10, &order.words(&[0x544c_534b, 4, 0x2020_2023]), &[]))
            }
            Block::Journal => {
                Some(order.block(9, b"__REALTIME_TIMESTAMP=1\nMESSAGE=a\n\n\0\0", &[]))
            }
            Block::Custom(copied) => {
                let kind = if copied { 0x0bad } else { 0x4000_0bad };
                Some(order.block(kind, &order.words(&[32473, 1]), &[]))
            }
            Block::Unknown => Some(order.block(0x0abc, &order.words(&[1, 2]), &[])),
        };
        bytes.extend(written.unwrap_or_default());
    }
    bytes
}

fn file(sections: &Sections) -> Vec<u8> {
    sections.iter().flat_map(|(order, blocks)| section_bytes(*order, blocks)).collect()
}

fn block() -> impl Strategy<Value = Block> {
    let link = prop::sample::select(&LINK_TYPES[..]);
    let snap_length = prop::sample::select(&[0u32, 0xffff, 96][..]);
    let (interface, bytes) = (0usize..4, 0usize..200);
    prop_oneof![
        2 => (link, snap_length).prop_map(|(link, snap_length)| Block::Interface { link, snap_length }),
        4 => (interface.clone(), bytes.clone(), any::<bool>())
            .prop_map(|(interface, bytes, has_options)| Block::Enhanced { interface, bytes, has_options }),
        2 => bytes.clone().prop_map(|bytes| Block::Simple { bytes }),
        1 => (interface.clone(), bytes).prop_map(|(interface, bytes)| Block::Obsolete { interface, bytes }),
        1 => interface.prop_map(|interface| Block::Statistics { interface }),
        2 => prop::sample::select(&[
            Block::Names, Block::Secrets, Block::Journal, Block::Custom(true), Block::Custom(false), Block::Unknown,
        ][..]),
    ]
}

fn sections() -> impl Strategy<Value = Sections> {
    let order = prop::sample::select(&ORDERS[..]);
    let section = (order, prop::collection::vec(block(), 0..14));
    prop::collection::vec(section, 1..4)
}

/// Number of packets that the reader finds.
fn packets(bytes: &[u8]) -> usize {
    let mut reader = PcapngReader::new(bytes).unwrap();
    let mut packets = 0;
    while reader.next_packet().unwrap().is_some() {
        packets += 1;
    }
    assert_eq!(reader.truncated_at(), None);
    packets
}

#[test]
fn as_many_packets_are_found_in_blocks_of_all_types_as_by_capinfos() {
    const FILES: usize = 300;
    let (mut runner, strategy) = (TestRunner::deterministic(), sections());
    let mut paths = Vec::new();
    let mut expected = String::new();
    for number in 0..FILES {
        let sections = strategy.new_tree(&mut runner).unwrap().current();
        let bytes = file(&sections);
        let path = scratch(&format!("blocks-{number}.pcapng"));
        std::fs::write(&path, &bytes).unwrap();
        expected.push_str(&format!("{}\t{}\n", path.display(), packets(&bytes)));
        paths.push(path);
    }
    let counted = match Command::new("capinfos").args(["-T", "-r", "-c"]).args(&paths).output() {
        Err(error) => return skipped(format_args!("capinfos: {error}")),
        Ok(output) => output,
    };
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    assert_eq!(String::from_utf8(counted.stdout).unwrap(), expected);
    paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
}
