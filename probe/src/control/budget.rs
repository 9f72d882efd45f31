//! Calls of tagged functions to those whose tags cost too much, which are taken out while the process runs.
//!
//! What tags cost is reckoned, not measured: calls of each function in a while, times what a call costs in
//! the sink, beside the processor time that the process has taken in that while. Functions that are called
//! most go first: they are small, and a call of theirs tells least.

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};

use super::{TagError, Tagged, home, patch};
use crate::ptrace::PtraceError;
use crate::stubs::Sink;

/// Nanoseconds that the two tags of a call cost, with the jumps: a little more than measured, since the
/// program's own instructions run less well beside them (docs/benchmarks.md).
const COUNT_NS: f64 = 0.7;
const ORDER_NS: f64 = 3.0;
const TIME_NS: f64 = 22.0;
/// Where the share is aimed at when functions are taken out, so that the next ones are not taken at once.
const AIM: f64 = 0.7;
/// Least processor time that says something, in nanoseconds.
const LEAST_NS: f64 = 5e6;

/// What tags may cost.
#[derive(Debug)]
pub(super) struct Budget {
    /// Of the processor time without them.
    share: f64,
    call_ns: f64,
    clock: ClockId,
    /// Processor time and calls when the reckoning began.
    cpu_ns: f64,
    calls: Vec<u64>,
}

/// A function that was taken out.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenOut {
    /// Which of [`Tagged::functions`].
    pub number: usize,
    /// How often it was called in a second of processor time, and its blocks began.
    pub calls_per_second: f64,
}

impl Budget {
    fn cpu_ns(&self) -> nix::Result<f64> {
        let time = clock_gettime(self.clock)?;
        Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
    }

    /// The functions to be taken out now.
    fn too_much(&mut self, calls: Vec<u64>) -> nix::Result<Vec<TakenOut>> {
        let cpu_ns = self.cpu_ns()?;
        let spent = cpu_ns - self.cpu_ns;
        if spent < LEAST_NS {
            return Ok(Vec::new());
        }
        let before = |number: usize| self.calls.get(number).copied().unwrap_or(0);
        let since = calls.iter().enumerate().map(|(at, now)| (now.saturating_sub(before(at)), at));
        let mut rates: Vec<(u64, usize)> = since.collect();
        (self.cpu_ns, self.calls) = (cpu_ns, calls);
        let cost = |calls: u64| calls as f64 * self.call_ns;
        let mut tags: f64 = rates.iter().map(|(calls, _)| cost(*calls)).sum();
        // The time without tags is what counts.
        let program = (spent - tags).max(spent * 0.1);
        if tags <= self.share * program {
            return Ok(Vec::new());
        }
        rates.sort_unstable_by(|one, other| other.cmp(one));
        let mut out = Vec::new();
        for (calls, number) in rates {
            if tags <= AIM * self.share * program || calls == 0 {
                break;
            }
            tags -= cost(calls);
            out.push(TakenOut { number, calls_per_second: calls as f64 * 1e9 / spent });
        }
        Ok(out)
    }
}

impl Tagged {
    /// Keeps what tags cost below a share of the program's processor time.
    ///
    /// # Errors
    /// [`TagError::NoBudget`] if the sink does not tell who is called how often.
    pub fn set_budget(&mut self, share: f64) -> Result<(), TagError> {
        let call_ns = match self.sink {
            Sink::Count => COUNT_NS,
            Sink::Log(shape) if shape.is_timed => TIME_NS,
            Sink::Log(_) => ORDER_NS,
            _ => return Err(TagError::NoBudget),
        };
        let pid = self.process.pid;
        let clock = clock_getcpuclockid(pid);
        let clock = clock.map_err(PtraceError::new(pid, "read its processor time"))?;
        let mut budget = Budget { share, call_ns, clock, cpu_ns: 0.0, calls: Vec::new() };
        budget.cpu_ns =
            budget.cpu_ns().map_err(PtraceError::new(pid, "read its processor time"))?;
        self.budget = Some(budget);
        Ok(())
    }

    /// What tags may cost.
    pub(super) fn share(&self) -> Option<f64> {
        self.budget.as_ref().map(|budget| budget.share)
    }

