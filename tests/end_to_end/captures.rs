//! Replays recordings into capture files and decodes them, without a wire in between.

use std::path::Path;

use hmtt_tests::{load, succeed, vector};

/// Replays a vector with the verilator engine into a capture file.
pub fn replay(name: &str, options: &[&str], capture: &Path) {
    let input = vector(name, "cmd.gz");
    replay_file(&input, options, capture);
}

/// Replays any recording with the verilator engine into a capture file.
pub fn replay_file(input: &Path, options: &[&str], capture: &Path) {
    let mut arguments = vec!["replay", path(input), "--engine", "verilator", "--quiet", "--force"];
    arguments.extend(["-o", path(capture)]);
    arguments.extend(options);
    succeed("hmtt-sim", &arguments);
}

/// Decodes a capture as `hmtt decode` prints it.
pub fn decode(capture: &Path) -> String {
    succeed("hmtt", &["decode", path(capture), "--format", "text"])
}

/// Returns the lines of a decoded text that are not comments.
pub fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

/// Returns the comment lines that start with `# kind`, without this prefix.
pub fn comments<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let prefix = format!("# {kind} ");
    text.lines().filter_map(|line| line.strip_prefix(prefix.as_str())).collect()
}

/// Converts a path to an argument. Paths of tests are always valid text.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

/// The benchmarks decode and receive generated frames; a fault that readers find in these would end
/// them.
#[test]
fn a_generated_capture_passes_every_check() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let capture = folder.path().join("load.pcapng");
    load::write(&capture, 20, load::POOL_FRAMES)?;
    let info = succeed("hmtt", &["info", "--json", path(&capture)]);
    let info: serde_json::Value = serde_json::from_str(&info)?;
    assert_eq!(info["counts"]["accesses"], 20 * load::FRAME_ACCESSES);
    Ok(())
}
