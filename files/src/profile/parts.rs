//! Defines the lists of a profile: blocks, edges, system calls, native code and results of models.

use serde::{Deserialize, Serialize};

/// The kind of instruction with which a block ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockEnd {
    /// A direct jump.
    Jump,
    /// A conditional jump.
    Conditional,
    /// A direct call.
    Call,
    /// A jump to an address in a register or in memory.
    IndirectJump,
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// A return.
    Return,
    /// A system call.
    SystemCall,
    /// None of these: the block ends before the next instruction, because the block is long enough
    /// or that instruction runs natively.
    #[default]
    Next,
}

impl BlockEnd {
    /// All kinds of ends.
    pub const ALL: [BlockEnd; 8] = [
        BlockEnd::Jump,
        BlockEnd::Conditional,
        BlockEnd::Call,
        BlockEnd::IndirectJump,
        BlockEnd::IndirectCall,
        BlockEnd::Return,
        BlockEnd::SystemCall,
        BlockEnd::Next,
    ];

    /// Whether the next block depends on a register or on memory.
    pub fn is_indirect(self) -> bool {
        matches!(self, BlockEnd::IndirectJump | BlockEnd::IndirectCall | BlockEnd::Return)
    }

    /// Whether the block ends with a call.
    pub fn is_call(self) -> bool {
        matches!(self, BlockEnd::Call | BlockEnd::IndirectCall)
    }
}

/// The functions to which a profile is limited, and counts of what the limit omits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// Rules that include functions, in the order in which they apply.
    pub include: Vec<String>,
    /// Rules that exclude functions. They apply after the rules that include functions.
    pub exclude: Vec<String>,
    /// Number of executed blocks that the profile omits.
    pub omitted_blocks: u64,
    /// Number of executions of the omitted blocks.
    pub omitted_entries: u64,
    /// Number of instructions that were executed in the omitted blocks.
    pub omitted_instructions: u64,
    /// Number of superblocks that contain an omitted block, and are therefore omitted too.
    pub omitted_superblocks: u64,
}

/// An executed block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Number of the block, by which edges name it. A later translation of the same address has
    /// another number.
    pub number: u32,
    /// File that contains the block, or the kernel's name of the memory.
    pub object: String,
    /// Name of the block's function, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Offset of the block in the function, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Address of the first instruction in the process.
    #[serde(with = "address")]
    pub code_address: u64,
    /// Address of the first instruction in the file's own address space.
    #[serde(default, with = "optional_address", skip_serializing_if = "Option::is_none")]
    pub file_address: Option<u64>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Number of instructions.
    pub instructions: u64,
    /// Number of executions.
    pub entries: u64,
    /// Instructions of these executions that were not executed because of a signal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unexecuted: u64,
    /// The bytes of the instructions.
    #[serde(with = "bytes")]
    pub code: Vec<u8>,
    /// The kind of instruction with which the block ends.
    pub end: BlockEnd,
    /// Address in the process to which the last instruction leads, if the instruction contains it.
    #[serde(default, with = "optional_address", skip_serializing_if = "Option::is_none")]
    pub target_address: Option<u64>,
    /// Executions that did not follow another block.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub starts: u64,
    /// Executions that no other block followed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stops: u64,
    /// Number of times that a conditional jump at the end was taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taken: u64,
    /// Indirect edges into the block that are not listed, because there were too many edges.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_edges: u64,
    /// Direct and indirect edges into the block from blocks that the selection omits. If there are
    /// several blocks at one address, the first one has the direct edges of all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_omitted: u64,
    /// Indirect edges from the block to blocks that the selection omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_omitted: u64,
    /// Mispredictions of the last instruction, one number for each of the profile's predictors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mispredictions: Vec<u64>,
    /// Misses of the modelled instruction cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_misses: u64,
}

impl Block {
    /// Number of instructions that were executed in the block. Saturates.
    pub fn executed(&self) -> u64 {
        self.instructions.saturating_mul(self.entries).saturating_sub(self.unexecuted)
    }

