//! Lists the fuzz targets, one module for each reader.

pub mod access_trace;
pub mod block_list;
pub mod elf;
pub mod frame;
pub mod imported;
pub mod page_map;
pub mod parquet;
pub mod part;
pub mod pcapng;
pub mod profile;
pub mod record;
pub mod shared;
pub mod state;
pub mod stubs;
pub mod table;
pub mod tag_log;
pub mod tag_map;
pub mod tag_report;
pub mod trace;
pub mod unfinished;
pub mod vector;

/// Reads one input. It panics if the input is read wrongly.
pub type Check = fn(&[u8]);

/// All targets, by the names of their modules.
const ALL: [(&str, Check); 21] = [
    ("access_trace", access_trace::check),
    ("block_list", block_list::check),
    ("elf", elf::check),
    ("frame", frame::check),
    ("imported", imported::check),
    ("page_map", page_map::check),
    ("parquet", parquet::check),
    ("part", part::check),
    ("pcapng", pcapng::check),
    ("profile", profile::check),
    ("record", record::check),
    ("shared", shared::check),
    ("state", state::check),
    ("stubs", stubs::check),
    ("table", table::check),
    ("tag_log", tag_log::check),
    ("tag_map", tag_map::check),
    ("tag_report", tag_report::check),
    ("trace", trace::check),
    ("unfinished", unfinished::check),
    ("vector", vector::check),
];

/// Returns the target with a name.
#[must_use]
pub fn check(name: &str) -> Option<Check> {
    ALL.iter().find(|(target, _)| *target == name).map(|(_, check)| *check)
}

/// Returns the names of all targets.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.map(|(name, _)| name).into()
}
