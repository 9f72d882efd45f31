//! Removes the tags of functions that cost too much, while the process runs.
//!
//! The cost is estimated, not measured: the number of calls of each function in an interval, times
//! the cost of a call with this output. The sum is compared with the processor time of the process
//! in the interval. The functions with the most calls are removed first: they are small, and a
//! single call of such a function carries the least information.

use hmtt_files::tag_log::FunctionId;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};

use super::{TagError, Tagged, Tags, patch, thread_return};
use crate::ptrace::{PtraceError, Stopped};
use crate::stubs::Sink;

/// Cost of a call in nanoseconds: the two tags with their jumps. The values are slightly above the
/// measured ones, because the program's own instructions run less well beside tags
/// (docs/benchmarks.md).
const COUNT_NS: f64 = 0.7;
const ORDER_NS: f64 = 3.0;
const TIME_NS: f64 = 22.0;
/// Fraction of the budget that removal aims at, so that functions slightly below it are not removed
/// right afterwards.
const AIM: f64 = 0.7;
/// Shortest processor time for an estimate, in nanoseconds.
const LEAST_NS: f64 = 5e6;

/// Limit for the cost of tags.
#[derive(Debug)]
pub(super) struct Budget {
    /// Allowed cost, as a share of the processor time without tags.
    share: f64,
    call_ns: f64,
    clock: ClockId,
    /// Processor time and calls at the start of the interval.
    cpu_ns: f64,
    /// Calls of each function, in the order of the functions.
    calls: Vec<u64>,
}

/// A function whose tags were removed because they cost too much.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovedFunction {
    /// Number of the function in events.
    pub id: FunctionId,
    /// Calls of the function and starts of its blocks, per second of processor time.
    pub calls_per_second: f64,
}

impl Budget {
    fn cpu_ns(&self) -> nix::Result<f64> {
        let time = clock_gettime(self.clock)?;
        Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
    }

    /// Selects the functions whose tags are to be removed now. `calls`: calls of each function
    /// since the start.
    fn over_budget(&mut self, calls: &[(FunctionId, u64)]) -> nix::Result<Vec<RemovedFunction>> {
        let cpu_ns = self.cpu_ns()?;
        let spent = cpu_ns - self.cpu_ns;
        if spent < LEAST_NS {
            return Ok(Vec::new());
        }
        let before = self.calls.iter().copied().chain(std::iter::repeat(0));
        let since = calls.iter().zip(before);
        let since = since.map(|((id, now), before)| (now.saturating_sub(before), *id));
        let mut rates: Vec<(u64, FunctionId)> = since.collect();
        (self.cpu_ns, self.calls) = (cpu_ns, calls.iter().map(|(_, calls)| *calls).collect());
        let cost = |calls: u64| calls as f64 * self.call_ns;
        let mut tags: f64 = rates.iter().map(|(calls, _)| cost(*calls)).sum();
        // Processor time of the process without its tags.
        let program = (spent - tags).max(spent * 0.1);
        if tags <= self.share * program {
            return Ok(Vec::new());
        }
        rates.sort_unstable_by(|one, other| other.cmp(one));
        let mut out = Vec::new();
        for (calls, id) in rates {
            if tags <= AIM * self.share * program || calls == 0 {
                break;
            }
            tags -= cost(calls);
            out.push(RemovedFunction { id, calls_per_second: calls as f64 * 1e9 / spent });
        }
        Ok(out)
    }
}

