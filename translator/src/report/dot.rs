//! Writes the control flow of a function as a graph for Graphviz, with blocks coloured by their executions.

use std::collections::{BTreeMap, BTreeSet};

use hmtt_format::escape;
use hmtt_format::profile::Block;

use super::{Analysis, Edge, EdgeKind, disassembly, place};

impl Analysis<'_> {
    /// The graph of all executed functions with a name; `None` if there is none. Edges to other functions lead to a node
    /// of that function.
    pub fn dot(&self, function: &str) -> Option<String> {
        let blocks = self.blocks_of(function);
        let most = blocks.iter().map(|block| block.entries).max()?;
        let mut text = format!("digraph \"{}\" {{\n", quoted(function));
        text += "  node [shape=box, style=filled, fontname=monospace];\n";
        for block in &blocks {
            text += &node(block, most);
        }
        let is_whole = self.profile.selection.is_none();
        let unknown = if is_whole { "not executed" } else { "omitted" };
        let is_in = |block: &Block| block.function.as_deref() == Some(function);
        let (mut lines, mut others) = (BTreeMap::new(), BTreeSet::new());
        for edge in self.edges().into_iter().filter(|edge| is_in(edge.from)) {
            let to = match edge.to {
                Some(to) if is_in(to) => format!("b{}", to.number),
                other => {
                    let name = other.map_or_else(|| unknown.into(), function_of);
                    others.insert(name.clone());
                    format!("\"{name}\"")
                }
            };
            let style = style(&edge);
            let sum: &mut u64 = lines.entry((edge.from.number, to, style)).or_default();
            *sum = sum.saturating_add(edge.times);
        }
        for name in others {
            text += &format!("  \"{name}\" [shape=ellipse, style=solid];\n");
        }
        for ((from, to, style), times) in lines {
            text += &format!("  b{from} -> {to} [label=\"{times}\"{style}];\n");
        }
        Some(text + "}\n")
    }
}

/// A block with its code, from white to red by the logarithm of its executions.
fn node(block: &Block, most: u64) -> String {
    let mut label = format!("{}  {}x\\l", quoted(&place(block)), block.entries);
    for line in disassembly::lines(block) {
        label += &format!("{:x}  {}\\l", line.address, quoted(&line.text));
    }
    let heat = f64::ln_1p(block.entries as f64) / f64::ln_1p(most.max(1) as f64);
    format!("  b{} [label=\"{label}\", fillcolor=\"0.000 {heat:.3} 1.000\"];\n", block.number)
}

fn function_of(block: &Block) -> String {
    quoted(
        &block
            .function
            .as_deref()
            .map_or_else(|| place(block), |name| escape::name(name).to_string()),
    )
}

fn style(edge: &Edge<'_>) -> &'static str {
    match edge.kind {
        EdgeKind::Jump | EdgeKind::Next => "",
        EdgeKind::Call | EdgeKind::IndirectCall => ", style=bold",
        EdgeKind::IndirectJump => ", style=dashed",
        EdgeKind::Return => ", style=dotted",
    }
}

/// Text within the quotes of the graph language.
fn quoted(text: &str) -> String {
    escape::message(text).to_string().replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn a_graph_has_all_blocks_and_edges() {
        let mut profile = profile();
        profile.blocks[4].function = Some("g\"\n".into());
        let text = Analysis::new(&profile).dot("f").unwrap();
        let expected = r#"digraph "f" {
  node [shape=box, style=filled, fontname=monospace];
  b1 [label="f+0x0  11x\l1000  dec %ecx\l1002  je 0x1008\l", fillcolor="0.000 1.000 1.000"];
  b2 [label="f+0x4  10x\l1004  call *%rax\l", fillcolor="0.000 0.965 1.000"];
  b3 [label="f+0x6  10x\l1006  jmp 0x1000\l", fillcolor="0.000 0.965 1.000"];
  b4 [label="f+0x8  1x\l1008  ret\l", fillcolor="0.000 0.279 1.000"];
  "g\"\\n" [shape=ellipse, style=solid];
  b1 -> b2 [label="10"];
  b1 -> b4 [label="1"];
  b2 -> "g\"\\n" [label="10", style=bold];
  b3 -> b1 [label="10"];
}
"#;
        assert_eq!(text, expected);
        assert_eq!(Analysis::new(&profile).dot("h"), None);
    }
}
