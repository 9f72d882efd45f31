//! The program `hmtt-sql-scheduler`: gives the tasks of queries to the executors of a cluster.

use std::process::ExitCode;

use clap::Parser;
use hmtt_cluster::{Address, SchedulerOptions, run_scheduler};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Give the tasks of queries to the executors of a cluster
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "The protocol has no authentication: who reaches the address can read all data sets of the \
    executors. docs/scale.md describes a cluster."
)]
struct Arguments {
    /// Address at which executors and clients are awaited
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: Address,
}

fn main() -> ExitCode {
    let Arguments { listen } = Arguments::parse();
    hmtt_cluster::run_service("hmtt-sql-scheduler", run_scheduler(SchedulerOptions { listen }))
}
