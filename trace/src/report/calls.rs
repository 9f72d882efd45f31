//! What a tag log amounts to, as text and JSON: functions, who called whom, what was lost.

mod accesses;
mod build;
mod text;

use std::sync::Arc;

use serde::{Serialize, Serializer};

pub use accesses::{Amount, Split, Sync, Trace};
pub use text::Tables;

/// What a log amounts to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calls {
    /// The program's file, if the map says it.
    pub program: Option<String>,
    /// The process.
    pub pid: u32,
    /// Events have times.
    pub timed: bool,
    /// Ticks in a second, 0 if they are not known.
    pub tsc_hz: u64,
    /// When the log was begun, in nanoseconds since 1970.
    pub start_ns: u64,
    /// From the first event to the last, if times are known.
    pub seconds: Option<f64>,
    /// How it ends; none: the rest is missing.
    pub ending: Option<Said>,
    /// Events that were read.
    pub events: u64,
    /// Functions: those that took longest first, or those that were called most.
    pub functions: Vec<Function>,
    /// Who called whom.
    pub edges: Vec<Edge>,
    /// Blocks.
    pub blocks: Vec<Block>,
    /// Threads, as they appear.
    pub threads: Vec<Thread>,
    /// Marks on the memory bus.
    pub marks: u64,
    /// Events that were lost: counts are lower bounds if there are any.
    pub lost: Lost,
    /// Exits of calls whose entries were not seen.
    pub unmatched_exits: u64,
    /// Exits through code that another function shares.
    pub shared_exits: u64,
    /// Where the file was cut.
    pub cut_at: Option<u64>,
    /// The trace whose accesses were split by function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// How tagging ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Said {
    Detached,
    Exited(i32),
    Signaled(i32),
    Replaced,
}

/// How calls ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exits {
    /// By an exit.
    pub returned: u64,
    /// Without, while the thread went on.
    pub abandoned: u64,
    /// With the thread.
    pub ended: u64,
    /// Not before the tagging.
    pub open: u64,
}

/// How long; in ticks if it is not known how long they are. Of logs without times nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// With the calls made, recursion counted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive_ns: Option<u64>,
    /// Without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ns: Option<u64>,
    /// With the calls made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inclusive_ticks: Option<u64>,
    /// Without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_ticks: Option<u64>,
}

/// A function, in all threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Function {
    /// In events.
    pub number: u32,
    /// For people.
    pub name: String,
    /// The file it is in.
    pub object: Option<String>,
    /// Why it was not tagged any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<String>,
    /// What its calls amount to.
    #[serde(flatten)]
    pub sum: Sum,
    /// Its accesses, if there is a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<Split>,
    /// In each thread that called it.
    pub threads: Vec<InThread>,
}

/// What calls amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Entries.
    pub calls: u64,
    /// How they ended.
    pub exits: Exits,
    /// How long they took.
    #[serde(flatten)]
    pub times: Times,
}

/// A function, in one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InThread {
    /// The kernel's number.
    pub thread: u32,
    /// What its calls amount to.
    #[serde(flatten)]
    pub sum: Sum,
    /// Place among the threads.
    #[serde(skip)]
    place: usize,
}

/// Calls of one function by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Who called; none: nobody who is tagged.
    #[serde(serialize_with = "optional_name")]
    pub caller: Option<Arc<str>>,
    /// Who was called.
    #[serde(serialize_with = "name")]
    pub callee: Arc<str>,
    /// What the calls amount to.
    #[serde(flatten)]
    pub sum: Sum,
    /// Their numbers.
    #[serde(skip)]
    pub numbers: (Option<u32>, u32),
}

fn name<S: Serializer>(name: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name)
}

fn optional_name<S: Serializer>(name: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_deref().serialize(serializer)
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// In events.
    pub number: u32,
    /// The function it is in.
    pub function: String,
    /// Its address, hexadecimal.
    pub start: String,
    /// How often it was entered.
    pub entries: u64,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// The kernel's number.
    pub thread: u32,
    /// Its name.
    pub name: Option<String>,
    /// Events that were read.
    pub events: u64,
    /// Events that were lost.
    pub lost: Lost,
    /// Exits of calls whose entries were not seen.
    pub unmatched_exits: u64,
}

/// Events that were lost, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// All.
    pub events: u64,
    /// The buffer was full.
    pub buffer_full: u64,
    /// A signal came while a stub wrote.
    pub interrupted: u64,
    /// The program wrote over them.
    pub damaged: u64,
    /// What this version does not know.
    pub other: u64,
}

impl Calls {
    /// Whether counts are lower bounds.
    pub fn has_loss(&self) -> bool {
        let has_gaps = self.trace.as_ref().is_some_and(|trace| trace.found.gaps != 0);
        self.lost.events != 0 || self.cut_at.is_some() || has_gaps
    }
}
