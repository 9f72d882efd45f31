//! Finds the original registers of threads that are stopped in the cache.
//!
//! Most instructions of the cache have a known original state. If a thread is stopped at an
//! instruction without a known state, the controller executes the following instructions in place
//! of the thread, up to the next known state ([`emulation`](crate::emulation)). If the emulation
//! fails, the controller steps the thread to that state. A signal that is pending is delivered
//! after the steps. All signals are blocked meanwhile, except SIGSTOP. A SIGSTOP stops all threads
//! of the process. Only the stepped thread continues, until its steps are done. It stops again when
//! it is resumed.

use std::sync::atomic::Ordering;

use hmtt_files::access_trace::NOT_BEGUN;
use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{PtraceError, Status, StopState, StoppedThread, step, wait};
use libc::user_regs_struct;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::error::ControlError;
use super::original::{original, register};
use super::tracer::Tracer;
use crate::emulation::{Fields, MOST_BYTES, Thread};
use crate::layout::{PAGE_BYTES, area, ring};
use crate::recorded::{Content, Slot};
use crate::shared::Area;
use crate::state::Point;

/// Maximum number of steps until an instruction with a known state.
const STEPS: usize = 200;

/// Waits for the next event of a thread. A signal to the controller does not end the wait.
pub(super) fn wait_uninterrupted(thread: Pid) -> nix::Result<Status> {
    loop {
        match wait(Some(thread), WaitPidFlag::__WALL) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Memory and area of a stopped thread, for the emulation of generated code.
struct ThreadFields<'a> {
    stopped: &'a StoppedThread<'a>,
    area: Area<'a>,
}

/// The offset of a field of the area. `None` if the thread has computed an offset that is not a
/// field.
fn checked(offset: u64, bytes: usize) -> Option<u32> {
    let is_field = offset.is_multiple_of(bytes as u64) && offset < area::FIELD_BYTES;
    is_field.then_some(offset as u32)
}

impl Fields for ThreadFields<'_> {
    fn load(&self, address: u64, bytes: usize) -> Option<u64> {
        let mut value = [0; 8];
        self.stopped.read(RunAddr(address), value.get_mut(..bytes)?).ok()?;
        Some(u64::from_le_bytes(value))
    }

    fn field(&self, offset: u64, bytes: usize) -> Option<u64> {
        let offset = checked(offset, bytes)?;
        match bytes {
            4 => Some(self.area.word(offset).load(Ordering::SeqCst).into()),
            8 => Some(self.area.get(offset).any()),
            _ => None,
        }
    }

    fn set_field(&self, offset: u64, bytes: usize, value: u64) -> Option<()> {
        let offset = checked(offset, bytes)?;
        match bytes {
            4 => self.area.word(offset).store(value as u32, Ordering::SeqCst),
            8 => self.area.set(offset, value),
            _ => return None,
        }
        Some(())
    }
}

impl Tracer {
    /// Registers of a stopped thread, and its original registers. `None` if the thread is not in
    /// the cache, or has ended. The thread may be moved to the next instruction with a known state.
    pub(super) fn original_registers(
        &mut self,
        thread: Pid,
    ) -> Result<Option<(user_regs_struct, user_regs_struct)>, ControlError> {
        let now = self.process.thread_at_event(thread).registers()?;
        let rip = RunAddr(now.rip);
        if !self.shared.translation().contains(rip) {
            return Ok(None);
        }
        let is_known = self.shared.translation().state_at(rip).is_some();
        if !is_known && !self.emulate_to_state(thread, &now)? && !self.step_to_state(thread)? {
            return Ok(None);
        }
        let mut now = self.process.thread_at_event(thread).registers()?;
        let area = self.threads.get(&thread).and_then(|one| one.area);
        let point = self.shared.translation().state_at(RunAddr(now.rip));
        let (Some(area), Some(point)) = (area, point) else { return Ok(None) };
        self.record_interruption(thread, &mut now);
        Ok(Some((now, original(&point, &now, self.shared.rings.areas.area(area)))))
    }

    /// Records that a thread leaves the cache before the end of its block, or before it has noted
    /// its last system call. `now`: registers of the thread. If the thread has not written the
    /// number of its block yet, this function writes it. In a superblock, this is the number of the
    /// blocks that the thread has executed. Advances the ring's pointer in `now` past the written
    /// bytes.
    pub(super) fn record_interruption(&mut self, thread: Pid, now: &mut user_regs_struct) {
        let (point, unwritten) = {
            let (translation, at) = (self.shared.translation(), RunAddr(now.rip));
            (translation.state_at(at), translation.unwritten_at(at))
        };
        if let Some(inside) = point.and_then(|point| point.inside) {
            *self.interrupted.entry(inside).or_default() += 1;
        }
        let area = self.threads.get(&thread).and_then(|one| one.area);
        let Some(area) = area.map(|number| self.shared.rings.areas.area(number)) else { return };
        if let Some(number) = unwritten {
            now.r15 = if self.records_accesses {
                let slots = self.slots_of(number).len();
                area.write_number_before_slots(now.r15, number, slots)
            } else {
                area.write_number(now.r15, number)
            };
        }
        if let Some(point) = point.filter(|_| self.records_accesses) {
            self.cut_records(&point, now, area);
        }
        if point.is_some_and(|point| point.unnoted_call) {
            let number = area.word(area::CALL_NUMBER).load(Ordering::SeqCst);
            self.seen.calls.add(thread.as_raw(), number);
        }
    }

