//! Verdicts of tools that take minutes, by the inputs that they depend on alone.
//!
//! A proof, a netlist and a bitstream are the same for the same Verilog, script and version of the
//! tool. `gateware/tests/verdicts.txt` has a digest of these inputs with each verdict.
//! A test runs its tool only for inputs that are not in the file.
//! `UPDATE_VERDICTS=1` runs all tools and writes the file, as `make long` does.
//! Who changes what a test requires of a netlist or a bitstream does that too: the digest is of the
//! tool's inputs, and not of the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Environment variable that makes the tests run all tools and write their verdicts.
const UPDATE: &str = "UPDATE_VERDICTS";

/// What a verdict depends on.
pub struct Inputs {
    name: String,
    digest: String,
}

impl Inputs {
    /// `name`: what the tool examines. `parts`: all that its verdict depends on.
    pub fn new(name: impl Into<String>, parts: &[&[u8]]) -> Inputs {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let digest = hasher.finalize().to_hex()[..16].to_string();
        Inputs { name: name.into(), digest }
    }

    /// Returns the verdict on the same inputs; `None` if there is none, or all tools must run.
    pub fn verdict(&self) -> Option<String> {
        if updates() {
            return None;
        }
        let verdicts = fs::read_to_string(file()).unwrap_or_default();
        let line = verdicts.lines().find_map(|line| line.strip_prefix(&self.digest));
        line.and_then(|rest| rest.split_whitespace().next()).map(str::to_string)
    }

    /// Keeps a verdict, which is one word, while verdicts are updated. Otherwise it says that the
    /// file lacks the verdict.
    pub fn keep(&self, verdict: &str) {
        if !updates() {
            println!("{}: {verdict}, not in {}", self.name, file().display());
            println!("{UPDATE}=1 writes it");
            return;
        }
        static KEPT: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());
        let mut kept = KEPT.lock().expect("no test panics here");
        kept.insert((self.name.clone(), format!("{} {verdict} {}", self.digest, self.name)));
        // Verdicts with the same name on other inputs are obsolete.
        let old = fs::read_to_string(file()).unwrap_or_default();
        let name = |line: &str| line.splitn(3, ' ').nth(2).unwrap_or_default().to_string();
        let others = old.lines().map(|line| (name(line), line.to_string()));
        let mut lines: BTreeSet<(String, String)> =
            others.filter(|(name, _)| !kept.iter().any(|(other, _)| other == name)).collect();
        lines.extend(kept.iter().cloned());
        let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        fs::write(file(), text).expect("the verdicts are written");
    }
}

fn updates() -> bool {
    std::env::var_os(UPDATE).is_some()
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts.txt")
}

#[test]
fn other_inputs_have_other_digests() {
    let digest = |parts: &[&[u8]]| Inputs::new("", parts).digest;
    assert_eq!(digest(&[b"ab", b"c"]), digest(&[b"ab", b"c"]));
    assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    assert_ne!(digest(&[b"ab"]), digest(&[b"ab", b""]));
    assert_eq!(Inputs::new("none", &[b"nothing that a tool examines"]).verdict(), None);
}
