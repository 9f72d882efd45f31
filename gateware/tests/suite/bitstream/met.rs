//! Boards whose bitstream met timing, and of which inputs it was made.
//!
//! Placing and routing take minutes. The result depends on these inputs only: Verilog, constraints,
//! the steps, the versions of the tools. `gateware/tests/bitstreams.txt` has a digest of the inputs
//! that passed. With other inputs, a bitstream is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gateware::bitstream::Family;
use gateware::bitstream::tools::Tools;
use gateware::boards::Board;

use crate::tools::printed;

/// Environment variable that makes the tests build all bitstreams and write the digests of those that
/// pass: `UPDATE_BITSTREAMS=1 cargo test -p gateware --test suite bitstream::`.
const UPDATE: &str = "UPDATE_BITSTREAMS";

/// The inputs of a board's bitstream.
pub struct Inputs {
    board: &'static str,
    digest: String,
}

impl Inputs {
    pub fn new(board: &Board, family: Family, tools: &Tools) -> Inputs {
        let memory = gateware::synth::memory(None).expect("the built-in memory");
        let mut inputs = (board.verilog)(&memory, board.fifo_kb[0]).expect("a board").into_bytes();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders = [root.join("src/bitstream"), root.join("../constraints").join(board.name)];
        for file in folders.iter().flat_map(|folder| files(folder)) {
            inputs.extend(fs::read(file).expect("an input"));
        }
        for (tool, option) in family.tools().into_iter().zip(["-V", "--version"]) {
            let path = tools.find(tool).expect("it is installed");
            let version = Command::new(path).arg(option).output().expect("it starts");
            inputs.extend(printed(&version).into_bytes());
        }
        // Two sums, from both ends: a digest of 64 bits, of inputs that nobody forges.
        let reversed: Vec<u8> = inputs.iter().rev().copied().collect();
        let [sum, reversed] = [inputs, reversed].map(|bytes| crc32fast::hash(&bytes));
        Inputs { board: board.name, digest: format!("{sum:08x}{reversed:08x}") }
    }

    /// Whether a bitstream of these inputs met timing and passed the test. `false` while the digests
    /// are updated.
    pub fn passed(&self) -> bool {
        let digests = fs::read_to_string(digests()).unwrap_or_default();
        std::env::var_os(UPDATE).is_none() && digests.lines().any(|line| line == self.line())
    }

    /// Called when a bitstream of these inputs has passed.
    pub fn pass(&self) {
        if std::env::var_os(UPDATE).is_none() {
            println!("{}: passed with inputs that are not in {}", self.board, digests().display());
            println!("{UPDATE}=1 writes them");
            return;
        }
        let old = fs::read_to_string(digests()).unwrap_or_default();
        let others = old.lines().filter(|line| !line.starts_with(&format!("{} ", self.board)));
        let mut lines: Vec<&str> = others.collect();
        let line = self.line();
        lines.push(&line);
        lines.sort_unstable();
        fs::write(digests(), lines.join("\n") + "\n").expect("the digests are written");
    }

    fn line(&self) -> String {
        format!("{} {}", self.board, self.digest)
    }
}

fn digests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bitstreams.txt")
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}
