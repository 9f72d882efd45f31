//! Reports the accesses of a trace by function, block and loop, as a part of the report of calls.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, Write};

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::Exits;
use hmtt_format::escape;
use serde::Serialize;

use super::Calls;
use crate::tags::accesses::ledger::{Ledger, Share};
use crate::tags::accesses::owners::Owner;
use crate::tags::accesses::steps::TraceContents;

/// The summary of a trace whose accesses were attributed to functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trace {
    /// Number of all accesses that were attributed.
    pub accesses: u64,
    /// Accesses while no function was open.
    pub outside: Split,
    /// Accesses while functions of several threads were open; 0 where threads cannot be
    /// distinguished.
    pub several_threads: Split,
    /// Counts of the other contents of the trace, such as marks and gaps.
    #[serde(flatten)]
    pub found: TraceContents,
    /// Writes to the card's window that are not tags of the map.
    pub other_tags: u64,
    /// Number of functions, blocks and loops whose inclusive pages are not known.
    #[serde(skip)]
    pub without_pages: u64,
    /// Relation of the log's clock to the trace's clock; `None` if the tags are in the trace.
    pub sync: Option<Sync>,
}

/// Quality of the relation between the clocks of a log and of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sync {
    /// Marks that the log and the trace share.
    pub shared_marks: usize,
    /// Marks of the log that the trace does not have.
    pub only_log: u64,
    /// Marks of the trace that the log does not have.
    pub only_trace: u64,
    /// Upper bound of the error of a time, in nanoseconds.
    pub error_ns: f64,
    /// Accesses before the first or after the last shared mark. The error bound holds from the
    /// first event of the log to the last; before and after them, the error grows.
    pub beyond_marks: u64,
    /// Accesses nearer to the start or end of a call than the error.
    pub uncertain: u64,
    /// Accesses nearer to the start or end of a call or to the entry of a block than the error.
    pub uncertain_blocks: u64,
    /// Accesses of other sessions of the card, for which the log has no times.
    pub other_sessions: u64,
}

/// Accesses of a function, block or loop, with and without the accesses of the functions that it
/// called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Split {
    /// Accesses including the accesses of the functions that it called.
    pub inclusive: Amount,
    /// Accesses without the accesses of the functions that it called.
    #[serde(rename = "self")]
    pub own: Amount,
}

/// Counts of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Amount {
    /// Number of READs and WRITEs.
    pub accesses: u64,
    /// Number of READs.
    pub reads: u64,
    /// Number of WRITEs.
    pub writes: u64,
    /// Bytes of the lines or bursts accessed.
    pub access_bytes: u64,
    /// Number of distinct pages of 4 KiB; `None` if they were too many to count.
    pub pages: Option<u64>,
    /// Bytes per second of the owner's time.
    pub bytes_per_second: Option<f64>,
    /// Lower bound of the accesses, given the error of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u64>,
    /// Upper bound of the accesses, given the error of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

impl Split {
    fn none() -> Self {
        let none = Amount { pages: Some(0), ..Amount::default() };
        Split { inclusive: none, own: none }
    }
}

impl Amount {
    fn new(share: &Share, tck_ps: Option<u32>, has_error: bool) -> Self {
        let seconds = tck_ps.map(|tck| share.traffic.clocks as f64 * f64::from(tck) * 1e-12);
        Amount {
            accesses: share.traffic.accesses(),
            reads: share.traffic.reads,
            writes: share.traffic.writes,
            access_bytes: share.traffic.bytes,
            pages: (!share.is_without_pages).then(|| share.pages.len()),
            bytes_per_second: seconds
                .filter(|seconds| *seconds > 0.0)
                .map(|s| share.traffic.bytes as f64 / s),
            at_least: has_error.then_some(share.least),
            at_most: has_error.then_some(share.most),
        }
    }
}

impl Calls {
    /// Adds the accesses of a trace to the report.
    pub fn add_trace(
        &mut self,
        ledger: &Ledger,
        contents: TraceContents,
        other_tags: u64,
        sync: Option<Sync>,
    ) {
        let split = |owner| {
            let amount = |share| Amount::new(share, contents.tck_ps, sync.is_some());
            let shares = ledger.share_of(owner);
            shares.map_or_else(Split::none, |[own, inclusive]| Split {
                inclusive: amount(inclusive),
                own: amount(own),
            })
        };
        let with_blocks: BTreeSet<FunctionId> =
            self.blocks.iter().map(|block| block.function_number).collect();
        for function in &mut self.functions {
            let number = function.number;
            function.accesses = Some(split(Owner::Function(number)));
            let outside = || split(Owner::OutsideBlocks(number)).own;
            function.outside_blocks = with_blocks.contains(&number).then(outside);
        }
        for block in &mut self.blocks {
            block.accesses = Some(split(Owner::Block(block.number)));
        }
        for tagged_loop in &mut self.loops {
            tagged_loop.accesses = Some(split(Owner::Loop(tagged_loop.number)));
        }
        let (outside, several_threads) = (split(Owner::Outside), split(Owner::SeveralThreads));
        let accesses = ledger.total.accesses();
        let has_none = |share: &&(Owner, [Share; 2])| share.1[1].is_without_pages;
        let without_pages = ledger.shares().filter(has_none).count() as u64;
        self.trace = Some(Trace {
            accesses,
            outside,
            several_threads,
            found: contents,
            other_tags,
            without_pages,
            sync,
        });
    }

