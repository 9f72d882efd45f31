//! Runs the program `hmtt-sql`, which `hmtt sql` executes.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use hmtt_sql::Engine;
use hmtt_sql::command::{Arguments, run, with_large_stack};

/// DataFusion allocates and frees many small pieces from several threads, which this allocator does
/// fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.cluster.is_some() {
        let reason = "hmtt-sql has no engine for clusters; execute `hmtt sql --cluster`";
        Arguments::command().error(ErrorKind::ArgumentConflict, reason).exit();
    }
    with_large_stack(move || {
        run(&arguments, |sources, options| Ok(Engine::new(sources, &options)?))
    })
}
