//! Sums calls by their call paths, and writes the paths as folded stacks, which programs turn into
//! flame graphs.

use std::borrow::Cow;
use std::io::{self, Write};

use hmtt_files::tag_log::FunctionId;
use hmtt_format::escape;

use super::hash::FastMap;
use super::nanoseconds;
use super::stack::{Call, Listener};

/// Greatest depth of a path. Deeper calls count for their callers, because a deeper flame graph is
/// not readable.
const DEPTH: u32 = 512;
/// Number of paths from which on calls on new paths count for their callers. Calls without a caller
/// always have a path.
const PATHS: usize = 1 << 20;

/// A call path: a function, and the path of its caller.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Index of the caller's path.
    caller: Option<u32>,
    /// Number of the last function of the path.
    number: FunctionId,
    depth: u32,
    calls: u64,
    /// Ticks in the last function itself.
    own: u64,
}

/// The call paths of all threads.
#[derive(Debug, Default)]
pub struct CallTree {
    paths: Vec<Path>,
    /// Index of each path. The high 32 bits of a key are the index of the caller's path plus 1, or
    /// 0 without a caller. The low 32 bits are the number of the callee.
    places: FastMap<u64, u32>,
    /// Number of calls that were counted for their callers, because they were too deep or there
    /// were too many paths.
    pub left_out: u64,
}

/// The quantity that gives a path its width in a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Time in the path's last function itself: in nanoseconds if `tsc_hz` is known, otherwise in
    /// ticks.
    Time {
        /// Ticks per second, or 0 if not known.
        tsc_hz: u64,
    },
    /// Number of calls of the path's last function.
    Calls,
}

impl Listener for CallTree {
    /// Index of the path in `paths`.
    type Note = u32;

    fn enter(&mut self, caller: Option<u32>, number: FunctionId, _tsc: u64) -> u32 {
        let key = caller.map_or(0, |caller| u64::from(caller) + 1) << 32 | u64::from(number.0);
        let depth = caller.map_or(0, |caller| self.paths[caller as usize].depth + 1);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if caller.is_some() && (depth >= DEPTH || self.paths.len() >= PATHS) => {
                self.left_out += 1;
                caller.unwrap_or_default()
            }
            None => {
                let place = self.paths.len() as u32;
                self.paths.push(Path { caller, number, depth, calls: 0, own: 0 });
                self.places.insert(key, place);
                place
            }
        };
        self.paths[place as usize].calls += 1;
        place
    }

    fn leave(&mut self, call: &Call<u32>) {
        let path = &mut self.paths[call.note as usize];
        path.own = path.own.saturating_add(call.own);
    }
}

impl CallTree {
    /// Writes a line for each path, `outermost;...;innermost weight`, in the order of the paths'
    /// first calls.
    ///
    /// # Errors
    /// `output` returns an error.
    pub fn fold<'a>(
        &self,
        weight: Weight,
        name: impl Fn(FunctionId) -> Cow<'a, str>,
        mut output: impl Write,
    ) -> io::Result<()> {
        let mut functions = Vec::new();
        for path in self.paths.iter().filter(|path| path.weight(weight) != 0) {
            functions.clear();
            let mut next = Some(*path);
            while let Some(Path { caller, number, .. }) = next {
                functions.push(number);
                next = caller.map(|caller| self.paths[caller as usize]);
            }
            for (place, number) in functions.iter().rev().enumerate() {
                let separator = if place == 0 { "" } else { ";" };
                // A semicolon or a line end inside a name would end the name.
                let name = name(*number).replace(';', ":");
                write!(output, "{separator}{}", escape::message(&name))?;
            }
            writeln!(output, " {}", path.weight(weight))?;
        }
        Ok(())
    }
}

impl Path {
    fn weight(&self, weight: Weight) -> u64 {
        match weight {
            Weight::Time { tsc_hz } => nanoseconds(self.own, tsc_hz),
            Weight::Calls => self.calls,
        }
    }
}
