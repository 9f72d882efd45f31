//! Passes on what threads record of their accesses, without looking at it.

use std::sync::mpsc::Receiver;

use hmtt_format::access_trace::BlockAccesses;

use super::{Chunk, Consumer, Finished, Losses, Reader};
use crate::shared::Rings;

/// Where records of accesses go.
pub trait AccessSink: Send {
    /// The next blocks, by number from 1 on.
    fn blocks(&mut self, blocks: &[BlockAccesses]);
    /// The next words of a thread. All blocks in them are known.
    fn words(&mut self, thread: i32, words: &[u8]);
    /// Nothing follows.
    fn finish(&mut self, losses: Losses);
}

/// Describes blocks.
pub trait AccessBlocks {
    /// The accesses of all blocks after the first ones.
    fn accesses_after(&self, known: u32) -> Vec<BlockAccesses>;
}

/// Passes chunks on.
struct Recording<'r> {
    blocks: &'r dyn AccessBlocks,
    known: u32,
    sink: &'r mut dyn AccessSink,
    bytes: Vec<u8>,
}

impl Consumer for Recording<'_> {
    fn read(&mut self, Chunk { thread, area, chunk, length, .. }: Chunk<'_>) {
        let new = self.blocks.accesses_after(self.known);
        if !new.is_empty() {
            self.sink.blocks(&new);
            self.known += new.len() as u32;
        }
        self.bytes.resize(length as usize, 0);
        area.copy_chunk(chunk, 0, &mut self.bytes);
        if length > 0 {
            self.sink.words(thread, &self.bytes);
        }
    }

    fn end(&mut self, _area: usize) {}
}

/// Reads the rings until the sender of messages is dropped. All blocks are described before their numbers can be in a full
/// chunk.
pub fn record(
    rings: &Rings,
    finished: &Receiver<Finished>,
    blocks: &dyn AccessBlocks,
    sink: &mut dyn AccessSink,
) -> Losses {
    let consumer = Recording { blocks, known: 0, sink, bytes: Vec::new() };
    let Reader { consumer, losses, .. } = Reader::new(rings, consumer).follow(finished);
    consumer.sink.finish(losses);
    losses
}
