//! Summarises a tag log as text and JSON: functions, callers and callees, lost events.

mod accesses;
mod build;
mod text;

use std::sync::Arc;

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map;
use serde::{Serialize, Serializer};

pub use accesses::{Amount, Split, Sync, Trace};
pub use text::Tables;

/// The summary of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calls {
    /// The program's file, if the map states it.
    pub program: Option<String>,
    /// Number of the process.
    pub pid: u32,
    /// Whether events have times.
    pub timed: bool,
    /// Ticks per second, 0 if not known.
    pub tsc_hz: u64,
    /// Start of the log, in nanoseconds since 1970.
    pub start_time_ns: u64,
    /// Time from the first event to the last, if times are known.
    pub duration_seconds: Option<f64>,
    /// How tagging ended; `None` if the end of the log is missing.
    pub ending: Option<TaggingEnd>,
    /// Number of events that were read.
    pub events: u64,
    /// Functions, ordered by decreasing own time, or without times by decreasing calls.
    pub functions: Vec<Function>,
    /// Calls by caller and callee.
    pub edges: Vec<Edge>,
    /// Tagged blocks.
    pub blocks: Vec<Block>,
    /// Loops whose heads are tagged.
    pub loops: Vec<Loop>,
    /// Threads, in the order in which they appear.
    pub threads: Vec<Thread>,
    /// Number of marks on the memory bus.
    pub marks: u64,
    /// Lost events. If there are any, all counts are lower bounds.
    pub lost: Lost,
    /// Exits of calls whose entries are not in the log.
    pub unmatched_exits: u64,
    /// Exits through code that several functions share.
    pub shared_exits: u64,
    /// Offset of an incomplete last chunk, in bytes, if the file was cut.
    pub cut_at: Option<u64>,
    /// The trace whose accesses were attributed to functions, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// How tagging ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaggingEnd {
    /// The controller was detached from the program.
    Detached,
    /// The program exited, with this status.
    Exited(i32),
    /// A signal of this number ended the program.
    Signaled(i32),
    /// The process became another program.
    Replaced,
}

/// How calls ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exits {
    /// Calls that ended by an exit.
    pub returned: u64,
    /// Calls that ended without an exit, while their threads continued.
    pub abandoned: u64,
    /// Calls that ended with their threads.
    pub ended: u64,
    /// Calls that were still open when tagging ended.
    pub open: u64,
}

/// Times of calls: in nanoseconds or, if the frequency of ticks is not known, in ticks. The other
/// two fields are `None`. For logs without times, all fields are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Time of the calls and of the calls that they made, in nanoseconds; recursion counts once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive_ns: Option<u64>,
    /// Time of the calls without the calls that they made, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ns: Option<u64>,
    /// Time of the calls and of the calls that they made, in ticks; recursion counts once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive_ticks: Option<u64>,
    /// Time of the calls without the calls that they made, in ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ticks: Option<u64>,
}

/// A function, summed over all threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Function {
    /// Number of the function in events.
    pub number: FunctionId,
    /// Unique readable name.
    pub name: String,
    /// File that contains the code; `None` if the map does not state it.
    pub object: Option<String>,
    /// Reason why the function's tags were removed; `None` if they were not removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<String>,
    /// Sums of the function's calls.
    #[serde(flatten)]
    pub sum: Sum,
    /// Accesses of the function to memory, if there is a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<Split>,
    /// The function's own accesses outside of its tagged blocks; `None` without tagged blocks or
    /// without a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_blocks: Option<Amount>,
    /// Calls of the function in each thread that called it.
    pub threads: Vec<CallsInThread>,
}

/// Sums of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Number of entries.
    pub calls: u64,
    /// Numbers of calls by the way they ended.
    pub exits: Exits,
    /// Times of the calls.
    #[serde(flatten)]
    pub times: Times,
}

/// The calls of a function in one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallsInThread {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Sums of the function's calls.
    #[serde(flatten)]
    pub sum: Sum,
    /// Index in the list of threads.
    #[serde(skip)]
    place: usize,
}

/// The calls of one function by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Name of the caller; `None` if the caller is not tagged.
    #[serde(serialize_with = "optional_name")]
    pub caller: Option<Arc<str>>,
    /// Name of the callee.
    #[serde(serialize_with = "name")]
    pub callee: Arc<str>,
    /// Sums of the calls.
    #[serde(flatten)]
    pub sum: Sum,
    /// Event numbers of caller and callee.
    #[serde(skip)]
    pub numbers: (Option<FunctionId>, FunctionId),
}

fn name<S: Serializer>(name: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name)
}

fn optional_name<S: Serializer>(name: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_deref().serialize(serializer)
}

/// A tagged basic block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Block {
    /// Number of the block in events.
    pub number: FunctionId,
    /// Name of the function that contains it.
    pub function: String,
    /// Address of its first instruction, hexadecimal.
    pub code_address: String,
    /// File that contains the code; `None` if the map does not state it.
    pub object: Option<String>,
    /// Address of its first instruction in the file's own address space, hexadecimal.
    pub file_address: Option<String>,
    /// Number of its executions.
    pub entries: u64,
    /// Accesses of the block to memory, if there is a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<Split>,
    /// Number of its function in events.
    #[serde(skip)]
    function_number: FunctionId,
}

/// A natural loop whose head is tagged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loop {
    /// Number among the loops of the map.
    pub number: u32,
    /// Name of the function that contains it.
    pub function: String,
    /// Address of its head, hexadecimal.
    pub code_address: String,
    /// File that contains the code; `None` if the map does not state it.
    pub object: Option<String>,
    /// Address of its head in the file's own address space, hexadecimal.
    pub file_address: Option<String>,
    /// Number of the innermost loop that contains this loop.
    pub outer_number: Option<u32>,
    /// Which of the blocks to which the loop can exit are tagged. Unless all are tagged, the loop's
    /// accesses may include accesses of blocks after the loop.
    pub tagged_exits: tag_map::Exits,
    /// Number of executions of its head.
    pub entries: u64,
    /// Accesses of the loop to memory, if there is a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<Split>,
}

/// A thread of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Name of the thread, if the log states it.
    pub name: Option<String>,
    /// Number of events that were read.
    pub events: u64,
    /// Events of the thread that were lost.
    pub lost: Lost,
    /// Exits of calls whose entries are not in the log.
    pub unmatched_exits: u64,
}

/// Numbers of lost events, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Events lost for any reason.
    pub events: u64,
    /// Events lost because the buffer was full.
    pub buffer_full: u64,
    /// Events lost because a signal arrived while a stub wrote them.
    pub interrupted: u64,
    /// Events that the program overwrote.
    pub damaged: u64,
    /// Events lost for reasons that this version does not know.
    pub other: u64,
}

impl Block {
    /// Name for tables: function and address.
    fn name(&self) -> String {
        format!("{} at {}", self.function, self.code_address)
    }
}

impl Calls {
    /// Whether events were lost, so that counts are lower bounds.
    pub fn has_loss(&self) -> bool {
        let has_gaps = self.trace.as_ref().is_some_and(|trace| trace.found.gaps != 0);
        self.lost.events != 0 || self.cut_at.is_some() || has_gaps
    }
}