    /// The functions to be taken out because tags cost too much; the process runs.
    pub(super) fn too_much(&mut self) -> Vec<TakenOut> {
        let is_plain = self.is_plain();
        let Some(budget) = self.budget.as_mut().filter(|_| !is_plain) else { return Vec::new() };
        let calls = self.collector.calls();
        let calls = self.patched.iter().map(|patched| patched.events(&calls)).collect();
        // One that has just ended has no clock any more.
        let out = budget.too_much(calls).unwrap_or_default();
        // What unwinders call is needed as long as any tag is.
        let stays = |number: usize| self.patched.get(number).is_some_and(|one| one.looks_up);
        let is_in = |out: &TakenOut| {
            !stays(out.number) && self.taken_out.iter().all(|one| one.number != out.number)
        };
        let mut out: Vec<TakenOut> = out.into_iter().filter(is_in).collect();
        self.add_guests(&mut out);
        out
    }

    /// Takes them out; all threads stand still.
    pub(super) fn reduce(&mut self, out: Vec<TakenOut>) -> Result<(), TagError> {
        // A guest is added behind its host, and leaves before.
        let leaving = out.iter().rev();
        let leaving: Vec<_> = leaving.filter_map(|one| self.patched.get(one.number)).collect();
        for one in &leaving {
            // What the program has overwritten is found again when all tags are taken out.
            patch::restore(&self.process, std::slice::from_ref(*one))?;
        }
        self.leave_stubs(|rip| leaving.iter().any(|one| one.stubs.contains(&rip)))?;
        home::go_home(&mut self.process, &leaving)?;
        self.leave_stubs(|rip| leaving.iter().any(|one| one.stubs.contains(&rip)))?;
        self.taken_out.extend(out);
        self.is_changed = true;
        Ok(())
    }

    /// Adds the functions that have jumps where instructions of those that are taken out will be again.
    fn add_guests(&self, out: &mut Vec<TakenOut>) {
        let mut looked_at = 0;
        while let Some(TakenOut { number: host, .. }) = out.get(looked_at).cloned() {
            looked_at += 1;
            let Some(host) = self.patched.get(host) else { continue };
            let rate = |number: usize| {
                let budget = self.budget.as_ref()?;
                Some(*budget.calls.get(number)? as f64 * 1e9 / budget.cpu_ns)
            };
            for (number, guest) in self.patched.iter().enumerate() {
                let is_out = |one: &TakenOut| one.number == number;
                let stays = !out.iter().chain(&self.taken_out).any(is_out);
                if stays && !std::ptr::eq(host, guest) && host.hosts(guest) {
                    let calls_per_second = rate(number).unwrap_or_default();
                    out.push(TakenOut { number, calls_per_second });
                }
            }
        }
    }

    /// Functions whose tags were taken out because they cost too much.
    pub fn taken_out(&self) -> impl Iterator<Item = (&TakenOut, &crate::elf::Function)> {
        let function = |one: &TakenOut| self.patched.get(one.number).map(|it| &it.function);
        self.taken_out.iter().filter_map(move |one| Some((one, function(one)?)))
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;

    fn budget(share: f64) -> Budget {
        let clock = clock_getcpuclockid(Pid::this()).unwrap();
        Budget { share, call_ns: 10.0, clock, cpu_ns: 0.0, calls: vec![0; 3] }
    }

    #[test]
    fn the_most_called_go_first_until_the_rest_is_cheap() {
        let mut spin = 0u64;
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(30) {
            spin = spin.wrapping_add(1);
        }
        std::hint::black_box(spin);
        let mut tight = budget(0.05);
        let spent = tight.cpu_ns().unwrap();
        // A tenth, a hundredth and nothing of the time so far.
        let calls = vec![(spent / 1000.0) as u64, (spent / 100.0) as u64, 0];
        let out = tight.too_much(calls.clone()).unwrap();
        assert_eq!(out.iter().map(|one| one.number).collect::<Vec<_>>(), [1]);
        assert_eq!(budget(0.5).too_much(calls).unwrap(), []);
    }
}
