//! Emitted Verilog and a checker to a verdict, by yosys and ABC.
//!
//! A clock of the Verilog becomes an enable of one global clock: an edge is a step, and edges of
//! two clocks come in any order. An asynchronous reset becomes another enable: it takes effect a
//! step later. Checkers hold resets inactive, as what a reset brings back is the power-on state,
//! from which each search begins. ABC looks for a counterexample in every state reachable within
//! some steps (`bmc3`) or in every reachable state at all (`pdr`).

use std::fs;
use std::process::Command;

use rust_hdl::prelude::*;

use crate::direct::settled;
use crate::tools;
use crate::verdicts::Inputs;

/// Longest search before ABC gives up, which fails the test.
const SECONDS: u32 = 300;

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// This many steps from power-on.
    Steps(u32),
    /// For ever.
    Ever,
    /// For ever, by assertions that prove each other: they are taken as one.
    Inductive,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No assertion can fail within the reach.
    Holds,
    /// One fails after so many steps.
    Fails(u32),
}

impl Verdict {
    fn word(&self) -> String {
        match self {
            Verdict::Holds => "holds".to_string(),
            Verdict::Fails(steps) => format!("fails-{steps}"),
        }
    }

    fn parse(word: &str) -> Option<Verdict> {
        match word.strip_prefix("fails-") {
            None => (word == "holds").then_some(Verdict::Holds),
            Some(steps) => steps.parse().ok().map(Verdict::Fails),
        }
    }
}

/// Verilog under proof.
pub struct Proof {
    /// For messages.
    pub name: &'static str,
    /// Module `top`, and the modules it is made of.
    pub verilog: String,
    /// Module `check`, which has the assertions and assumptions.
    pub checker: &'static str,
    /// Macros of the checker.
    pub macros: Vec<(&'static str, u64)>,
    /// How far to look.
    pub reach: Reach,
}

/// The block's Verilog as module `name`, with its clocks as enables.
pub fn stepped<B: Block>(name: &str, block: B) -> String {
    let verilog = generate_verilog(&settled(block))
        .replace("module top(", &format!("module {name}("))
        .replace("top$", &format!("{name}$"));
    let text = verilog.lines().map(|line| match line.trim().strip_prefix("always @(posedge ") {
        None => line.to_string(),
        Some(rest) => {
            let (edges, rest) = rest.split_once(')').expect("a clock");
            format!("always @($global_clock) if ({}) {rest}", edges.replace(" or posedge ", " || "))
        }
    });
    text.collect::<Vec<_>>().join("\n") + "\n"
}

/// Adds an output `inner` to a module: registers, or wires with their full names, that lemmas speak
/// of. The first is highest.
pub fn exposed(verilog: &str, module: &str, bits: usize, registers: &[&str]) -> String {
    let start = verilog.find(&format!("module {module}(")).expect("the module");
    let ports = start + verilog[start..].find(");").expect("its ports");
    let end = ports + verilog[ports..].find("endmodule").expect("its end");
    let outputs: Vec<String> = registers
        .iter()
        .map(|name| if name.contains('$') { name.to_string() } else { format!("{name}$q") })
        .collect();
    let (before, inside, after) = (&verilog[..ports], &verilog[ports + 2..end], &verilog[end..]);
    format!(
        "{before},inner);\n    output wire [{}:0] inner;\n{inside}assign inner = {{{}}};\n{after}",
        bits - 1,
        outputs.join(", ")
    )
}

/// Registers without a reset begin with any value, and so do those of the modules in `also`, which
/// lose theirs.
pub fn without_initial_values(verilog: &str, also: &[&str]) -> String {
    let modules = verilog.split_inclusive("endmodule").map(|module| {
        let resets = module.contains("if (clock[1])") || module.contains("if (clock[2])");
        let loses = also.iter().any(|name| module.contains(&format!("module {name}(")));
        if !module.contains("initial q = ") || resets && !loses {
            return module.to_string();
        }
        let kept = module.lines().filter(|line| !line.trim_start().starts_with("initial q = "));
        let text = kept.collect::<Vec<_>>().join("\n");
        text.replace("if (clock[1])", "if (1'b0)").replace("if (clock[2])", "if (1'b0)")
    });
    modules.collect()
}

impl Proof {
    /// Requires an assertion to fail.
    pub fn fails(&self) {
        let verdict = self.verdict(&self.verilog, &self.macros);
        assert_ne!(verdict, Some(Verdict::Holds), "{}: nothing is noticed", self.name);
    }

    /// Requires the assertions to hold.
    pub fn holds(&self) {
        if let Some(verdict) = self.verdict(&self.verilog, &self.macros) {
            assert_eq!(verdict, Verdict::Holds, "{}", self.name);
        }
    }

