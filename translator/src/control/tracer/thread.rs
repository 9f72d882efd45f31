//! Moves single threads into the cache and out of it, and stores the state of each thread.

use std::sync::atomic::Ordering;
use std::time::Instant;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::clock;
use hmtt_probe::ptrace::{SignalNumber, interrupt, resume, resume_to_call, sequence_area};
use libc::user_regs_struct;
use nix::unistd::Pid;

use super::super::calls::Need;
use super::super::error::ControlError;
use super::super::original::R15;
use super::Tracer;
use crate::layout::{area, ring};
use crate::monitor::Finished;

/// Maximum number of bytes of the instruction of a system call.
pub(super) const MAX_CALL_BYTES: u64 = 15;

/// Instructions whose only effect is a signal, raised after the instruction: `int3`, `int 3`,
/// `int1`.
const TRAPS: [&[u8]; 3] = [&[0xcc], &[0xcd, 3], &[0xf1]];
const LONGEST_TRAP: usize = 2;

/// State of a thread of the process.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Number of the thread's area; `None` if the thread is always native.
    pub area: Option<usize>,
    /// The ring's pointer while the thread is native.
    pub pointer: u64,
    /// Whether the thread is native, that is, executes original code.
    pub is_native: bool,
    /// What the thread's native system call needs; `None` outside of such a call.
    pub call: Option<Need>,
    /// Time at which that call began, in ticks of the time stamp counter.
    pub called_at: u64,
    /// Time at which the thread became native, in ticks of the time stamp counter.
    pub paused_at: u64,
    /// While the thread is being stopped for a request of the translator: whether it is about to
    /// make a system call.
    pub request: Option<bool>,
    /// Processor time of the thread when it was added, in nanoseconds.
    pub processor_ns: u64,
    /// Address at which the thread became native, because the code there is not translated, and the
    /// thread's processor time at that moment.
    pub native_since: Option<(RunAddr, u64)>,
    /// The value of `has_run_natively` before the thread became native at that address.
    pub had_run_natively: bool,
    /// Whether the thread has executed code that is not translated since it was last in the cache.
    pub has_run_natively: bool,
    /// Address of the system call at the end of the last block, if the thread became native only
    /// for this call.
    pub only_call: Option<u64>,
    /// The base of `fs` that the thread's ring states.
    pub fs_base: Option<u64>,
    /// Time of the thread's last stop before the delivery of a signal.
    pub signal_at: Option<Instant>,
    /// Whether the thread was moved to the abort handler of a restartable sequence. It runs
    /// natively from there.
    pub has_aborted: bool,
    /// Whether the thread was taken out of a group-stop for some steps, and must stop again.
    pub has_left_group_stop: bool,
    /// Whether the thread makes the system call that returns from a signal handler
    /// (rt_sigreturn(2)).
    pub is_returning: bool,
}

/// Processor time of a thread in nanoseconds (Linux, `Documentation/scheduler/sched-stats.rst`); 0
/// if it has ended.
pub(super) fn processor_time(pid: Pid, thread: Pid) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
    let first = text.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    first.unwrap_or(0)
}

impl Tracer {
    /// Adds a thread of the process. It gets an area if there is a free one. `can_call`: whether
    /// the thread can make system calls to map an area.
    pub fn add_thread(&mut self, thread: Pid, can_call: bool) {
        let number = self.shared.rings.free_area();
        let number = number.filter(|number| self.is_area_mapped(*number, thread, can_call));
        let rings = &self.shared.rings;
        let processor_ns = processor_time(self.process.pid, thread);
        let mut added = Thread { area: number, is_native: true, processor_ns, ..Thread::default() };
        match number {
            Some(number) => {
                let (area, now) = (rings.areas.area(number), clock::tsc());
                added.pointer = area.prepare();
                area.begin_time(now);
                added.paused_at = now;
                self.shared.handed_over[number].store(false, Ordering::SeqCst);
                rings.threads[number].store(thread.as_raw(), Ordering::SeqCst);
                rings.used[number].store(true, Ordering::SeqCst);
                self.seen.threads += 1;
            }
            None => self.seen.native_threads += 1,
        }
        self.threads.insert(thread, added);
    }

