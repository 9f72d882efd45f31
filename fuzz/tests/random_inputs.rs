//! Feeds every reader inputs that once failed, and changed ones, the same every time. A reader
//! accepts or rejects them, and returns what a simple model of the format returns. `make fuzz`
//! tries more inputs, chosen by coverage.

use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Once;

use hmtt_fuzz::mutations::Mutations;
use hmtt_fuzz::{seeds, targets};

/// A target and its number of inputs. Targets that do more work for an input get fewer.
macro_rules! targets {
    ($($name:ident: $inputs:literal,)*) => {
        $(#[test]
        fn $name() {
            every_input_is_read_as_documented(stringify!($name), $inputs);
        })*

        #[test]
        fn every_target_is_tried() {
            assert_eq!([$(stringify!($name)),*][..], targets::names());
        }
    };
}

targets! {
    access_trace: 20_000,
    block_list: 50_000,
    elf: 50_000,
    frame: 200_000,
    imported: 20_000,
    page_map: 20_000,
    parquet: 2_000,
    part: 1_000,
    pcapng: 30_000,
    profile: 5_000,
    record: 100_000,
    shared: 10_000,
    state: 5_000,
    stubs: 3_000,
    table: 10_000,
    tag_log: 50_000,
    tag_map: 20_000,
    tag_report: 2_000,
    trace: 5_000,
    unfinished: 5_000,
    vector: 50_000,
}

fn every_input_is_read_as_documented(name: &str, inputs: usize) {
    static HIDE: Once = Once::new();
    HIDE.call_once(hmtt::table::parquet::hide_caught_panics);
    let check = targets::check(name).unwrap();
    let failed_before = inputs_that_failed(name);
    let mut seeds = seeds::of(name);
    seeds.extend(failed_before.iter().map(|(_, input)| input.clone()));
    for (file, input) in &failed_before {
        assert!(catch_unwind(|| check(input)).is_ok(), "{name}: {file} fails again");
    }
    let mut mutations = Mutations::new(seeds);
    for number in 0..inputs {
        let input = mutations.next_input();
        if catch_unwind(|| check(&input)).is_err() {
            let kept = tempfile::Builder::new().prefix(name).tempfile().unwrap();
            let (_, path) = kept.keep().unwrap();
            std::fs::write(&path, &input).unwrap();
            panic!("{name}: input {number} fails: {}\n{input:02x?}", path.display());
        }
    }
}

/// Returns the inputs that once failed, with their names.
fn inputs_that_failed(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(name);
    let Ok(files) = folder.read_dir() else { return Vec::new() };
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}
