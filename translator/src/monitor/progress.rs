//! Sends snapshots of what the monitor has read to the thread that displays progress.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::tally::{Executed, Tally};

/// Time between two snapshots.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts that the monitor has read up to a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Time since the previous snapshot, or since the start of the monitor.
    pub elapsed: Duration,
    /// Number of blocks that were executed in this time.
    pub blocks: u64,
    /// Highest number of full chunks that a ring had at once in this time.
    pub full_chunks: u64,
    /// Instructions that each block has executed since the start, by number of the block. Index 0
    /// is not used.
    pub instructions: Vec<u64>,
}

/// Sends a snapshot each second.
pub struct Snapshots {
    to: SyncSender<Snapshot>,
    since: Instant,
    /// Number of blocks that were executed before the last snapshot.
    blocks: u64,
    full_chunks: u64,
}

impl Snapshots {
    /// Prepares to send snapshots to a channel.
    pub fn new(to: SyncSender<Snapshot>) -> Self {
        Snapshots { to, since: Instant::now(), blocks: 0, full_chunks: 0 }
    }

    /// Notes that a ring has `full_chunks` full chunks.
    pub(super) fn found(&mut self, full_chunks: u64) {
        self.full_chunks = self.full_chunks.max(full_chunks);
    }

    /// Sends a snapshot if the last one is at least a second old.
    pub(super) fn send(&mut self, tally: &mut Tally) {
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < INTERVAL {
            return;
        }
        let Executed { blocks, instructions } = tally.executed();
        let snapshot = Snapshot {
            elapsed,
            blocks: blocks - self.blocks,
            full_chunks: std::mem::take(&mut self.full_chunks),
            instructions,
        };
        (self.since, self.blocks) = (now, blocks);
        // If the receiver has not taken the last snapshot yet, it does not get this one.
        let _ = self.to.try_send(snapshot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, sync_channel};

    use hmtt_probe::address::RunAddr;

    use super::super::code::{BlockCode, End, Numbered};
    use super::super::tally::{Recording, Stream};
    use super::*;

    /// A block of two instructions.
    fn block(known: u32) -> Vec<Numbered> {
        let (start, next) = (RunAddr(0x1000), RunAddr(0x1002));
        let block = BlockCode { start, next, last: start, instructions: 2, end: End::Return };
        [Numbered::Block(block)].into_iter().skip(known as usize).collect()
    }

    #[test]
    fn a_snapshot_is_sent_when_the_interval_is_over() {
        let (to, from) = sync_channel(1);
        let (mut tally, mut snapshots) = (Tally::new(Recording::default()), Snapshots::new(to));
        snapshots.found(3);
        snapshots.found(1);
        snapshots.since = Instant::now() + INTERVAL;
        snapshots.send(&mut tally);
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
        let mut stream = Stream::default();
        for _ in 0..2 {
            // The last one is counted when the next one is known.
            tally.read(&mut stream, &1u32.to_le_bytes().repeat(71), &block);
            snapshots.since = Instant::now() - INTERVAL;
            snapshots.send(&mut tally);
        }
        // The second one had no space.
        let snapshot = from.try_recv().unwrap();
        assert_eq!(
            (snapshot.blocks, snapshot.full_chunks, snapshot.instructions),
            (70, 3, vec![0, 140])
        );
        assert!(snapshot.elapsed >= INTERVAL);
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
        assert_eq!((snapshots.blocks, snapshots.full_chunks), (141, 0));
    }
}
