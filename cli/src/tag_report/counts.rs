//! Prints a file of counts for `hmtt tag report`. The table is the one that `hmtt tag run` prints
//! without `-o`.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use hmtt_format::escape;
use serde_json::Value;

use super::super::standard_io::print;
use super::Arguments;

/// Number of bytes at the start of a file that are examined.
const FIRST: usize = 64;

/// Whether a file begins like a JSON object.
pub fn is_json(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let mut read = || File::open(path)?.take(FIRST as u64).read_to_end(&mut bytes);
    is_file && read().is_ok() && bytes.trim_ascii_start().first() == Some(&b'{')
}

/// Prints the counts.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let path = &arguments.log;
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
    let document: Value = serde_json::from_reader(BufReader::new(file))
        .with_context(|| format!("{name}: neither a tag log nor a file of counts"))?;
    let rows = rows(&document, "functions");
    if document.get("sink").is_some() {
        bail!("{name} names the functions of a log or a card's tags; give the log itself");
    }
    let Some(mut rows) = rows else {
        bail!(
            "{name}: neither a tag log nor a file of counts (it has no list `functions` with `calls`)"
        );
    };
    let files = [&arguments.flame, &arguments.folded, &arguments.callgrind, &arguments.perfetto];
    if arguments.threads || arguments.graph || files.iter().any(|file| file.is_some()) {
        bail!(
            "{name} has counts only, no times and no callers: record a log (--sink log) for these"
        );
    }
    if arguments.trace.is_some() {
        bail!(
            "{name} has counts only, no times: record a log (--sink log --marks) to combine it with a trace"
        );
    }
    rows.extend(self::rows(&document, "blocks").unwrap_or_default());
    rows.sort_by_key(|(calls, _)| std::cmp::Reverse(*calls));
    print(|output| {
        if arguments.json {
            hmtt_format::json::to_writer(&mut *output, &document)?;
            return writeln!(output);
        }
        let mut rows = rows.iter().filter(|(calls, _)| *calls != 0);
        rows.try_for_each(|(calls, name)| writeln!(output, "{calls:>14} {name}"))
    })?;
    Ok(false)
}

/// Count and name of each function or block in a list. `list`: key of the list. Returns `None` if
/// the list does not exist.
fn rows(document: &Value, list: &str) -> Option<Vec<(u64, String)>> {
    let row = |entry: &Value| {
        // While maps of tags had version 1, the key of blocks was `count`.
        let count = ["calls", "entries", "count"].iter().find_map(|key| entry.get(key));
        let calls = count?.as_u64()?;
        let mut name = match entry.get("name").and_then(Value::as_str) {
            Some(name) => name.to_owned(),
            None => {
                let offset = entry.get("offset")?.as_i64()?;
                let sign = if offset < 0 { '-' } else { '+' };
                format!("{}{sign}{:x}", entry.get("function")?.as_str()?, offset.unsigned_abs())
            }
        };
        if let Some(program) = entry.get("program").and_then(Value::as_str) {
            let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
            name = format!("{program}: {name}");
        }
        Some((calls, escape::name(&name).to_string()))
    };
    document.get(list)?.as_array()?.iter().map(row).collect()
}
