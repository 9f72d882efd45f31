//! Rewrites the Verilog that `rust_hdl` emits so that Verilator evaluates it in one pass.
//!
//! `rust_hdl` emits one `always @(*)` for all logic of a block. If this logic drives an input of an
//! inner block and reads an output that depends on it, Verilator sees a loop (UNOPTFLAT), although
//! no signal depends on itself. It then evaluates the logic of the loop at every clock until
//! nothing changes. `isolate_assignments` gives a signal an `always` block of its own and so
//! removes the loop.
//!
//! Verilator moves the assignments of such a signal without checking what they read. So a signal is
//! marked only if moving is safe ([`can_be_isolated`]). Loops of other signals stay.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::EngineError;

/// The mark after the name of a signal that gets an `always` block of its own.
pub const ISOLATE: &str = " /*verilator isolate_assignments*/";
/// Flags with which Verilator reports loops and does nothing else.
const FLAGS: [&str; 5] = ["--lint-only", "-Wno-WIDTH", "--top-module", "top", "looped.v"];
/// The warning, and the lines below it that name more signals of the same loop.
const NAMED: [&str; 2] = ["Signal unoptimizable: Circular combinational logic:", "Example path:"];
/// Most passes: removing a loop may reveal another loop, one level of blocks deeper.
const ROUNDS: usize = 16;

/// Returns the same Verilog with the marks that remove its loops. `directory`: working directory
/// for Verilator.
pub fn without_loops(verilog: &str, directory: &Path) -> Result<String, EngineError> {
    let file = directory.join("looped.v");
    let mut text = verilog.to_owned();
    for _ in 0..ROUNDS {
        fs::write(&file, &text).map_err(EngineError::io("write", &file))?;
        let output = Command::new("verilator")
            .args(FLAGS)
            .current_dir(directory)
            .output()
            .map_err(EngineError::from_verilator)?;
        let marked = marked(&text, &lines_of_loops(&String::from_utf8_lossy(&output.stderr)));
        if marked == text {
            break;
        }
        text = marked;
    }
    Ok(text)
}

/// Parses the numbers, from 1, of the lines that declare the signals of loops.
fn lines_of_loops(log: &str) -> BTreeSet<usize> {
    let line = |text: &str| {
        let at = text.find("looped.v:")? + "looped.v:".len();
        text[at..].split(':').next()?.parse().ok()
    };
    log.lines()
        .filter(|text| NAMED.iter().any(|name| text.contains(name)))
        .filter_map(line)
        .collect()
}

/// Marks the signals that are declared on these lines. The mark is put where an `always` block
/// assigns the signal: in the same module, or in the module whose output the signal is.
fn marked(verilog: &str, declared: &BTreeSet<usize>) -> String {
    let lines: Vec<&str> = verilog.lines().collect();
    let isolated = |(at, name)| can_be_isolated(name, block_of(&lines, at, name));
    let mut text = String::with_capacity(verilog.len() + 1000);
    for (at, line) in lines.iter().enumerate() {
        let signal = declared.contains(&(at + 1)).then(|| signal(&lines, at)).flatten();
        match signal.filter(|signal| isolated(*signal)) {
            Some(_) => text.extend([line.trim_end_matches(';'), ISOLATE, ";\n"]),
            None => text.extend([line, "\n"]),
        }
    }
    text
}

/// If the line at `at` declares a signal without a mark, returns a line of the module that assigns
/// the signal, and the signal's name there.
fn signal<'a>(lines: &[&'a str], at: usize) -> Option<(usize, &'a str)> {
    let declared = lines[at].trim().strip_suffix(';')?;
    let (kind, declared) = declared.split_once(' ')?;
    let name = declared.rsplit([' ', ']']).next().filter(|name| identifiers(name).eq([*name]))?;
    match kind {
        "reg" => Some((at, name)),
        "wire" => output(lines, at, name),
        _ => None,
    }
}

/// Finds the module whose output a wire is. Returns the module's first line and the output's name.
fn output<'a>(lines: &[&'a str], at: usize, wire: &str) -> Option<(usize, &'a str)> {
    let connected = format!("({wire})");
    let end = at + lines[at..].iter().position(|line| line.trim().starts_with("endmodule"))?;
    let connects = |line: &&str| line.trim().trim_end_matches(',').ends_with(&connected);
    let port = at + lines[at..end].iter().position(connects)?;
    let name = lines[port].trim().strip_prefix('.')?.split('(').next()?;
    let instance = lines[at..port].iter().rfind(|line| line.trim().ends_with('('))?;
    let head = format!("module {}(", instance.trim().split(' ').next()?);
    Some((lines.iter().position(|line| line.starts_with(&head))?, name))
}