    /// Number of executions that another block followed. Saturates.
    pub fn left(&self) -> u64 {
        self.entries.saturating_sub(self.stops)
    }

    /// Address in the process after the last instruction.
    pub fn next_address(&self) -> u64 {
        self.code_address.wrapping_add(self.size_bytes)
    }
}

/// An edge from a block that ends with an indirect transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndirectEdge {
    /// Number of the block that ends with the transfer.
    pub from: u32,
    /// Number of the block at its target.
    pub to: u32,
    /// Number of transfers.
    pub times: u64,
}

/// A superblock: code of several blocks one after the other, which writes one number for each
/// execution of the superblock, instead of one for each block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superblock {
    /// Numbers of the superblock's blocks, at least two, in order. Loops are unrolled, so a number
    /// may occur several times.
    pub blocks: Vec<u32>,
    /// Number of times that the superblock was entered.
    pub entries: u64,
    /// Number of executions in which all of its blocks were executed.
    pub completions: u64,
    /// Number of blocks that were executed in it.
    pub executed_blocks: u64,
    /// The part of [`Profile::cache_ns`](super::Profile::cache_ns) that was spent in it, estimated
    /// from samples of its executions.
    pub cache_ns: u64,
    /// Whether it was not used any longer at the end, because it had become cold or its code had
    /// changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undone: bool,
}

impl Superblock {
    /// Number of block numbers that the superblock has saved: separate blocks would have written
    /// one each.
    pub fn saved_numbers(&self) -> u64 {
        self.executed_blocks.saturating_sub(self.entries)
    }
}

/// A system call of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCall {
    /// Number of the thread in the system; 0 for all threads beyond a limit.
    pub thread: i32,
    /// Number of the system call; `None` for numbers that Linux does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Name of the system call.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls whose duration is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_calls: u64,
    /// Sum of the known durations, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_ns: u64,
}

/// A place at which threads began to run code natively.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// Address in the process.
    #[serde(with = "address")]
    pub code_address: u64,
    /// Reason why the code was not translated.
    pub reason: String,
    /// Number of times that threads came to this address.
    pub times: u64,
    /// Processor time of the threads from this address until they were in the cache again, in
    /// nanoseconds.
    pub processor_ns: u64,
}

/// Results of models of a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// Predictors of conditional jumps, in the order of [`Block::mispredictions`].
    #[serde(default)]
    pub predictors: Vec<Predictor>,
    /// The instruction cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icache: Option<Cache>,
}

/// A predictor of conditional jumps, with its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predictor {
    /// Name of the model.
    pub name: String,
    /// Size of its tables in bytes.
    pub size_bytes: u64,
    /// Conditional jumps that were executed.
    pub branches: u64,
    /// Jumps that were predicted wrongly.
    pub mispredictions: u64,
}

/// An instruction cache, with its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Size of the cache in bytes.
    pub size_bytes: u64,
    /// Number of lines of a set.
    pub ways: u64,
    /// Size of a line in bytes.
    pub line_bytes: u64,
    /// Number of lines that blocks have fetched.
    pub fetches: u64,
    /// Number of fetched lines that were not in the cache.
    pub cache_misses: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Converts an address to hexadecimal text with a prefix, and back.
mod address {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{address:#x}"))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        u64::from_str_radix(digits, 16)
            .map_err(|_| D::Error::custom(format_args!("{text} is no address")))
    }
}

/// Converts an address that may be missing, as [`address`] does.
mod optional_address {
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        address: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => super::address::serialize(address, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        super::address::deserialize(deserializer).map(Some)
    }
}

/// Converts bytes to pairs of hexadecimal digits, and back.
mod bytes {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        serializer.serialize_str(&digits.collect::<String>())
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
        let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
        let bytes = text.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
        bytes.ok_or_else(|| D::Error::custom("code is no hexadecimal text"))
    }
}
