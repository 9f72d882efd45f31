//! An executor of a cluster.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::{ConfigProducer, RuntimeProducer};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

use crate::address::Address;
use crate::codec::Codec;
use crate::engine::CheckedEngine;
use crate::locations::Locations;
use crate::results_service;
use crate::session;
use crate::stores::Stores;

/// Distance of the signs of life that an executor sends. The scheduler's timeout is three times as long.
const HEARTBEAT_S: u64 = 2;
/// Age at which results that no query has removed are deleted, and how often that is looked for.
const RESULT_AGE_S: u64 = 24 * 3600;
const CLEANUP_INTERVAL_S: u64 = 600;

/// Settings of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Address of the scheduler.
    pub scheduler: Address,
    /// Address at which results are read. Tasks come to the next port. Port 0: any two ports.
    pub listen: Address,
    /// Host by which others reach this executor; `None`: that from which it connects to the scheduler.
    pub advertise: Option<String>,
    /// Tasks that are executed at the same time.
    pub tasks: usize,
    /// Bytes of memory for sorting, grouping and joining, for all tasks together.
    pub memory_bytes: u64,
    /// Folder in which a folder of intermediate results is created.
    pub temporary: PathBuf,
    /// Folders and URLs of object stores below which are the data sets that are read. Nothing else is.
    pub data: Vec<String>,
}

/// Runs an executor until it is interrupted or terminated. Prints the address at which it listens.
///
/// # Errors
/// An address, the folder or a URL of an object store cannot be used.
pub async fn run_executor(options: ExecutorOptions) -> Result<()> {
    let locations = Arc::new(Locations::new(&options.data)?);
    // Removed when this function ends.
    let folder =
        tempfile::Builder::new().prefix("hmtt-sql-executor-").tempdir_in(&options.temporary);
    let folder =
        folder.with_context(|| format!("{}: cannot write", options.temporary.display()))?;
    let Some(work_dir) = folder.path().to_str() else {
        bail!("{}: not UTF-8", folder.path().display());
    };
    let (port, task_port) = ports(&options.listen)?;
    let config_producer: ConfigProducer = Arc::new(session::config);
    let functions = session::state(session::config())?;
    let temporary = work_dir.to_owned();
    let stores = Arc::new(Stores::new(locations.clone()));
    let runtime_producer: RuntimeProducer = Arc::new(move |_| {
        RuntimeEnvBuilder::new()
            .with_temp_file_path(&temporary)
            .with_object_store_registry(stores.clone())
            .build_arc()
    });
    let most_bytes = session::MOST_MESSAGE_BYTES as u32;
    let config = ExecutorProcessConfig {
        bind_host: options.listen.host.clone(),
        external_host: options.advertise,
        port,
        grpc_port: task_port,
        scheduler_host: options.scheduler.host.clone(),
        scheduler_port: options.scheduler.port,
        // Any number but 0: the executor waits for the scheduler.
        scheduler_connect_timeout_seconds: 1,
        vcores: options.tasks,
        work_dir: Some(work_dir.into()),
        job_data_ttl_seconds: RESULT_AGE_S,
        job_data_clean_up_interval_seconds: CLEANUP_INTERVAL_S,
        grpc_max_decoding_message_size: most_bytes,
        grpc_max_encoding_message_size: most_bytes,
        executor_heartbeat_interval_seconds: HEARTBEAT_S,
        memory_pool_size: Some(options.memory_bytes),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&functions))),
        override_runtime_producer: Some(runtime_producer),
        override_config_producer: Some(config_producer),
        override_physical_codec: Some(Arc::new(Codec::default())),
        override_arrow_flight_service: Some(Arc::new(results_service::provider())),
        override_execution_engine: Some(Arc::new(CheckedEngine::new(locations))),
        override_create_grpc_client_endpoint: Some(session::endpoint_of(options.scheduler.url())),
        ..ExecutorProcessConfig::default()
    };
    let bound = Address { port, ..options.listen };
    let scheduler = options.scheduler;
    writeln!(std::io::stdout(), "listening on {bound}, tasks of {scheduler} at port {task_port}")?;
    Ok(start_executor_process(Arc::new(config)).await?)
}

/// The ports for results and for tasks.
fn ports(listen: &Address) -> Result<(u16, u16)> {
    let bind = |port: u16| {
        let address = Address { port, ..listen.clone() }.to_string();
        TcpListener::bind(&address).with_context(|| format!("{address}: cannot listen"))
    };
    if listen.port != 0 {
        let Some(next) = listen.port.checked_add(1) else {
            bail!("{listen}: the next port, for tasks, is too large");
        };
        // Known at once, with the address, if another process has them.
        bind(listen.port)?;
        bind(next)?;
        return Ok((listen.port, next));
    }
    let (results, tasks) = (bind(0)?, bind(0)?);
    Ok((results.local_addr()?.port(), tasks.local_addr()?.port()))
}
