//! Compares the attribution of random calls and accesses, with and without errors of time, with a
//! simple model.

mod inputs;

use std::collections::{BTreeMap, BTreeSet};

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{Exits, TaggedBlock, TaggedLoop};
use proptest::prelude::*;

use super::ledger::{Ledger, Moment, Share};
use super::owners::{Change, Kind, Owner, Owners};
use super::regions::Regions;
use super::traffic::Traffic;

/// Number of functions that are called.
const FUNCTIONS: u32 = 8;
/// Number of functions whose blocks are tagged: the first ones.
const WITH_BLOCKS: u32 = 4;
/// Number of tagged blocks of each of these functions.
const BLOCKS: u32 = 4;
/// Maximum number of actions in a test case.
const MAX_ACTIONS: usize = 250;

/// An action of a thread.
#[derive(Clone, Copy, Debug)]
enum ActionKind {
    Enters(FunctionId),
    /// Enters a block of its innermost function, if the function has blocks.
    EntersBlock(u32),
    /// Leaves its innermost function.
    Leaves,
    /// Leaves the innermost call of the function that is open at a depth.
    LeavesOther(prop::sample::Index),
    /// Leaves this many calls, starting with the innermost or with the outermost.
    LeavesMany(usize, bool),
}

/// An action of a thread, followed by accesses.
#[derive(Clone, Copy, Debug)]
struct Action {
    thread: usize,
    kind: ActionKind,
    accesses: u64,
}

/// Generates actions of `threads` threads; entries are frequent enough for deep stacks.
fn actions(threads: usize) -> impl Strategy<Value = Vec<Action>> {
    (2u32..12).prop_flat_map(move |entries| {
        let kind = prop_oneof![
            entries => (0..FUNCTIONS).prop_map(|number| ActionKind::Enters(FunctionId(number))),
            6 => (0..BLOCKS).prop_map(ActionKind::EntersBlock),
            3 => Just(ActionKind::Leaves),
            2 => any::<prop::sample::Index>().prop_map(ActionKind::LeavesOther),
            1 => (0usize..20, any::<bool>()).prop_map(|(count, inner)| ActionKind::LeavesMany(count, inner)),
        ];
        let action = (0..threads, kind, 0u64..4)
            .prop_map(|(thread, kind, accesses)| Action { thread, kind, accesses });
        prop::collection::vec(action, 0..MAX_ACTIONS)
    })
}

/// An open call: its function, and the block that it entered last.
type OpenCall = (FunctionId, Option<FunctionId>);

/// Number of a function's block.
fn block(function: FunctionId, block: u32) -> FunctionId {
    FunctionId(100 + function.0 * BLOCKS + block)
}

/// All blocks, each with its function. The first block of a function is in no loop, the second in
/// the function's first loop, the others in the second loop, which the first contains.
fn blocks() -> impl Iterator<Item = (FunctionId, FunctionId)> {
    let functions = (0..WITH_BLOCKS).map(FunctionId);
    functions.flat_map(|f| (0..BLOCKS).map(move |number| (block(f, number), f)))
}

/// Loops that contain a block, from the inside outwards.
fn loops_of(block: FunctionId) -> Vec<u32> {
    let (function, number) = ((block.0 - 100) / BLOCKS, (block.0 - 100) % BLOCKS);
    let loops = (0..number.min(2)).map(|index| 2 * function + index);
    loops.rev().collect()
}

fn regions() -> Regions {
    let block = |(number, function_number)| TaggedBlock {
        number,
        function_number,
        code_address: 0,
        size_bytes: 1,
        loop_number: loops_of(number).first().copied(),
    };
    let tagged_loop = |number: u32| TaggedLoop {
        number,
        function_number: FunctionId(number / 2),
        code_address: 0,
        outer_number: (!number.is_multiple_of(2)).then(|| number - 1),
        tagged_exits: Exits::All,
    };
    let loops: Vec<TaggedLoop> = (0..2 * WITH_BLOCKS).map(tagged_loop).collect();
    Regions::of(&blocks().map(block).collect::<Vec<_>>(), &loops)
}

