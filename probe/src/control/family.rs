//! What the kernel says of threads to what is done with the processes they are of: a tagged one, its
//! children and theirs, and the programs they become.
//!
//! Each process with memory of its own is a member: a child is one from before its first instruction on. A
//! process that has another's memory (`vfork`, `posix_spawn`) is a lodger of that member, as its threads
//! are: it stands still when they do. The thread that waits for it stands still meanwhile, or it could not be
//! stopped. A process that becomes another program is a new member.

mod births;
mod leave;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::ending::Ending;
use super::sampler::Sampler;
use super::signal_frames::Delivered;
use super::{Output, Start, TagError, Tagged};
use crate::ptrace::{
    Child, PtraceError, SignalNumber, Standing, Status, Treatment, go_on, listen, thread_group,
    wait,
};
use crate::selection::Selection;

/// Who is told what becomes of tagged processes.
pub trait Keeper {
    /// Functions of a process have been tagged, or taken out; its threads stand still.
    fn changed(&mut self, tagged: &Tagged);

    /// A process has ended, has become another program, or is to go on without tags: then its threads stand
    /// still.
    fn ended(&mut self, tagged: Tagged, ending: Ending);

    /// Where what the tags of one more process leave is to go.
    ///
    /// # Errors
    /// [`TagError::Output`]: then it is not tagged.
    fn output(&mut self, pid: Pid) -> Result<Output, TagError>;

    /// What was made ready for what the tags of a process leave is not needed: it cannot be tagged.
    fn unused(&mut self, pid: Pid);

    /// A process goes on without tags, which were wanted.
    fn untagged(&mut self, pid: Pid, program: &Path, error: &TagError);
}

/// How a process has ended that was ended while a system call was made for it: nothing else can do that.
const UNKNOWN: Ending = Ending::Signaled(SignalNumber(libc::SIGKILL));

/// A process with memory of its own.
enum Member {
    Tagged(Box<Tagged>),
    /// It has become a program, and will stand still before its first instruction.
    Becoming,
    /// It has no tags. What it starts may.
    Untagged,
}

/// Threads that wait at gates cost the program processor time, looks cost us some. They come in crowds, so it is looked
/// the more often the shorter ago the last one has come: after that part of the time, and not more often than this.
const PATIENCE: u32 = 8;
const LEAST: Duration = Duration::from_micros(300);

/// Processes that are followed.
pub(super) struct Family<'k> {
    keeper: &'k mut dyn Keeper,
    /// When programs are tagged that processes become; `None` if the first process is followed only.
    start: Option<Start>,
    selection: Selection,
    share: Option<f64>,
    treatment: Treatment,
    members: BTreeMap<Pid, Member>,
    /// Which member each thread is of.
    threads: BTreeMap<Pid, Pid>,
    /// Children that stand still before their parents have said that they begin.
    early: BTreeMap<Pid, Standing>,
    /// What was heard of threads while others were looked at.
    pending: VecDeque<Status>,
    first: Pid,
    /// How the first process has ended.
    ended: Option<Ending>,
    is_leaving: bool,
    /// When a thread has waited at a gate last, or a program has begun.
    asked: Instant,
}

impl<'k> Family<'k> {
    /// A process whose threads stand still.
    pub fn new(tagged: Tagged, start: Option<Start>, keeper: &'k mut dyn Keeper) -> Self {
        let first = tagged.process.pid;
        Family {
            keeper,
            start,
            selection: tagged.selection.clone(),
            share: tagged.share(),
            treatment: tagged.process.treatment,
            members: BTreeMap::from([(first, Member::Tagged(Box::new(tagged)))]),
            threads: BTreeMap::new(),
            early: BTreeMap::new(),
            pending: VecDeque::new(),
            first,
            ended: None,
            is_leaving: false,
            asked: Instant::now(),
        }
    }

    /// The process that was tagged first.
    pub fn first(&self) -> Pid {
        self.first
    }

    /// How the first process has ended, if all have.
    pub fn ending(&self) -> Option<Ending> {
        self.members.is_empty().then(|| self.ended.unwrap_or(Ending::Detached))
    }

