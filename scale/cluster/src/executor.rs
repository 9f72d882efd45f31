//! Runs an executor of a cluster.
//!
//! ```text
//! membership      joins the scheduler, sends it heartbeats and statuses of tasks
//! task_service    tasks of the scheduler -> tasks; execution of tasks -> statuses
//! results_folder  removes results that are no longer needed
//! ```
//!
//! One port serves both tasks and results, and each call is checked before it is decoded.

mod membership;
mod results_folder;
mod task_service;
mod tasks;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::executor_resource::Resource;
use ballista_core::serde::protobuf::{
    ExecutorOperatingSystemSpecification, ExecutorRegistration, ExecutorResource,
    ExecutorSpecification,
};
use ballista_core::serde::{BallistaCodec, BallistaLogicalExtensionCodec};
use ballista_core::utils::{GrpcServerConfig, create_grpc_server};
use ballista_core::{BALLISTA_PROTOCOL_VERSION, RuntimeProducer};
use ballista_executor::executor::{Executor, TasksDrainedFuture};
use ballista_executor::metrics::LoggingMetricsCollector;
use ballista_executor::runtime_cache::{
    DefaultSessionRuntimeCache, MemoryPoolPolicy, SessionRuntimeCache,
};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tonic::service::InterceptorLayer;
use tonic::transport::server::TcpIncoming;

use crate::address::Address;
use crate::authentication::Authentication;
use crate::codec::Codec;
use crate::engine::CheckedEngine;
use crate::listen::listen;
use crate::locations::Locations;
use crate::results_service;
use crate::secret::Secret;
use crate::session;
use crate::stores::Stores;
use membership::Membership;
use tasks::Tasks;

/// Number of queries for which the executor keeps open stores and footers of files, for the next
/// tasks of these queries.
const SESSIONS: usize = 16;

/// Settings of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Address of the scheduler.
    pub scheduler: Address,
    /// Address at which tasks arrive and results are read. Port 0: any port.
    pub listen: Address,
    /// Host name by which others reach this executor; `None`: the address from which it connects to
    /// the scheduler.
    pub advertise: Option<String>,
    /// Number of tasks that are executed at the same time.
    pub tasks: usize,
    /// Bytes of memory for sorting, grouping and joining, for all tasks together.
    pub memory_bytes: u64,
    /// Folder in which a folder for intermediate results is created.
    pub temporary: PathBuf,
    /// Folders and URLs of object stores. The executor reads only data sets below them.
    pub data: Vec<String>,
    /// The secret of the cluster. Without a secret only loopback addresses are possible.
    pub secret: Option<Secret>,
}