/// Owners of own accesses, and all inclusive owners.
fn owners(stacks: &[Vec<OpenCall>]) -> (BTreeSet<Owner>, BTreeSet<Owner>) {
    let running: Vec<_> = stacks.iter().filter(|stack| !stack.is_empty()).collect();
    let both = |owner| ([owner].into(), [owner].into());
    match running[..] {
        [] => both(Owner::Outside),
        [stack] => {
            let (function, block) = *stack.last().unwrap();
            let part = match block {
                Some(block) => Some(Owner::Block(block)),
                None => (function.0 < WITH_BLOCKS).then_some(Owner::OutsideBlocks(function)),
            };
            let innermost = block.and_then(|block| loops_of(block).first().copied());
            let own = part.into_iter().chain(innermost.map(Owner::Loop));
            let open = stack.iter().filter_map(|call| call.1).flat_map(|block| {
                loops_of(block).into_iter().map(Owner::Loop).chain([Owner::Block(block)])
            });
            (
                own.chain([Owner::Function(function)]).collect(),
                open.chain(stack.iter().map(|call| Owner::Function(call.0))).collect(),
            )
        }
        _ => both(Owner::SeveralThreads),
    }
}

/// An event of a thread, as `Owners` gets it.
#[derive(Clone, Copy, Debug)]
enum Event {
    Call(FunctionId, bool),
    Block(FunctionId),
}

fn apply(owners: &mut Owners, thread: usize, event: Event, to: &mut impl FnMut(Change)) {
    match event {
        Event::Call(number, is_entry) => owners.call(thread, number, is_entry, to),
        Event::Block(block) => owners.block(thread, block, to),
    }
}

/// Applies an action, and reports each entry and exit.
fn perform(
    stacks: &mut [Vec<OpenCall>],
    action: Action,
    mut report: impl FnMut(&[Vec<OpenCall>], Event),
) {
    let depth = stacks[action.thread].len();
    let mut leave = |stacks: &mut [Vec<OpenCall>], place: usize| {
        let stack = &mut stacks[action.thread];
        if let Some((number, _)) = stack.get(place).copied() {
            // Of several calls of a function the innermost one ends.
            let latest = stack.iter().rposition(|call| call.0 == number).unwrap();
            stack.remove(latest);
            report(stacks, Event::Call(number, false));
        }
    };
    match action.kind {
        ActionKind::Enters(number) => {
            stacks[action.thread].push((number, None));
            report(stacks, Event::Call(number, true));
        }
        ActionKind::EntersBlock(number) => {
            let Some(call) = stacks[action.thread].last_mut() else { return };
            let entered = block(call.0, number);
            if call.0.0 < WITH_BLOCKS {
                call.1 = Some(entered);
            }
            // A block of no function, and a block of another function, change nothing.
            report(stacks, Event::Block(entered));
            report(stacks, Event::Block(block(FunctionId(WITH_BLOCKS), number)));
        }
        ActionKind::Leaves => leave(stacks, depth.wrapping_sub(1)),
        ActionKind::LeavesOther(_) if depth == 0 => {}
        ActionKind::LeavesOther(place) => leave(stacks, place.index(depth)),
        ActionKind::LeavesMany(count, is_inner) => {
            for left in 1..=count.min(depth) {
                leave(stacks, if is_inner { depth - left } else { 0 });
            }
        }
    }
}

#[derive(Debug, Default)]
struct Plain {
    counts: BTreeMap<(Kind, Owner), u64>,
    clocks: BTreeMap<(Kind, Owner), u64>,
    pages: BTreeMap<(Kind, Owner), BTreeSet<u64>>,
}

impl Plain {
    fn access(&mut self, stacks: &[Vec<OpenCall>], address: u64) {
        for key in keys_of(owners(stacks)) {
            *self.counts.entry(key).or_default() += 1;
            self.pages.entry(key).or_default().insert(address / 4096);
        }
    }

    fn wait(&mut self, stacks: &[Vec<OpenCall>], clocks: u64) {
        keys_of(owners(stacks)).for_each(|key| *self.clocks.entry(key).or_default() += clocks);
    }
}

fn keys_of((own, open): (BTreeSet<Owner>, BTreeSet<Owner>)) -> impl Iterator<Item = (Kind, Owner)> {
    let own = own.into_iter().map(|owner| (Kind::Own, owner));
    own.chain(open.into_iter().map(|owner| (Kind::Inclusive, owner)))
}

fn share(ledger: &Ledger, kind: Kind, owner: Owner) -> Option<&Share> {
    ledger.share_of(owner).map(|shares| &shares[kind as usize])
}

