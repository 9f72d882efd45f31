//! The fuzz targets: one module for each reader.

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
