//! Reads a log and its map completely.

use std::collections::BTreeMap;
use std::path::Path;

use hmtt_files::tag_log::{
    Chunk, ClockPair, Content, Ending, FunctionId, HEADER_BYTES, Header, LossReason, TagEvent,
};
use hmtt_files::tag_map::TagMap;

/// The content of a log.
#[derive(Default)]
pub struct Log {
    pub is_timed: bool,
    pub threads: BTreeMap<u32, Vec<TagEvent>>,
    pub begun: usize,
    pub ended: usize,
    pub dropped: u64,
    pub interrupted: u64,
    pub clocks: Vec<ClockPair>,
    pub ending: Option<Ending>,
}

impl Log {
    pub fn read(path: &Path) -> Log {
        let bytes = std::fs::read(path).unwrap();
        let header = Header::decode(&bytes).unwrap();
        let map = TagMap::load(&TagMap::path_beside(path)).unwrap();
        assert_eq!(
            (map.id, map.timed, map.tsc_hz),
            (header.map_id, header.is_timed, header.tsc_hz)
        );
        let mut log = Log { is_timed: header.is_timed, ..Log::default() };
        let mut rest = &bytes[HEADER_BYTES..];
        while let Some((chunk, length)) = Chunk::decode(rest).unwrap() {
            assert_eq!(log.ending, None);
            rest = &rest[length..];
            log.add(chunk);
        }
        assert!(rest.is_empty(), "{} bytes are left", rest.len());
        log
    }

    fn add(&mut self, chunk: Chunk<'_>) {
        match chunk.content {
            Content::Events(events) => {
                let events = events.decode(self.is_timed).map(Result::unwrap);
                self.threads.entry(chunk.thread).or_default().extend(events);
            }
            Content::Lost { count, reason: LossReason::BufferFull } => self.dropped += count,
            Content::Lost { count, .. } => self.interrupted += count,
            Content::ThreadStart { .. } => self.begun += 1,
            Content::ThreadEnd => self.ended += 1,
            Content::Clocks(pair) => self.clocks.push(pair),
            Content::End(ending) => self.ending = Some(ending),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the entries of a function for each thread that entered it.
    pub fn entries(&self, number: FunctionId) -> Vec<u64> {
        let count = |events: &Vec<TagEvent>| {
            events.iter().filter(|event| event.number == number && !event.is_exit).count() as u64
        };
        self.threads.values().map(count).filter(|entries| *entries != 0).collect()
    }

    pub fn lost(&self) -> u64 {
        self.dropped + self.interrupted
    }
}

/// Returns the number of a function in a log.
pub fn number(log: &Path, name: &str) -> FunctionId {
    let map = TagMap::load(&TagMap::path_beside(log)).unwrap();
    map.functions.iter().find(|function| function.name == name).unwrap().number
}
