//! Implements the command line of `hmtt sql`: arguments, output, messages and exit status.
//!
//! The programs `hmtt-sql` and `hmtt-sql-cluster` share all of this; they differ in the engine that
//! answers the query.

mod arguments;
mod metrics;
mod progress;
mod run;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

pub use arguments::{Arguments, size};
pub use run::{Ended, interruptible, report, report_as, run};

use crate::{Engine, EngineError, Query, Shared};

/// Size of the stack. Expressions of queries nest, and are visited and freed recursively. Only the
/// used part of the stack takes memory.
const STACK_BYTES: usize = 1 << 29;

/// An engine that answers queries.
pub trait QueryEngine: Sync {
    /// Returns the counts of the bytes and parts that queries read, and the messages about them.
    fn shared(&self) -> &Arc<Shared>;

    /// Plans a query.
    fn query(&self, sql: &str) -> impl Future<Output = Result<Query, EngineError>> + Send;
}

impl QueryEngine for Engine {
    fn shared(&self) -> &Arc<Shared> {
        self.shared()
    }

    fn query(&self, sql: &str) -> impl Future<Output = Result<Query, EngineError>> + Send {
        self.query(sql)
    }
}

/// Runs a program in a thread whose stack has space for nested expressions.
pub fn with_large_stack(run: impl FnOnce() -> ExitCode + Send + 'static) -> ExitCode {
    hmtt::table::parquet::hide_caught_panics();
    let planner = std::thread::Builder::new().name("planner".into()).stack_size(STACK_BYTES);
    let run = planner.spawn(run);
    run.ok().and_then(|run| run.join().ok()).unwrap_or(ExitCode::FAILURE)
}
