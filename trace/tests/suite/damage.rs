//! Tests that no input bytes cause a panic, and that everything readable is read.

use hmtt::decode::decode_frames;
use hmtt::pcapng::PcapngReader;
use hmtt_format::FORMAT_VERSION;
use proptest::prelude::*;

use crate::capture;
use crate::card::Card;

/// Bytes before its end at which a capture is cut at most.
const CUT_BYTES: usize = 4096;

fn packets(bytes: &[u8]) -> (usize, Option<u64>) {
    let mut reader = PcapngReader::new(bytes).unwrap();
    let mut count = 0;
    while reader.next_packet().unwrap().is_some() {
        count += 1;
    }
    (count, reader.truncated_at())
}

#[test]
fn a_truncated_capture_is_read_to_its_last_whole_block() {
    let (frames, _) = Card::new().session(20, 100);
    let whole = capture(&frames);
    let mut ends = Vec::new();
    let mut reader = PcapngReader::new(&whole[..]).unwrap();
    while let Some(packet) = reader.next_packet().unwrap() {
        ends.push(packet.offset as usize);
    }
    for cut in whole.len() - CUT_BYTES..=whole.len() {
        let (count, truncated) = packets(&whole[..cut]);
        let started = ends.iter().filter(|start| **start < cut).count();
        assert!(count == started || count + 1 == started, "{count} packets of {cut} bytes");
        assert_eq!(count + 1 == started, count < started, "cut at {cut}");
        if count < started {
            assert_eq!(truncated, Some(ends[count] as u64), "cut at {cut}");
        }
    }
    assert_eq!(packets(&whole), (frames.len(), None));
}

proptest! {
    #[test]
    fn flipped_bits_never_panic_and_never_add_frames(
        flips in prop::collection::vec((0usize..12, 0usize..1514 * 8), 1..40),
    ) {
        let (mut frames, _) = Card::new().session(10, 370);
        for (frame, bit) in flips {
            let frame = &mut frames[frame];
            let bit = bit % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        let (_, counts) = decode_frames(&frames);
        prop_assert_eq!(counts.frames + counts.foreign_frames, frames.len() as u64);
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
    ) {
        decode_frames(&frames);
    }

    #[test]
    fn card_frames_with_any_payload_are_decoded_without_a_panic(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
    ) {
        let header = Card::new().info()[..14].to_vec();
        let frames: Vec<Vec<u8>> = payloads
            .into_iter()
            .map(|mut payload| {
                if let Some(first) = payload.first_mut() {
                    *first = FORMAT_VERSION << 4 | *first % 3;
                }
                [&header[..], &payload].concat()
            })
            .collect();
        decode_frames(&frames);
    }

    #[test]
    fn any_bytes_after_a_section_header_are_read_or_rejected(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        at in 0usize..600,
    ) {
        let (frames, _) = Card::new().session(1, 10);
        let mut capture = capture(&frames);
        let at = at.min(capture.len());
        let end = (at + bytes.len()).min(capture.len());
        capture[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok(mut reader) = PcapngReader::new(&capture[..]) {
            while let Ok(Some(_)) = reader.next_packet() {}
        }
    }
}