    /// Whether something has been heard that is not looked at yet.
    pub fn has_heard(&self) -> bool {
        !self.pending.is_empty()
    }

    fn tagged(&mut self, pid: Pid) -> Option<&mut Tagged> {
        match self.members.get_mut(&pid) {
            Some(Member::Tagged(tagged)) => Some(tagged),
            _ => None,
        }
    }

    /// What has happened to any thread.
    pub fn next_event(&mut self) -> Result<Option<Status>, PtraceError> {
        if let Some(status) = self.pending.pop_front() {
            return Ok(Some(status));
        }
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        match wait(None, flags) {
            Ok(Status::StillAlive) => Ok(None),
            Ok(status) => Ok(Some(status)),
            Err(Errno::EINTR) => Ok(None),
            Err(Errno::ECHILD) => Err(PtraceError::Ended(self.first)),
            Err(error) => Err(PtraceError::new(self.first, "wait")(error)),
        }
    }

    /// Does what is to be done when something has happened to a thread.
    pub fn event(&mut self, status: Status) -> Result<(), TagError> {
        let Some(thread) = status.thread() else { return Ok(()) };
        let Some(pid) = self.member_of(thread, status)? else { return Ok(()) };
        let done = self.happened(pid, thread, status);
        done.or_else(|error| self.failed(pid, Some(thread), error))
    }

    /// The member that a thread is of; `None` if nothing is to be done about it yet.
    fn member_of(&mut self, thread: Pid, status: Status) -> Result<Option<Pid>, TagError> {
        if let Some(pid) = self.threads.get(&thread) {
            return Ok(Some(*pid));
        }
        let standing = match status {
            Status::Event(_, _, libc::PTRACE_EVENT_EXIT) => {
                self.early.remove(&thread);
                go_on(thread, None)?;
                return Ok(None);
            }
            Status::Stopped(_, signal) => Standing::Signal(signal),
            Status::Event(..) => Standing::Free,
            _ => {
                self.early.remove(&thread);
                return Ok(None);
            }
        };
        let process = thread_group(thread);
        if process == Some(thread) && !self.members.contains_key(&thread) {
            self.early.insert(thread, standing);
            self.settle_orphans();
            return Ok(None);
        }
        let known = |pid: &Pid| self.members.contains_key(pid);
        let pid = process
            .and_then(|pid| Some(pid).filter(known).or_else(|| self.threads.get(&pid).copied()));
        match pid {
            Some(pid) => drop(self.threads.insert(thread, pid)),
            None => go_on(thread, standing.signal())?,
        }
        Ok(pid)
    }

    fn happened(&mut self, pid: Pid, thread: Pid, status: Status) -> Result<(), TagError> {
        match status {
            Status::Exited(_, code) => self.left(pid, thread, Ending::Exited(code)),
            Status::Signaled(_, signal) => self.left(pid, thread, Ending::Signaled(signal)),
            Status::Stopped(_, signal) => self.stopped(pid, thread, signal),
            Status::Event(_, _, libc::PTRACE_EVENT_EXEC) => self.replaced(pid, thread),
            Status::Event(_, _, libc::PTRACE_EVENT_EXIT) => self.ends(pid, thread),
            // A thread that begins, or the process was stopped as a shell stops its jobs.
            Status::Event(_, signal, libc::PTRACE_EVENT_STOP) if signal == Signal::SIGTRAP => {
                self.begins(pid, thread)
            }
            Status::Event(_, _, libc::PTRACE_EVENT_STOP) => Ok(listen(thread)?),
            Status::Event(_, _, event) => {
                if let Some(child) = Child::of(thread, event)? {
                    self.born(pid, child)?;
                }
                let waits =
                    |tagged: &mut Tagged| tagged.lodgers.values().any(|one| *one == Some(thread));
                match self.tagged(pid).is_some_and(waits) {
                    true => Ok(()),
                    false if self.tagged(pid).is_some_and(|tagged| tagged.has_lost(thread)) => {
                        self.standing(pid, Some(thread), |_| Ok(()))
                    }
                    false => Ok(go_on(thread, None)?),
                }
            }
            Status::Continued | Status::StillAlive => Ok(()),
        }
    }

