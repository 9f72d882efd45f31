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

fn main() -> ExitCode {
    hmtt::table::parquet::hide_caught_panics();
    let arguments = arguments::Arguments::parse();
    run::run(&arguments)
}
