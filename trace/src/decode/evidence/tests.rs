//! Decides about every combination of evidence.

use super::*;
use crate::decode::rules::tests::check;

fn all() -> Vec<Evidence> {
    let mut all = Vec::new();
    for counter in Counter::ALL {
        for kind in Kind::ALL {
            for before in Before::ALL {
                for after in After::ALL {
                    for clock in Clock::ALL {
                        all.extend(Next::ALL.iter().map(|next| Evidence {
                            counter: *counter,
                            kind: *kind,
                            before: *before,
                            after: *after,
                            clock: *clock,
                            next: *next,
                        }));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn each_rule_decides_about_some_evidence_and_is_needed() {
    let all = all();
    assert_eq!(all.len(), 8 * 5 * 6 * 4 * 2 * 5);
    check(&FIT, &all);
    check(&REACH, &all);
    check(&DAMAGE, &all);
}

#[test]
fn a_frame_continues_a_trace_only_with_a_counter_that_the_card_uses_now() {
    for evidence in all() {
        let is_used_now = matches!(evidence.counter, Counter::Free | Counter::Contested);
        let decided = FIT.decide(&evidence);
        let continues = matches!(decided, Continuation::Next | Continuation::Near);
        assert!(is_used_now || !continues, "{evidence:?}");
        assert_eq!(decided == Continuation::Copy, evidence.counter == Counter::Copy);
        assert!(decided != Continuation::Late || evidence.counter == Counter::Late);
    }
}

/// Only a report after a loss of the DDR clock, whose counts start again, and frames without counts are exempt.
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
    for evidence in all().iter().filter(|one| FIT.decide(*one) == Continuation::Next) {
        let is_exact = evidence.before == Before::Exact || evidence.after == After::Exact;
        assert!(is_exact || evidence.kind == Kind::FirstReport, "{evidence:?}");
        assert_ne!(evidence.kind, Kind::Unreadable);
    }
}

/// The decision about a frame does not depend on the counts that the card could state at other counters, and that about
/// damage on nothing but them and the counter.
#[test]
fn evidence_that_does_not_belong_to_a_decision_does_not_change_it() {
    for evidence in all() {
        for next in Next::ALL {
            let other = Evidence { next: *next, ..evidence };
            assert_eq!(FIT.decide(&evidence), FIT.decide(&other));
            assert_eq!(REACH.decide(&evidence), REACH.decide(&other));
        }
        let Evidence { counter, next, .. } = evidence;
        let (before, after, clock) = (Before::Unknown, After::Unknown, Clock::Possible);
        let bare = Evidence { counter, next, kind: Kind::Data, before, after, clock };
        assert_eq!(DAMAGE.decide(&evidence), DAMAGE.decide(&bare));
    }
}

/// A frame that continues a trace could also do so after a gap, if its counter is free and the last frame is not
/// damaged.
#[test]
fn a_trace_can_reach_what_continues_it() {
    for evidence in all().iter().filter(|one| one.counter == Counter::Free) {
        let continues = FIT.decide(evidence) != Continuation::No;
        let by_counts = !matches!(evidence.kind, Kind::FirstReport);
        if continues && by_counts && evidence.before != Before::PossibleEarlier {
            assert_eq!(REACH.decide(evidence), Reach::Soon, "{evidence:?}");
        }
        assert_eq!(DAMAGE.decide(evidence), Damage::Counts);
    }
}
