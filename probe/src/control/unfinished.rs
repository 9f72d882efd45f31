//! A thread that is about to get a signal within a tag of a log to one that has written its record before.

use nix::unistd::Pid;

use super::boundaries::Stack;
use super::collector::Collector;
use super::shared::tsc;
use super::{TagError, Tagged};
use crate::ptrace::Process;
use crate::stubs::Sink;
use crate::stubs::unfinished::{Memory, REST_BYTES, Rest, State};

impl Memory for &Process {
    fn read(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        Process::read(self, address, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        Process::write(self, address, bytes).ok()
    }
}

impl Tagged {
    /// Does what is left of a tag, if the thread, which stands still, has found a place for its record.
    /// `registers`: those it has. Its registers then; `None` if nothing was left.
    pub(super) fn finish_tag(
        &self,
        thread: Pid,
        registers: libc::user_regs_struct,
    ) -> Result<Option<libc::user_regs_struct>, TagError> {
        let (Sink::Log(shape), Collector::Log(log)) = (self.sink, &self.collector) else {
            return Ok(None);
        };
        let libc::user_regs_struct { rip, rsp, rax, rdx, r11, eflags: rflags, gs_base: gs, .. } =
            registers;
        // A moved instruction, or where a tag begins or ends: nothing is to be done, and nothing is read for that.
        if self.stub_at(rip).is_some_and(|stub| stub.tag_around(rip).is_none()) {
            return Ok(None);
        }
        let Some(area) = self.areas.iter().find(|area| area.contains(&rip)) else {
            return Ok(None);
        };
        let mut code = [0; REST_BYTES];
        let code = &mut code[..REST_BYTES.min((area.end - rip) as usize)];
        self.process.read(rip, code)?;
        let mut state = State { rip, rsp, rax, rdx, r11, rflags, gs };
        let rest = Rest::of(code, &state, &shape).filter(|_| log.shared().holds(r11));
        let Some(rest) = rest else { return Ok(None) };
        // Where it cannot be done to its end, the thread does what is left.
        let _ = rest.run(&mut state, tsc(), &mut Stack::new(&self.process, rsp));
        let State { rip, rax, rdx, r11, .. } = state;
        let registers = libc::user_regs_struct { rip, rax, rdx, r11, ..registers };
        self.process.set_registers(thread, registers)?;
        Ok(Some(registers))
    }

    /// The same for all threads, which stand still.
    pub(super) fn finish_tags(&self) {
        for thread in self.process.threads.keys() {
            // One that has been killed meanwhile writes nothing any more.
            let _ = self.process.registers(*thread).map(|now| self.finish_tag(*thread, now));
        }
    }
}
