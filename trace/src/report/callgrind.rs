//! Writes the calls of a log as a profile in callgrind's format, for `callgrind_annotate` and
//! KCachegrind.

use std::collections::BTreeMap;
use std::io::{self, Write};

use hmtt_files::tag_log::FunctionId;
use hmtt_format::escape;

use super::calls::{Calls, Edge, Sum};

/// Writes a profile. Costs are nanoseconds, or ticks if their frequency is not known, or calls if
/// there are no times.
///
/// # Errors
/// The errors of writing to `output`.
pub fn write(calls: &Calls, mut output: impl Write) -> io::Result<()> {
    let event = match (calls.timed, calls.tsc_hz) {
        (true, 0) => "Ticks",
        (true, _) => "Nanoseconds",
        (false, _) => "Calls",
    };
    writeln!(
        output,
        "# callgrind format\nversion: 1\ncreator: hmtt {}",
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(output, "pid: {}", calls.pid)?;
    if let Some(program) = &calls.program {
        writeln!(output, "cmd: {}", line(program))?;
    }
    let costs = calls.functions.iter().map(|function| own(&function.sum));
    let total = costs.fold(0, u64::saturating_add);
    writeln!(output, "positions: line\nevents: {event}\nsummary: {total}\n")?;
    let mut names = BTreeMap::new();
    let mut objects = BTreeMap::new();
    for function in &calls.functions {
        names.insert(function.number, line(&function.name));
        objects.insert(function.number, line(function.object.as_deref().unwrap_or("???")));
    }
    let mut callees = BTreeMap::<FunctionId, Vec<&Edge>>::new();
    for edge in &calls.edges {
        if let Some(caller) = edge.numbers.0 {
            callees.entry(caller).or_default().push(edge);
        }
    }
    for function in &calls.functions {
        let number = function.number;
        writeln!(output, "ob={}\nfl=???\nfn={}", objects[&number], names[&number])?;
        writeln!(output, "0 {}", own(&function.sum))?;
        for edge in callees.get(&number).into_iter().flatten() {
            let callee = edge.numbers.1;
            writeln!(output, "cob={}\ncfi=???\ncfn={}", objects[&callee], names[&callee])?;
            writeln!(output, "calls={} 0\n0 {}", edge.sum.calls, inclusive(&edge.sum))?;
        }
        writeln!(output)?;
    }
    writeln!(output, "totals: {total}")
}

/// Replaces line ends in a name, which the format does not allow.
fn line(name: &str) -> String {
    escape::message(name).to_string()
}

fn own(sum: &Sum) -> u64 {
    sum.times.self_ns.or(sum.times.self_ticks).unwrap_or(sum.calls)
}

/// Inclusive cost of calls; 0 without times, because it is not known then.
fn inclusive(sum: &Sum) -> u64 {
    sum.times.inclusive_ns.or(sum.times.inclusive_ticks).unwrap_or(0)
}
