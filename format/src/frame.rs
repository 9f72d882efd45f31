//! Defines the layout of Ethernet frames (IEEE 802.3 clause 3) and of the header of their words.
//!
//! ```text
//! offset 0        6              12      14             15     16            18
//!        dst MAC  02 + counter   88 B5   version|kind   words  lost (low 16) words, 8 bytes each
//! ```
//!
//! All fields of several bytes are big-endian. Frames shorter than 60 bytes are padded with zeros.
//! The first two words of a frame are its [`Sync`]; a heartbeat has a [`Heartbeat`] in their place.

/// Destination address of all frames: a locally administered unicast address with "HMTT" in ASCII.
/// No interface has this address, so receivers use promiscuous mode.
pub const DESTINATION: [u8; 6] = [0x02, 0x48, 0x4d, 0x54, 0x54, 0x00];
/// First byte of the source address; the frame counter follows.
pub const SOURCE_PREFIX: u8 = 0x02;
/// IEEE 802 local experimental EtherType 1.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Width of the frame counter in bits.
pub const COUNTER_BITS: u32 = 40;
/// Largest value of the frame counter, which continues at 0.
pub const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
/// Size of the destination, source and EtherType in bytes.
pub const MAC_HEADER_BYTES: usize = 14;
/// Size of the payload header in bytes.
pub const PAYLOAD_HEADER_BYTES: usize = 4;
/// Offset of the first word.
pub const WORDS_AT: usize = MAC_HEADER_BYTES + PAYLOAD_HEADER_BYTES;
/// Size of a word in bytes.
pub const WORD_BYTES: usize = 8;
/// Maximum number of words in a frame: with 4 + 187 * 8 bytes, the payload has the 1500 bytes that
/// 802.3 allows.
pub const MAX_WORDS: u8 = 187;
/// Number of words of the [`Sync`] at the start of a frame.
pub const SYNC_WORDS: u8 = 2;
/// Shortest frame in bytes, without FCS (IEEE 802.3 clause 4A.4.2).
pub const MIN_FRAME_BYTES: usize = 60;
/// Longest frame in bytes, without FCS.
pub const MAX_FRAME_BYTES: usize = WORDS_AT + MAX_WORDS as usize * WORD_BYTES;
/// Number of times that the last report of a capture is sent, so that the loss of one of these
/// frames does not hide the end.
pub const END_REPEATS: u8 = 3;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Records.
    Data = 0,
    /// A [`crate::Report`] during a capture.
    Info = 1,
    /// The [`crate::Report`] that ends a capture, sent [`END_REPEATS`] times.
    End = 2,
    /// A [`Heartbeat`], which is sent even if the DDR clock does not run.
    Heartbeat = 3,
}

impl FrameKind {
    /// The kind with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(FrameKind::Data),
            1 => Some(FrameKind::Info),
            2 => Some(FrameKind::End),
            3 => Some(FrameKind::Heartbeat),
            _ => None,
        }
    }
}

/// The four bytes before the words of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHeader {
    /// [`crate::FORMAT_VERSION`] of the sender; 4 bits.
    pub version: u8,
    /// Code of the [`FrameKind`]; 4 bits.
    pub kind: u8,
    /// Number of words that follow.
    pub words: u8,
    /// Low 16 bits of the number of records lost on the card so far.
    pub lost: u16,
}

/// Place of the version in the payload header, read as a big-endian word.
pub const HEADER_VERSION_AT: u32 = 28;
/// Place of the frame's kind in the payload header.
pub const HEADER_KIND_AT: u32 = 24;
/// Place of the number of words in the payload header.
pub const HEADER_WORDS_AT: u32 = 16;

impl PayloadHeader {
    /// Packs the header.
    pub const fn encode(self) -> [u8; PAYLOAD_HEADER_BYTES] {
        let header = (self.version as u32) << HEADER_VERSION_AT
            | ((self.kind & 15) as u32) << HEADER_KIND_AT
            | (self.words as u32) << HEADER_WORDS_AT
            | self.lost as u32;
        header.to_be_bytes()
    }

