//! Checks the decisions about every combination of evidence.

use super::*;
use crate::decode::rules::tests::check;

fn all() -> Vec<Evidence> {
    let mut cases = Vec::new();
    for counter in Counter::ALL {
        for kind in Kind::ALL {
            for before in Before::ALL {
                for after in After::ALL {
                    for clock in Clock::ALL {
                        for next in Next::ALL {
                            cases.extend(Likeness::ALL.iter().map(|likeness| Evidence {
                                counter: *counter,
                                kind: *kind,
                                before: *before,
                                after: *after,
                                clock: *clock,
                                next: *next,
                                likeness: *likeness,
                            }));
                        }
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn each_rule_decides_about_some_evidence_and_is_needed() {
    let cases = all();
    assert_eq!(cases.len(), 8 * 5 * 6 * 4 * 2 * 5 * 3);
    check(&FIT, &cases);
    check(&REACH, &cases);
    check(&DAMAGE, &cases);
}

#[test]
fn a_frame_continues_a_trace_only_with_a_counter_that_the_card_uses_now() {
    for evidence in all() {
        let is_used_now = matches!(evidence.counter, Counter::Free | Counter::Contested);
        let decided = FIT.decide(&evidence);
        let continues = matches!(decided, Continuation::Next | Continuation::Near);
        assert!(is_used_now || !continues, "{evidence:?}");
        let is_copy = evidence.counter == Counter::Copy && evidence.kind != Kind::Unreadable;
        assert_eq!(decided == Continuation::Copy, is_copy);
        assert!(decided != Continuation::Late || evidence.counter == Counter::Late);
    }
}

/// Exempt are frames without counts, and the first report after a loss of the DDR clock, because
/// the card counts from 0 again.
#[test]
fn contradicting_counts_never_continue_a_trace() {
    for evidence in all() {
        let exempt =
            matches!(evidence.kind, Kind::FirstReport | Kind::Heartbeat | Kind::Unreadable);
        let contradicts = evidence.before == Before::Contradict
            || evidence.after == After::Contradict
            || evidence.clock == Clock::Behind;
        let decided = FIT.decide(&evidence);
        if contradicts && !exempt {
            let continues = matches!(decided, Continuation::Next | Continuation::Near);
            assert!(!continues, "{evidence:?}");
        }
    }
}

#[test]
fn a_frame_follows_exactly_only_by_its_counts_or_those_of_the_frame_after() {
    for evidence in all().iter().filter(|evidence| FIT.decide(*evidence) == Continuation::Next) {
        let is_exact = evidence.before == Before::Exact || evidence.after == After::Exact;
        assert!(is_exact || evidence.kind == Kind::FirstReport, "{evidence:?}");
        assert_ne!(evidence.kind, Kind::Unreadable);
    }
}

/// A frame whose counts and clock are no more like the card's than random ones continues a trace
/// only if it is a copy, or if its counts exactly fit the frame before or after it.
#[test]
fn counts_and_clocks_as_made_up_at_random_continue_no_trace() {
    let random =
        |evidence: &&Evidence| evidence.has_counts() && evidence.likeness == Likeness::Random;
    for evidence in all().iter().filter(random) {
        let is_exact = evidence.before == Before::Exact || evidence.after == After::Exact;
        let decided = FIT.decide(evidence);
        let is_copy = evidence.counter == Counter::Copy;
        assert!(decided == Continuation::No || is_exact || is_copy, "{evidence:?}");
    }
}

/// Whether a frame continues a trace does not depend on [`Next`], which compares the counts
/// whatever the counter. What must be damaged in a frame does not depend on the frames around its
/// counter, unless the counter is free and the counts are exactly the next.
#[test]
fn evidence_that_does_not_belong_to_a_decision_does_not_change_it() {
    for evidence in all() {
        for next in Next::ALL {
            let other = Evidence { next: *next, ..evidence };
            assert_eq!(FIT.decide(&evidence), FIT.decide(&other));
            assert_eq!(REACH.decide(&evidence), REACH.decide(&other));
        }
        let (before, after, clock) = (Before::Unknown, After::Unknown, Clock::Possible);
        let bare = Evidence { before, after, clock, ..evidence };
        // Only a frame with a free counter and exactly the next counts is also compared with the
        // frames around its counter.
        if evidence.next != Next::Exact || evidence.counter != Counter::Free {
            assert_eq!(DAMAGE.decide(&evidence), DAMAGE.decide(&bare));
        }
    }
}

/// A frame that continues a trace could also do so after a gap, if its counter is free and the last
/// frame is not damaged.
#[test]
fn a_trace_can_reach_what_continues_it() {
    for evidence in all().iter().filter(|evidence| evidence.counter == Counter::Free) {
        let continues = FIT.decide(evidence) != Continuation::No;
        let by_counts = !matches!(evidence.kind, Kind::FirstReport);
        if continues && by_counts && evidence.before != Before::PossibleEarlier {
            assert_eq!(REACH.decide(evidence), Reach::Soon, "{evidence:?}");
        }
        let contradicts =
            evidence.before == Before::Contradict || evidence.after == After::Contradict;
        let is_misplaced = contradicts && evidence.next == Next::Exact;
        if is_misplaced || !evidence.has_counts() || evidence.likeness != Likeness::Random {
            let damage = if is_misplaced { Damage::Counter } else { Damage::Counts };
            assert_eq!(DAMAGE.decide(evidence), damage);
        }
    }
}
