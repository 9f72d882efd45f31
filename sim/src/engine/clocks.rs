//! Rewrites the Verilog that `rust_hdl` emits so that Verilator sees one clock for each clock
//! domain.
//!
//! `rust_hdl` connects the clock of an inner block by an assignment in the `always @(*)` block that
//! has all assignments of the outer block. Verilator replaces a signal by its source only if a
//! statement of its own drives the signal. Otherwise it takes the clock of each block for a
//! different clock: it looks for an edge of each one, and evaluates the logic between blocks once
//! for each.

use super::loops::{assigned, block_of, can_be_isolated, identifiers};

/// The end of the names of clocks, and of signals that carry a clock with its reset.
const SUFFIX: &str = "clock";

/// Returns the same Verilog, in which continuous assignments drive the clocks of inner blocks.
pub fn unified(verilog: &str) -> String {
    let lines: Vec<&str> = verilog.lines().collect();
    let mut text = String::with_capacity(verilog.len());
    // The clocks of the current module, each with its source. Their old assignments are left out,
    // and continuous ones are added at the end of the module.
    let mut clocks: Vec<(&str, &str)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(clock) = clock(&lines, at) {
            clocks.push(clock);
            text.extend([line.replacen("reg", "wire", 1).as_str(), "\n"]);
            continue;
        }
        if line.trim().starts_with("endmodule") {
            for (name, source) in clocks.drain(..) {
                text.push_str(&format!("    assign {name} = {source};\n"));
            }
        }
        let moved =
            assigned(line).is_some_and(|target| clocks.iter().any(|(name, _)| *name == target));
        if !moved {
            text.extend([line, "\n"]);
        }
    }
    text
}

/// If the line at `at` declares a variable that a module only copies to a block as its clock,
/// returns the variable's name and its source. Example: for `reg [2:0] x$clock;`, which the module
/// assigns by `x$clock = ddr;`, it returns `("x$clock", "ddr")`.
fn clock<'a>(lines: &[&'a str], at: usize) -> Option<(&'a str, &'a str)> {
    let declared = lines[at].trim().strip_prefix("reg ")?.strip_suffix(';')?;
    let name =
        declared.rsplit(' ').next().filter(|name| name.contains('$') && name.ends_with(SUFFIX))?;
    let block = block_of(lines, at, name);
    let mut assignments = block.iter().skip(1).filter(|line| assigned(line) == Some(name));
    let assignment = assignments.next().filter(|_| assignments.next().is_none())?;
    let indent = |line: &str| line.len() - line.trim_start().len();
    // An assignment that is indented as the block's first statement is under no condition.
    let unconditional = indent(assignment) == indent(block.get(1)?);
    let (target, source) = assignment.trim().strip_suffix(';')?.split_once(" = ")?;
    let is_copy = target == name && identifiers(source).eq([source]);
    (unconditional && is_copy && can_be_isolated(name, block)).then_some((name, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "module m(a);\n    reg  [2:0] x$clock;\n    reg  [2:0] ddr;\n    always @(*) begin\n        \
        ddr[0] = a;\n        x$clock = ddr;\n        if (a) begin\n            b = c;\n        end\n    end\nendmodule\n";

    #[test]
    fn a_clock_that_is_handed_on_gets_a_continuous_assignment() {
        let expected = MODULE
            .replace("reg  [2:0] x$clock", "wire  [2:0] x$clock")
            .replace("        x$clock = ddr;\n", "")
            .replace("endmodule", "    assign x$clock = ddr;\nendmodule");
        assert_eq!(unified(MODULE), expected);
        assert_eq!(unified(&expected), expected);
    }

    #[test]
    fn other_assignments_stay() {
        let stays = |from: &str, to: &str| {
            let text = MODULE.replace(from, to);
            assert_ne!(text, MODULE);
            assert_eq!(unified(&text), text);
        };
        stays("x$clock = ddr", "x$clock = ddr & a");
        stays("x$clock = ddr", "x$clock[0] = ddr");
        stays("x$clock", "x$data");
        // The source is assigned again, so that its last value is another one.
        stays("        if (a)", "        ddr[0] = b;\n        if (a)");
        // The clock is assigned under a condition.
        stays("b = c;", "x$clock = ddr;");
        let gated =
            MODULE.replace("        x$clock = ddr;\n", "").replace("b = c;", "x$clock = ddr;");
        assert_eq!(unified(&gated), gated);
    }
}
