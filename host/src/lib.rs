//! The receiver: frames of a card on an interface to a capture, and a capture to accesses with
//! every loss counted.
//!
//! ```text
//! interface -> capture -> receive -> pcapng file -> decode -> report
//!                            '-----> decode (counts only) '-> table <-> Parquet, CSV, JSON lines,
//!                                                                       HMTT's 6-byte records
//! ```
//!
//! Invariants: [`capture`] knows no analysis and [`decode`] knows no sockets; [`receive`] joins them.
//! Whatever the wire or a file holds, nothing here panics, and what was lost is data, not an error.

pub mod arguments;
pub mod capture;
pub mod capture_reader;
pub mod decode;
pub mod files;
pub mod merge;
pub mod online;
pub mod pcapng;
pub mod receive;
pub mod report;
pub mod table;
pub mod tags;
