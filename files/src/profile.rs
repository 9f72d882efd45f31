//! Writes and reads profiles of `hmtt monitor`, which state what a program has executed, block by
//! block (docs/monitor.md).
//!
//! A profile is a JSON file. Invariant: numbers of blocks ascend, edges name blocks of the profile,
//! and each block has as many bytes of code as its size states. Other files are refused. Counts are
//! not checked, so sums of counts must saturate.

mod parts;

use serde::{Deserialize, Serialize};

pub use parts::{
    Block, BlockEnd, Cache, IndirectEdge, Models, Native, Predictor, Selected, Superblock,
    SystemCall,
};

/// Version of the file. A change that a reader must know increments it.
pub const VERSION: u32 = 6;
/// Value of the key `kind`.
pub const KIND: &str = "hmtt-monitor";

/// An error of reading a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The content is no JSON object with the keys of a profile.
    #[error("it is no profile")]
    Parse(#[source] serde_json::Error),
    /// The key `kind` has another value.
    #[error("its kind is not {KIND}")]
    Kind,
    /// The version is not supported.
    #[error("its version is {0}, and this hmtt reads version {VERSION}")]
    Version(u64),
    /// Numbers of blocks do not ascend.
    #[error("block {0} is not in order")]
    Order(u32),
    /// The code of a block has another size than the block states.
    #[error("the code of block {0} has another size")]
    Size(u32),
    /// An edge names a block that is not in the profile, or that does not end with an indirect
    /// transfer.
    #[error("the edge from block {0} to block {1} has no place")]
    Edge(u32, u32),
    /// A superblock has fewer than two blocks, or names a block that is not in the profile.
    #[error("superblock {0} has fewer than two blocks, or one that is not in the profile")]
    Superblock(usize),
}

/// How the program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The program exited with this status.
    Exited(i32),
    /// This signal ended the program.
    Signaled(i32),
    /// The program executed another program.
    Replaced,
    /// The program continues natively.
    #[default]
    Detached,
}

/// Which kinds of counts were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorded {
    /// Executions of blocks.
    #[default]
    Counts,
    /// Executions of blocks, and of the edges between them.
    Edges,
}

/// A profile of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of the format; [`VERSION`] in a profile that was read.
    pub version: u32,
    /// Kind of the file; always [`KIND`].
    pub kind: String,
    /// Path of the program, at the time when the process was followed first.
    pub program: String,
    /// Number of the process in the system.
    pub process: i32,
    /// How the program ended.
    pub ending: Ending,
    /// The reason why the program is not followed any longer, if it was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Which kinds of counts were recorded.
    pub recorded: Recorded,
    /// Processor time of the threads while they were followed, in nanoseconds. Threads that ended
    /// without a last report are not included.
    pub processor_ns: u64,
    /// Time of the threads in code of the cache, in nanoseconds, without native code, system calls
    /// and waiting.
    pub cache_ns: u64,
    /// Functions to which the lists of blocks, edges and superblocks are limited; all functions if
    /// it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selected>,
    /// Number of threads that were in the cache.
    pub monitored_threads: u64,
    /// Number of threads that were never in the cache, because there were too many at the same
    /// time.
    pub native_threads: u64,
    /// Number of processes that the program started and that ran natively.
    pub native_children: u64,
    /// Number of signals whose handlers were called.
    pub handled_signals: u64,
    /// Number of block numbers that were dropped because a ring was full.
    pub dropped_numbers: u64,
    /// Number of block numbers that belong to no block.
    pub invalid_numbers: u64,
    /// Number of threads whose last block numbers are not known.
    pub cut_threads: u64,
    /// Number of addresses at which the count of executions differs from the count of edges to the
    /// address plus the count of starts there; only if edges were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbalanced_blocks: Option<u64>,
    /// Executed blocks, in the order of their numbers.
    pub blocks: Vec<Block>,
    /// Edges of indirect jumps, indirect calls and returns.
    #[serde(default)]
    pub edges: Vec<IndirectEdge>,
    /// Superblocks, in the order in which they were built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superblocks: Vec<Superblock>,
    /// System calls by thread.
    #[serde(default)]
    pub system_calls: Vec<SystemCall>,
    /// Code that ran natively, by address.
    pub native: Vec<Native>,
    /// Results of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Models>,
}

