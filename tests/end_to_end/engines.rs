//! Both engines on every vector: the same capture files, byte for byte.

use hmtt_tests::{DDR1, succeed, vector};

use crate::captures::path;

/// Runs one half of the vectors, so that two test threads share the work.
fn compare(names: impl Iterator<Item = &'static str>) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let files = ["rust", "verilator"].map(|engine| {
            let file = folder.path().join(format!("{name}.{engine}.pcapng"));
            let (input, output) = (vector(name, "cmd.gz"), path(&file).to_string());
            let arguments =
                ["replay", path(&input), "--engine", engine, "--quiet", "-o", output.as_str()];
            succeed("hmtt-sim", &arguments);
            std::fs::read(&file).unwrap()
        });
        assert!(files[0].len() > 1000, "{name}");
        assert!(files[0] == files[1], "{name}: the engines differ");
    }
}

#[test]
fn both_engines_send_the_same_frames_for_the_longest_vector() {
    compare(DDR1.into_iter().filter(|name| name.starts_with("v03")));
}

#[test]
fn both_engines_send_the_same_frames_for_the_other_vectors() {
    compare(DDR1.into_iter().filter(|name| !name.starts_with("v03")));
}