    /// Unpacks the header.
    pub const fn decode(bytes: [u8; PAYLOAD_HEADER_BYTES]) -> Self {
        PayloadHeader {
            version: bytes[0] >> 4,
            kind: bytes[0] & 15,
            words: bytes[1],
            lost: u16::from_be_bytes([bytes[2], bytes[3]]),
        }
    }
}

/// Value of [`Sync::unit_log2`] in frequency and analysis mode: records have no numbers of units,
/// and slices count as accesses.
pub const UNIT_NONE: u8 = 0;

/// The state at the start of a frame, from which the frame is decoded without any other frame.
///
/// ```text
/// word 0   63..60 log2 unit | 59..48 segment | 47..0 clock
/// word 1   63..40 lost records | 39..0 accesses
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// In a data frame: the clock of the record before the first one. In a report: the clock at
    /// which the report was made; records of later frames may have earlier clocks. 48 bits.
    pub clock: u64,
    /// log2 of the size in bytes of the unit that numbers in this frame count; 4 bits.
    pub unit_log2: u8,
    /// High bits of the numbers of units; 12 bits.
    pub segment: u32,
    /// Accesses in all records before this frame, including lost ones, modulo 2^40.
    pub accesses: u64,
    /// Records lost on the card before this frame, modulo 2^24.
    pub lost: u32,
}

/// Modulus mask of [`Sync::accesses`].
pub const ACCESSES_MASK: u64 = (1 << 40) - 1;
/// Modulus mask of [`Sync::lost`].
pub const LOST_MASK: u32 = (1 << 24) - 1;
/// Place of the log2 unit in the high half of sync word 0.
pub const SYNC_UNIT_AT: u32 = 28;
/// Place of the segment in the high half of sync word 0.
pub const SYNC_SEGMENT_AT: u32 = 16;
/// Place of the lost records in the high half of sync word 1.
pub const SYNC_LOST_AT: u32 = 8;

impl Sync {
    /// Packs the sync into the first two words of a frame.
    pub const fn encode(self) -> [u64; 2] {
        [
            (self.unit_log2 as u64 & 15) << (32 + SYNC_UNIT_AT)
                | (self.segment as u64 & 0xfff) << (32 + SYNC_SEGMENT_AT)
                | self.clock & crate::record::CLOCK_MASK,
            (self.lost as u64 & LOST_MASK as u64) << (32 + SYNC_LOST_AT)
                | self.accesses & ACCESSES_MASK,
        ]
    }

    /// Whether records have no numbers of units, as in frequency and analysis mode. Slices count as
    /// accesses then.
    pub const fn has_no_numbers(&self) -> bool {
        self.unit_log2 == UNIT_NONE
    }

    /// Unpacks the first two words of a frame.
    #[inline]
    pub const fn decode(words: [u64; 2]) -> Self {
        Sync {
            clock: words[0] & crate::record::CLOCK_MASK,
            unit_log2: (words[0] >> (32 + SYNC_UNIT_AT)) as u8,
            segment: (words[0] >> (32 + SYNC_SEGMENT_AT)) as u32 & 0xfff,
            accesses: words[1] & ACCESSES_MASK,
            lost: (words[1] >> (32 + SYNC_LOST_AT)) as u32,
        }
    }
}

/// Number of words of a [`Heartbeat`].
pub const HEARTBEAT_WORDS: u8 = 2;
/// Width of [`Heartbeat::transmit_clocks`] in bits.
pub const TRANSMIT_CLOCK_BITS: u32 = 48;
/// Place of [`Heartbeat::running`] in the high half of word 0.
pub const HEARTBEAT_RUNNING_AT: u32 = 31;
/// Period of the transmit clock in nanoseconds.
pub const TRANSMIT_CLOCK_NS: u64 = 8;

/// The state that the card sends without using its DDR clock.
///
/// ```text
/// word 0   63 DDR clock runs | 62..16 0 | 15..0 losses
/// word 1   63..48 0 | 47..0 transmit clocks
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the DDR clock runs.
    pub running: bool,
    /// Losses of the DDR clock since power-on, modulo 2^16.
    pub losses: u16,
    /// Transmit clocks, of [`TRANSMIT_CLOCK_NS`] each, since power-on, modulo 2^48.
    pub transmit_clocks: u64,
}

