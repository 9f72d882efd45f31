//! Checks the decisions about every combination of claims.

use super::*;
use crate::decode::rules::tests::check;

const BOTH: [bool; 2] = [false, true];

/// Calls `with` for each combination of the claims of cards, runs and parked traces, and of the
/// frame's content.
fn each_claim(mut with: impl FnMut(Claim, Claim, Claim, Content)) {
    for card in Claim::ALL {
        for run in Claim::ALL {
            for parked in Claim::ALL {
                Content::ALL.iter().for_each(|content| with(*card, *run, *parked, *content));
            }
        }
    }
}

fn all() -> Vec<Claims> {
    let mut cases = Vec::new();
    each_claim(|card, run, parked, content| {
        for bits in 0..1 << 5 {
            let [is_card_first, is_silent, run_counts_exactly, fits_several, any_card] =
                std::array::from_fn(|at| BOTH[bits >> at & 1]);
            cases.extend(Run::ALL.iter().map(|run_is| Claims {
                card,
                run,
                parked,
                content,
                is_card_first,
                run_is: *run_is,
                is_silent,
                run_counts_exactly,
                fits_several,
                any_card,
            }));
        }
    });
    cases
}

#[test]
fn each_rule_decides_about_some_claims_and_is_needed() {
    let cases = all();
    assert_eq!(cases.len(), 7 * 7 * 7 * 4 * 32 * 3);
    check(&OWNER, &cases);
}

#[test]
fn only_a_claimant_gets_a_frame() {
    for claims in all() {
        let claim = match OWNER.decide(&claims) {
            Choice::Card => claims.card,
            Choice::Pending => claims.run,
            Choice::Parked | Choice::Past => claims.parked,
            Choice::Unknown | Choice::Stray => continue,
        };
        assert_ne!(claim, Claim::No, "{claims:?}");
    }
}

/// A parked trace is resumed only by a frame that continues it: a copy or a late frame would not
/// show that the card still sends.
#[test]
fn copies_and_late_frames_resume_no_parked_trace() {
    for claims in all() {
        let resumed = OWNER.decide(&claims) == Choice::Parked;
        assert!(!resumed || claims.parked.continues(), "{claims:?}");
    }
}

#[test]
fn a_frame_that_fits_nothing_waits_or_is_a_stray() {
    for claims in all() {
        let nothing =
            [claims.card, claims.run, claims.parked].iter().all(|claim| *claim == Claim::No);
        let decided = OWNER.decide(&claims);
        if nothing {
            let unreadable = claims.content == Content::Unreadable && claims.any_card;
            assert_eq!(decided, if unreadable { Choice::Stray } else { Choice::Unknown });
        }
        let is_unclaimed = [claims.card, claims.run].iter().all(|claim| *claim == Claim::No);
        assert!(decided != Choice::Stray || is_unclaimed, "{claims:?}");
        if claims.content == Content::Unreadable {
            assert!(!matches!(decided, Choice::Parked | Choice::Past) || !claims.any_card);
        }
    }
}

/// A frame that fits a card at least as well as it fits a run is the card's, with three exceptions:
/// the frame exactly continues a parked trace; the run may be a repetition of the silent card after
/// a restart; or several cards are possible, and the owner is unknown.
#[test]
fn a_card_keeps_a_frame_that_it_fits_best() {
    for claims in all().iter().filter(|claims| claims.prefers_card()) {
        match OWNER.decide(claims) {
            Choice::Card => {}
            Choice::Parked => {
                assert_eq!((claims.parked, claims.content), (Claim::NextClock, Content::Data));
            }
            Choice::Pending => assert!(claims.is_silent && claims.run == Claim::Near),
            Choice::Unknown => assert!(claims.fits_several && claims.card.is_near()),
            other => panic!("{other:?} for {claims:?}"),
        }
    }
}
