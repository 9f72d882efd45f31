//! Distributes the events of a log to the stacks of their threads, which reconstruct the calls.
//! Counts lost events, marks, and the entries of blocks.

use std::collections::BTreeMap;

use hmtt_files::tag_log::{
    Chunk, Content, Ending, Events, FunctionId, LogError, LossReason, TagEvent,
};

use super::hash::FastMap;
use super::stack::{Exit, Listener, Stacks};

/// A thread of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number of the thread. The kernel can use it again after the thread has ended.
    pub number: u32,
    /// Name of the thread, if the log states it.
    pub name: Option<String>,
    /// Number of events that were read.
    pub events: u64,
    /// Number of events that are missing in the log, by reason.
    pub lost: BTreeMap<LossReason, u64>,
    /// Exits of calls whose entries are not in the log.
    pub unmatched: u64,
    /// Exits through code that several functions share, which have the number of another function
    /// than their call.
    pub shared: u64,
}

/// The entries of a block, over all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntries {
    /// Number of the function that contains the block.
    pub function: FunctionId,
    /// Number of entries.
    pub entries: u64,
}

/// The threads of a log.
#[derive(Debug)]
pub struct Threads<L: Listener> {
    /// Receiver of the calls.
    pub listener: L,
    /// Threads, in the order in which they appear.
    pub threads: Vec<Thread>,
    /// Threads that have not ended, by the kernel's number: the index in `threads`, and the stacks.
    live: BTreeMap<u32, (usize, Stacks<L::Note>)>,
    is_timed: bool,
    /// Entries of each block, by its event number.
    pub blocks: FastMap<FunctionId, BlockEntries>,
    /// Times of the first and of the last event, in ticks. `None` without events, and in logs
    /// without times.
    pub span: Option<(u64, u64)>,
    /// Number of marks on the memory bus.
    pub marks: u64,
    /// Number of chunks of kinds that this version does not know.
    pub unknown: u64,
    /// How tagging ended, if the log states it.
    pub ending: Option<Ending>,
}

impl<L: Listener> Threads<L> {
    /// Starts without threads. `is_timed`: whether events have times. `blocks`: the event numbers
    /// that belong to blocks and not to functions, each with the number of its function.
    pub fn new(
        is_timed: bool,
        blocks: impl IntoIterator<Item = (FunctionId, FunctionId)>,
        listener: L,
    ) -> Self {
        let entries = |(block, function)| (block, BlockEntries { function, entries: 0 });
        Threads {
            listener,
            threads: Vec::new(),
            live: BTreeMap::new(),
            is_timed,
            blocks: blocks.into_iter().map(entries).collect(),
            span: None,
            marks: 0,
            unknown: 0,
            ending: None,
        }
    }

    /// Processes the next chunk.
    ///
    /// # Errors
    /// [`LogError::Event`]: an event in the chunk is not valid. The events before it are processed.
    pub fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), LogError> {
        match chunk.content {
            Content::Events(events) => self.events(chunk.thread, &events)?,
            Content::Lost { count, reason } => {
                let place = self.place(chunk.thread);
                let lost = self.threads[place].lost.entry(reason).or_default();
                *lost = lost.saturating_add(count);
            }
            Content::ThreadStart { name } => {
                // A log with losses may lack the end of the thread that had this number before.
                self.end(chunk.thread, Exit::Ended);
                let place = self.place(chunk.thread);
                self.threads[place].name = Some(String::from_utf8_lossy(name).into_owned());
            }
            Content::ThreadEnd => self.end(chunk.thread, Exit::Ended),
            Content::Clocks(clocks) => self.listener.clocks(&clocks),
            Content::Mark(_) => self.marks += 1,
            Content::End(ending) => self.ending = Some(ending),
            Content::Unknown { .. } => self.unknown += 1,
        }
        Ok(())
    }

    /// Processes an event that does not come from a chunk, such as a tag on the memory bus.
    pub fn event(&mut self, number: u32, event: TagEvent) {
        let place = self.place(number);
        let Some((_, stacks)) = self.live.get_mut(&number) else { return };
        match self.blocks.get_mut(&event.number) {
            Some(block) => {
                block.entries += 1;
                stacks.block(event, block.function, &mut self.listener);
            }
            None => stacks.event(event, &mut self.listener),
        }
        self.threads[place].events += 1;
        let (first, last) = self.span.unwrap_or((event.tsc, event.tsc));
        self.span = Some((first.min(event.tsc), last.max(event.tsc)));
    }

    /// Ends a thread and all its calls.
    pub fn thread_ended(&mut self, number: u32, exit: Exit) {
        self.end(number, exit);
    }

    /// Ends all threads and their calls at the end of the input. If tagging was removed from the
    /// running program, or if the log does not state how tagging ended, these calls count as open.
    pub fn finish(&mut self) {
        let exit = match self.ending {
            Some(Ending::Detached) | None => Exit::Open,
            Some(_) => Exit::Ended,
        };
        while let Some(number) = self.live.keys().next().copied() {
            self.end(number, exit);
        }
    }

    /// Number of lost events over all threads, by reason.
    pub fn lost(&self) -> BTreeMap<LossReason, u64> {
        let mut sum = BTreeMap::<_, u64>::new();
        for (reason, count) in self.threads.iter().flat_map(|thread| &thread.lost) {
            let lost = sum.entry(*reason).or_default();
            *lost = lost.saturating_add(*count);
        }
        sum
    }

    /// Selects a thread for the listener, and returns its index. Adds the thread if it is not
    /// known.
    fn place(&mut self, number: u32) -> usize {
        let next = self.threads.len();
        let (place, _) = self.live.entry(number).or_insert((next, Stacks::default()));
        if *place == next {
            self.threads.push(Thread { number, ..Thread::default() });
        }
        self.listener.select(*place, number);
        *place
    }

    fn end(&mut self, number: u32, exit: Exit) {
        let Some((place, mut stacks)) = self.live.remove(&number) else { return };
        self.listener.select(place, number);
        stacks.close_all(exit, &mut self.listener);
        self.listener.end();
        let thread = &mut self.threads[place];
        (thread.unmatched, thread.shared) = (stacks.unmatched, stacks.shared);
    }

    /// Processes the events of a chunk, up to the first one that is not valid.
    fn events(&mut self, number: u32, events: &Events<'_>) -> Result<(), LogError> {
        let place = self.place(number);
        let Some((_, stacks)) = self.live.get_mut(&number) else { return Ok(()) };
        let (mut count, mut last) = (0, events.tsc);
        let has_blocks = !self.blocks.is_empty();
        let mut result = Ok(());
        for event in events.decode(self.is_timed) {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            (count, last) = (count + 1, event.tsc);
            if has_blocks && let Some(block) = self.blocks.get_mut(&event.number) {
                block.entries += 1;
                stacks.block(event, block.function, &mut self.listener);
                continue;
            }
            stacks.event(event, &mut self.listener);
        }
        self.threads[place].events += count;
        if self.is_timed && count != 0 {
            let (first, before) = self.span.unwrap_or((events.tsc, last));
            self.span = Some((first.min(events.tsc), before.max(last)));
        }
        result
    }
}

impl<A: Listener, B: Listener> Threads<(A, B)> {
    /// Separates the second listener. All threads must have ended: threads that have not are
    /// removed.
    pub fn take_second(self) -> (Threads<A>, B) {
        let Threads { listener, threads, is_timed, blocks, span, marks, unknown, ending, .. } =
            self;
        let (listener, second) = listener;
        let live = BTreeMap::new();
        (
            Threads { listener, threads, live, is_timed, blocks, span, marks, unknown, ending },
            second,
        )
    }
}
