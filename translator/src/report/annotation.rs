//! Lists the executed instructions of a function with their counts.

use std::collections::BTreeMap;

use hmtt_files::profile::{Block, BlockEnd};
use hmtt_format::escape;

use super::lines::SourceLines;
use super::{Analysis, disassembly, place};

/// Maximum number of targets of an indirect transfer that are listed.
const TARGETS: usize = 4;

/// An instruction of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    /// Address in the file, or in the process if the address in the file is not known.
    pub address: u64,
    /// Number of its bytes.
    pub bytes: u64,
    /// How often it was executed: the executions of all blocks that contain it.
    pub times: u64,
    /// The instruction as text.
    pub text: String,
    /// Where it led, if it ends a block: shares of targets, or of jumps that were taken.
    pub after: String,
}

/// Annotated instructions by their object and address.
type Annotations<'p> = BTreeMap<(&'p str, u64), Annotated>;

impl<'p> Analysis<'p> {
    /// Blocks of all functions with a name. Functions of several objects may have it.
    pub fn blocks_of(&self, function: &str) -> Vec<&'p Block> {
        let is_in = |block: &&Block| block.function.as_deref() == Some(function);
        self.profile.blocks.iter().filter(is_in).collect()
    }

    /// Executed instructions of some blocks. An instruction that several blocks contain is in the
    /// result once.
    pub fn annotate(&self, blocks: &[&'p Block]) -> Annotations<'p> {
        let mut targets = BTreeMap::new();
        for site in self.indirect_sites() {
            let whole = site.times();
            let shown = site
                .targets
                .iter()
                .take(TARGETS)
                .map(|(to, times)| format!("{} {:.1} %", place(to), percent(*times, whole)));
            let omitted = (site.omitted > 0)
                .then(|| format!("omitted functions {:.1} %", percent(site.omitted, whole)));
            let mut text = shown.chain(omitted).collect::<Vec<_>>().join(", ");
            if site.targets.len() > TARGETS {
                text += &format!(", {} others", site.targets.len() - TARGETS);
            }
            targets.insert(site.block.number, text);
        }
        let mut instructions = BTreeMap::new();
        for block in blocks {
            let lines = disassembly::lines(block);
            let last = lines.len().saturating_sub(1);
            for (at, line) in lines.into_iter().enumerate() {
                let instruction = instructions
                    .entry((block.object.as_str(), line.address))
                    .or_insert(Annotated {
                        address: line.address,
                        bytes: line.bytes,
                        times: 0,
                        text: line.text,
                        after: String::new(),
                    });
                instruction.times = instruction.times.saturating_add(block.entries);
                if at == last {
                    instruction.after = match block.end {
                        BlockEnd::Conditional if self.profile.unbalanced_blocks.is_some() => {
                            format!("taken {:.1} %", percent(block.taken, block.left()))
                        }
                        _ => targets.get(&block.number).cloned().unwrap_or_default(),
                    };
                }
            }
        }
        instructions
    }

    /// The code of a function with counts; `None` if none of it was executed.
    pub fn annotation(&self, function: &str) -> Option<String> {
        let blocks = self.blocks_of(function);
        let sources = SourceLines::find(blocks.iter().copied());
        let instructions = self.annotate(&blocks);
        let most = instructions.values().map(|instruction| instruction.times).max()?;
        let (mut text, mut object, mut end) = (String::new(), "", None);
        let mut source = None;
        for ((object_name, address), instruction) in &instructions {
            if std::mem::replace(&mut object, object_name) != *object_name {
                text += &format!("{} in {}:\n", escape::name(function), escape::name(object_name));
                text += &format!("{:>16} {:>6}  {:<18}\n", "times", "%", "address");
            } else if end != Some(*address) {
                text += "             ...  not executed\n";
            }
            let line = sources.get(object_name, *address);
            if line.is_some() && line != source {
                text += &format!("{:24}; {}\n", "", escape::name(line.unwrap_or_default()));
            }
            source = line;
            let share = percent(instruction.times, most);
            let after = if instruction.after.is_empty() {
                String::new()
            } else {
                format!("  # {}", instruction.after)
            };
            text += &format!(
                "{:>16} {share:>6.2}  {address:#018x}  {}{after}\n",
                instruction.times, instruction.text
            );
            end = Some(address.wrapping_add(instruction.bytes));
        }
        Some(text)
    }
}

/// A part of a whole in percent; 0 if the whole is 0.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn code_is_listed_with_its_counts() {
        let profile = profile();
        let text = Analysis::new(&profile).annotation("f").unwrap();
        let expected = "\
f in /bin/p:
           times      %  address           
              11 100.00  0x0000000000001000  dec %ecx
              11 100.00  0x0000000000001002  je 0x1008  # taken 9.1 %
              10  90.91  0x0000000000001004  call *%rax  # g+0x0 100.0 %
              10  90.91  0x0000000000001006  jmp 0x1000
               1   9.09  0x0000000000001008  ret
";
        assert_eq!(text, expected);
        assert_eq!(Analysis::new(&profile).annotation("h"), None);
    }
}
