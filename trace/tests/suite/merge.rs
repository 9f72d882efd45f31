//! Tests that the library merges two cards with different clocks: nothing lost, in order, within
//! the stated error.

use std::path::PathBuf;
use std::time::Duration;

use hmtt::CardId;
use hmtt::decode::{Item, decode_frames};
use hmtt::merge::{ClockBasis, Merge, Options};
use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_format::{Access, Event};
use hmtt_test_support::clocks::{FAST, Running, STEADY, STEPS, capture};

use crate::card::Card;
use crate::scratch;

fn accesses(path: &std::path::Path) -> Vec<Access> {
    let mut reader = hmtt::pcapng::PcapngReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        frames.push(packet.bytes.to_vec());
    }
    let access =
        |item| if let Item::Event(Event::Access(access)) = item { Some(access) } else { None };
    decode_frames(frames).0.into_iter().filter_map(access).collect()
}

/// Merges captures and checks what must hold for any clocks: nothing is lost, times ascend, and no
/// time is further from the true one than the stated error. Returns the error.
fn check(paths: &[PathBuf], running: &[Running], expected: ClockBasis) -> f64 {
    let merge = Merge::survey(paths, &Options::default()).unwrap();
    let sessions: Vec<_> = merge.sessions().collect();
    assert_eq!(sessions.len(), paths.len());
    assert_eq!(sessions[1].1.basis, expected);
    let error = sessions[1].1.error.unwrap();
    let mut merged = vec![Vec::new(); paths.len()];
    let mut last = 0;
    merge
        .run(|session, item| {
            if let Item::Event(Event::Access(access)) = item {
                assert!(access.clock.0 >= last, "{} after {last}", access.clock);
                last = access.clock.0;
                merged[session].push(access);
            }
            true
        })
        .unwrap();
    let begin = sessions[0].1.offset() + running[0].begin;
    for (session, path) in paths.iter().enumerate() {
        let own = accesses(path);
        assert_eq!(own.len(), 20 * STEPS as usize);
        assert_eq!(merged[session].len(), own.len());
        for (own, merged) in own.iter().zip(&merged[session]) {
            assert_eq!((own.address, own.direction), (merged.address, merged.direction));
            let truth = begin + running[session].time(own.clock.0) * running[0].rate;
            let off = (merged.clock.0 as f64 - truth).abs();
            // Clocks are integers.
            assert!(off <= error + 1.0, "off by {off}, {error} stated");
        }
    }
    error
}

#[test]
fn marks_relate_clocks_that_drift() {
    let paths = [capture("merge-a", STEADY, true), capture("merge-b", FAST, true)];
    let error = check(&paths, &[STEADY, FAST], ClockBasis::Marks { shared: 30 });
    // The latency between the cards is assumed to be a microsecond, which is 100 clocks.
    assert!(error < 110.0, "{error}");
    check(&[paths[1].clone(), paths[0].clone()], &[FAST, STEADY], ClockBasis::Marks { shared: 30 });
}

#[test]
fn arrival_times_relate_cards_without_marks() {
    let paths = [capture("merge-c", STEADY, false), capture("merge-d", FAST, false)];
    let error = check(&paths, &[STEADY, FAST], ClockBasis::Arrivals);
    // A millisecond is assumed, plus a little because no frame had the smallest latency at some
    // times.
    assert!((100_000.0..110_000.0).contains(&error), "{error}");
}

/// A session that ends with the capture is too short for its frames to be passed on before the end.
#[test]
fn a_card_that_restarts_shortly_before_the_end_is_related_by_arrival_times() {
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::new("eth1")]).unwrap();
    let begin = Duration::from_secs(1_700_000_000);
    let mut write = |frame: Vec<u8>, nanos: u64| {
        let arrival = begin + Duration::from_nanos(nanos);
        writer.write_frame(0, arrival, frame.len() as u32, &frame).unwrap();
    };
    // Starts and lengths of the sessions, in clocks of 10 ns of the wall clock.
    let sessions = [(0, 200), (100_000_000, 20)];
    for (since, frames) in sessions {
        let mut card = Card::new();
        write(card.info(), since * 10);
        for frame in 1..=frames {
            card.clock = frame * (40_000 + frames);
            write(card.data(frames % 7).0, (since + card.clock) * 10 + 5_000);
        }
    }
    let path = scratch("merge-power.pcapng");
    std::fs::write(&path, writer.into_output()).unwrap();
    let merge = Merge::survey(&[path], &Options::default()).unwrap();
    let bases: Vec<_> = merge.sessions().map(|(_, base)| base).collect();
    assert_eq!(bases.len(), sessions.len());
    for (base, (since, _)) in bases.iter().zip(sessions).skip(1) {
        assert_eq!(base.basis, ClockBasis::Arrivals);
        let off = (base.map(0) - bases[0].map(0) - since as f64).abs();
        assert!(off <= base.error.unwrap(), "off by {off}, {:?} stated", base.error);
    }
}

#[test]
fn a_given_offset_is_used_unchanged() {
    let paths = [capture("merge-e", STEADY, true), capture("merge-f", FAST, true)];
    let options = Options { offsets: vec![(CardId(1), -2_999_000)], ..Options::default() };
    let merge = Merge::survey(&paths, &options).unwrap();
    let (_, base) = merge.sessions().nth(1).unwrap();
    assert_eq!((base.basis, base.error), (ClockBasis::Offset { clocks: -2_999_000 }, None));
    assert_eq!(base.map(3_000_000), 1000.0);
    let wrong = Options { offsets: vec![(CardId(2), 0)], ..Options::default() };
    let error = Merge::survey(&paths, &wrong).unwrap_err().to_string();
    assert_eq!(error, "there is no source 3; there are 2, numbered from 1");
}

#[test]
fn a_capture_without_a_card_cannot_be_merged() {
    let path = crate::capture_file("merge-none.pcapng", &[vec![0xff; 60]]);
    let error = Merge::survey(&[path], &Options::default()).unwrap_err().to_string();
    assert_eq!(error, "no frame of a card in any capture");
}

#[test]
fn too_many_cards_are_rejected() {
    let interfaces: Vec<Description> =
        (0..300).map(|number| Description::new(&format!("eth{number}"))).collect();
    let mut writer = PcapngWriter::new(Vec::new(), &interfaces).unwrap();
    for number in 0..300 {
        let frame = Card::new().data(2).0;
        writer.write_frame(number, Duration::ZERO, frame.len() as u32, &frame).unwrap();
    }
    let path = scratch("merge-many-cards.pcapng");
    std::fs::write(&path, writer.into_output()).unwrap();
    let error = Merge::survey(&[path], &Options::default()).unwrap_err().to_string();
    assert_eq!(error, "the captures have 300 cards; at most 256 can be merged");
}