impl Profile {
    /// The content of the file, one line of JSON.
    pub fn to_json(&self) -> String {
        // All keys are text and all numbers finite, so this cannot fail.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// [`ProfileError`] if the content is no profile of this version, or violates the invariant.
    pub fn parse(text: &[u8]) -> Result<Self, ProfileError> {
        #[derive(Deserialize)]
        struct Stated {
            #[serde(default)]
            kind: String,
            #[serde(default)]
            version: u64,
        }
        let stated: Stated = serde_json::from_slice(text).map_err(ProfileError::Parse)?;
        if stated.kind != KIND {
            return Err(ProfileError::Kind);
        }
        if stated.version != u64::from(VERSION) {
            return Err(ProfileError::Version(stated.version));
        }
        let profile: Profile = serde_json::from_slice(text).map_err(ProfileError::Parse)?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        if let Some(pair) = self.blocks.windows(2).find(|pair| pair[0].number >= pair[1].number) {
            return Err(ProfileError::Order(pair[1].number));
        }
        let has_size = |block: &&Block| block.size_bytes == block.code.len() as u64;
        if let Some(block) = self.blocks.iter().find(|block| !has_size(block)) {
            return Err(ProfileError::Size(block.number));
        }
        let is_placed = |edge: &&IndirectEdge| {
            self.block(edge.from).is_some_and(|from| from.end.is_indirect())
                && self.block(edge.to).is_some()
        };
        if let Some(edge) = self.edges.iter().find(|edge| !is_placed(edge)) {
            return Err(ProfileError::Edge(edge.from, edge.to));
        }
        let is_known = |superblock: &Superblock| {
            superblock.blocks.len() > 1
                && superblock.blocks.iter().all(|number| self.block(*number).is_some())
        };
        match self.superblocks.iter().position(|superblock| !is_known(superblock)) {
            Some(at) => Err(ProfileError::Superblock(at)),
            None => Ok(()),
        }
    }

    /// The block with this number, if the profile has it.
    pub fn block(&self, number: u32) -> Option<&Block> {
        let at = self.blocks.binary_search_by_key(&number, |block| block.number).ok()?;
        Some(&self.blocks[at])
    }

    /// Whether everything that was executed in the cache is counted, and the sums agree.
    pub fn is_complete(&self) -> bool {
        self.left.is_none() && self.losses().is_empty()
    }

    /// Losses and disagreements: counts that are not 0, each with its meaning.
    pub fn losses(&self) -> Vec<(u64, &'static str)> {
        let losses = [
            (self.dropped_numbers, "block numbers were dropped, because rings were full"),
            (self.invalid_numbers, "block numbers were overwritten by the program"),
            (self.cut_threads, "threads ended, and the last part of their rings is missing"),
            (
                self.native_threads,
                "threads were too many at the same time, and their blocks are not counted",
            ),
            (
                self.native.iter().map(|one| one.times).sum(),
                "times threads came to code that ran natively, whose blocks are not counted",
            ),
            (
                self.unbalanced_blocks.unwrap_or(0),
                "blocks were executed more or less often than the edges into them",
            ),
        ];
        losses.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let first = Block {
            number: 1,
            object: "/bin/p".into(),
            function: Some("f".into()),
            offset: Some(4),
            code_address: 0x1004,
            file_address: Some(4),
            size_bytes: 3,
            instructions: 3,
            entries: 5,
            unexecuted: 2,
            code: vec![0x90, 0xff, 0xe0],
            end: BlockEnd::IndirectJump,
            starts: 2,
            stops: 1,
            ..Block::default()
        };
        let second = Block { number: 3, object: "[vdso]".into(), ..Block::default() };
        Profile {
            version: VERSION,
            kind: KIND.into(),
            ending: Ending::Exited(3),
            left: Some("it uses gs".into()),
            recorded: Recorded::Edges,
            selection: Some(Selected { include: vec!["f".into()], ..Selected::default() }),
            unbalanced_blocks: Some(1),
            dropped_numbers: 2,
            blocks: vec![first, second],
            edges: vec![IndirectEdge { from: 1, to: 3, times: 4 }],
            superblocks: vec![Superblock { blocks: vec![1, 3, 1], ..Superblock::default() }],
            system_calls: vec![SystemCall { thread: 7, name: "read".into(), ..Default::default() }],
            native: vec![Native {
                code_address: 9,
                reason: "it uses gs".into(),
                ..Default::default()
            }],
            ..Profile::default()
        }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let written = profile();
        assert_eq!(written.blocks[0].executed(), 13);
        let text = written.to_json();
        assert!(text.contains("\"code_address\":\"0x1004\""), "{text}");
        assert!(text.contains("\"code\":\"90ffe0\"") && text.contains("{\"exited\":3}"), "{text}");
        assert_eq!(Profile::parse(text.as_bytes()).unwrap(), written);
        assert_eq!(written.losses().len(), 2);
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |text: &str| Profile::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused("7"), "it is no profile");
        assert_eq!(refused("{}"), "its kind is not hmtt-monitor");
        let other = refused("{\"kind\":\"hmtt-monitor\",\"version\":1}");
        assert_eq!(other, "its version is 1, and this hmtt reads version 6");
        assert_eq!(refused("{\"kind\":\"hmtt-monitor\",\"version\":6}"), "it is no profile");
        let changed = |change: fn(&mut Profile)| {
            let mut profile = profile();
            change(&mut profile);
            refused(&profile.to_json())
        };
        assert_eq!(changed(|one| one.blocks[0].number = 3), "block 3 is not in order");
        assert_eq!(
            changed(|one| one.blocks[1].size_bytes = 1),
            "the code of block 3 has another size"
        );
        let edge = "the edge from block 3 to block 1 has no place";
        assert_eq!(changed(|one| (one.edges[0].from, one.edges[0].to) = (3, 1)), edge);
        let edge = "the edge from block 1 to block 2 has no place";
        assert_eq!(changed(|one| one.edges[0].to = 2), edge);
        let superblock =
            "superblock 0 has fewer than two blocks, or one that is not in the profile";
        assert_eq!(changed(|one| one.superblocks[0].blocks = vec![1]), superblock);
        assert_eq!(changed(|one| one.superblocks[0].blocks[1] = 2), superblock);
    }
}
