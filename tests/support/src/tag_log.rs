//! Builds tag logs, chunk by chunk.

use hmtt_files::tag_log::{Chunk, Content, EventEncoder, Header, TagEvent};

/// The bytes of a log.
#[derive(Clone, Debug)]
pub struct Log(pub Vec<u8>);

impl Log {
    /// Creates a log that has only a header.
    pub fn new(header: &Header) -> Self {
        Log(header.encode().into())
    }

    /// Adds a chunk of a thread.
    ///
    /// # Panics
    /// If the chunk is longer than 200 bytes.
    pub fn chunk(&mut self, thread: u32, content: Content<'_>) {
        let mut buffer = [0; 200];
        let length = Chunk { thread, content }.encode(&mut buffer).unwrap();
        self.0.extend_from_slice(&buffer[..length]);
    }

    /// Adds a chunk of events.
    ///
    /// # Panics
    /// If the events exceed the size of a chunk.
    pub fn events(&mut self, thread: u32, events: &[TagEvent], is_timed: bool) {
        let mut buffer = vec![0; 1 << 16];
        let mut encoder = EventEncoder::new(&mut buffer, thread, is_timed).unwrap();
        events.iter().for_each(|event| encoder.push(*event).unwrap());
        let length = encoder.finish();
        self.0.extend_from_slice(&buffer[..length]);
    }
}
