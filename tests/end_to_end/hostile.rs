//! Whatever bytes come, every reader takes or refuses them, and says of them what a plain reading does.
//! `make fuzz` goes on from there.

use std::path::PathBuf;

use hmtt_tests::hostile::{BuildError, Extent, TARGETS, Targets};
use hmtt_tests::skip;

/// Inputs each target is tried on. Those that do more with one get fewer.
const INPUTS: [(&str, u64); 12] = [
    ("frame", 200_000),
    ("record", 100_000),
    ("trace", 5_000),
    ("pcapng", 30_000),
    ("vector", 50_000),
    ("elf", 50_000),
    ("tag_log", 50_000),
    ("tag_map", 20_000),
    ("tag_report", 2_000),
    ("table", 10_000),
    ("parquet", 2_000),
    ("unfinished", 5_000),
];
const SEED: u64 = 1;

/// The build's folder: beside those of other profiles, so that it is not built anew each time.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("fuzz")
}

#[test]
fn made_up_inputs_panic_nowhere_and_read_as_the_document_says() {
    let targets = match Targets::build(&folder()) {
        Ok(targets) => targets,
        Err(BuildError::Missing(what)) => {
            return skip("made_up_inputs_panic_nowhere_and_read_as_the_document_says", &what);
        }
        Err(BuildError::Failed(what)) => panic!("the fuzz targets do not build: {what}"),
    };
    assert!(INPUTS.iter().map(|(target, _)| *target).eq(TARGETS));
    // Nothing of earlier runs: the same inputs each time.
    let corpus = tempfile::tempdir().unwrap();
    for (target, inputs) in INPUTS {
        if let Err(failure) = targets.run(target, corpus.path(), Extent::Inputs(inputs), SEED) {
            panic!("{failure}\nfiles are in {}", corpus.keep().display());
        }
    }
}
