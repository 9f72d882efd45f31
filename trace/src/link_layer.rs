//! Finds the Ethernet frame in a captured packet. Supports the link types of usual captures.
//!
//! ```text
//! Ethernet           destination, source, tags of VLANs, EtherType, payload   -> the frame without its tags
//! Linux cooked (SLL) source and protocol, payload; the destination is not kept -> the frame, sent to the card's destination
//! IP, loopback       no Ethernet: a frame of a card cannot be in it            -> none
//! ```
//!
//! `tcpdump -i any` writes Linux cooked captures, and a mirror or trunk port sends tagged frames.
//! Captures of our receivers have neither, because the kernel removes the tag before it passes a
//! frame on. Invariant: a frame without tags is not copied.

use hmtt_format::frame::{DESTINATION, MAC_HEADER_BYTES};

/// Numbers of link types, from <https://www.tcpdump.org/linktypes.html>.
pub mod link_type {
    /// Loopback of BSD: a protocol family in the byte order of the host, and an IP packet.
    pub const NULL: u16 = 0;
    /// Ethernet.
    pub const ETHERNET: u16 = 1;
    /// Raw IP, as OpenBSD, other BSDs and Linux number it.
    pub const RAW: [u16; 5] = [12, 14, 101, 228, 229];
    /// Loopback of OpenBSD: a protocol family in network byte order, and an IP packet.
    pub const LOOP: u16 = 108;
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: u16 = 113;
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: u16 = 276;
}

/// EtherTypes of tags: 802.1Q, 802.1ad, and the type that switches used before 802.1ad.
const TAGS: [[u8; 2]; 3] = [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]];
/// Bytes of a tag with its EtherType.
const TAG_BYTES: usize = 4;
/// Maximum number of tags that are removed from a frame. 802.1ad defines two.
const MOST_TAGS: usize = 4;
/// Bytes of the destination and source addresses.
const ADDRESSES: usize = MAC_HEADER_BYTES - 2;
/// Bytes of an Ethernet address.
const ADDRESS_BYTES: usize = 6;

/// The content of a packet, by its link type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFrame<'a> {
    /// An Ethernet frame without tags.
    Ethernet(&'a [u8]),
    /// The packet has no Ethernet frame, so it cannot come from a card.
    Other,
    /// The link type is not supported.
    Unknown,
}

/// Finds the frame in a packet. `space`: memory for a frame that must be assembled.
pub fn frame<'a>(link_type: u16, packet: &'a [u8], space: &'a mut Vec<u8>) -> LinkFrame<'a> {
    let (addresses, rest) = match link_type {
        link_type::ETHERNET => match packet.split_at_checked(ADDRESSES) {
            Some((_, rest)) if !is_tagged(rest) => return LinkFrame::Ethernet(packet),
            Some((addresses, rest)) => {
                space.clear();
                space.extend_from_slice(addresses);
                (space, rest)
            }
            None => return LinkFrame::Ethernet(packet),
        },
        // Header: packet type, hardware type, length of the address, 8 bytes of address, protocol.
        link_type::LINUX_SLL => match (packet.get(4..6), packet.get(6..6 + ADDRESS_BYTES)) {
            (Some([0, 6]), Some(source)) if packet.len() >= 16 => {
                (cooked(source, space), &packet[14..])
            }
            _ => return LinkFrame::Other,
        },
        // Header: protocol, 2 reserved bytes, interface, hardware type, packet type, length of the
        // address, 8 bytes of address.
        link_type::LINUX_SLL2 => match (packet.get(11), packet.get(12..12 + ADDRESS_BYTES)) {
            (Some(6), Some(source)) if packet.len() >= 20 => {
                let space = cooked(source, space);
                // If the packet begins with a tag, the tag's EtherType is the protocol in the
                // header.
                space.extend_from_slice(&packet[..2]);
                space.extend_from_slice(&packet[20..]);
                let rest = space.split_off(ADDRESSES);
                return without_tags(space, &rest);
            }
            _ => return LinkFrame::Other,
        },
        link_type::NULL | link_type::LOOP => return LinkFrame::Other,
        other if link_type::RAW.contains(&other) => return LinkFrame::Other,
        _ => return LinkFrame::Unknown,
    };
    without_tags(addresses, rest)
}

/// Puts the addresses of a cooked packet into `space`. The packet has only the source; the
/// destination is the card's.
fn cooked<'a>(source: &[u8], space: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
    space.clear();
    space.extend_from_slice(&DESTINATION);
    space.extend_from_slice(source);
    space
}

/// Whether a tag follows. `rest`: the frame after its addresses.
fn is_tagged(rest: &[u8]) -> bool {
    rest.get(..2).is_some_and(|protocol| TAGS.iter().any(|tag| tag == protocol))
}

/// Appends the frame after its tags. `frame`: the addresses. `rest`: the frame after the addresses.
fn without_tags<'a>(frame: &'a mut Vec<u8>, mut rest: &[u8]) -> LinkFrame<'a> {
    for _ in 0..MOST_TAGS {
        match rest.get(TAG_BYTES..) {
            Some(after) if is_tagged(rest) => rest = after,
            _ => break,
        }
    }
    frame.extend_from_slice(rest);
    LinkFrame::Ethernet(frame)
}

#[cfg(test)]
mod tests {
    use hmtt_format::frame::ETHER_TYPE;

    use super::*;

    fn bytes_of(link_type: u16, packet: &[u8]) -> Option<Vec<u8>> {
        match frame(link_type, packet, &mut Vec::new()) {
            LinkFrame::Ethernet(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn a_frame_is_the_same_behind_tags_and_cooked_headers() {
        let source = [2, 0, 0, 0, 0, 7];
        let rest = [&ETHER_TYPE.to_be_bytes()[..], &[1, 2, 3, 4]].concat();
        let plain = [&DESTINATION[..], &source, &rest].concat();
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5]];
        for tag in tags {
            let tagged = [tag, &rest].concat();
            let ethernet = [&DESTINATION[..], &source, &tagged].concat();
            assert_eq!(bytes_of(link_type::ETHERNET, &ethernet), Some(plain.clone()));
            let sll = [&[0, 0, 0, 1, 0, 6][..], &source, &[0, 0], &tagged].concat();
            assert_eq!(bytes_of(link_type::LINUX_SLL, &sll), Some(plain.clone()));
            let header = [&tagged[..2], &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6], &source, &[0, 0]].concat();
            let sll2 = [&header[..], &tagged[2..]].concat();
            assert_eq!(bytes_of(link_type::LINUX_SLL2, &sll2), Some(plain.clone()));
        }
    }

    #[test]
    fn packets_of_any_length_are_taken() {
        let known = [link_type::NULL, link_type::ETHERNET, link_type::LOOP, 101, 113, 276, 9999];
        for link_type in known {
            for length in 0..40 {
                let packet = [0x81, 0, 0, 0, 0, 6].repeat(7);
                frame(link_type, &packet[..length], &mut Vec::new());
            }
        }
        assert_eq!(frame(9999, &[], &mut Vec::new()), LinkFrame::Unknown);
        assert_eq!(frame(101, &[0x45], &mut Vec::new()), LinkFrame::Other);
    }
}
