//! Reports the progress of a program at regular intervals.
//!
//! A separate thread does this, because finding the functions of blocks takes time, in which the
//! monitor must continue to read.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use hmtt_probe::selection::Selection;
use nix::unistd::Pid;

use super::Shared;
use crate::monitor::progress::Snapshot;
use crate::profile::Names;
use crate::shared::CHUNKS;

/// Progress of a program at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Number of the process.
    pub pid: Pid,
    /// Blocks executed per second since the last report, as far as the monitor has read.
    pub blocks_per_second: f64,
    /// Fill of the fullest ring, from 0 to 1.
    pub queue_fill: f64,
    /// The function in which most instructions were executed so far, and its share of all executed
    /// instructions, from 0 to 1; `None` if no function is known.
    pub hottest: Option<(String, f64)>,
}

/// The functions of translated blocks.
#[derive(Default)]
struct Functions {
    /// Finds names in the files of the process.
    names: Names<&'static Selection>,
    /// Name of the function of each block, in the order of their numbers.
    of_blocks: Vec<Option<String>>,
}

impl Functions {
    /// Finds the functions of blocks that were translated since the last call.
    fn learn(&mut self, shared: &Shared) {
        let translation = shared.translation();
        let known = self.of_blocks.len() as u32;
        let new: Vec<_> = (known + 1..=translation.last_number())
            .map(|number| {
                let (block, files) = translation.block(number)?;
                Some((files.clone(), block.start))
            })
            .collect();
        drop(translation);
        let names = &mut self.names;
        self.of_blocks.extend(new.into_iter().map(|place| {
            let (files, at) = place?;
            let mapping =
                files.iter().find(|mapping| (mapping.start..mapping.end).contains(&at))?;
            Some(names.find(mapping, at).function?.0)
        }));
    }

    /// The function with most instructions, and its share of all. `instructions`: for each block,
    /// by number.
    fn hottest(&self, instructions: &[u64]) -> Option<(String, f64)> {
        let of_blocks = instructions.get(1..)?;
        let mut of_functions: HashMap<&str, u64> = HashMap::new();
        for (function, count) in self.of_blocks.iter().zip(of_blocks) {
            if let Some(name) = function {
                *of_functions.entry(name).or_default() += count;
            }
        }
        let (most, function) = of_functions.into_iter().map(|(name, sum)| (sum, name)).max()?;
        let total: u64 = of_blocks.iter().sum();
        (most > 0).then(|| (function.to_owned(), most as f64 / total as f64))
    }
}

/// Prints a report for each snapshot, until the monitor has ended.
pub(super) fn report(
    pid: Pid,
    shared: &Shared,
    snapshots: &Receiver<Snapshot>,
    print: fn(&Progress),
) {
    let files = shared.translation().code_files().clone();
    let mut functions = Functions { names: Names::new(files, None), ..Functions::default() };
    for Snapshot { elapsed, blocks, full_chunks, instructions } in snapshots {
        functions.learn(shared);
        let seconds = elapsed.max(Duration::from_millis(1)).as_secs_f64();
        print(&Progress {
            pid,
            blocks_per_second: blocks as f64 / seconds,
            queue_fill: full_chunks as f64 / CHUNKS as f64,
            hottest: functions.hottest(&instructions),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_with_most_instructions_is_hottest() {
        let functions = Functions {
            of_blocks: ["first", "", "second", "first"]
                .map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()))
                .into(),
            ..Functions::default()
        };
        let hottest = |instructions: &[u64]| functions.hottest(instructions);
        assert_eq!(hottest(&[9, 3, 5, 7, 5]), Some(("first".into(), 8.0 / 20.0)));
        // Blocks that were translated later are not known yet.
        assert_eq!(hottest(&[0, 3, 0, 4, 0, 1]), Some(("second".into(), 0.5)));
        assert_eq!(hottest(&[0, 0, 2]), None);
        assert_eq!(hottest(&[]), None);
    }
}