fn keys() -> impl Iterator<Item = (Kind, Owner)> {
    let owners = (0..FUNCTIONS)
        .map(FunctionId)
        .map(Owner::Function)
        .chain([Owner::Outside, Owner::SeveralThreads])
        .chain((0..WITH_BLOCKS).map(|number| Owner::OutsideBlocks(FunctionId(number))))
        .chain(blocks().map(|(block, _)| Owner::Block(block)))
        .chain((0..2 * WITH_BLOCKS).map(Owner::Loop));
    owners.flat_map(|owner| [Kind::Own, Kind::Inclusive].map(|kind| (kind, owner)))
}

proptest! {
    #[test]
    fn accesses_are_counted_for_the_functions_that_are_open(actions in (1usize..4).prop_flat_map(actions)) {
        let (mut split, mut ledger) = (Owners::new(regions()), Ledger::default());
        split.begin(&mut |change| ledger.change(change));
        let (mut stacks, mut plain, mut access_count) = (vec![Vec::new(); 4], Plain::default(), 0);
        let mut clock = 1000;
        ledger.advance(clock);
        for action in actions {
            clock += 5;
            plain.wait(&stacks, 5);
            ledger.advance(clock);
            perform(&mut stacks, action, |_, event| {
                apply(&mut split, action.thread, event, &mut |change| ledger.change(change));
            });
            for _ in 0..action.accesses {
                access_count += 1;
                clock += access_count % 3;
                plain.wait(&stacks, access_count % 3);
                ledger.advance(clock);
                let address = access_count * 0x5_1234 % (1 << 24);
                plain.access(&stacks, address);
                let reads = access_count % 2;
                ledger.access(address, Traffic { reads, writes: 1 - reads, bytes: 64, clocks: 0 });
            }
        }
        ledger.finish();
        for key in keys() {
            let count = plain.counts.get(&key).copied().unwrap_or_default();
            let pages = plain.pages.get(&key).map_or(0, BTreeSet::len) as u64;
            let totals = share(&ledger, key.0, key.1);
            let totals = totals.map(|s| (s.traffic.accesses(), s.pages.len(), s.least, s.most, s.traffic.bytes));
            prop_assert_eq!(totals.unwrap_or_default(), (count, pages, count, count, 64 * count), "{:?}", key);
            let clocks = share(&ledger, key.0, key.1).map_or(0, |share| share.traffic.clocks);
            prop_assert_eq!(clocks, plain.clocks.get(&key).copied().unwrap_or_default(), "{:?}", key);
        }
        prop_assert_eq!(ledger.total.accesses(), access_count);
        for function in (0..WITH_BLOCKS).map(FunctionId) {
            let own = |owner| share(&ledger, Kind::Own, owner).map_or(0, |share| share.traffic.accesses());
            let blocks = (0..BLOCKS).map(|number| own(Owner::Block(block(function, number))));
            let sum = blocks.sum::<u64>() + own(Owner::OutsideBlocks(function));
            prop_assert_eq!(sum, own(Owner::Function(function)));
            let loops: u64 =
                [0, 1].map(|index| own(Owner::Loop(2 * function.0 + index))).iter().sum();
            let outside = own(Owner::Block(block(function, 0))) + own(Owner::OutsideBlocks(function));
            prop_assert_eq!(loops + outside, sum);
        }
    }

    /// Each access is checked against every state that is possible at its time.
    #[test]
    fn bounds_hold_for_every_possible_order_of_calls(
        actions in (1usize..4).prop_flat_map(actions),
        gaps in prop::collection::vec(0u64..12, MAX_ACTIONS),
        accesses in prop::collection::btree_set(0u64..1500, 0..300),
        error in 0u64..20,
    ) {
        let mut stacks = vec![Vec::new(); 4];
        let mut split = Owners::new(regions());
        let (mut clock, mut states, mut changes) = (0, vec![(0, owners(&stacks))], Vec::new());
        split.begin(&mut |change| changes.push((0, 0, change)));
        for (action, gap) in actions.into_iter().zip(gaps) {
            clock += gap + 1;
            perform(&mut stacks, action, |stacks, event| {
                apply(&mut split, action.thread, event, &mut |change| {
                    changes.push((clock, error, change));
                });
                states.push((clock, owners(stacks)));
            });
        }
        let ledger = played(&changes, &accesses);
        let (mut least, mut most) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
        for access in &accesses {
            // The last state that has certainly begun, and all states that may have begun since.
            let certain = states.iter().rposition(|(at, _)| *at == 0 || at + error <= *access).unwrap();
            let possible: Vec<_> = states[certain..].iter()
                .filter(|(at, _)| *at == 0 || at.saturating_sub(error) <= *access).collect();
            for key in keys() {
                let is = |(own, open): &(BTreeSet<Owner>, BTreeSet<Owner>)| match key.0 {
                    Kind::Own => own.contains(&key.1),
                    Kind::Inclusive => open.contains(&key.1),
                };
                *least.entry(key).or_default() += u64::from(possible.iter().all(|(_, state)| is(state)));
                *most.entry(key).or_default() += u64::from(possible.iter().any(|(_, state)| is(state)));
            }
        }
        for key in keys() {
            let bounds = share(&ledger, key.0, key.1).map(|share| (share.least, share.most));
            let plain = [&least, &most].map(|counts| counts.get(&key).copied().unwrap_or_default());
            prop_assert_eq!(bounds.unwrap_or_default(), plain.into(), "{:?}", key);
        }
    }
}

