//! Feeds every reader random bytes. A reader accepts or rejects them, and returns what a simple model of the format
//! returns. `make fuzz` tries more inputs.

use std::path::PathBuf;
use std::sync::Mutex;

use hmtt_tests::hostile::{BuildError, Extent, TARGETS, Targets};
use hmtt_tests::skip;

/// Number of inputs for each target. Targets that do more work for an input get fewer.
const INPUTS: [(&str, u64); 21] = [
    ("access_trace", 20_000),
    ("block_list", 50_000),
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
    ("part", 1_000),
    ("state", 5_000),
    ("unfinished", 5_000),
    ("stubs", 3_000),
    ("shared", 10_000),
    ("profile", 5_000),
    ("imported", 20_000),
    ("page_map", 20_000),
];
const SEED: u64 = 1;

/// Returns the build folder, which is apart from those of other profiles, so that it is kept between runs.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("fuzz")
}

#[test]
fn random_inputs_never_panic_and_are_read_as_documented() {
    let targets = match Targets::build(&folder()) {
        Ok(targets) => targets,
        Err(BuildError::Missing(what)) => {
            return skip("random_inputs_never_panic_and_are_read_as_documented", &what);
        }
        Err(BuildError::Failed(what)) => panic!("the fuzz targets do not build: {what}"),
    };
    assert!(INPUTS.iter().map(|(target, _)| *target).eq(TARGETS));
    // The corpus is empty, so that runs try similar inputs. They are not all the same: libFuzzer derives new ones from those
    // that took new edges, and the edges of some targets differ between runs (hash maps are seeded at random).
    let corpus = tempfile::tempdir().unwrap();
    let next = Mutex::new(INPUTS.into_iter());
    let run = || -> Result<(), String> {
        loop {
            let Some((target, inputs)) = next.lock().unwrap().next() else { return Ok(()) };
            targets.run(target, corpus.path(), Extent::Inputs(inputs), SEED)?;
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        workers.into_iter().filter_map(|worker| worker.join().unwrap().err()).collect()
    });
    if !failures.is_empty() {
        panic!("{}\nfiles are in {}", failures.join("\n"), corpus.keep().display());
    }
}