    fn stopped(&mut self, pid: Pid, thread: Pid, signal: SignalNumber) -> Result<(), TagError> {
        let Some(tagged) = self.tagged(pid) else { return Ok(go_on(thread, Some(signal))?) };
        let registers = tagged.process.registers(thread)?;
        tagged.process.spare(thread, signal, &registers)?;
        if tagged.is_lost(thread, &registers) {
            tagged.finish_tag(thread, registers)?;
            // It is heard of the signal once more, without tags.
            self.pending.push_front(Status::Stopped(thread, signal));
            return self.standing(pid, None, |_| Ok(()));
        }
        match tagged.deliver(thread, signal, registers)? {
            Delivered::Whole => Ok(()),
            Delivered::Heard(Status::Event(_, _, libc::PTRACE_EVENT_EXIT)) => {
                self.ends(pid, thread)
            }
            Delivered::Heard(status) => {
                self.pending.push_back(status);
                Ok(())
            }
            Delivered::Unknown { is_fault } => self
                .standing(pid, Some(thread), |tagged| tagged.show_after_search(thread, is_fault)),
        }
    }

    /// A thread stands still because it begins, or was asked to.
    fn begins(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        match self.members.get_mut(&pid) {
            Some(Member::Becoming) => return self.tag_again(pid),
            Some(Member::Tagged(tagged))
                if !tagged.collector.knows(thread) && !tagged.lodgers.contains_key(&thread) =>
            {
                tagged.enter(thread)?;
                if thread_group(thread) != Some(pid) {
                    tagged.lodgers.insert(thread, None);
                }
            }
            _ => {}
        }
        Ok(go_on(thread, None)?)
    }

    /// A thread is stopped where it ends. It is let end before others are stopped, because they may wait for that.
    fn ends(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        let Some(tagged) = self.tagged(pid) else { return Ok(go_on(thread, None)?) };
        tagged.look_at_end(thread);
        let is_lost = tagged.has_lost_any();
        go_on(thread, None)?;
        if is_lost {
            return self.standing(pid, None, |_| Ok(()));
        }
        Ok(())
    }

    /// A thread has ended.
    fn left(&mut self, pid: Pid, thread: Pid, ending: Ending) -> Result<(), TagError> {
        self.threads.remove(&thread);
        if thread == pid {
            self.end(pid, ending);
            return Ok(());
        }
        self.release(pid, thread)
    }

    /// A thread is none of a member any more: one that waits for that goes on.
    fn release(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        let Some(tagged) = self.tagged(pid) else { return Ok(()) };
        match tagged.lodger_left(thread) {
            // With the others, if they stand still.
            Some(waiting) if tagged.process.threads.is_empty() => Ok(go_on(waiting, None)?),
            _ => Ok(()),
        }
    }

    /// A process has become another program.
    fn replaced(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        if thread != pid {
            self.release(pid, thread)?;
            if self.start.is_none() {
                self.threads.remove(&thread);
                return Ok(crate::ptrace::detach(thread, None)?);
            }
        } else {
            if let Some(tagged) = self.tagged(pid) {
                tagged.process.threads = BTreeMap::from([(pid, Standing::InCall)]);
            }
            self.end(pid, Ending::Replaced);
            if self.start.is_none() {
                return Ok(());
            }
        }
        self.members.insert(thread, Member::Becoming);
        self.threads.insert(thread, thread);
        // Still within the call, which sets registers when it returns.
        crate::ptrace::interrupt(thread)?;
        Ok(go_on(thread, None)?)
    }

    /// Does something to a process whose threads stand still meanwhile.
    fn standing(
        &mut self,
        pid: Pid,
        beside: Option<Pid>,
        change: impl FnOnce(&mut Tagged) -> Result<(), TagError>,
    ) -> Result<(), TagError> {
        self.stop(pid, beside)?;
        let Some(Member::Tagged(tagged)) = self.members.get_mut(&pid) else { return Ok(()) };
        let changed = match tagged.has_lost_any() {
            true => tagged.make_plain(),
            false => change(tagged),
        };
        if std::mem::take(&mut tagged.is_changed) {
            self.keeper.changed(tagged);
        }
        // Threads may have been let run for it.
        let entered = tagged.enter_new(&BTreeSet::new());
        self.settle(pid)?;
        changed.and(entered)?;
        self.resume(pid)
    }