/// Runs an executor until it is interrupted or terminated. Prints the address at which it listens.
///
/// # Errors
/// An address, the folder or a URL of an object store cannot be used, an address needs a secret, or
/// the scheduler does not accept the executor or is lost.
pub async fn run_executor(options: ExecutorOptions) -> Result<()> {
    let mut signals = Signals::new()?;
    let locations = Arc::new(Locations::new(&options.data)?);
    let secret = options.secret;
    let (listener, bound) = listen(options.listen.clone(), secret).await?;
    // The folder is removed when this function ends.
    let folder = work_folder(&options.temporary)?;
    let work_dir = folder.path().to_str().context("a path that is UTF-8")?;
    let engine = Arc::new(CheckedEngine::new(locations.clone()));
    let executor = Arc::new(executor(&options, bound.port, work_dir, locations, engine.clone())?);
    let registration = executor.metadata.clone();
    let membership = Membership::new(options.scheduler.clone(), secret, registration)?;
    let (statuses, ended) = mpsc::unbounded_channel();
    tokio::spawn(membership.clone().send_statuses(ended));
    tokio::spawn(results_folder::remove_old(work_dir.to_owned()));
    let logical = Arc::new(BallistaLogicalExtensionCodec::default());
    let codec = BallistaCodec::new(logical, Arc::new(Codec::default()));
    let tasks = Tasks::new(executor.clone(), engine, codec, statuses)?;
    let stop = Arc::new(Notify::new());
    // The scheduler connects to this server before it accepts the executor.
    let server = serve(listener, secret, executor.clone(), tasks, stop.clone());
    writeln!(std::io::stdout(), "listening on {bound}, tasks of {}", options.scheduler)?;
    let work = async {
        membership.join().await?;
        membership.send_signs_of_life().await
    };
    tokio::select! {
        lost = work => return lost,
        failed = server => return Ok(failed??),
        () = stop.notified() => return Ok(()),
        () = signals.next() => {}
    }
    membership.leave().await;
    tokio::select! {
        () = TasksDrainedFuture(executor) => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// Creates a folder for intermediate results in a folder.
fn work_folder(parent: &Path) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("hmtt-sql-executor-").tempdir_in(parent);
    let folder = folder.with_context(|| format!("{}: cannot write", parent.display()))?;
    ensure!(folder.path().to_str().is_some(), "{}: not UTF-8", folder.path().display());
    Ok(folder)
}

/// Serves tasks and results to callers with the secret.
fn serve(
    listener: TcpListener,
    secret: Option<Secret>,
    executor: Arc<Executor>,
    tasks: Tasks,
    stop: Arc<Notify>,
) -> JoinHandle<Result<(), tonic::transport::Error>> {
    let server = create_grpc_server(&GrpcServerConfig::default())
        .layer(InterceptorLayer::new(Authentication::new(secret)))
        .add_service(results_service::service(executor.work_dir()))
        .add_service(task_service::service(executor, tasks, stop))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    tokio::spawn(server)
}

/// Signals by which the user ends the program.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        Ok(Signals { interrupt: interrupt?, terminate: terminate? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Creates Ballista's part of the executor. `engine`: used by `tasks`; Ballista requires it here
/// too.
fn executor(
    options: &ExecutorOptions,
    port: u16,
    work_dir: &str,
    locations: Arc<Locations>,
    engine: Arc<CheckedEngine>,
) -> Result<Executor> {
    let secret = options.secret;
    let functions = session::state(session::config(secret))?;
    let temporary = work_dir.to_owned();
    let stores = Arc::new(Stores::new(locations));
    let runtimes: RuntimeProducer = Arc::new(move |_| {
        RuntimeEnvBuilder::new()
            .with_temp_file_path(&temporary)
            .with_object_store_registry(stores.clone())
            .build_arc()
    });
    let executor = Executor::new(
        registration(options, port),
        work_dir,
        runtimes.clone(),
        Arc::new(move || session::config(secret)),
        Arc::new(BallistaFunctionRegistry::from(&functions)),
        Arc::new(LoggingMetricsCollector::default()),
        options.tasks,
        engine,
    );
    Ok(executor.with_session_runtime_cache(Some(with_memory(options, runtimes))))
}

/// Creates the runtimes of tasks. Each has a share of the executor's memory.
fn with_memory(
    options: &ExecutorOptions,
    runtimes: RuntimeProducer,
) -> Arc<dyn SessionRuntimeCache> {
    let bytes = options.memory_bytes as usize / options.tasks;
    let pools: MemoryPoolPolicy = Arc::new(move |runtime, _, threads| {
        let pool = FairSpillPool::new(bytes.saturating_mul(threads.max(1) as usize));
        RuntimeEnvBuilder::from_runtime_env(&runtime).with_memory_pool(Arc::new(pool)).build_arc()
    });
    Arc::new(DefaultSessionRuntimeCache::new(runtimes, pools, SESSIONS))
}

/// Returns the executor's description for the scheduler. Without a host name the scheduler uses the
/// address from which the executor connects.
fn registration(options: &ExecutorOptions, port: u16) -> ExecutorRegistration {
    let tasks = ExecutorResource { resource: Some(Resource::Vcores(options.tasks as u32)) };
    ExecutorRegistration {
        id: ballista_core::ids::new_instance_id(),
        host: options.advertise.clone(),
        port: port.into(),
        grpc_port: port.into(),
        specification: Some(ExecutorSpecification { resources: vec![tasks] }),
        os_info: Some(ExecutorOperatingSystemSpecification::default()),
        ballista_protocol_version: BALLISTA_PROTOCOL_VERSION,
    }
}
