//! Compares the counts that the controller reads from overwritten slots with a model. Each count
//! must be the stored value, or 0 and counted as damaged.

use std::collections::BTreeMap;
use std::sync::Arc;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::ThreadCounts;
use hmtt_probe::fuzzing::Counts;
use hmtt_probe::fuzzing::{InheritedMemory, SLOTS, SlotLayout};
use hmtt_probe::stubs::layout::PAGE_BYTES;
use nix::unistd::Pid;

use super::plain::{Plausible, plausible};
use super::tracee::{Tracee, value};
use crate::script::Bytes;

/// Number of functions, larger than fits in a page.
const FUNCTIONS: u64 = 600;
const COUNTER_BYTES: u64 = 8;

/// The controller, the process, and the slot of each thread.
struct Bench {
    counts: Counts,
    tracee: Tracee,
    functions: u64,
    slots: BTreeMap<i32, u64>,
    /// Expected counts of threads that have ended.
    ended: Vec<(i32, Vec<Plausible>)>,
}

pub(super) fn check(mut script: Bytes) {
    let slot_bytes = (FUNCTIONS * COUNTER_BYTES).next_multiple_of(PAGE_BYTES);
    let shape = SlotLayout { slot_bytes, alignment: PAGE_BYTES };
    let (tracee, shared) = Tracee::new(shape, SLOTS);
    let Some(gs) = value(&mut script) else { return };
    // Whatever `gs` was in the child, the child must get an existing slot.
    let inherited =
        InheritedMemory { start: RunAddr(tracee.address(0)), gs: RunAddr(gs), cookie: 0 };
    let counts = Counts::from_memory(Arc::new(shared), (gs & 1 == 0).then_some(inherited));
    let (slots, ended) = Default::default();
    let mut bench = Bench { counts, tracee, functions: 0, slots, ended };
    while bench.act(&mut script).is_some() {}
    bench.read();
}

impl Bench {
    fn act(&mut self, script: &mut Bytes) -> Option<()> {
        let kind = script.byte()?;
        let thread = i32::from(kind >> 3) + 1;
        match kind & 7 {
            0 => self.add(script.number(2)?),
            1 => self.enter(thread),
            2 => self.leave(thread),
            3 => self.read(),
            4 => self.tracee.scribble(script)?,
            _ => {
                let (function, value) = (script.number(2)? % FUNCTIONS, value(script)?);
                let slot = self.slots.get(&thread).copied().unwrap_or(0);
                let at = self.tracee.slot_at(slot) + function * COUNTER_BYTES;
                self.tracee.write(at, &value.to_le_bytes());
            }
        }
        Some(())
    }

    fn add(&mut self, functions: u64) {
        let functions = functions % FUNCTIONS;
        if self.functions + functions <= FUNCTIONS {
            self.counts.add(functions as usize).expect("there is space");
            self.functions += functions;
        }
    }

    fn enter(&mut self, thread: i32) {
        if self.slots.contains_key(&thread) {
            return;
        }
        let slot = self.counts.slots.assign(Pid::from_raw(thread)).expect("there are more");
        // The first slot belongs to no thread.
        assert!((1..SLOTS).contains(&slot) && !self.slots.values().any(|one| *one == slot));
        self.slots.insert(thread, slot);
    }

    fn leave(&mut self, thread: i32) {
        let Some(slot) = self.slots.remove(&thread) else { return };
        self.ended.push((thread, self.plain(slot)));
        self.counts.remove_thread(Pid::from_raw(thread));
        let at = self.tracee.slot_at(slot);
        let bytes = self.tracee.bytes(at, FUNCTIONS * COUNTER_BYTES);
        assert!(bytes.iter().all(|byte| *byte == 0), "the next thread starts with zeros");
    }

    /// Returns the counts in a slot as the model reads them.
    fn plain(&self, slot: u64) -> Vec<Plausible> {
        let at = self.tracee.slot_at(slot);
        let places = (0..self.functions).map(|function| at + function * COUNTER_BYTES);
        places.map(|at| plausible(self.tracee.long(at))).collect()
    }

    fn read(&self) {
        let alive = self.slots.iter().map(|(thread, slot)| (*thread, self.plain(*slot)));
        let expected: Vec<_> = self.ended.iter().cloned().chain(alive).collect();
        let thread_counts = self.counts.read();
        assert_eq!(thread_counts.len(), expected.len());
        for (ThreadCounts { thread, entries, damaged }, (known, plain)) in
            thread_counts.iter().zip(&expected)
        {
            assert_eq!((thread, entries.len()), (known, plain.len()));
            let mut damage = 0..=0;
            for (count, plain) in entries.iter().zip(plain) {
                let is_right = match plain {
                    Plausible::Yes(value) => count == value,
                    Plausible::Unknown(value) => [0, *value].contains(count),
                    Plausible::No => *count == 0,
                };
                assert!(is_right, "{count} of {plain:?}");
                let none = u64::from(matches!(plain, Plausible::No));
                let some = u64::from(!matches!(plain, Plausible::Yes(_)));
                damage = damage.start() + none..=damage.end() + some;
            }
            assert!(damage.contains(damaged), "{damaged} of {damage:?}");
        }
    }
}
