//! Keeps an executor in its cluster: it joins, sends heartbeats and statuses of tasks, and leaves.

use std::time::Duration;

use anyhow::{Result, bail};
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    ExecutorRegistration, ExecutorStatus, ExecutorStoppedParams, HeartBeatParams,
    RegisterExecutorParams, TaskStatus, UpdateTaskStatusParams, executor_status,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::transport::{Channel, Endpoint};

use crate::address::Address;
use crate::secret::Secret;
use crate::session::{MOST_MESSAGE_BYTES, is_of_connection, watched};

/// Time between two heartbeats of an executor. The scheduler's timeout is three times as long.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Number of failed heartbeats in a row after which an executor ends.
const MOST_FAILURES: usize = 5;
/// Time between two attempts to reach the scheduler.
const RETRY: Duration = Duration::from_millis(500);
/// Largest number of statuses in a message.
const MOST_STATUSES: usize = 1000;

/// An executor of a cluster, as its scheduler knows it. All clones represent one executor.
#[derive(Clone)]
pub struct Membership {
    address: Address,
    scheduler: SchedulerGrpcClient<Channel>,
    registration: ExecutorRegistration,
}

impl Membership {
    /// Creates an executor that has not joined. All statuses are sent to this scheduler, whatever
    /// scheduler a task names.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn new(
        address: Address,
        secret: Option<Secret>,
        registration: ExecutorRegistration,
    ) -> Result<Self> {
        let channel = watched(Endpoint::new(address.url())?, secret)?.connect_lazy();
        let scheduler = SchedulerGrpcClient::new(channel)
            .max_encoding_message_size(MOST_MESSAGE_BYTES)
            .max_decoding_message_size(MOST_MESSAGE_BYTES);
        Ok(Membership { address, scheduler, registration })
    }

    /// Joins as soon as the scheduler can be reached.
    ///
    /// # Errors
    /// The scheduler does not accept the executor.
    pub async fn join(&self) -> Result<()> {
        let mut scheduler = self.scheduler.clone();
        loop {
            let metadata = Some(self.registration.clone());
            match scheduler.register_executor(RegisterExecutorParams { metadata }).await {
                Ok(answer) if answer.get_ref().success => return Ok(()),
                Ok(_) => bail!("{}: the scheduler does not accept this executor", self.address),
                Err(status) if is_of_connection(&status) => {
                    log::warn!("{}: waiting for the scheduler: {status}", self.address);
                    tokio::time::sleep(RETRY).await;
                }
                Err(status) => bail!(
                    "{}: the scheduler does not accept this executor: {}",
                    self.address,
                    status.message()
                ),
            }
        }
    }

    /// Sends heartbeats. From a heartbeat, a restarted scheduler learns of the executor.
    ///
    /// # Errors
    /// Several heartbeats in a row have failed.
    pub async fn send_signs_of_life(&self) -> Result<()> {
        let mut failures = 0;
        while failures < MOST_FAILURES {
            match self.send(executor_status::Status::Active(String::new())).await {
                Ok(()) => failures = 0,
                Err(status) => {
                    failures += 1;
                    log::warn!("{}: the scheduler gets no sign of life: {status}", self.address);
                }
            }
            tokio::time::sleep(HEARTBEAT).await;
        }
        bail!("{}: the scheduler is lost", self.address)
    }

    async fn send(&self, status: executor_status::Status) -> Result<(), tonic::Status> {
        let sign = HeartBeatParams {
            executor_id: self.registration.id.clone(),
            metrics: Vec::new(),
            status: Some(ExecutorStatus { status: Some(status) }),
            metadata: Some(self.registration.clone()),
        };
        self.scheduler.clone().heart_beat_from_executor(sign).await.map(drop)
    }

    /// Sends statuses of tasks. Statuses that arrive during a call are sent together in the next
    /// one. Ends when all senders are dropped.
    pub async fn send_statuses(self, mut statuses: UnboundedReceiver<TaskStatus>) {
        let (mut scheduler, mut ended) = (self.scheduler, Vec::new());
        while statuses.recv_many(&mut ended, MOST_STATUSES).await > 0 {
            let update = UpdateTaskStatusParams {
                executor_id: self.registration.id.clone(),
                task_status: std::mem::take(&mut ended),
            };
            if let Err(status) = scheduler.update_task_status(update).await {
                log::error!("{}: the scheduler gets no statuses of tasks: {status}", self.address);
            }
        }
    }

    /// Leaves the cluster. The scheduler assigns no more tasks to the executor.
    pub async fn leave(&self) {
        let left = self.send(executor_status::Status::Terminating(String::new())).await;
        let stopped = ExecutorStoppedParams {
            executor_id: self.registration.id.clone(),
            reason: "it was interrupted".into(),
        };
        let stopped = self.scheduler.clone().executor_stopped(stopped).await;
        if let Err(status) = left.and(stopped.map(drop)) {
            log::error!(
                "{}: the scheduler does not know that this executor ends: {status}",
                self.address
            );
        }
    }
}
