//! Tests a cluster of a scheduler and two executors as processes, on loopback.

mod cluster;
mod deployment;
mod faults;
mod hostile;
mod objects;
mod peer;
mod queries;
mod raw_calls;
mod rejected;
mod report;
#[path = "../../../sql/tests/suite/samples.rs"]
mod samples;
mod secrets;
