//! Tests that options of a capture that nobody needs never stop the reader, whatever their values
//! are.

use std::time::Duration;

use hmtt::pcapng::{Interface, InterfaceStatistics, PcapngReader, ReadError};

use crate::blocks::{ORDERS, Order};

/// A capture whose only interface and statistics have these options.
fn capture(order: Order, interface: &[u8], statistics: &[u8]) -> Vec<u8> {
    let blocks = [order.section(&[]), order.interface(interface), order.packet(&[])];
    [blocks.concat(), order.statistics(statistics)].concat()
}

/// Reads a capture of one packet. Returns the packet's time, and the interfaces.
fn read(file: &[u8]) -> Result<(Option<Duration>, Vec<Interface>), ReadError> {
    let mut reader = PcapngReader::new(file)?;
    let packet = reader.next_packet()?.expect("a packet");
    assert_eq!(packet.bytes, [0xff; 4]);
    let time = packet.time;
    assert_eq!(reader.next_packet()?, None);
    assert_eq!(reader.truncated_at(), None);
    Ok((time, reader.interfaces().to_vec()))
}

/// Lengths of values: those that the format states for some option, and others.
const LENGTHS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 255];

/// Codes of all blocks' options, of custom options, and one that is not assigned. `needed`: those
/// to leave out.
fn codes(needed: &[u16]) -> impl Iterator<Item = u16> {
    let custom = [2988, 2989, 19372, 19373, 0x4000, u16::MAX];
    (1..20).chain(custom).filter(|code| !needed.contains(code))
}

/// Options of these codes with all lengths; their values are not UTF-8.
fn hostile(order: Order, codes: impl Iterator<Item = u16>) -> Vec<u8> {
    let lengths = |code| LENGTHS.map(|length| order.option(code, &vec![0xe9; length]));
    codes.flat_map(lengths).collect::<Vec<_>>().concat()
}

#[test]
fn unneeded_options_of_an_interface_are_skipped_whatever_their_values() {
    for order in ORDERS {
        let needed = [
            order.option(2, b"eth1"),
            order.option(9, &[9]),
            order.option(14, &order.u64(5)),
            order.option(1, b"about it"),
        ];
        for code in codes(&[1, 2, 9, 14]) {
            let options = [hostile(order, [code].into_iter()), needed.concat()].concat();
            let (time, interfaces) = read(&capture(order, &options, &[])).unwrap();
            assert_eq!(time, Some(Duration::new(5, 7)), "{order:?}, option {code}");
            let interface = &interfaces[0];
            assert_eq!(interface.name.as_deref(), Some("eth1"), "{order:?}, option {code}");
            assert_eq!(interface.comments, ["about it"], "{order:?}, option {code}");
        }
    }
}

#[test]
fn unneeded_options_of_other_blocks_are_skipped_whatever_their_values() {
    for order in ORDERS {
        let known_options = hostile(order, codes(&[]));
        // An option that is longer than its block, too.
        let long = [order.u16(2), order.u16(1000)].concat();
        for options in [&known_options[..], &[known_options.clone(), long].concat()] {
            let blocks = [
                order.section(options),
                order.interface(&[]),
                order.packet(options),
                // A Name Resolution Block with a name that is not UTF-8, a journal entry, and an
                // unknown block.
                order.block(4, &order.option(1, b"\x7f\0\0\x01caf\xe9\0"), options),
                order.block(9, &[0xe9; 8], &[]),
                order.block(0x0bad, &[0xe9; 8], options),
            ];
            assert!(read(&blocks.concat()).is_ok(), "{order:?}");
        }
        let counts = [order.option(4, &order.u64(9)), order.option(7, &order.u64(2))].concat();
        let options = [hostile(order, codes(&[])), counts].concat();
        let (_, interfaces) = read(&capture(order, &[], &options)).unwrap();
        let counts = InterfaceStatistics {
            received_frames: Some(9),
            kernel_dropped_frames: Some(2),
            ..Default::default()
        };
        assert_eq!(interfaces[0].statistics, Some(counts), "{order:?}");
    }
}

#[test]
fn names_and_comments_that_are_not_utf8_are_escaped() {
    for order in ORDERS {
        let options = [order.option(2, b"R\xe9seau \xc3\xa9"), order.option(1, b"\xff")].concat();
        let other = [order.option(2, b"R\xe8seau \xc3\xa9"), order.option(1, b"\xc3")].concat();
        let statistics = order.option(1, b"\xe9t\xe9");
        let first = capture(order, &options, &statistics);
        let file = [first, order.section(&[]), order.interface(&other)].concat();
        let (_, interfaces) = read(&file).unwrap();
        let [interface, other] = &interfaces[..] else { panic!("{interfaces:?}") };
        assert_eq!(interface.name.as_deref(), Some("R\\xe9seau \u{e9}"));
        assert_eq!(interface.comments, ["\\xff"]);
        assert_eq!(interface.statistics_comment.as_deref(), Some("\\xe9t\\xe9"));
        assert_eq!(other.name.as_deref(), Some("R\\xe8seau \u{e9}"), "names stay different");
    }
}

#[test]
fn nothing_after_the_end_of_options_is_read() {
    for order in ORDERS {
        for length in [0, 4, 0xffff] {
            let end = [order.u16(0), order.u16(length)].concat();
            let rest = [order.option(9, &[9, 9, 9]), vec![0xff; 8]].concat();
            let options = [order.option(9, &[3]), end, rest].concat();
            let (time, _) = read(&capture(order, &options, &options)).unwrap();
            assert_eq!(time, Some(Duration::from_millis(7)), "{order:?}");
        }
    }
}

#[test]
fn needed_options_of_a_wrong_length_are_errors_with_an_offset() {
    for order in ORDERS {
        let cases = [
            (order.option(9, &[9, 9]), "its if_tsresol is not 1 byte long"),
            (order.option(9, &[]), "its if_tsresol is not 1 byte long"),
            (order.option(14, &[0; 4]), "its if_tsoffset is not 8 bytes long"),
            (
                [order.u16(3), order.u16(5)].concat(),
                "an option is longer than the rest of the block",
            ),
        ];
        for (options, reason) in cases {
            let error = read(&capture(order, &options, &[])).err().unwrap().to_string();
            assert_eq!(error, format!("block at offset 28 is damaged: {reason}"), "{order:?}");
        }
    }
}

#[test]
fn offsets_of_times_may_be_negative() {
    for order in ORDERS {
        let options =
            [order.option(9, &[0]), order.option(14, &order.u64((-4_i64).cast_unsigned()))];
        let (time, _) = read(&capture(order, &options.concat(), &[])).unwrap();
        assert_eq!(time, Some(Duration::from_secs(3)), "{order:?}");
    }
}