    /// The slots that a block, or a path up to this block, stores.
    fn slots_of(&self, number: u32) -> Vec<Slot> {
        let Some((mut recorded, part)) = self.shared.translation().recorded(number) else {
            return Vec::new();
        };
        recorded.slots.truncate(recorded.accesses.up_to(part).1.into());
        recorded.slots
    }

    /// Notes how many instructions of the thread's block or path were executed, and how many
    /// elements a string instruction has processed.
    fn cut_records(&self, point: &Point, now: &mut user_regs_struct, area: Area<'_>) {
        let Some((number, executed)) = point.recorded else { return };
        let slots = self.slots_of(number);
        let mut registers = original(point, now, area);
        let stored = usize::from(point.stored).min(slots.len());
        for (at, slot) in slots.iter().enumerate().skip(stored).filter(|(_, slot)| slot.is_after) {
            // The instruction may not have begun, may have been executed in part, or completely. It
            // has not begun if a slot with a value from before it is not stored yet.
            let is_after = |one: &Slot| one.is_after && one.operation == slot.operation;
            let has_begun = slots.iter().position(is_after).is_some_and(|first| stored >= first);
            let value = match slot.content {
                Content::Sum(sum) if has_begun => {
                    *register(&mut registers, sum.base.number() as u8)
                }
                _ => NOT_BEGUN,
            };
            area.replace_slot(now.r15, (slots.len() - at) as u64, value);
        }
        now.r15 = area.write_unit(now.r15, ring::note(ring::CUT, executed.into()).into());
    }

    /// Executes instructions in place of a thread with these registers, until the thread's original
    /// state is known. Returns whether it is known.
    fn emulate_to_state(
        &mut self,
        thread: Pid,
        now: &user_regs_struct,
    ) -> Result<bool, ControlError> {
        let area = self.threads.get(&thread).and_then(|one| one.area);
        let Some(area) = area.map(|number| self.shared.rings.areas.area(number)) else {
            return Ok(false);
        };
        let stopped = self.process.thread_at_event(thread);
        let fields = ThreadFields { stopped: &stopped, area };
        let mut registers = *now;
        let general = std::array::from_fn(|number| *register(&mut registers, number as u8));
        let mut emulated = Thread { general, rip: now.rip };
        let mut is_known = false;
        for _ in 0..STEPS {
            let mut code = [0; MOST_BYTES];
            // The page after the last instruction of an arena may not be mapped.
            let in_page = (PAGE_BYTES - emulated.rip % PAGE_BYTES).min(MOST_BYTES as u64) as usize;
            let is_read = [MOST_BYTES, in_page]
                .iter()
                .any(|bytes| stopped.read(RunAddr(emulated.rip), &mut code[..*bytes]).is_ok());
            let is_done = is_read && emulated.execute(&code, &fields).is_some();
            is_known = self.shared.translation().state_at(RunAddr(emulated.rip)).is_some();
            if !is_done || is_known {
                break;
            }
        }
        for (number, value) in emulated.general.iter().enumerate() {
            *register(&mut registers, number as u8) = *value;
        }
        registers.rip = emulated.rip;
        stopped.set_registers(registers)?;
        Ok(is_known)
    }

    /// Steps a thread until its original state is known. Returns whether it is known. It is not
    /// known if the thread has ended, another event was received, or [`STEPS`] steps were not
    /// enough.
    fn step_to_state(&mut self, thread: Pid) -> Result<bool, ControlError> {
        let information = ptrace::getsiginfo(thread).ok();
        let mask = self.process.thread_at_event(thread).signal_mask()?;
        let blocked = !(1 << (Signal::SIGTRAP as u32 - 1));
        self.process.thread_at_event(thread).set_signal_mask(blocked)?;
        let (mut is_known, mut signal) = (false, None);
        for _ in 0..STEPS {
            step(thread, signal.take())?;
            match wait_uninterrupted(thread) {
                Ok(Status::Stopped(_, signal)) if signal == Signal::SIGTRAP => {}
                Ok(Status::Stopped(_, stop)) if stop == Signal::SIGSTOP => {
                    signal = Some(stop);
                    continue;
                }
                Ok(stop @ Status::Event(_, _, libc::PTRACE_EVENT_STOP)) => {
                    let _ = self.take_request(thread);
                    if let Some(state) = self.threads.get_mut(&thread) {
                        state.has_left_group_stop =
                            StopState::reported(stop) == StopState::GroupStop;
                    }
                }
                Ok(status) => {
                    // Fails if the thread has ended.
                    let _ = self.process.thread_at_event(thread).set_signal_mask(mask);
                    self.pending.push_back(status);
                    return Ok(false);
                }
                Err(_) => return Ok(false),
            }
            let rip = RunAddr(self.process.thread_at_event(thread).registers()?.rip);
            if self.shared.translation().state_at(rip).is_some() {
                is_known = true;
                break;
            }
        }
        self.process.thread_at_event(thread).set_signal_mask(mask)?;
        if let Some(information) = information {
            let set = ptrace::setsiginfo(thread, &information);
            set.map_err(PtraceError::new(thread, "set the information of a signal"))?;
        }
        Ok(is_known)
    }
}
