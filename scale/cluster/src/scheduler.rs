//! Runs the scheduler of a cluster.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ballista_core::ConfigProducer;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::address::Address;
use crate::authentication::Authentication;
use crate::codec::Codec;
use crate::listen;
use crate::plan_message::{NoLogicalPlan, QueryPlan};
use crate::secret::Secret;
use crate::session;
use crate::slots::{EXECUTOR_TIMEOUT_S, Executors};

/// Seconds between two searches for lost executors.
const EXPIRY_INTERVAL_S: u64 = 1;
/// How many seconds a query waits for an executor when there is none.
const NO_EXECUTOR_S: u64 = 10;

/// How many seconds the result of a query is kept if its client has not removed it: longer than a
/// slow client needs to read it.
const RESULT_AGE_S: u64 = 24 * 3600;

/// Settings of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// Address at which it listens. Port 0: any.
    pub listen: Address,
    /// The secret of the cluster. Without a secret only loopback addresses are possible.
    pub secret: Option<Secret>,
}

/// Runs a scheduler until the process ends. Prints the address at which it listens.
///
/// # Errors
/// The address cannot be used, or needs a secret.
pub async fn run_scheduler(options: SchedulerOptions) -> Result<()> {
    let SchedulerOptions { listen, secret } = options;
    let (listener, bound) = listen::listen(listen, secret).await?;
    let config_producer: ConfigProducer = Arc::new(move || session::config(secret));
    let most_bytes = session::MOST_MESSAGE_BYTES as u32;
    let config = SchedulerConfig {
        external_host: bound.host.clone(),
        bind_host: bound.host.clone(),
        bind_port: bound.port,
        executor_timeout_seconds: EXECUTOR_TIMEOUT_S,
        expire_dead_executor_interval_seconds: EXPIRY_INTERVAL_S,
        no_executors_grace_period_seconds: NO_EXECUTOR_S,
        // If a task cannot read the results of an executor, the job of the task fails, as it does
        // when an executor is lost.
        stage_max_failures: 1,
        finished_job_data_clean_up_interval_seconds: RESULT_AGE_S,
        finished_job_state_clean_up_interval_seconds: RESULT_AGE_S,
        grpc_server_max_decoding_message_size: most_bytes,
        grpc_server_max_encoding_message_size: most_bytes,
        grpc_client_max_message_size: most_bytes,
        override_config_producer: Some(config_producer),
        override_session_builder: Some(Arc::new(session::state)),
        override_physical_codec: Some(Arc::new(Codec::default())),
        override_create_grpc_client_endpoint: Some(session::endpoint_settings(secret)),
        ..SchedulerConfig::default()
    };
    config.validate()?;
    let jobs = BallistaCluster::new_from_config(&config).await?.job_state();
    let executors = Arc::new(Executors::default());
    let cluster = BallistaCluster::new(executors.clone(), jobs);
    let scheduler = create_scheduler::<NoLogicalPlan, QueryPlan>(cluster, Arc::new(config)).await?;
    let state = scheduler.state.clone();
    let running = move || state.task_manager.get_running_job_cache();
    tokio::spawn(executors.watch(Duration::from_secs(NO_EXECUTOR_S), running));
    writeln!(std::io::stdout(), "listening on {bound}")?;
    // Ballista's own server would have a REST interface and accept calls of any program.
    let service = SchedulerGrpcServer::new(scheduler)
        .max_decoding_message_size(session::MOST_MESSAGE_BYTES)
        .max_encoding_message_size(session::MOST_MESSAGE_BYTES);
    let server = Server::builder()
        .layer(InterceptorLayer::new(Authentication::new(secret)))
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    Ok(server.await?)
}