    /// Lets a process go on; of those of its threads that are about to get a signal it is heard next.
    fn resume(&mut self, pid: Pid) -> Result<(), TagError> {
        let Some(Member::Tagged(tagged)) = self.members.get_mut(&pid) else { return Ok(()) };
        let gone = tagged.go_on();
        self.pending.extend(tagged.process.heard.drain(..));
        gone
    }

    /// Stops a process; children that began before are looked after, as it was then.
    fn stop(&mut self, pid: Pid, beside: Option<Pid>) -> Result<(), TagError> {
        let Some(Member::Tagged(tagged)) = self.members.get_mut(&pid) else { return Ok(()) };
        let mut standing: BTreeMap<Pid, Standing> =
            beside.map(|thread| (thread, Standing::Free)).into_iter().collect();
        let threads = &self.threads;
        self.pending.retain(|status| match status {
            Status::Stopped(thread, signal) if threads.get(thread) == Some(&pid) => {
                standing.insert(*thread, Standing::Signal(*signal));
                false
            }
            _ => true,
        });
        let gone = self.pending.iter().filter_map(|status| status.thread()).collect();
        let stopped = tagged.stop(standing, &gone);
        self.settle(pid)?;
        stopped
    }

    /// Looks after what was heard, and what has begun, while a process was being stopped.
    fn settle(&mut self, pid: Pid) -> Result<(), TagError> {
        let Some(Member::Tagged(tagged)) = self.members.get_mut(&pid) else { return Ok(()) };
        self.pending.extend(tagged.process.heard.drain(..));
        self.threads.extend(tagged.process.threads.keys().map(|thread| (*thread, pid)));
        let forked = std::mem::take(&mut tagged.process.forked);
        forked.into_iter().try_for_each(|child| self.born(pid, child))
    }

    /// Takes functions out of the processes in which tags cost too much.
    pub fn keep_budgets(&mut self) -> Result<(), TagError> {
        let pids: Vec<Pid> = self.members.keys().copied().collect();
        for pid in pids {
            let out = self.tagged(pid).map(Tagged::too_much).unwrap_or_default();
            if !out.is_empty() {
                let done = self.standing(pid, None, |tagged| tagged.reduce(out));
                done.or_else(|error| self.failed(pid, None, error))?;
            }
        }
        Ok(())
    }

    /// Does what threads wait at gates for. How long they may be left until the next look; `None` if nobody waits.
    pub fn look_at_gates(&mut self) -> Result<Option<Duration>, TagError> {
        let mut watches = false;
        let pids: Vec<Pid> = self.members.keys().copied().collect();
        for pid in pids {
            let Some(tagged) = self.tagged(pid).filter(|tagged| tagged.watches_gates()) else {
                continue;
            };
            watches = true;
            if tagged.is_asked() {
                let passed = self.standing(pid, None, Tagged::pass);
                passed.or_else(|error| self.failed(pid, None, error))?;
                self.asked = Instant::now();
            }
        }
        let since = self.asked.elapsed();
        Ok(watches.then(|| (since / PATIENCE).max(LEAST)))
    }

    /// Looks for seccomp filters that came after the tags.
    pub fn watch_filters(&mut self) -> Result<(), TagError> {
        let pids: Vec<Pid> = self.members.keys().copied().collect();
        for pid in pids {
            if self.tagged(pid).is_some_and(Tagged::has_new_filters) {
                let judged = self.standing(pid, None, Tagged::judge_filters);
                judged.or_else(|error| self.failed(pid, None, error))?;
            }
        }
        Ok(())
    }

    /// Looks at where the threads of the first process are, if it is time for that.
    pub fn look(&mut self, sampler: &mut Sampler) -> Result<(), TagError> {
        if !sampler.is_time() {
            return Ok(());
        }
        let first = self.first;
        let Some(tagged) = self.tagged(first) else { return Ok(()) };
        let looked = sampler.look(tagged);
        self.settle(first)?;
        looked.or_else(|error| self.failed(first, None, error))
    }
}
