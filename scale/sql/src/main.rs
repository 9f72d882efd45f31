//! The program `hmtt-sql`, which `hmtt sql` executes.

use std::process::ExitCode;

use clap::Parser;
use hmtt_sql::Engine;
use hmtt_sql::command::{Arguments, run, with_large_stack};

/// DataFusion allocates and frees many small pieces from several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    with_large_stack(move || {
        run(&arguments, |sources, options| Ok(Engine::new(sources, &options)?))
    })
}
