//! The program `hmtt-sql-scheduler`: distributes the tasks of queries to the executors of a
//! cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hmtt_cluster::{Address, SchedulerOptions, Secret, run_scheduler};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Give the tasks of queries to the executors of a cluster
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Whoever has the secret can read all data sets of the executors. Without a secret only this machine can use \
    the scheduler: it listens on loopback only. docs/scale.md describes a cluster."
)]
struct Arguments {
    /// Address at which executors and clients are awaited
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    listen: Address,
    /// File with the secret of the cluster; by default the environment variable HMTT_CLUSTER_SECRET
    /// has it
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Arguments { listen, secret_file } = Arguments::parse();
    hmtt_cluster::run_service("hmtt-sql-scheduler", async {
        let secret = Secret::read(secret_file.as_deref())?;
        run_scheduler(SchedulerOptions { listen, secret }).await
    })
}
