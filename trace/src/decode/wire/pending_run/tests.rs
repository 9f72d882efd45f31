//! Compares the cheap checks of pending frames and runs with the results of a trace of the same
//! frames.

use hmtt_format::FORMAT_VERSION;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{
    ACCESSES_MASK, COUNTER_MASK, FrameKind, Heartbeat, LOST_MASK, MAX_FRAME_BYTES, PayloadHeader,
    encode,
};
use hmtt_format::record::{CLOCK_MASK, Half};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::decode::evidence::Likeness;
use crate::decode::frame::Origin;

fn arrival(bytes: &[u8]) -> Arrival<'_> {
    Arrival::parse(Origin::default(), bytes).unwrap()
}

/// The content of a generated frame.
#[derive(Clone, Debug)]
struct FrameContent {
    counter: u64,
    kind: FrameKind,
    sync: Sync,
    accesses: usize,
    readable: bool,
}

impl FrameContent {
    fn bytes(&self) -> Vec<u8> {
        let access = Half::Access { direction: hmtt_format::Direction::Read, delta: 1, number: 7 };
        let halves = u64::from(access.encode()) << 32 | u64::from(Half::Skip(0).encode());
        let [first, second] = match self.kind {
            FrameKind::Heartbeat => {
                let (running, losses, transmit_clocks) = (true, 0, self.sync.clock);
                Heartbeat { running, losses, transmit_clocks }.encode()
            }
            _ => self.sync.encode(),
        };
        let is_heartbeat = self.kind == FrameKind::Heartbeat;
        let records = if is_heartbeat { 0 } else { self.accesses };
        let words = [&[first, second][..], &vec![halves; records]].concat();
        let header = PayloadHeader {
            version: FORMAT_VERSION + u8::from(!self.readable),
            kind: self.kind as u8,
            words: words.len() as u8,
            lost: if is_heartbeat { 0 } else { self.sync.lost as u16 },
        };
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = encode(&mut buffer, self.counter, header, &words);
        buffer[..length].to_vec()
    }
}

fn near(around: u64, mask: u64, by: i64) -> impl Strategy<Value = u64> {
    let small = prop_oneof![9 => -by..=by, 1 => Just(0)];
    let small = small.prop_map(move |by| around.wrapping_add_signed(by) & mask);
    prop_oneof![4 => small, 1 => any::<u64>().prop_map(move |any| any & mask)]
}

fn kinds() -> impl Strategy<Value = FrameKind> {
    use FrameKind::{Data, End, Heartbeat, Info};
    prop_oneof![4 => Just(Data), 1 => select(vec![Info, End, Heartbeat])]
}

fn units() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(6), 1 => select(vec![3, 12, UNIT_NONE])]
}

prop_compose! {
    fn like(counter: u64, sync: Sync)(
        counter in near(counter, COUNTER_MASK, 1100),
        kind in kinds(),
        clock in near(sync.clock, CLOCK_MASK, 1000),
        unit_log2 in units(),
        accesses in near(sync.accesses, ACCESSES_MASK, 4000),
        lost in near(sync.lost.into(), LOST_MASK.into(), 2),
        count in 0usize..20,
        readable in prop::bool::weighted(0.9),
    ) -> FrameContent {
        let sync = Sync { clock, unit_log2, segment: 0, accesses, lost: lost as u32 };
        FrameContent { counter, kind, sync, accesses: count, readable }
    }
}

fn first() -> impl Strategy<Value = FrameContent> {
    let sync =
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(clock, accesses, lost)| Sync {
            clock: clock & CLOCK_MASK,
            unit_log2: 6,
            segment: 0,
            accesses: accesses & ACCESSES_MASK,
            lost: lost & LOST_MASK,
        });
    let start = Sync { clock: 0, unit_log2: 6, segment: 0, accesses: 0, lost: 0 };
    let counter = prop_oneof![Just(0), any::<u64>().prop_map(|counter| counter & COUNTER_MASK)];
    let at = (counter, prop_oneof![sync, Just(start)]);
    at.prop_flat_map(|(counter, sync)| like(counter, sync))
}