    /// Adds the processor time of a thread that is no longer followed.
    pub fn add_processor_time(&mut self, thread: Pid) {
        let now = processor_time(self.process.pid, thread);
        let Some(state) = self.threads.get_mut(&thread) else { return };
        self.seen.processor_ns += now.saturating_sub(state.processor_ns);
        state.processor_ns = now;
        if let Some((at, since)) = state.native_since.take() {
            self.shared.translation().add_native_time(at, now.saturating_sub(since));
        }
    }

    /// Tells the monitor to read a thread's ring to its end, because the thread has ended or stays
    /// native. `pointer`: the ring's pointer, if known.
    pub fn finish_ring(&mut self, thread: Pid, pointer: Option<u64>) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        if let Some(number) = state.area.take() {
            let area = self.shared.rings.areas.area(number);
            let at = if state.is_native { state.paused_at } else { area.paused_at(clock::tsc()) };
            let ticks = area.ticks_until(at);
            // The monitor ends only after this sender is dropped, so sending succeeds.
            let _ = self.finished.send(Finished { area: number, pointer, ticks });
            self.shared.rings.wake_monitor();
        }
    }

    /// Removes the request for which a thread was interrupted. Returns the number of the thread's
    /// area, and whether the thread is about to make a system call. If the thread is not made
    /// native now, the translator sees its request again.
    pub fn take_request(&mut self, thread: Pid) -> Option<(usize, bool)> {
        let state = self.threads.get_mut(&thread)?;
        let (area, is_call) = (state.area?, state.request.take()?);
        self.shared.handed_over[area].store(false, Ordering::SeqCst);
        Some((area, is_call))
    }

    /// Moves a stopped native thread into the cache, if its next instruction can be translated;
    /// otherwise the thread stays native. The next block is noted as a start, unless the thread has
    /// executed nothing but the system call of the last block.
    pub fn enter(&mut self, thread: Pid) -> Result<(), ControlError> {
        let registers = self.process.thread_at_event(thread).registers()?;
        let Some(state) = self.threads.get_mut(&thread) else { return Ok(()) };
        let Some(number) = state.area else { return Ok(()) };
        let follows = state
            .only_call
            .take()
            .is_some_and(|call| (1..=MAX_CALL_BYTES).contains(&registers.rip.wrapping_sub(call)));
        // A thread that was moved to an abort handler stays native. In the cache, it could come to
        // the restartable sequence and be moved to the abort handler again and again.
        if std::mem::take(&mut state.has_aborted) {
            state.has_run_natively = true;
            return Ok(());
        }
        let at = RunAddr(registers.rip);
        let mut entry = self.shared.translation().entry(at);
        if self.shared.translation().is_wanting() {
            self.map_arena(thread)?;
            entry = self.shared.translation().entry(at);
        }
        let mut translation = self.shared.translation();
        let Some(state) = self.threads.get_mut(&thread) else { return Ok(()) };
        let now = match (&entry, state.native_since) {
            (Ok(_), None) => 0,
            _ => processor_time(self.process.pid, thread),
        };
        if let Some((at, since)) = state.native_since.take() {
            translation.add_native_time(at, now.saturating_sub(since));
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(why) => {
                translation.add_native(at, &why);
                state.native_since = Some((at, now));
                state.had_run_natively = std::mem::replace(&mut state.has_run_natively, true);
                return Ok(());
            }
        };
        let area = self.shared.rings.areas.area(number);
        if !follows && self.records_accesses {
            state.pointer = area.mark_start_unit(state.pointer);
        } else if !follows {
            state.pointer = area.mark_start(state.pointer);
        }
        if self.records_accesses && std::mem::take(&mut state.has_run_natively) {
            state.pointer = area.write_unit(state.pointer, ring::note(ring::NATIVE, 0).into());
        }
        if self.records_accesses && state.fs_base != Some(registers.fs_base) {
            let noted = area.note_fs_base(state.pointer, registers.fs_base);
            if noted > state.pointer {
                state.fs_base = Some(registers.fs_base);
                area.set(area::BASE, registers.fs_base);
            }
            state.pointer = noted;
        }
        area.set(area::save(R15), registers.r15);
        area.word(area::ASK).store(area::IDLE, Ordering::SeqCst);
        area.end_pause(state.paused_at, clock::tsc());
        self.shared.handed_over[number].store(false, Ordering::SeqCst);
        self.process.thread_at_event(thread).set_registers(user_regs_struct {
            rip: entry.address.0,
            r15: if self.has_rings { state.pointer } else { registers.r15 },
            gs_base: area.address.0,
            ..registers
        })?;
        state.is_native = false;
        state.call = None;
        Ok(())
    }

    /// Lets a thread continue, either in the cache, or natively until its next system call. If a
    /// stop of the thread is still requested, it is requested again, because the current stop has
    /// cancelled the request (Linux, `ptrace_stop`).
    pub fn continue_thread(
        &self,
        thread: Pid,
        signal: Option<SignalNumber>,
    ) -> Result<(), ControlError> {
        let state = self.threads.get(&thread);
        let is_native = state.is_some_and(|one| one.is_native);
        if state.is_some_and(|one| one.request.is_some() || one.has_left_group_stop) {
            interrupt(thread)?;
        }
        if is_native {
            resume_to_call(thread, signal)?
        } else {
            resume(thread, signal)?
        }
        Ok(())
    }

    /// Makes a thread in the cache native, only for the system call at the end of its block.
    /// `call`: address of the system call.
    pub fn become_native_for_call(
        &mut self,
        thread: Pid,
        now: &user_regs_struct,
        original: user_regs_struct,
        call: u64,
    ) -> Result<(), ControlError> {
        self.become_native(thread, now, original)?;
        if let Some(state) = self.threads.get_mut(&thread) {
            state.only_call = Some(call);
        }
        Ok(())
    }

    /// For a thread that is stopped before the delivery of a signal: the address at which it became
    /// native, if it has executed nothing but a trap there, and so has made no access natively.
    /// `None` otherwise.
    pub fn raised_at(&self, thread: Pid) -> Result<Option<RunAddr>, ControlError> {
        let native_since = self.threads.get(&thread).and_then(|state| state.native_since);
        let Some((at, _)) = native_since else { return Ok(None) };
        let at_event = self.process.thread_at_event(thread);
        let executed = at_event.registers()?.rip.wrapping_sub(at.0);
        if executed == 0 {
            return Ok(Some(at));
        }
        let mut code = [0; LONGEST_TRAP];
        let bytes = usize::try_from(executed).ok().and_then(|bytes| code.get_mut(..bytes));
        let Some(bytes) = bytes else { return Ok(None) };
        let is_read = at_event.read(at, bytes).is_ok();
        Ok((is_read && TRAPS.contains(&&*bytes)).then_some(at))
    }

    /// Undoes the count of a thread that became native at `at`: a signal moves it away before it
    /// has executed anything there.
    pub fn discount_raised(&mut self, thread: Pid, at: Option<RunAddr>) {
        let Some((state, at)) = self.threads.get_mut(&thread).zip(at) else { return };
        state.native_since = None;
        state.has_run_natively = state.had_run_natively;
        self.shared.translation().discount_native(at);
    }

    /// Moves a thread that has left the cache within a restartable sequence to the sequence's abort
    /// handler. The kernel does not do that, because it has seen the thread outside of the
    /// sequence. Returns whether the thread was moved.
    fn abort_sequence_at(&self, thread: Pid, address: RunAddr) -> Result<bool, ControlError> {
        let abort = self.shared.translation().abort_of(address);
        match abort.zip(sequence_area(thread)) {
            Some((abort, area)) => Ok(self.process.go_to_abort(thread, area, abort)?),
            None => Ok(false),
        }
    }

    /// Makes a thread in the cache native: sets its original registers, and updates its state.
    /// `now`: its registers in the cache.
    pub fn become_native(
        &mut self,
        thread: Pid,
        now: &user_regs_struct,
        original: user_regs_struct,
    ) -> Result<(), ControlError> {
        self.process.thread_at_event(thread).set_registers(original)?;
        let has_aborted = self.abort_sequence_at(thread, RunAddr(original.rip))?;
        let Some(state) = self.threads.get_mut(&thread) else { return Ok(()) };
        state.has_aborted = has_aborted;
        if self.has_rings {
            state.pointer = now.r15;
        }
        state.is_native = true;
        state.call = None;
        state.request = None;
        state.only_call = None;
        if let Some(number) = state.area {
            // The translator answers only while it holds this lock.
            let _translation = self.shared.translation();
            let area = self.shared.rings.areas.area(number);
            state.paused_at = area.paused_at(clock::tsc());
            area.word(area::ASK).store(area::IDLE, Ordering::SeqCst);
            self.shared.handed_over[number].store(false, Ordering::SeqCst);
        }
        Ok(())
    }
}
