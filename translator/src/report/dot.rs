//! Writes the control flow of a function as a graph for Graphviz, with blocks coloured by their
//! executions.

use std::collections::BTreeMap;

use hmtt_files::profile::Block;
use hmtt_format::escape;

use super::{Analysis, EdgeKind, disassembly, place};

/// The node for all code that the selection omits. Other nodes have a letter and a number.
const OMITTED: &str = "omitted";

/// How often the edges of each kind lead from one node to another. The kind is a style of the
/// graph.
type Lines = BTreeMap<(u32, String, &'static str), u64>;

impl Analysis<'_> {
    /// The graph of all executed functions with a name; `None` if there is none. Edges to another
    /// function lead to one node for that function. Edges to and from code that the selection omits
    /// lead to one node for all of that code.
    pub fn dot(&self, function: &str) -> Option<String> {
        let blocks = self.blocks_of(function);
        let most = blocks.iter().map(|block| block.entries).max()?;
        let mut text = format!("digraph \"{}\" {{\n", quoted(function));
        text += "  node [shape=box, style=filled, fontname=monospace];\n";
        for block in &blocks {
            text += &node(block, most);
        }
        let (lines, others) = self.lines(&blocks, function);
        for (name, number) in others {
            text += &format!("  f{number} [label=\"{name}\", shape=ellipse, style=solid];\n");
        }
        let from_omitted: Vec<&&Block> =
            blocks.iter().filter(|block| block.from_omitted > 0).collect();
        if !from_omitted.is_empty() || lines.keys().any(|(_, to, _)| to == OMITTED) {
            text += &format!("  {OMITTED} [shape=ellipse, fillcolor=lightgray];\n");
        }
        for ((from, to, style), times) in lines {
            text += &format!("  b{from} -> {to} [label=\"{times}\"{style}];\n");
        }
        for Block { number, from_omitted: times, .. } in from_omitted {
            text += &format!("  {OMITTED} -> b{number} [label=\"{times}\"];\n");
        }
        Some(text + "}\n")
    }

    /// The edges from the blocks of a function, and by name the numbers of the nodes that stand for
    /// other functions.
    fn lines(&self, blocks: &[&Block], function: &str) -> (Lines, BTreeMap<String, usize>) {
        let (mut lines, mut others) = (Lines::new(), BTreeMap::new());
        let mut add = |from: &Block, to: String, kind: EdgeKind, times: u64| {
            let sum = lines.entry((from.number, to, style(kind))).or_default();
            *sum = sum.saturating_add(times);
        };
        let is_in = |block: &Block| block.function.as_deref() == Some(function);
        let has_selection = self.profile.selection.is_some();
        for edge in self.edges().into_iter().filter(|edge| is_in(edge.from)) {
            let to = match edge.to {
                Some(to) if is_in(to) => format!("b{}", to.number),
                None if has_selection => OMITTED.into(),
                other => {
                    let name = other.map_or_else(|| "not executed".into(), function_of);
                    let next = others.len() + 1;
                    format!("f{}", others.entry(name).or_insert(next))
                }
            };
            add(edge.from, to, edge.kind, edge.times);
        }
        for block in blocks.iter().filter(|block| block.to_omitted > 0) {
            add(block, OMITTED.into(), EdgeKind::of_indirect(block.end), block.to_omitted);
        }
        (lines, others)
    }
}

/// A block as a node with its code. Its colour goes from white to red by the logarithm of its
/// executions.
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

fn style(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Jump | EdgeKind::Next => "",
        EdgeKind::Call | EdgeKind::IndirectCall => ", style=bold",
        EdgeKind::IndirectJump => ", style=dashed",
        EdgeKind::Return => ", style=dotted",
    }
}

/// Text as it is written within the quotes of the graph language.
fn quoted(text: &str) -> String {
    escape::message(text).to_string().replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use hmtt_files::profile::{BlockEnd, Selected};

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
  f1 [label="g\"\\n", shape=ellipse, style=solid];
  b1 -> b2 [label="10"];
  b1 -> b4 [label="1"];
  b2 -> f1 [label="10", style=bold];
  b3 -> b1 [label="10"];
}
"#;
        assert_eq!(text, expected);
        assert_eq!(Analysis::new(&profile).dot("h"), None);
    }
    #[test]
    fn one_node_stands_for_all_omitted_code() {
        let mut profile = profile();
        profile.selection = Some(Selected::default());
        let callee = profile.blocks.pop().unwrap();
        profile.edges.clear();
        // The call leads to `g`, which returns; and the last block to another function by a direct
        // jump.
        profile.blocks[1].to_omitted = callee.entries;
        profile.blocks[2].from_omitted = callee.entries;
        let jump = &mut profile.blocks[3];
        (jump.end, jump.target_address, jump.stops) = (BlockEnd::Jump, Some(0x9000), 0);
        let text = Analysis::new(&profile).dot("f").unwrap();
        let edges = text.split_once("  omitted [").unwrap().1;
        let expected = r#"shape=ellipse, fillcolor=lightgray];
  b1 -> b2 [label="10"];
  b1 -> b4 [label="1"];
  b2 -> omitted [label="10", style=bold];
  b3 -> b1 [label="10"];
  b4 -> omitted [label="1"];
  omitted -> b3 [label="10"];
}
"#;
        assert_eq!(edges, expected);
    }

    #[test]
    fn names_of_functions_are_not_those_of_nodes() {
        let mut profile = profile();
        profile.blocks[4].function = Some("b1".into());
        let text = Analysis::new(&profile).dot("f").unwrap();
        assert!(text.contains("  f1 [label=\"b1\", shape=ellipse, style=solid];\n"), "{text}");
        assert!(text.contains("  b2 -> f1 [label=\"10\", style=bold];\n"), "{text}");
    }
}