/// The fit of a frame to a trace, without [`Fit::Late`] where no frame with counts was decoded yet.
fn fit_unless_new(trace: &CardTrace, fit: Option<Fit>) -> Option<Fit> {
    fit.filter(|fit| *fit != Fit::Late || !trace.is_new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn frames_that_are_not_near_do_not_fit(
        (content, other) in first().prop_flat_map(|content| {
            let other = like(content.counter, content.sync);
            (Just(content.clone()), prop_oneof![9 => other, 1 => Just(content)])
        })
    ) {
        let (bytes, other_bytes) = (content.bytes(), other.bytes());
        let (first, second) = (arrival(&bytes), arrival(&other_bytes));
        if !PendingFrame::new(&first, 1).may_be_near(&second) {
            let mut trace = CardTrace::default();
            trace.count(&first);
            prop_assert_eq!(fit_unless_new(&trace, trace.fit(&second)), None);
            prop_assert_eq!(trace.fit(&second), trace.compare(&second).fit);
        }
    }
}

/// A frame that continues another exactly, or nearly so.
fn following(before: &FrameContent) -> impl Strategy<Value = FrameContent> + use<> {
    let counter = before.counter.wrapping_add(1) & COUNTER_MASK;
    let end = arrival(&before.bytes()).summary().counts().map(|(_, end)| end);
    let (accesses, lost, clock) = end.map_or((0, 0, 0), |end| (end.accesses, end.lost, end.clock));
    let sync = Sync { clock, unit_log2: 6, segment: 0, accesses, lost };
    let exact = (kinds(), 0usize..20).prop_map(move |(kind, accesses)| FrameContent {
        counter,
        kind,
        sync,
        accesses,
        readable: true,
    });
    prop_oneof![6 => exact, 1 => like(counter, sync), 1 => like(before.counter, before.sync)]
}

fn runs() -> impl Strategy<Value = Vec<FrameContent>> {
    let begin = first().prop_map(|content| vec![content]).boxed();
    (0..6).fold(begin, |run, _| {
        let longer = run.prop_flat_map(|run| {
            let next = following(&run[run.len() - 1]);
            next.prop_map(move |next| [&run[..], &[next]].concat())
        });
        longer.boxed()
    })
}

/// A run of the first frame and of the later frames that fit, and a trace of the same frames.
fn pending_run(frames: &[Vec<u8>]) -> (PendingRun, CardTrace) {
    let (mut run, mut trace) = (PendingRun::default(), CardTrace::default());
    for (bytes, serial) in frames.iter().zip(1..) {
        let arrival = arrival(bytes);
        match serial {
            1 => run.begin(&[], &arrival, serial),
            _ if trace.fit(&arrival).is_none() => continue,
            _ => run.push(&[], &arrival, serial),
        }
        trace.count(&arrival);
    }
    (run, trace)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn frames_fit_a_run_as_they_fit_its_trace(run in runs()) {
        let frames: Vec<_> = run.iter().map(FrameContent::bytes).collect();
        let next = arrival(&frames[frames.len() - 1]);
        // An unreadable frame begins no run.
        let begins = |from: &usize| arrival(&frames[*from]).frame.body.is_ok();
        for from in (0..frames.len() - 1).filter(begins) {
            let (run, trace) = pending_run(&frames[from..frames.len() - 1]);
            let fit = run.fit(&next);
            if next.frame.body.is_err() && !run.is_confirmed() {
                prop_assert!(fit.is_none(), "an unreadable frame in a run that is not confirmed");
                continue;
            }
            let is_close = trace.sequencer.is_close(next.frame.counter);
            let is_first = run.frames().iter().all(|frame| frame.stored.summary.counts().is_none());
            let compared = trace.compare(&next);
            let in_run = if is_first { compared.fit_after_heartbeats() } else { compared.fit };
            let in_run = in_run.filter(|_| is_close);
            let expected = fit_unless_new(&trace, in_run);
            prop_assert_eq!(fit_unless_new(&trace, fit.map(|run_fit| run_fit.fit)), expected);
            prop_assert_eq!(trace.fit(&next), trace.compare(&next).fit);
            if let Some(fit) = fit.filter(|run_fit| !matches!(run_fit.fit, Fit::Next(_))) {
                prop_assert_eq!(fit.counts_exactly, trace.compare(&next).counts_exactly());
            }
        }
    }

    #[test]
    fn frames_that_could_follow_soon_are_those_that_a_trace_could_reach(
        (content, other) in first().prop_flat_map(|content| {
            let other = prop_oneof![like(content.counter, content.sync), following(&content)];
            (Just(content), other)
        })
    ) {
        let (bytes, other_bytes) = (content.bytes(), other.bytes());
        let ((first, trace), (second, _)) = (pending_run(&[bytes]), pending_run(std::slice::from_ref(&other_bytes)));
        let other = arrival(&other_bytes);
        let missing = other.frame.counter.wrapping_sub(first.counter()) & COUNTER_MASK;
        let reaches = trace.compare(&other).reach() != Reach::No;
        let close = trace.compare(&other).evidence.likeness == Likeness::Close;
        let soon = (1..=FARTHEST_GAP).contains(&missing) && reaches && close;
        prop_assert_eq!(first.leads_soon_to(&second), soon);
    }
}

/// A frame is compared with the last frame of a run in order, without a trace of the run.
#[test]
fn a_run_in_order_makes_no_trace() {
    let mut contents = vec![FrameContent {
        counter: 7000,
        kind: FrameKind::Data,
        sync: Sync { clock: 900, unit_log2: 6, segment: 0, accesses: 12_345, lost: 0 },
        accesses: 4,
        readable: true,
    }];
    for _ in 0..60 {
        let FrameContent { counter, sync, accesses, .. } = contents[contents.len() - 1].clone();
        let bytes = contents[contents.len() - 1].bytes();
        let end = arrival(&bytes).summary().counts().unwrap().1;
        let sync = Sync { clock: end.clock, accesses: end.accesses, ..sync };
        contents.push(FrameContent { counter: counter + 1, sync, accesses, ..contents[0].clone() });
    }
    let frames: Vec<_> = contents.iter().map(FrameContent::bytes).collect();
    let (run, _) = pending_run(&frames);
    assert_eq!(run.frames().len(), frames.len());
    assert!(run.trace.get().is_none());
}

/// A frame that is one word longer than another is no copy of it.
#[test]
fn frames_of_other_lengths_are_no_copies() {
    let sync = Sync { clock: 900, unit_log2: 6, segment: 0, accesses: 12_345, lost: 0 };
    let content = |accesses| FrameContent {
        counter: 7,
        kind: FrameKind::Data,
        sync,
        accesses,
        readable: true,
    };
    let frames: Vec<_> = (8..40).map(|accesses| content(accesses).bytes()).collect();
    for frame in &frames {
        let mut trace = CardTrace::default();
        trace.count(&arrival(frame));
        for other in frames.iter().filter(|other| *other != frame) {
            assert_ne!(trace.fit(&arrival(other)), Some(Fit::Copy));
        }
    }
}