    /// Writes the accesses of each function, block and loop.
    pub(super) fn write_accesses(&self, output: &mut dyn Write) -> io::Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        writeln!(output, "\naccesses {}, line by line or burst by burst", trace.accesses)?;
        if let Some(sync) = &trace.sync {
            writeln!(
                output,
                "times    of {} marks, error {:.0} ns at most; {} accesses are nearer than that to the start or end of a call",
                sync.shared_marks, sync.error_ns, sync.uncertain
            )?;
            if !self.blocks.is_empty() {
                let count = sync.uncertain_blocks;
                writeln!(
                    output,
                    "         {count} accesses are nearer than that to the start or end of a call or to the entry of a block"
                )?;
            }
        }
        let mut rows: Vec<(&str, Split)> = vec![("(outside)", trace.outside)];
        if trace.several_threads.own.accesses != 0 {
            rows.push(("(several threads)", trace.several_threads));
        }
        let split =
            |function: &'_ super::Function| function.accesses.filter(|s| s.inclusive.accesses != 0);
        rows.extend(
            self.functions
                .iter()
                .filter_map(|function| Some((function.name.as_str(), split(function)?))),
        );
        let has_error = trace.sync.is_some();
        write_rows("function", rows, has_error, output)?;
        if self.blocks.is_empty() {
            return Ok(());
        }
        writeln!(output)?;
        write_rows("block", self.rows_of_blocks(), has_error, output)?;
        if self.loops.is_empty() {
            return Ok(());
        }
        writeln!(output)?;
        write_rows("loop", self.rows_of_loops(), has_error, output)
    }

    fn rows_of_loops(&self) -> Vec<(String, Split)> {
        let row = |tagged_loop: &super::Loop| {
            let split = tagged_loop.accesses.filter(|split| split.inclusive.accesses != 0)?;
            let note = if tagged_loop.tagged_exits == Exits::All { "" } else { NOT_ENDED };
            Some((format!("{} at {}{note}", tagged_loop.function, tagged_loop.code_address), split))
        };
        self.loops.iter().filter_map(row).collect()
    }

    /// Accesses of each block, and of functions outside of their blocks.
    fn rows_of_blocks(&self) -> Vec<(String, Split)> {
        let of_block = |block: &super::Block| {
            let split = block.accesses.filter(|split| split.inclusive.accesses != 0)?;
            Some((block.name(), split))
        };
        let outside = |function: &super::Function| {
            let own = function.outside_blocks.filter(|own| own.accesses != 0)?;
            Some((format!("{} (outside blocks)", function.name), Split { inclusive: own, own }))
        };
        let blocks = self.blocks.iter().filter_map(of_block);
        blocks.chain(self.functions.iter().filter_map(outside)).collect()
    }
}

/// Note on a loop whose accesses may include accesses of blocks after the loop.
const NOT_ENDED: &str = ", with exits that are not tagged";

/// Writes a row for each owner, in descending order of own accesses.
fn write_rows(
    heading: &str,
    mut rows: Vec<(impl AsRef<str>, Split)>,
    has_error: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
    rows.sort_by_key(|(_, split)| Reverse(split.own.accesses));
    write!(output, "{:>14} {:>14}", "inclusive", "self")?;
    if has_error {
        write!(output, " {:>14} {:>14}", "self at least", "self at most")?;
    }
    let names = ["self reads", "self writes", "self pages", "inclusive", "self"];
    names[..3].iter().try_for_each(|name| write!(output, " {name:>12}"))?;
    writeln!(output, " {:>11}/s {:>11}/s  {heading}", names[3], names[4])?;
    for (name, Split { inclusive, own }) in &rows {
        write!(output, "{:>14} {:>14}", inclusive.accesses, own.accesses)?;
        if has_error {
            let (least, most) = (own.at_least.unwrap_or(0), own.at_most.unwrap_or(0));
            write!(output, " {least:>14} {most:>14}")?;
        }
        let pages = own.pages.map_or("-".into(), |pages| pages.to_string());
        write!(output, " {:>12} {:>12} {pages:>12}", own.reads, own.writes)?;
        let name = escape::name(name.as_ref());
        writeln!(output, " {:>13} {:>13}  {name}", rate(inclusive), rate(own))?;
    }
    Ok(())
}

fn rate(amount: &Amount) -> String {
    match amount.bytes_per_second {
        None => "-".into(),
        Some(rate) if rate >= 1e9 => format!("{:.3} GB", rate / 1e9),
        Some(rate) => format!("{:.3} MB", rate / 1e6),
    }
}

impl Trace {
    /// Reports losses and unexpected contents of the trace, one line each.
    pub(super) fn warn(&self, warn: &mut impl FnMut(&str, u64)) {
        let contents = &self.found;
        let tags =
            if self.sync.is_none() { " and tags, all calls are taken to end there" } else { "" };
        let gaps =
            format!("gaps of the trace, so that accesses of functions are lower bounds{tags}");
        warn(&gaps, contents.gaps);
        warn("accesses lost there, as far as that is known", contents.lost_accesses);
        warn("restarts of the card, where all calls are taken to end", contents.restarts);
        warn(
            "accesses that the card only counted, attributed to no function",
            contents.counted_only,
        );
        warn("reads of the card's window, which are no tags", contents.window_reads);
        warn("writes to the card's window that are no tags of this map", self.other_tags);
        warn(
            "functions, blocks and loops whose inclusive pages are not known: too many were open at a time",
            self.without_pages,
        );
        if let Some(sync) = &self.sync {
            warn("accesses before the first mark or behind the last", sync.beyond_marks);
            warn("accesses before or after a restart of the card, left out", sync.other_sessions);
        }
    }
}