impl Heartbeat {
    /// Packs the heartbeat into the words of a frame.
    pub const fn encode(self) -> [u64; HEARTBEAT_WORDS as usize] {
        [
            (self.running as u64) << (32 + HEARTBEAT_RUNNING_AT) | self.losses as u64,
            self.transmit_clocks & ((1 << TRANSMIT_CLOCK_BITS) - 1),
        ]
    }

    /// Unpacks the words of a frame.
    pub const fn decode(words: [u64; HEARTBEAT_WORDS as usize]) -> Self {
        Heartbeat {
            running: words[0] >> (32 + HEARTBEAT_RUNNING_AT) != 0,
            losses: words[0] as u16,
            transmit_clocks: words[1] & ((1 << TRANSMIT_CLOCK_BITS) - 1),
        }
    }
}

/// Writes a frame without FCS, padded to [`MIN_FRAME_BYTES`], into `buffer`, and returns its length
/// in bytes. For tests and software senders.
///
/// # Panics
/// If there are more than [`MAX_WORDS`] words.
pub fn encode(
    buffer: &mut [u8; MAX_FRAME_BYTES],
    counter: u64,
    header: PayloadHeader,
    words: &[u64],
) -> usize {
    assert!(words.len() <= usize::from(MAX_WORDS), "{} words do not fit a frame", words.len());
    buffer[..6].copy_from_slice(&DESTINATION);
    buffer[6] = SOURCE_PREFIX;
    buffer[7..12].copy_from_slice(&(counter & COUNTER_MASK).to_be_bytes()[3..]);
    buffer[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    buffer[MAC_HEADER_BYTES..WORDS_AT].copy_from_slice(&header.encode());
    let mut end = WORDS_AT;
    for word in words {
        buffer[end..end + WORD_BYTES].copy_from_slice(&word.to_be_bytes());
        end += WORD_BYTES;
    }
    while end < MIN_FRAME_BYTES {
        buffer[end] = 0;
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_frame_is_1514_bytes() {
        assert_eq!(MAX_FRAME_BYTES, 1514);
    }

    #[test]
    fn a_short_frame_is_padded_and_carries_its_counter() {
        let mut buffer = [0xff; MAX_FRAME_BYTES];
        let header = PayloadHeader { version: 1, kind: 2, words: 1, lost: 0x1234 };
        let length = encode(&mut buffer, 0x01_0203_0405, header, &[0x1122_3344_5566_7788]);
        assert_eq!(length, MIN_FRAME_BYTES);
        assert_eq!(buffer[6..18], [2, 1, 2, 3, 4, 5, 0x88, 0xb5, 0x12, 1, 0x12, 0x34]);
        assert_eq!(buffer[18..26], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert!(buffer[26..60].iter().all(|byte| *byte == 0));
    }

    proptest! {
        #[test]
        fn syncs_come_back(clock in 0..=crate::record::CLOCK_MASK, unit_log2 in 0u8..16,
                           segment in 0u32..4096, accesses in 0..=ACCESSES_MASK, lost in 0..=LOST_MASK) {
            let sync = Sync { clock, unit_log2, segment, accesses, lost };
            prop_assert_eq!(Sync::decode(sync.encode()), sync);
        }

        #[test]
        fn heartbeats_come_back(running: bool, losses: u16, transmit_clocks in 0..1u64 << 48) {
            let heartbeat = Heartbeat { running, losses, transmit_clocks };
            prop_assert_eq!(Heartbeat::decode(heartbeat.encode()), heartbeat);
        }

        #[test]
        fn payload_headers_come_back(version in 0u8..16, kind in 0u8..16, words: u8, lost: u16) {
            let header = PayloadHeader { version, kind, words, lost };
            prop_assert_eq!(PayloadHeader::decode(header.encode()), header);
        }
    }
}
