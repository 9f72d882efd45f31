//! Records a block's outputs for every input, and replays the inputs through its Verilog with
//! iverilog.
//!
//! A step contains the values of all input ports, including clocks, and of all output ports after
//! everything has settled. Data and a clock's rising edge never change in the same step, so no
//! simulator can have a race.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use rust_hdl::prelude::*;

use crate::direct::{ClockInput, settle, settled};
use crate::tools;

struct Port {
    name: String,
    bits: usize,
}

/// A block and all it did so far.
pub struct Recording<B: Block> {
    /// The block; set its inputs before [`Recording::step`].
    pub block: B,
    name: &'static str,
    steps: Vec<String>,
    edges: usize,
}

/// Edges from one reset to the next, and those that find one.
const RESET_EVERY: usize = 701;
const RESET_EDGES: usize = 3;

/// Ports of a direction and their values as one binary number, first port highest.
#[derive(Default)]
struct Ports {
    depth: usize,
    /// Names of the bundles of ports that the probe is inside of.
    bundles: Vec<String>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    levels: [String; 2],
}

impl Probe for Ports {
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth += 1;
    }

    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth -= 1;
    }

    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.bundles.push(name.into());
    }

    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.bundles.pop();
    }

    fn visit_atom(&mut self, name: &str, signal: &dyn Atom) {
        let (ports, levels) = match (self.depth, signal.kind()) {
            (1, AtomKind::InputParameter) => (&mut self.inputs, &mut self.levels[0]),
            (1, AtomKind::OutputParameter) => (&mut self.outputs, &mut self.levels[1]),
            _ => return,
        };
        let bundles = self.bundles.iter().map(String::as_str);
        let name = bundles.chain([name]).collect::<Vec<_>>().join("$");
        ports.push(Port { name, bits: signal.bits() });
        let literal = format!("{:x}", signal.verilog());
        let digits = literal.split_once("'h").expect("a hexadecimal literal").1;
        let binary: String = digits
            .chars()
            .map(|digit| format!("{:04b}", digit.to_digit(16).expect("a hexadecimal digit")))
            .collect();
        let significant = binary.trim_start_matches('0');
        let _ = write!(levels, "{significant:0>width$}", width = signal.bits());
    }
}

impl<B: Block> Recording<B> {
    /// Starts with a settled block.
    pub fn new(name: &'static str, block: B) -> Self {
        let mut recording = Self { block: settled(block), name, steps: Vec::new(), edges: 0 };
        recording.step();
        recording
    }

    fn ports(&self) -> Ports {
        let mut ports = Ports::default();
        self.block.accept("top", &mut ports);
        ports
    }

    /// Settles the inputs that were set and keeps what the ports hold.
    pub fn step(&mut self) {
        settle(&mut self.block);
        let [inputs, outputs] = self.ports().levels;
        self.steps.push(inputs + &outputs);
    }

    /// A rising edge; the falling one goes with the inputs set next. Now and then it is one in
    /// reset.
    pub fn edge<C: ClockInput>(&mut self, clock: fn(&mut B) -> &mut C) {
        self.edges += 1;
        clock(&mut self.block).reset(self.edges % RESET_EVERY >= RESET_EVERY - RESET_EDGES);
        clock(&mut self.block).drive(true);
        self.step();
        clock(&mut self.block).drive(false);
    }

    /// The block's Verilog. What a block RAM returns of a word just being written is open: the
    /// blocks return zeros, so for comparing every port the Verilog does, too. The engines of the
    /// simulator compare whole cards without this.
    fn verilog(&self) -> String {
        let verilog = generate_verilog(&self.block);
        let clocks = self.ports().inputs.iter().filter(|port| port.name.ends_with("clock")).count();
        if clocks > 1 {
            // Edges of two clocks never meet here.
            return verilog;
        }
        verilog.replace(
            "read_data <= mem[read_address];",
            "read_data <= write_enable && !write_clock[1] && read_address == write_address ? 0 \
             : mem[read_address];",
        )
    }

    /// Requires the Verilog to do what the block did.
    pub fn agrees(&self) {
        let verdict = self.replay(self.verilog());
        if let Some(Err(differences)) = verdict {
            panic!("{}: the Verilog differs from the block\n{differences}", self.name);
        }
    }

