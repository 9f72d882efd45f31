//! Converts a profile to the format of files: adds the names of functions and files, and leaves out
//! blocks that are not selected.

use hmtt_files::profile::{
    Block, BlockEnd, Cache, Ending, IndirectEdge, KIND, Models, Native, Predictor, Profile,
    Recorded, Superblock, SystemCall, VERSION,
};
use hmtt_files::system_call;
use hmtt_probe::control;
use hmtt_probe::selection::Selection;

use super::names::{Names, Unread};
use super::selected;
use super::{BlockCount, Profile as Counted};
use crate::monitor::calls::{CallCount, UNKNOWN};
use crate::monitor::code::End;
use crate::monitor::counted;
use crate::monitor::models::{Modelled, Models as Counts, PREDICTORS};

const NANOSECONDS: u128 = 1_000_000_000;

/// A profile for a file.
#[derive(Clone, Debug)]
pub struct Written {
    /// The profile.
    pub profile: Profile,
    /// Files in which code was executed, but whose functions are not known. If the program is one
    /// of them, and rules depend on its functions, the profile has all blocks and no selection.
    pub unread: Vec<Unread>,
}

impl Counted {
    /// Converts the profile of a program that is no longer followed. `left`: why the program was
    /// left, if it was not followed to its end. `selection`: functions whose blocks are in the
    /// profile; all by default.
    pub fn to_file(
        &self,
        ending: control::Ending,
        left: Option<&str>,
        selection: Option<&Selection>,
    ) -> Written {
        let mut names = Names::new(self.files.clone(), selection);
        let (blocks, is_selected): (Vec<Block>, Vec<bool>) =
            self.blocks.iter().map(|block_count| block(block_count, &mut names)).unzip();
        let native = |code: &super::NativeCode| Native {
            code_address: code.at.0,
            reason: code.why.clone(),
            times: code.used.times,
            processor_ns: code.used.processor_ns,
        };
        let edges = self.edges.iter();
        let edges = edges.filter(|(_, times)| *times > 0).map(|(edge, times)| IndirectEdge {
            from: edge.from,
            to: edge.to,
            times: *times,
        });
        let calls = self.calls.iter();
        let calls = calls.map(|(thread, number, count)| call(thread, number, count, self.tsc_hz));
        let profile = Profile {
            version: VERSION,
            kind: KIND.into(),
            program: self.program.display().to_string(),
            process: self.process,
            processor_ns: self.processor_ns,
            cache_ns: nanoseconds(self.ticks, self.tsc_hz),
            ending: match ending {
                control::Ending::Exited(code) => Ending::Exited(code),
                control::Ending::Signaled(signal) => Ending::Signaled(signal.0),
                control::Ending::Replaced => Ending::Replaced,
                control::Ending::Detached => Ending::Detached,
            },
            left: left.map(str::to_owned),
            recorded: if self.unbalanced.is_some() { Recorded::Edges } else { Recorded::Counts },
            monitored_threads: self.threads,
            native_threads: self.native_threads,
            native_children: self.children,
            handled_signals: self.signals,
            dropped_numbers: self.dropped,
            invalid_numbers: self.invalid,
            cut_threads: self.cut_threads,
            unbalanced_blocks: self.unbalanced,
            blocks,
            edges: edges.collect(),
            superblocks: self
                .superblocks
                .iter()
                .filter_map(|superblock| self.superblock(superblock))
                .collect(),
            system_calls: calls.collect(),
            native: self.native.iter().map(native).collect(),
            models: models(&self.models),
            selection: None,
        };
        let unread = names.into_unread();
        let is_program_known = unread.iter().all(|one| one.library.is_some());
        let rules = selection.filter(|rules| is_program_known || !rules.needs_program());
        let profile = match rules {
            Some(rules) => selected::select(profile, &is_selected, rules),
            None => profile,
        };
        Written { profile, unread }
    }

    /// A superblock; `None` if one of its blocks was never executed.
    fn superblock(&self, superblock: &counted::Superblock) -> Option<Superblock> {
        let is_executed =
            |number: &u32| self.blocks.binary_search_by_key(number, |block| block.number).is_ok();
        superblock.blocks.iter().all(is_executed).then(|| Superblock {
            blocks: superblock.blocks.clone(),
            entries: superblock.executions,
            completions: superblock.completed,
            executed_blocks: superblock.blocks_executed,
            cache_ns: nanoseconds(superblock.ticks, self.tsc_hz),
            undone: superblock.is_undone,
        })
    }
}

