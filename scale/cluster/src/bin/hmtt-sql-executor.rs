//! The program `hmtt-sql-executor`: executes tasks of queries.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hmtt_cluster::{Address, ExecutorOptions, Secret, run_executor};
use hmtt_sql::command::size;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Execute tasks of queries
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Whoever has the secret can read all data sets that are given with --data. Without a secret only this machine \
    can use the executor: it listens on loopback only. docs/scale.md describes a cluster."
)]
struct Arguments {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,
    /// Address to which tasks come, and at which results are read
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    listen: Address,
    /// Host by which others reach this executor; by default that from which it connects to the
    /// scheduler
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Tasks at the same time; by default as many as processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Memory for sorting, grouping and joining, of all tasks; what needs more is written to disk
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    memory: usize,
    /// Folder or URL of data sets; can be given several times. No other file or object is read
    #[arg(long, value_name = "DIR|URL", required = true)]
    data: Vec<String>,
    /// Folder of intermediate results; by default that of the system for temporary files
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// File with the secret of the cluster; by default the environment variable HMTT_CLUSTER_SECRET
    /// has it
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    hmtt_cluster::run_service("hmtt-sql-executor", async {
        let secret = Secret::read(arguments.secret_file.as_deref())?;
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        run_executor(ExecutorOptions {
            scheduler: arguments.scheduler,
            listen: arguments.listen,
            advertise: arguments.advertise,
            tasks: arguments.threads.map_or_else(processors, usize::from),
            memory_bytes: arguments.memory as u64,
            data: arguments.data,
            temporary: arguments.temp_dir.unwrap_or_else(std::env::temp_dir),
            secret,
        })
        .await
    })
}
