//! Tests that the receiver keeps up with a flood of forged frames on the wire of a sending card.

use hmtt_test_support::forged::{Forger, Forgery, mix};

use crate::card::Card;
use crate::live::{PACE, SEND_ALL, receive};
use crate::skipped;

const GOOD_RATE: usize = 20_000;
const FORGED_RATE: usize = 40_000;
const SECONDS: usize = 4;
/// Number of attempts on a machine with other load.
const TRIES: usize = 4;

/// Returns the milliseconds that the sender reports.
fn sending_took(log: &str) -> Option<u64> {
    log.split(" frames in ").nth(1)?.split(' ').next()?.parse().ok()
}

/// Ring and queue are small, so a receiver that is slower than the sender loses frames.
#[test]
fn a_flood_on_a_real_interface_loses_no_frame_of_the_card() {
    let mut card = Card::new();
    let (mut good, mut lost) = (vec![card.info()], 0);
    while good.len() < GOOD_RATE * SECONDS {
        // The loop ends when there are as many gaps as the receiver stores.
        if lost < 11_000 {
            card.counter += 1;
            lost += 1;
        }
        good.push(card.data(20).0);
    }
    good.extend((0..3).map(|_| card.end()));
    let turns = [FORGED_RATE / GOOD_RATE];
    let (wire, forged) = mix(&good, &mut Forger::new(Forgery::Random, 9), &turns);
    let pace = format!("export {PACE}={}; {SEND_ALL}", GOOD_RATE + FORGED_RATE);
    let arguments = ["--until-end", "-B", "16", "--queue-mb", "16"];
    let mut tries = 0;
    let (received, took) = loop {
        let Some(received) = receive("forged-flood", &wire, &pace, &arguments) else { return };
        let took = sending_took(&received.log).expect("the sender says how long it took");
        if received.summary["kernel_dropped_frames"].as_u64() == Some(0) {
            break (received, took);
        }
        // Other load may have ended by the next attempt.
        tries += 1;
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        if tries == TRIES && (took > (SECONDS * 1300) as u64 || load > 2.0 * cores) {
            return skipped(format!("sending for {SECONDS} s took {took} ms at a load of {load}"));
        }
        assert!(tries < TRIES, "{took} ms, load {load}: {}", received.log);
    };
    let accesses = (good.len() - 4) * 20;
    let expected = [
        ("kernel_dropped_frames", 0),
        ("frames", good.len() as u64),
        ("accesses", accesses as u64),
        ("missing_frames", lost),
        ("restarts", 0),
        ("malformed_frames", 0),
        ("stray_frames", forged),
        ("lost_accesses", 0),
    ];
    for (name, count) in expected {
        assert_eq!(received.summary[name], count, "{name}: {took} ms, {}", received.log);
    }
}
