//! Executes queries of data sets on a cluster.
//!
//! ```text
//! query   -> hmtt_sql::Engine  a plan, as the embedded engine makes it
//! plan    -> leaves            answered here, sent to the cluster, or rejected
//! plan    -> codec             bytes, with what the plan's functions have loaded
//! bytes   -> client            the scheduler gets the plan; results are read from the executors
//!            plan_message      the scheduler accepts plans of queries of data sets
//!            scheduler         divides plans into tasks, notices executors that are lost
//!            slots             the executors, how many tasks each can get, jobs that fail when one is lost
//!            executor          joins the scheduler, executes tasks
//!            engine            checks each task before its execution: plan_check the operators, locations the paths
//!            results_service   other executors and clients read results of its tasks
//!            connections       connections to other executors, whose results its tasks read
//!            stores            the files and objects that it reads, within its locations
//! ```
//!
//! Scheduler and executors open their port by `listen`, and `authentication` checks each call.
//! Callers must have the `secret`.
//!
//! `hmtt report --cluster` sends pieces of data sets in place of queries:
//!
//! ```text
//! a data set -> copies, hmtt_dataset  its pieces
//! pieces  -> analyse_exec      states of the analyses, found by executors
//! states  -> client/states     bytes for the program that joins them
//! ```
//!
//! Ballista executes the plans. `docs/scale.md` describes how a cluster is started, and its
//! guarantees when parts of it fail.
//!
//! Invariants: the leaves of a plan that is sent are only scans of Parquet files, rows in memory,
//! and rows that name pieces. Each task would read all rows of any other leaf. A query is sent
//! again only while none of its rows has been returned. A call of a program without the cluster's
//! secret is not decoded. A plan is executed only when all of its operators and paths are accepted,
//! whoever has sent it. An executor opens no file outside its locations and its folder of results.

#![deny(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod address;
mod analyse_exec;
mod authentication;
mod client;
mod codec;
mod connections;
mod copies;
mod engine;
mod executor;
mod external;
mod leaves;
mod listen;
mod locations;
mod plan_check;
mod plan_message;
mod results_service;
mod scheduler;
mod secret;
mod service;
mod session;
mod slots;
mod stores;

pub use address::Address;
pub use analyse_exec::Analysed;
pub use authentication::with_token;
pub use client::{ClusterEngine, ClusterError, SchedulerAccess, StateRow, analyse};
pub use copies::plan;
pub use executor::{ExecutorOptions, run_executor};
pub use leaves::{Place, place_of};
pub use scheduler::{SchedulerOptions, run_scheduler};
pub use secret::{Secret, SecretError};
pub use service::run_service;