impl Tagged {
    /// Limits the cost of tags to a share of the program's processor time.
    ///
    /// # Errors
    /// [`TagError::NoBudget`] if calls are not counted.
    pub fn set_budget(&mut self, share: f64) -> Result<(), TagError> {
        let call_ns = match self.tags.code.sink {
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

    /// The limit, as a share of the processor time without tags.
    pub(super) fn share(&self) -> Option<f64> {
        self.budget.as_ref().map(|budget| budget.share)
    }

    /// Functions whose tags cost too much and are to be removed; the process runs.
    pub(super) fn functions_over_budget(&mut self) -> Vec<RemovedFunction> {
        let is_untagged = self.is_untagged();
        let Some(budget) = self.budget.as_mut().filter(|_| !is_untagged) else { return Vec::new() };
        let calls = self.tags.collector.calls();
        let code = &self.tags.code;
        let calls = code.functions.iter().map(|patched| (patched.id, patched.events(&calls)));
        // A process that has just ended has no clock.
        let out = budget.over_budget(&calls.collect::<Vec<_>>()).unwrap_or_default();
        // The function that unwinders call must stay changed as long as any tag exists.
        let stays = |id: FunctionId| code.function(id).is_some_and(|function| function.looks_up);
        let is_in = |out: &RemovedFunction| {
            !stays(out.id) && self.tags.removed.iter().all(|removed| removed.id != out.id)
        };
        let mut out: Vec<RemovedFunction> = out.into_iter().filter(is_in).collect();
        self.add_dependents(&mut out);
        out
    }

    /// Adds the functions that depend on a removed one: their jumps are written within its moved
    /// instructions, which are restored.
    fn add_dependents(&self, out: &mut Vec<RemovedFunction>) {
        let mut checked = 0;
        while let Some(RemovedFunction { id: host, .. }) = out.get(checked).cloned() {
            checked += 1;
            let Some(host) = self.tags.code.function(host) else { continue };
            let rate = |at: usize| {
                let budget = self.budget.as_ref()?;
                Some(*budget.calls.get(at)? as f64 * 1e9 / budget.cpu_ns)
            };
            for (at, dependent) in self.tags.code.functions.iter().enumerate() {
                let is_removed = |removed: &RemovedFunction| removed.id == dependent.id;
                let stays = !out.iter().chain(&self.tags.removed).any(is_removed);
                if stays && !std::ptr::eq(host, dependent) && host.overlaps_jumps_of(dependent) {
                    let calls_per_second = rate(at).unwrap_or_default();
                    out.push(RemovedFunction { id: dependent.id, calls_per_second });
                }
            }
        }
    }

    /// Functions whose tags were removed because they cost too much.
    pub fn removed_functions(
        &self,
    ) -> impl Iterator<Item = (&RemovedFunction, &crate::elf::Function)> {
        let code = &self.tags.code;
        let function = |one: &RemovedFunction| code.function(one.id).map(|it| &it.function);
        self.tags.removed.iter().filter_map(move |one| Some((one, function(one)?)))
    }
}

impl Tags {
    /// Removes the tags of functions; all threads are stopped.
    pub(super) fn remove_functions(
        &mut self,
        process: &mut Stopped<'_>,
        out: Vec<RemovedFunction>,
    ) -> Result<(), TagError> {
        let code = &self.code;
        // A dependent function is listed behind the function that it depends on, and is removed
        // before it.
        let leaving = out.iter().rev();
        let leaving: Vec<_> = leaving.filter_map(|removed| code.function(removed.id)).collect();
        for function in &leaving {
            // A jump that the program has overwritten is reported when all tags are removed.
            patch::restore(process, std::slice::from_ref(*function))?;
        }
        code.move_out_of_stubs(process, |rip| {
            leaving.iter().any(|function| function.stubs.contains(&rip))
        })?;
        thread_return::return_threads(process, &leaving)?;
        code.move_out_of_stubs(process, |rip| {
            leaving.iter().any(|function| function.stubs.contains(&rip))
        })?;
        self.removed.extend(out);
        self.is_changed = true;
        Ok(())
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
    fn functions_with_most_calls_are_removed_first_until_the_budget_is_met() {
        let mut spin = 0u64;
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(30) {
            spin = spin.wrapping_add(1);
        }
        std::hint::black_box(spin);
        let mut tight = budget(0.05);
        let spent = tight.cpu_ns().unwrap();
        // The functions cost a hundredth, a tenth and nothing of the time so far.
        let calls = [(spent / 1000.0) as u64, (spent / 100.0) as u64, 0];
        let calls = [0, 1, 2].map(|at| (FunctionId(10 * at), calls[at as usize]));
        let out = tight.over_budget(&calls).unwrap();
        assert_eq!(out.iter().map(|removed| removed.id).collect::<Vec<_>>(), [FunctionId(10)]);
        assert_eq!(budget(0.5).over_budget(&calls).unwrap(), []);
    }
}
