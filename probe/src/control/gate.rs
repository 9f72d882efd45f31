//! Places that a thread must not pass unnoticed, to a thread that stands still there.
//!
//! A gate is a stub that sends its own thread a signal that is ignored by default. A traced thread stops at
//! it; if nobody traces it any more, nothing happens: a controller that dies leaves no trap behind.

use std::ops::Range;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::loaded::Loaded;
use super::patch::{self, Patched, Plan};
use super::shared::Shared;
use super::unwind::Described;
use super::{TagError, Tagged, areas};
use crate::disassembly::{Grain, Refusal};
use crate::elf::Function;
use crate::ptrace::Process;
use crate::stubs::Sink;
use crate::stubs::tags::GATE_SAVED;

/// The signal.
pub(super) const SIGNAL: Signal = Signal::SIGURG;
/// Bytes of a saved register.
const REGISTER_BYTES: u64 = 8;

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
        let plan = patch::plan(loaded, chosen, Sink::Gate);
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

    /// What the gate is for that a thread has just stopped in, if it is in one.
    pub(super) fn gate_of(&self, thread: Pid) -> Result<Option<Purpose>, TagError> {
        let rip = self.process.registers(thread)?.rip;
        let stops = |gate: &&Gate| gate.purpose != Purpose::Unwinder && gate.stubs.contains(&rip);
        Ok(self.gates.iter().find(stops).map(|gate| gate.purpose))
    }

    /// Does what a thread has come to a gate for; all threads stand still.
    pub(super) fn pass(&mut self, thread: Pid, purpose: Purpose) -> Result<(), TagError> {
        if purpose == Purpose::Main {
            self.back_to_main(thread)?;
            self.begin()
        } else {
            self.tag_libraries()
        }
    }

    /// Takes the gate at `main` out: its thread is before the first instruction again.
    fn back_to_main(&mut self, thread: Pid) -> Result<(), TagError> {
        let is_main = |gate: &mut Gate| gate.purpose == Purpose::Main;
        for Gate { patched, stubs, .. } in self.gates.extract_if(.., is_main) {
            self.areas.push(stubs);
            patch::restore(&self.process, std::slice::from_ref(&patched))?;
            let mut registers = self.process.registers(thread)?;
            let mut saved = [[0; REGISTER_BYTES as usize]; GATE_SAVED];
            self.process.read(registers.rsp, saved.as_flattened_mut())?;
            let [r11, rcx, rdx, rsi, rdi, rax] = saved.map(u64::from_le_bytes);
            registers.rsp += GATE_SAVED as u64 * REGISTER_BYTES;
            registers = libc::user_regs_struct {
                r11,
                rcx,
                rdx,
                rsi,
                rdi,
                rax,
                rip: patched.address(),
                ..registers
            };
            self.process.set_registers(thread, registers)?;
        }
        Ok(())
    }
}
