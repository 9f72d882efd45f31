//! Places that a thread must not pass unnoticed, to a thread that waits there until it was noticed.
//!
//! A gate is a stub in which a thread waits for a word in the shared memory ([`crate::stubs::gate`]). The controller looks
//! at that word at each of its turns, does what the gate is for while all threads are stopped, and lets the thread
//! go on. Invariant: the program makes no system call for it and gets no signal, and goes on in the end whatever becomes
//! of the controller. A thread that did not wait so long is told in a notice.

use std::ops::Range;

use super::described::Described;
use super::loaded::Loaded;
use super::patch::{self, Patched, Plan};
use super::shared::Shared;
use super::{TagError, Tagged, areas, linker};
use crate::disassembly::{Grain, Refusal};
use crate::elf::Function;
use crate::ptrace::Process;
use crate::stubs::Sink;

/// What a gate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The program begins.
    Main,
    /// The dynamic linker has loaded or unloaded something.
    Linker,
    /// None: an unwinder looks a stub up ([`super::unwind`]). Nothing stops there.
    Unwinder,
}

/// A place that is watched.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    pub purpose: Purpose,
    pub patched: Patched,
    pub stubs: Range<u64>,
    described: Described,
    /// What the stubs leave of it.
    free: Range<u64>,
}

impl Gate {
    /// Makes what watches a function of a process whose threads all stand still.
    ///
    /// # Errors
    /// [`TagError::NoGate`] if there is no room for a jump at its entry.
    pub fn new(
        process: &mut Process,
        shared: &Shared,
        loaded: &Loaded,
        function: &Function,
        purpose: Purpose,
    ) -> Result<Gate, TagError> {
        let chosen = |one: &Function| (one.start == function.start).then_some(Grain::Function);
        let plan = patch::plan(loaded, chosen, Sink::Gate { shared: shared.start });
        Gate::with(process, shared, loaded, function, plan, purpose)
    }

    /// The same with what is to be changed.
    pub fn with(
        process: &mut Process,
        shared: &Shared,
        loaded: &Loaded,
        function: &Function,
        plan: Plan,
        purpose: Purpose,
    ) -> Result<Gate, TagError> {
        let stubs = areas::reserve(process, shared, loaded, plan.stub_bytes())?;
        let patch::Planned { patched, refused, code, described } =
            plan.stubs(stubs.start, 0, loaded)?;
        let Some(patched) = patched.into_iter().next() else {
            let reason = refused.into_iter().next().map(|one| one.reason);
            let reason = reason.unwrap_or_else(|| Refusal::NoInstructions.to_string());
            return Err(TagError::NoGate { name: function.name.clone(), reason });
        };
        process.write(stubs.start, &code)?;
        let free = stubs.start + code.len() as u64..stubs.end - areas::COOKIE_BYTES;
        Ok(Gate { purpose, patched, stubs, described, free })
    }
}

impl Tagged {
    /// Puts a gate where it watches.
    pub(super) fn close(&mut self, gate: Gate, loaded: &Loaded) -> Result<(), TagError> {
        self.describe(&gate.described, loaded)?;
        let patched = std::slice::from_ref(&gate.patched);
        self.collector.note(&patch::overwritten(patched))?;
        let patched = gate.patched.clone();
        self.add_list(gate.free.clone(), patched.entries().collect())?;
        self.look_up_again()?;
        self.note_jumps(std::slice::from_ref(&patched));
        self.gates.push(gate);
        patch::tag(&self.process, std::slice::from_ref(&patched))
    }

    /// Whether threads may wait at a gate; tells them that somebody looks.
    pub(super) fn watches_gates(&self) -> bool {
        let stops = |gate: &Gate| gate.purpose != Purpose::Unwinder;
        let watches = !self.is_plain() && self.gates.iter().any(stops);
        if watches {
            self.collector.shared().say_alive();
        }
        watches
    }

    /// Whether a thread waits at a gate, or has given up.
    pub(super) fn is_asked(&self) -> bool {
        !self.is_plain() && self.collector.shared().asked().is_some()
    }

    /// Does what threads wait at gates for; all threads stand still.
    pub(super) fn pass(&mut self) -> Result<(), TagError> {
        let Some(asked) = self.collector.shared().asked() else { return Ok(()) };
        let main = self.gates.iter().position(|gate| gate.purpose == Purpose::Main);
        if let Some(main) = main {
            // A handler that has interrupted the thread in the gate returns to it.
            if !self.is_anybody_in(&self.gates[main].stubs)?
                && !self.collector.shared().has_given_up()
            {
                return Ok(());
            }
            self.back_to_main(main)?;
            self.begin()?;
        } else if !linker::is_changing(&self.process)? {
            self.tag_libraries()?;
        }
        if self.collector.shared().answer(asked) {
            let text = "a thread has waited in vain for its libraries to be tagged: what it called since then has no tags";
            self.notices.push(format!("process {}: {text}", self.process.pid));
        }
        Ok(())
    }

    fn is_anybody_in(&self, stubs: &Range<u64>) -> Result<bool, TagError> {
        for thread in self.process.threads.keys() {
            if stubs.contains(&self.process.registers(*thread)?.rip) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the gate at `main` out: its thread is before the first instruction again.
    fn back_to_main(&mut self, main: usize) -> Result<(), TagError> {
        let Gate { patched, stubs, .. } = self.gates[main].clone();
        patch::restore(&self.process, std::slice::from_ref(&patched))?;
        self.leave_stubs(|rip| stubs.contains(&rip))?;
        self.gates.remove(main);
        self.areas.push(stubs);
        Ok(())
    }
}