/// Applies changes and accesses in the order of their times.
fn played(changes: &[(u64, u64, Change)], accesses: &BTreeSet<u64>) -> Ledger {
    let mut moments = Vec::new();
    for (clock, error, change) in changes {
        moments.push((clock.saturating_sub(*error), Moment::Earliest, change));
        moments.push((*clock, Moment::Likeliest, change));
        moments.push((clock + error, Moment::Latest, change));
    }
    moments.sort_by_key(|(at, ..)| *at);
    let (mut ledger, mut moments) = (Ledger::default(), moments.into_iter().peekable());
    for access in accesses {
        while let Some((_, moment, change)) = moments.next_if(|(at, ..)| at <= access) {
            ledger.change_at(*change, moment);
        }
        ledger.access(0, Traffic { reads: 1, ..Traffic::default() });
    }
    moments.for_each(|(_, moment, change)| ledger.change_at(*change, moment));
    ledger.finish();
    ledger
}

/// If an exit searched the stack, this test would take 2^40 steps.
#[test]
fn an_exit_costs_the_same_at_any_depth() {
    let (mut owners, mut changes) = (Owners::default(), 0);
    let calls = (0..1 << 20).flat_map(|number| [(number, true); 2]);
    let exits = (0..1 << 20).flat_map(|number| [(number, false); 2]);
    for (number, is_entry) in calls.chain(exits) {
        owners.call(0, FunctionId(number), is_entry, &mut |_| changes += 1);
    }
    // Each function starts and stops as an owner of each kind of accesses, and so does
    // `Owner::Outside`.
    assert_eq!(changes, 4 << 20 | 4);
}

#[test]
fn a_second_thread_costs_the_same_for_any_number_of_open_functions() {
    let (mut owners, mut changes) = (Owners::default(), 0);
    (0..1000).for_each(|number| owners.call(0, FunctionId(number), true, &mut |_| {}));
    for _ in 0..1000 {
        owners.call(1, FunctionId(2000), true, &mut |_| changes += 1);
        owners.call(1, FunctionId(2000), false, &mut |_| changes += 1);
    }
    // The innermost function stops and `Owner::SeveralThreads` starts in both kinds; then the
    // reverse.
    assert_eq!(changes, 6 * 1000);
}

#[test]
fn pages_are_unknown_if_too_many_functions_are_open() {
    let (mut owners, mut ledger) = (Owners::default(), Ledger::default());
    owners.begin(&mut |change| ledger.change(change));
    (0..50_000)
        .for_each(|number| owners.call(0, FunctionId(number), true, &mut |c| ledger.change(c)));
    let traffic = Traffic { reads: 1, ..Traffic::default() };
    (0..1000).for_each(|page| ledger.access(page << 12, traffic));
    owners.call(0, FunctionId(60_000), true, &mut |change| ledger.change(change));
    (0..10).for_each(|page| ledger.access(page << 12, traffic));
    ledger.finish();
    let [own, inclusive] = ledger.share_of(Owner::Function(FunctionId(49_999))).unwrap();
    assert_eq!((own.pages.len(), own.is_without_pages), (1000, false));
    assert_eq!((inclusive.traffic.reads, inclusive.is_without_pages), (1010, true));
    let [_, last] = ledger.share_of(Owner::Function(FunctionId(60_000))).unwrap();
    assert_eq!((last.pages.len(), last.is_without_pages), (10, false));
}