    /// Requires that a replay detects the change of the Verilog.
    pub fn notices(&self, from: &str, to: &str) {
        let verilog = self.verilog();
        assert!(verilog.contains(from), "{}: no {from:?} in the Verilog", self.name);
        let verdict = self.replay(verilog.replacen(from, to, 1));
        assert_ne!(verdict, Some(Ok(())), "{}: {from:?} may be {to:?}", self.name);
    }

    /// Replays the steps. Returns `None` without iverilog, and the first differences as an error.
    fn replay(&self, verilog: String) -> Option<Result<(), String>> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name| folder.path().join(name);
        fs::write(path("top.v"), with_clear_memories(&verilog)).expect("top.v is written");
        fs::write(path("bench.v"), self.testbench()).expect("bench.v is written");
        fs::write(path("steps.txt"), self.steps.join("\n")).expect("steps.txt is written");
        let mut build = Command::new("iverilog");
        build.current_dir(&folder).args(["-g2005", "-o", "bench", "bench.v", "top.v"]);
        let test = format!("co-simulation of the {}", self.name);
        let built = tools::run(&test, "iverilog", &mut build)?;
        assert!(built.status.success(), "{}: {}", self.name, tools::printed(&built));
        let mut replay = Command::new("vvp");
        let replayed = tools::run(&test, "vvp", replay.current_dir(&folder).arg("bench"))?;
        let printed = tools::printed(&replayed);
        let agreed = printed.lines().any(|line| line == format!("agreed {}", self.steps.len()));
        Some(if agreed { Ok(()) } else { Err(printed) })
    }

    fn testbench(&self) -> String {
        let Ports { inputs, outputs, .. } = self.ports();
        let names = |ports: &[Port]| {
            ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>().join(", ")
        };
        let (mut declared, mut compared) = (String::new(), String::new());
        for (kind, ports) in [("reg", &inputs), ("wire", &outputs)] {
            for Port { name, bits } in ports {
                let _ = writeln!(declared, "    {kind} [{}:0] {name};", bits - 1);
            }
        }
        for Port { name, bits } in &outputs {
            let _ = writeln!(declared, "    reg [{}:0] want_{name};", bits - 1);
            let _ = writeln!(
                compared,
                "            if ({name} !== want_{name}) begin wrong = wrong + 1; \
                 $display(\"step %0d: {name} is %h, the block's is %h\", i, {name}, want_{name}); end"
            );
        }
        let ports: Vec<String> =
            inputs.iter().chain(&outputs).map(|port| format!(".{0}({0})", port.name)).collect();
        let wanted = format!("want_{}", names(&outputs).replace(", ", ", want_"));
        format!(
            "`timescale 1ns/1ps\nmodule bench;\n{declared}    reg [{last_bit}:0] steps [0:{last}];\n\
             \x20   integer i, wrong;\n    top dut({ports});\n    initial begin\n        wrong = 0;\n\
             \x20       $readmemb(\"steps.txt\", steps);\n\
             \x20       for (i = 0; i <= {last} && wrong == 0; i = i + 1) begin\n\
             \x20           {{{inputs}, {wanted}}} = steps[i];\n            #1;\n{compared}\
             \x20       end\n        if (wrong == 0) $display(\"agreed %0d\", i);\n        $finish;\n\
             \x20   end\nendmodule\n",
            last_bit = self.steps[0].len() - 1,
            last = self.steps.len() - 1,
            ports = ports.join(", "),
            inputs = names(&inputs),
        )
    }
}

/// Initialises memories with zeros, as in the block and in block RAMs after configuration.
fn with_clear_memories(verilog: &str) -> String {
    let mut text = String::new();
    for line in verilog.lines() {
        let _ = writeln!(text, "{line}");
        if let Some(last) =
            line.trim().strip_suffix("];").and_then(|line| line.split_once("mem [0:"))
        {
            let _ = writeln!(
                text,
                "integer cell_index; initial begin read_data = 0; for (cell_index = 0; cell_index <= \
                 {}; cell_index = cell_index + 1) mem[cell_index] = 0; end",
                last.1
            );
        }
    }
    text
}
