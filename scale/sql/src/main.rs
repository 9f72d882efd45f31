//! The program `hmtt-sql`, which `hmtt sql` executes.

mod arguments;
mod metrics;
mod progress;
mod run;

use std::process::ExitCode;

use clap::Parser;

/// DataFusion allocates and frees many small pieces from several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Expressions of queries nest, and are visited and freed recursively. Of this only what is used takes memory.
const STACK_BYTES: usize = 1 << 29;

fn main() -> ExitCode {
    hmtt::table::parquet::hide_caught_panics();
    let arguments = arguments::Arguments::parse();
    let planner = std::thread::Builder::new().name("planner".into()).stack_size(STACK_BYTES);
    let run = planner.spawn(move || run::run(&arguments));
    run.ok().and_then(|run| run.join().ok()).unwrap_or(ExitCode::FAILURE)
}
