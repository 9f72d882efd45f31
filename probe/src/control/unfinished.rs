//! Finishes the record of a thread that is about to receive a signal within a tag of a log.
//!
//! Otherwise the tags of the signal handler would write their records behind a record that is
//! reserved but not written, and the reader of the buffer would have to wait for that record.

use super::boundaries::Stack;
use super::collector::Collector;
use super::shared::tsc;
use super::{TagError, Tags};
use crate::address::RunAddr;
use crate::ptrace::{Stopped, StoppedThread};
use crate::stubs::Sink;
use crate::stubs::unfinished_tag::{TagRegisters, ThreadMemory, UNFINISHED_BYTES, UnfinishedTag};

impl ThreadMemory for StoppedThread<'_> {
    fn read(&self, address: RunAddr) -> Option<u64> {
        let mut bytes = [0; 8];
        StoppedThread::read(self, address, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn write(&mut self, address: RunAddr, bytes: &[u8]) -> Option<()> {
        StoppedThread::write(self, address, bytes).ok()
    }
}

impl Tags {
    /// Finishes the tag of a stopped thread if the thread has reserved space for its record.
    /// `registers`: registers of the thread. Returns the registers after the tag; `None` if there
    /// was nothing to finish.
    pub(super) fn finish_tag(
        &self,
        thread: StoppedThread<'_>,
        registers: libc::user_regs_struct,
    ) -> Result<Option<libc::user_regs_struct>, TagError> {
        let (Sink::Log(shape), Collector::Log(log)) = (self.code.sink, &self.collector) else {
            return Ok(None);
        };
        let libc::user_regs_struct { rip, rsp, rax, rdx, r11, eflags: rflags, gs_base: gs, .. } =
            registers;
        let here = RunAddr(rip);
        // A thread at a moved instruction, or at the start or end of a tag, has no unfinished
        // record. No memory is read for it.
        if self.code.stub_at(here).is_some_and(|stub| stub.tag_around(here).is_none()) {
            return Ok(None);
        }
        let Some(area) = self.code.areas.iter().find(|area| area.contains(&here)) else {
            return Ok(None);
        };
        let mut code = [0; UNFINISHED_BYTES];
        let code = &mut code[..UNFINISHED_BYTES.min((area.end - here) as usize)];
        thread.read(here, code)?;
        let mut state = TagRegisters { rip, rsp, rax, rdx, r11, rflags, gs };
        let rest = UnfinishedTag::decode(code, &state, &shape)
            .filter(|_| log.shared().contains(RunAddr(r11)));
        let Some(rest) = rest else { return Ok(None) };
        // If the tag cannot be finished here, the thread finishes it itself.
        let _ = rest.run(&mut state, tsc(), &mut Stack::new(thread, rsp));
        let TagRegisters { rip, rax, rdx, r11, .. } = state;
        let registers = libc::user_regs_struct { rip, rax, rdx, r11, ..registers };
        thread.set_registers(registers)?;
        Ok(Some(registers))
    }

    /// Finishes the tags of all threads.
    pub(super) fn finish_tags(&self, process: &Stopped<'_>) {
        for thread in process.threads.keys() {
            let thread = process.thread(*thread);
            // A thread that was killed meanwhile writes no record.
            let _ = thread.registers().map(|now| self.finish_tag(thread, now));
        }
    }
}
