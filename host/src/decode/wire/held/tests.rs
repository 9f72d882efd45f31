//! What the quick look at two frames says, against a trace made of the first.

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

/// What a frame is made of.
#[derive(Clone, Debug)]
struct Made {
    counter: u64,
    kind: FrameKind,
    sync: Sync,
    accesses: usize,
    readable: bool,
}

impl Made {
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
        let words = [&[first, second][..], &vec![halves; self.accesses]].concat();
        let header = PayloadHeader {
            version: FORMAT_VERSION + u8::from(!self.readable),
            kind: self.kind as u8,
            words: words.len() as u8,
            lost: self.sync.lost as u16,
        };
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = encode(&mut buffer, self.counter, header, &words);
        buffer[..length].to_vec()
    }
}

fn near(around: u64, mask: u64, by: i64) -> impl Strategy<Value = u64> {
    let small = (-by..=by).prop_map(move |by| around.wrapping_add_signed(by) & mask);
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
        held in 0usize..20,
        readable in prop::bool::weighted(0.9),
    ) -> Made {
        let sync = Sync { clock, unit_log2, segment: 0, accesses, lost: lost as u32 };
        Made { counter, kind, sync, accesses: held, readable }
    }
}

fn first() -> impl Strategy<Value = Made> {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn frames_that_are_not_near_do_not_fit(
        (one, other) in first().prop_flat_map(|one| {
            let other = like(one.counter, one.sync);
            (Just(one.clone()), prop_oneof![9 => other, 1 => Just(one)])
        })
    ) {
        let (one, other) = (one.bytes(), other.bytes());
        let (first, second) = (Frame::parse(&one).unwrap(), Frame::parse(&other).unwrap());
        let waiting = Waiting::new(Origin::default(), &one, &first, 1);
        if !waiting.may_be_near(&Arrival::new(&second, &other)) {
            let mut trace = Trace::default();
            trace.push_to(Origin::default(), &one, &mut Counted(|_| {}));
            prop_assert_eq!(trace.fit(&second, &other), None);
        }
    }
}
