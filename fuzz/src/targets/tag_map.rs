//! Checks that any file is read as a tag map or rejected, and that each number of a map has the
//! name of the last function with this number.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use hmtt::tags::names::Names;
use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::TagMap;
use rustix::fs::{MemfdFlags, memfd_create};

/// Reads a map and compares it with its JSON.
pub fn check(bytes: &[u8]) {
    let mut file: std::fs::File =
        memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("there is memory").into();
    file.write_all(bytes).expect("memory takes all");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let Ok(map) = TagMap::load(&path) else { return };
    let text = serde_json::to_string(&map).expect("a map is JSON");
    assert_eq!(serde_json::from_str::<TagMap>(&text).ok().as_ref(), Some(&map));
    let numbers: Vec<u32> = map.functions.iter().map(|function| function.number.0).collect();
    let names = Names::new(map.clone());
    for function in &map.functions {
        let name = names.get(function.number);
        // If several functions have the same number, the last of them counts.
        let of_number = map.functions.iter().rfind(|one| one.number == function.number);
        // Inputs are too short for names that would be shortened.
        assert!(of_number.is_some_and(|one| name.starts_with(&one.name)));
    }
    let unknown =
        (0..).find(|number: &u32| !numbers.contains(number)).expect("there are many numbers");
    assert_eq!(names.get(FunctionId(unknown)), format!("event {unknown}"));
}