/// Results of models; `None` if there were none.
fn models(counts: &Counts) -> Option<Models> {
    let sum = |count: fn(&Modelled, usize) -> u64, at| {
        counts.blocks.iter().map(|block| count(block, at)).sum()
    };
    let predictor = |(at, (name, size_bytes)): (usize, &(&str, u64))| Predictor {
        name: (*name).into(),
        size_bytes: *size_bytes,
        branches: counts.branches,
        mispredictions: sum(|one, at| one.mispredictions[at], at),
    };
    let predictors = PREDICTORS.iter().enumerate().filter(|_| counts.options.predictors);
    let icache = counts.options.icache.map(|geometry| Cache {
        size_bytes: geometry.size_bytes(),
        ways: geometry.ways(),
        line_bytes: geometry.line_bytes(),
        fetches: counts.fetches,
        cache_misses: sum(|one, _| one.cache_misses, 0),
    });
    let models = Models { predictors: predictors.map(predictor).collect(), icache };
    (!counts.options.is_empty()).then_some(models)
}

/// A block in the format of files, and whether it is selected.
fn block(block_count: &BlockCount, names: &mut Names<&Selection>) -> (Block, bool) {
    let code = &block_count.code;
    let place = block_count.mapping.as_ref().map(|mapping| names.find(mapping, code.start));
    // Code whose memory was unmapped belongs to no known function.
    let place = place.unwrap_or_else(|| names.nowhere());
    let path = block_count.mapping.as_ref().map(|mapping| mapping.original_path());
    let (function, offset) = place.function.unzip();
    let tally = &block_count.tally;
    let block = Block {
        number: block_count.number,
        object: path.map(|path| path.display().to_string()).unwrap_or_default(),
        function,
        offset,
        code_address: code.start.0,
        file_address: place.address,
        size_bytes: block_count.bytes.len() as u64,
        instructions: code.instructions,
        entries: tally.executions,
        unexecuted: block_count.unexecuted,
        code: block_count.bytes.to_vec(),
        end: match code.end {
            End::Jump { .. } => BlockEnd::Jump,
            End::Conditional { .. } => BlockEnd::Conditional,
            End::Call { .. } => BlockEnd::Call,
            End::IndirectJump => BlockEnd::IndirectJump,
            End::IndirectCall => BlockEnd::IndirectCall,
            End::Return => BlockEnd::Return,
            End::SystemCall => BlockEnd::SystemCall,
            End::FallThrough => BlockEnd::Next,
        },
        target_address: code.end.target().map(|to| to.0),
        starts: tally.starts,
        stops: tally.stops,
        taken: tally.taken,
        other_edges: tally.other_edges,
        mispredictions: if block_count.modelled.mispredictions.iter().all(|count| *count == 0) {
            Vec::new()
        } else {
            block_count.modelled.mispredictions.to_vec()
        },
        cache_misses: block_count.modelled.cache_misses,
        ..Block::default()
    };
    (block, place.is_selected)
}

/// Nanoseconds for ticks of the time stamp counter; 0 if its rate is not known.
fn nanoseconds(ticks: u64, tsc_hz: u64) -> u64 {
    let whole = (u128::from(ticks) * NANOSECONDS).checked_div(tsc_hz.into());
    whole.unwrap_or(0).try_into().unwrap_or(u64::MAX)
}

fn call(thread: i32, number: u32, count: CallCount, tsc_hz: u64) -> SystemCall {
    let name = system_call::name(number);
    SystemCall {
        thread,
        number: (number != UNKNOWN).then_some(number),
        name: name.map_or_else(|| "unknown".into(), str::to_owned),
        calls: count.times,
        timed_calls: count.timed,
        total_ns: nanoseconds(count.ticks, tsc_hz),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_nanoseconds_if_the_rate_is_known() {
        let count = CallCount { times: 3, timed: 2, ticks: 5_000 };
        let read = call(7, 0, count, 2_500_000_000);
        assert_eq!((read.name.as_str(), read.total_ns, read.timed_calls), ("read", 2_000, 2));
        assert_eq!(call(7, 0, count, 0).total_ns, 0);
        let unknown = call(7, UNKNOWN, count, 1);
        assert_eq!((unknown.number, unknown.name.as_str()), (None, "unknown"));
        assert_eq!(call(7, 400, count, 1).number, Some(400));
    }
}