    /// Requires an assertion to fail once the Verilog is changed.
    pub fn refutes(&self, from: &str, to: &str) {
        assert!(self.verilog.contains(from), "{}: no {from:?} in the Verilog", self.name);
        let verdict = self.verdict(&self.verilog.replace(from, to), &self.macros);
        assert_ne!(verdict, Some(Verdict::Holds), "{}: {from:?} may be {to:?}", self.name);
    }

    /// Requires an assertion to fail once a macro of the checker has another value.
    pub fn refutes_macro(&self, name: &str, value: u64) {
        let mut macros = self.macros.clone();
        let place = macros.iter_mut().find(|(macro_name, _)| *macro_name == name);
        place.expect("the macro exists").1 = value;
        let verdict = self.verdict(&self.verilog, &macros);
        assert_ne!(verdict, Some(Verdict::Holds), "{}: {name} may be {value}", self.name);
    }

    /// `None` when a tool is missing.
    fn verdict(&self, verilog: &str, macros: &[(&str, u64)]) -> Option<Verdict> {
        let version = tools::run(self.name, "yosys", Command::new("yosys").arg("-V"))?;
        let version = tools::printed(&version);
        let abc = Command::new("yosys-abc").args(["-q", "version"]).output();
        let abc = abc.map(|output| tools::printed(&output)).unwrap_or_default();
        let (script, commands) = (script(macros, &version), commands(self.reach));
        let parts = [verilog, self.checker, &script, &commands, &version, &abc].map(str::as_bytes);
        let inputs = Inputs::new(self.name, &parts);
        if let Some(verdict) = inputs.verdict() {
            return Some(Verdict::parse(&verdict).expect("a verdict of a proof"));
        }
        let verdict = self.proved(verilog, &script, &commands)?;
        inputs.keep(&verdict.word());
        Some(verdict)
    }

    /// Runs the tools; `None` when one is missing.
    fn proved(&self, verilog: &str, script: &str, commands: &str) -> Option<Verdict> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in [("top.v", verilog), ("check.v", self.checker)] {
            fs::write(folder.path().join(name), text).expect("a file is written");
        }
        let mut yosys = Command::new("yosys");
        yosys.current_dir(&folder).args(["-q", "-p", script]);
        let output = tools::run(self.name, "yosys", &mut yosys)?;
        assert!(output.status.success(), "{}: {}", self.name, tools::printed(&output));
        let mut abc = Command::new("yosys-abc");
        let searched =
            tools::run(self.name, "yosys-abc", abc.current_dir(&folder).args(["-q", commands]))?;
        Some(verdict_of(&tools::printed(&searched), self.reach))
    }
}

/// Yosys' script, from Verilog and checker to a circuit that ABC reads.
fn script(macros: &[(&str, u64)], version: &str) -> String {
    // Later versions keep assertions as `$check` cells unless an option says otherwise.
    let lower = if keeps_checks(version) { "chformal -lower; " } else { "" };
    let defines: String = macros.iter().map(|(name, value)| format!(" -D{name}={value}")).collect();
    format!(
        "read_verilog -formal top.v; read_verilog -formal -sv{defines} check.v; \
         hierarchy -check -top check; proc; flatten; opt_clean; memory_map -formal; opt; {lower}\
         setundef -undriven -anyseq; opt; techmap; opt -fast; dffunmap; \
         setundef -anyseq; aigmap; opt_clean; write_aiger -I -B -zinit check.aig"
    )
}

/// ABC's commands.
fn commands(reach: Reach) -> String {
    let search = match reach {
        Reach::Steps(steps) => format!("bmc3 -F {steps} -T {SECONDS}"),
        Reach::Ever => format!("scorr; pdr -T {SECONDS}"),
        // `ind` proves the step from the first clock to the second; the search before it, that
        // assertions hold at first.
        Reach::Inductive => format!("orpos; bmc3 -F 3 -T {SECONDS}; ind -F 2"),
    };
    format!("read_aiger check.aig; fold; strash; {search}")
}

/// ABC's words to a verdict.
fn verdict_of(printed: &str, reach: Reach) -> Verdict {
    if let Some((_, rest)) = printed.split_once("was asserted in frame ") {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        return Verdict::Fails(digits.parse().expect("a frame"));
    }
    let held = match reach {
        // ABC prints this about the step. The search of the first clocks must have been completed.
        Reach::Inductive => {
            printed.contains("Networks are equivalent") && !printed.contains("timeout")
        }
        Reach::Steps(_) | Reach::Ever => {
            printed.contains("Property proved")
                || printed.contains("No output asserted in") && !printed.contains("timeout")
        }
    };
    assert!(held, "ABC came to no verdict: {printed}");
    Verdict::Holds
}

/// From yosys 0.38 on.
fn keeps_checks(version: &str) -> bool {
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number.split(['.', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(0), Some(38))
}
