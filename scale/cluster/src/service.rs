//! Runs the programs of a cluster that serve requests.

use std::future::Future;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

/// Stack size of a thread that decodes and evaluates expressions, which may nest.
pub const STACK_BYTES: usize = 1 << 26;
/// The filter of the log, unless the variable `RUST_LOG` states a filter. Two warnings are left
/// out: that metrics of a stage cannot be shown beside its plan, and that a task uses the disk.
const LOGGED: &str =
    "warn,ballista_scheduler::display=off,ballista_core::execution_plans::sort_shuffle=error";

/// Runs a program. Messages of the libraries are written to standard error.
pub fn run_service(name: &str, service: impl Future<Output = Result<()>>) -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(LOGGED)).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(service));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