/// Returns the lines of the `always @(*)` block that assigns a variable, in the module around line
/// `at`.
pub fn block_of<'lines, 'a>(lines: &'lines [&'a str], at: usize, name: &str) -> &'lines [&'a str] {
    let module_end = |line: &&str| line.trim().starts_with("endmodule");
    let end = lines[at..].iter().position(module_end).map_or(lines.len(), |count| at + count);
    let starts = |line: &&str| line.trim() == "always @(*) begin";
    let mut rest = &lines[at..end];
    while let Some(start) = rest.iter().position(starts) {
        let indent = rest[start].len() - rest[start].trim_start().len();
        let ends = |line: &&str| line.trim() == "end" && line.len() == indent + "end".len();
        let length = rest[start..].iter().position(ends).unwrap_or(rest.len() - start);
        let block = &rest[start..start + length];
        if block.iter().any(|line| assigned(line) == Some(name)) {
            return block;
        }
        rest = &rest[start + length..];
    }
    &[]
}

/// Returns the variable that a line assigns, whole or in part.
pub fn assigned(line: &str) -> Option<&str> {
    let (target, _) = line.split_once(" = ")?;
    let name = identifiers(target.trim()).next()?;
    (target.trim().starts_with(name)).then_some(name)
}

/// Splits a text into words that may be identifiers.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let inner = |letter: char| letter.is_ascii_alphanumeric() || "_$".contains(letter);
    let begins = |word: &&str| {
        word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
    };
    text.split(move |letter| !inner(letter)).filter(begins)
}

/// Whether the assignments of a variable have the same effect in an `always` block of their own.
/// This holds if no later statement assigns what these assignments and their conditions read, and
/// if no statement reads the variable before its last assignment.
pub fn can_be_isolated(name: &str, block: &[&str]) -> bool {
    let Some(last) = block.iter().rposition(|line| assigned(line) == Some(name)) else {
        return false;
    };
    let read = |line: &'_ str| -> BTreeSet<String> {
        let reads = line.split_once(" = ").map_or(line, |(_, value)| value);
        identifiers(reads).map(str::to_owned).collect()
    };
    let mut before = BTreeSet::new();
    for line in &block[..=last] {
        let target = assigned(line);
        let reads = read(line);
        if target != Some(name) && reads.contains(name) {
            return false;
        }
        if target.is_some_and(|target| target != name && before.contains(target)) {
            return false;
        }
        if target.is_none() || target == Some(name) {
            before.extend(reads);
        }
    }
    block[last..]
        .iter()
        .filter_map(|line| assigned(line))
        .all(|target| target == name || !before.contains(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = "module m(a);\n    reg  [3:0] a;\n    reg  b$d;\n    reg  c;\n    \
        always @(*) begin\n        c = x;\n        a = 4'h0;\n        if (c) begin\n            \
        a = y;\n        end\n        b$d = a;\n    end\nendmodule\n";

    #[test]
    fn signals_of_a_loop_are_marked_where_they_are_declared() {
        let log = "%Warning-UNOPTFLAT: looped.v:2:5: Signal unoptimizable: Circular combinational logic: 'a'\n\
            \x20   looped.v:3:9:      Example path: b$d\n    looped.v:5:9:      Example path: ALWAYS\n";
        assert_eq!(lines_of_loops(log), BTreeSet::from([2, 3, 5]));
        let expected = BLOCK
            .replace("[3:0] a;", &format!("[3:0] a{ISOLATE};"))
            .replace("b$d;", &format!("b$d{ISOLATE};"));
        assert_eq!(marked(BLOCK, &lines_of_loops(log)), expected);
        assert_eq!(marked(&expected, &lines_of_loops(log)), expected);
    }

    #[test]
    fn an_output_is_marked_where_it_is_connected() {
        let output = BLOCK.replace("b$d", "out");
        let text = format!(
            "module top;\n    wire  m$out;\n    m m(\n        .out(m$out)\n    );\nendmodule\n{output}"
        );
        let expected = text.replace("m$out;", &format!("m$out{ISOLATE};"));
        assert_eq!(marked(&text, &BTreeSet::from([2])), expected);
        let unsafely = text.replace("out = a;", "out = a;\n        a = z;");
        assert_eq!(marked(&unsafely, &BTreeSet::from([2])), unsafely);
    }

    #[test]
    fn a_signal_that_reads_or_is_read_between_assignments_stays() {
        let refused = |from: &str, to: &str, line| {
            let text = BLOCK.replace(from, to);
            assert_ne!(text, BLOCK);
            assert_eq!(marked(&text, &BTreeSet::from([line])), text);
        };
        // The condition would read a later value of `c`.
        refused("b$d = a;", "c = z;", 2);
        // The assignment would read a later value of `a`.
        refused("b$d = a;", "b$d = a;\n        a = z;", 3);
        refused("if (c) begin", "if (a) begin", 2);
        refused("c = x;", "c = a;", 2);
        // The block reads the signal before its last assignment.
        refused("a = y;\n        end\n", "c = a;\n        end\n        a = y;\n", 2);
    }
}
